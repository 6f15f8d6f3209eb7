import sys

import pytest

from harness import FIXTURES, ROOT, Server

sys.path.append(str(ROOT / "tests" / "load"))


@pytest.fixture(scope="session")
def servers():
    """`servers(*args)`: a server with these arguments, shared by all tests with the same arguments."""
    started = {}

    def get(*args):
        if args not in started:
            started[args] = Server(*args)
        return started[args]

    yield get
    failures = []
    for server in started.values():
        server.terminate()
    for server in started.values():
        try:
            server.check_end()
        except Exception as failure:  # Stops all servers before raising a failure.
            failures.append(failure)
            server.process.kill()
    assert not failures, failures


@pytest.fixture(scope="session")
def builtin(servers):
    """Server on the built-in model with all defaults."""
    return servers()


@pytest.fixture(scope="session")
def exact_builtin(servers):
    """Server on the built-in model in float32, with the values of transformers on every CPU."""
    return servers("--dtype", "float32")


@pytest.fixture(scope="session")
def served(servers):
    """`served(fixture_name)`: server on that reference checkpoint. One of the reference texts is empty."""
    return lambda model, *args: servers("--model-id", FIXTURES / model, "--allow-empty-inputs", *args)


def pytest_runtest_setup(item):
    for server in Server.running:
        server.test_begins_at = len(server.whole_log())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the servers' logs during a failed test to its report."""
    report = yield
    if report.failed:
        for server in Server.running:
            if written := server.log():
                report.sections.append((f"log of prefold {' '.join(map(str, server.args))}", written[-20000:]))
    return report
