"""`prefold bench` with the real server."""

import json
import math
import os
import signal
import socket
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from harness import FIXTURES, PREFOLD, Server, environment, eventually
from reference import WORKLOAD

LIMIT = 300


def bench(directory, *args, env=None):
    """Runs `prefold bench` in a directory; returns (exit status, standard output, standard error)."""
    done = subprocess.run(
        [PREFOLD, "bench", *map(str, args)], cwd=directory, env={**environment(directory), **(env or {})},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def measure(directory, server, *args, status=0, env=None):
    """JSON of the only run."""
    got, out, err = bench(
        directory, "--url", server.url(), "--json", "out.json", "--file", WORKLOAD, *args, env=env)
    assert got == status, (got, out, err)
    (run,) = json.loads((directory / "out.json").read_text())["runs"]
    return run


def test_what_the_bench_counts_is_what_the_server_counts(tmp_path, builtin):
    before = [builtin.metric("te_embed_success"), builtin.metric("te_request_success", method="embed")]
    run = measure(
        tmp_path, builtin, "--preset", "chat-embedding", "--clients", 8, "--concurrency", 4, "--texts", 3,
        "--warmup-requests", 2, "--requests", 16)
    texts = builtin.metric("te_embed_success") - before[0]
    requests = builtin.metric("te_request_success", method="embed") - before[1]
    assert (run["sent"], run["answered"], run["failed"], run["errors"]) == (16, 16, 0, [])
    # The server counts the warm-up's requests, the run does not. A client's last request may have fewer texts.
    assert requests == 16 + 2
    assert texts == 3 * (16 + 2)
    assert run["texts_per_s"] * run["elapsed_s"] == pytest.approx(3 * 16)
    assert run["requests_per_s"] * run["elapsed_s"] == pytest.approx(16)
    latency = run["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]


def test_a_reader_of_the_table_may_leave(tmp_path, builtin):
    command = [PREFOLD, "bench", "--url", builtin.url(), "--requests", "3", "--concurrency", "1", "--json", "out.json"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        ran = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(tmp_path))
    assert ran.returncode == 0 and "panicked" not in ran.stderr, ran.stderr
    assert (tmp_path / "out.json").exists()


def test_tokens_and_compaction_are_those_of_the_requests(tmp_path):
    """A single request with the ten passages of the first question agrees with the response's headers."""
    line = json.loads(WORKLOAD.read_text().splitlines()[0])
    (tmp_path / "one.jsonl").write_text(json.dumps(line))
    template = "Represent: {query}\\n{passage}"
    # On a slow machine the default would close the batch before the tenth text.
    with Server("--max-batch-ms", "0") as builtin:
        status, out, err = bench(
            tmp_path, "--url", builtin.url(), "--json", "out.json", "--file", "one.jsonl", "--template", template,
            "--texts", 10, "--requests", 1, "--warmup", 0)
        assert status == 0, (out, err)
        report = json.loads((tmp_path / "out.json").read_text())
        (run,) = report["runs"]
        texts = [f"Represent: {line['query']}\n{passage['text']}" for passage in line["passages"]]
        headers = builtin.post("/embed", {"inputs": texts}).headers
        assert run["tokens_per_s"] * run["elapsed_s"] == pytest.approx(int(headers["x-compute-tokens"]))
        server = run["server"]
        assert (server["source"], server["batches"], server["texts_per_batch"]) == ("metrics", 1, 10)
        assert server["compaction_ratio"] == pytest.approx(float(headers["x-compaction-ratio"]), abs=1e-4)
        assert server["compaction_ratio"] < 0.95
        assert report["model"] == builtin.get("/v1/models").json()["data"][0]["id"]
        assert f"{server['compaction_ratio']:.4f}" in out


@pytest.mark.parametrize("api, model", [
    ("openai", "qwen3-tiny"),
    ("embed", "qwen3-tiny"),
    ("rerank", "qwen3-reranker-tiny"),
    ("cohere-rerank", "qwen3-reranker-tiny"),
])
def test_every_api_that_prefold_serves(tmp_path, served, api, model):
    extra = ["--encoding-format", "float"] if api == "openai" else []
    run = measure(tmp_path, served(model), "--api", api, "--requests", 6, "--warmup", 0, "--clients", 2, *extra)
    assert (run["answered"], run["failed"]) == (6, 0)
    assert run["tokens_per_s"] > 0
    per_request = 10 if "rerank" in api else 1
    assert run["texts_per_s"] / run["requests_per_s"] == pytest.approx(per_request)


def test_a_sweep_at_rates_is_drawn(tmp_path, served):
    server = served("qwen3-tiny")
    for label in ["first", "second"]:
        status, out, err = bench(
            tmp_path, "--url", server.url(), "--file", WORKLOAD, "--rate", "50,200", "--duration", 0.3, "--warmup", 0.1,
            "--label", label, "--json", f"{label}.json")
        assert status == 0, (out, err)
        runs = json.loads((tmp_path / f"{label}.json").read_text())["runs"]
        assert [run["load"] for run in runs] == [50, 200]
        assert all(run["answered"] == run["sent"] > 0 for run in runs)
    status, out, err = bench(tmp_path, "plot", "first.json", "second.json", "--svg", "out.svg", "--title", "a & b")
    assert status == 0, (out, err)
    svg = ElementTree.parse(tmp_path / "out.svg").getroot()
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a & b", "first", "second, p50", "first, p99"} <= set(texts)
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}polyline"))) == 6


def test_an_encoder_gets_its_own_texts_and_advice(tmp_path, served):
    """The model of /info decides: no instruction before texts, no advice about sharing; the series has its name and type."""
    status, out, err = bench(
        tmp_path, "--url", served("bert-mean-tiny").url(), "--requests", 5, "--warmup", 0, "--json", "out.json", "--svg", "out.svg")
    assert status == 0, (out, err)
    report = json.loads((tmp_path / "out.json").read_text())
    assert (report["dtype"], report["shares_prefixes"]) == ("float32", False)
    assert report["label"] == f"{report['model']}, float32" and "bert-mean-tiny (float32)" in out
    assert "from the built-in workload `passages`" in out and "shares no beginnings of texts" in out
    assert "Hardly anything was shared" not in out and "the model computed" in out
    texts = [text.text for text in ElementTree.parse(tmp_path / "out.svg").getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert any("float32, p99" in (text or "") for text in texts), texts


def test_the_size_of_a_server_for_a_rate(tmp_path, served):
    """The numbers of servers and cores follow from the rate that was found, whatever this machine carries."""
    asked = 100_000
    status, out, err = bench(
        tmp_path, "--url", served("bert-mean-tiny").url(), "--size-for", asked, "--p99", 5000, "--texts", 1, "--duration", 0.2,
        "--warmup", 0.1, "--json", "out.json")
    assert status == 0, (out, err)
    report = json.loads((tmp_path / "out.json").read_text())
    size = report["size"]
    carried, servers = size["carried_requests_per_s"], size["servers"]
    assert (size["rate"], size["p99_ms"]) == (asked, 5000) and size["carried_p99_ms"] <= 5000
    assert servers == math.ceil(asked / carried) and size["cores"] % servers == 0
    # The first run at a rate is at a tenth of the closed loop's; the last one confirms the result.
    rates = [run["load"] for run in report["runs"]]
    assert rates[0] == pytest.approx(size["saturated_requests_per_s"] / 10, rel=0.01) and rates[-1] == carried
    assert f"{servers} servers like this one" in out and f"{servers + 1} servers if one may fail" in out


def test_no_server_is_fast_enough_for_some_goals(tmp_path, served):
    status, out, err = bench(
        tmp_path, "--url", served("bert-mean-tiny").url(), "--size-for", 10, "--p99", 0.001, "--duration", 0.2, "--warmup", 0,
        "--json", "out.json")
    assert status == 1 and "no rate that was tried" in out and "More servers of this kind do not help" in out, (out, err)
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["size"]["servers"] is None and len(report["runs"]) == 1


PARTS = ["queries_alone", "bulk_alone", "queries_beside_bulk", "bulk_beside_queries"]


def test_queries_beside_bulk_clients(tmp_path, builtin):
    """The counts of all phases add up to the server's counts."""
    before = builtin.metric("te_request_success", method="embed")
    for label in ["first", "second"]:
        status, out, err = bench(
            tmp_path, "--url", builtin.url(), "--random", 60, "--words", 6, "--texts", 20, "--priority", 9, "--rate", 20,
            "--concurrency", "1,3", "--queries-api", "embed", "--queries-priority", -1, "--duration", 0.5, "--warmup", 0,
            "--rounds", 2, "--label", label, "--json", f"{label}.json")
        assert status == 0, (out, err)
        assert "with queries, 20 per second: POST" in out and "/embed, 2000 distinct requests" in out
        assert out.count("\nqueries during bulk ") == 2 * 2 and out.count("\nbulk throughput during queries: ") == 2, out
    reports = [json.loads((tmp_path / f"{label}.json").read_text()) for label in ["first", "second"]]
    assert [(run["part"], run["load"]) for run in reports[0]["runs"]] == [(part, load) for load in (1, 3) for part in PARTS]
    runs = [run for report in reports for run in report["runs"]]
    assert all(run["answered"] == run["sent"] > 0 and run["failed"] == 0 for run in runs)
    assert sum(run["sent"] for run in runs) == builtin.metric("te_request_success", method="embed") - before
    for run in runs:
        assert sum(interval["count"] for interval in run["histogram"]) == run["answered"]
        assert len(run["rounds_texts_per_s"]) == 2 and run["elapsed_s"] >= 1.0
        assert run["latency_passes"]["max"] > 0 and run["server"]["compaction_ratio"] > 0.9
    assert runs[0]["server"]["texts_per_batch"] < runs[1]["server"]["texts_per_batch"]
    status, out, err = bench(tmp_path, "plot", "first.json", "second.json", "--svg", "out.svg", "--title", "two")
    assert status == 0, (out, err)
    texts = [text.text for text in ElementTree.parse(tmp_path / "out.svg").getroot().iter("{http://www.w3.org/2000/svg}text")]
    assert {"two: queries with 3 bulk clients", "first, alone", "second, with bulk", "first, with queries"} <= set(texts)


def test_rerank_queries_have_their_pairs(tmp_path, served):
    server = served("qwen3-reranker-tiny")
    status, out, err = bench(
        tmp_path, "--url", server.url(), "--file", WORKLOAD, "--api", "cohere-rerank", "--queries-api", "rerank",
        "--queries-texts", 20, "--rate", 20, "--concurrency", 2, "--duration", 0.4, "--warmup", 0.1, "--rounds", 1,
        "--json", "out.json", "--svg", "out.svg")
    assert status == 0, (out, err)
    report = json.loads((tmp_path / "out.json").read_text())
    runs = {run["part"]: run for run in report["runs"]}
    assert sorted(runs) == sorted(PARTS) and ElementTree.parse(tmp_path / "out.svg")
    for part, texts in [("queries_alone", 20), ("queries_beside_bulk", 20), ("bulk_alone", 10)]:
        assert runs[part]["answered"] > 0, part
        assert runs[part]["texts_per_s"] / runs[part]["requests_per_s"] == pytest.approx(texts), part
    assert report["queries"]["texts_per_request"] == 20 and "random texts of 32 words" in out


def test_errors_are_counted_and_told(tmp_path):
    with Server("--model-id", FIXTURES / "qwen3-tiny", "--max-client-batch-size", "1", "--api-key", "secret") as server:
        run = measure(
            tmp_path, server, "--texts", 65, "--requests", 3, "--warmup", 0, "--api-key", "secret", status=1)
        assert (run["answered"], run["failed"], run["latency_ms"]["max"]) == (0, 3, 0)
        (error,) = run["errors"]
        assert (error["kind"], error["count"]) == ("status 400", 3)
        assert "64" in error["example"], error
        # Without the key; the variable API_KEY works like the flag.
        status, out, err = bench(tmp_path, "--url", server.url(), "--file", WORKLOAD, "--requests", 1)
        assert status == 1 and "no warm-up request succeeded" in err and "status 401" in err, (out, err)
        run = measure(tmp_path, server, "--requests", 1, "--warmup", 0, env={"API_KEY": "secret"})
        assert run["answered"] == 1


@pytest.mark.parametrize("workload, low, high", [("instruction", 0.3, 0.7), ("rerank", 0.4, 0.8), ("mixed", 0.7, 0.95)])
def test_a_binary_measures_itself_without_a_file(tmp_path, builtin, workload, low, high):
    """The address needs no scheme, and texts of one request share as much as the workload promises."""
    status, out, err = bench(
        tmp_path, "--url", builtin.url().removeprefix("http://"), "--workload", workload, "--requests", 5, "--warmup", 0,
        "--json", "out.json")
    assert status == 0, (out, err)
    report = json.loads((tmp_path / "out.json").read_text())
    (run,) = report["runs"]
    assert f"2000 distinct requests from the built-in workload `{workload}`" in out
    assert (run["answered"], run["failed"], report["texts_per_request"]) == (5, 0, 10)
    assert low < run["server"]["compaction_ratio"] < high


def test_the_papers_load_is_one_workload(tmp_path, builtin):
    """Requests of 64 texts, in which the prompt and the queries repeat; rankings send a query with its passages."""
    status, out, err = bench(
        tmp_path, "--url", builtin.url(), "--workload", "ms-marco", "--concurrency", 2, "--requests", 3, "--warmup", 0,
        "--json", "out.json")
    assert status == 0, (out, err)
    report = json.loads((tmp_path / "out.json").read_text())
    (run,) = report["runs"]
    assert "p50 ms" in out and "from the built-in workload `ms-marco`" in out
    assert (report["texts_per_request"], run["answered"], run["failed"], run["texts"]) == (64, 3, 0, 3 * 64)
    assert report["different_requests"] == pytest.approx(1287, rel=0.01)
    assert run["latency_ms"]["p50"] > 0 and 0.3 < run["server"]["compaction_ratio"] < 0.7
    assert run["tokens"] == pytest.approx(run["tokens_per_s"] * run["elapsed_s"])
    # Tokens of 64 words and the prompt, at 1.1 to 1.7 tokens per word.
    assert 120 < run["tokens"] / run["texts"] < 200


def test_rankings_of_the_papers_lengths(tmp_path, served):
    status, out, err = bench(
        tmp_path, "--url", served("qwen3-reranker-tiny").url(), "--api", "rerank", "--workload", "ms-marco", "--requests", 4,
        "--warmup", 0, "--json", "out.json")
    assert status == 0 and "10047 distinct requests" in out, (out, err)
    (run,) = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert run["answered"] == 4 and 4 * 6 <= run["texts"] <= 4 * 10


def test_flags_are_variables_too(tmp_path, builtin):
    variables = {"PREFOLD_BENCH_URL": builtin.url(), "PREFOLD_BENCH_WORKLOAD": "mixed", "PREFOLD_BENCH_REQUESTS": "2"}
    status, out, err = bench(tmp_path, "--warmup", 0, env=variables)
    assert status == 0 and "`mixed`" in out, (out, err)
    status, out, err = bench(tmp_path, "--requests", 1, env={**variables, "PREFOLD_BENCH_CONCURRENCY": "0"})
    assert status == 2 and "(environment variable PREFOLD_BENCH_CONCURRENCY)" in err, (out, err)
    status, out, err = bench(tmp_path, "--concurrency", 0, env=variables)
    assert status == 2 and "environment variable" not in err, (out, err)


def test_rerankers_need_no_file_either(tmp_path, served):
    server = served("qwen3-reranker-tiny")
    status, out, err = bench(tmp_path, "--url", server.url(), "--api", "rerank", "--requests", 2, "--warmup", 0)
    assert status == 0 and "built-in workload `rerank`" in out, (out, err)


def test_a_server_that_is_not_there_is_said(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d" % free.getsockname()[1]
    status, out, err = bench(tmp_path, "--url", url, "--file", WORKLOAD)
    assert status == 1 and "connection" in err and "refused" in err, (out, err)


@pytest.mark.parametrize("args, named", [
    (["--file", "none.jsonl"], "none.jsonl"),
    (["--file", WORKLOAD, "--workload", "mixed"], "cannot be used with"),
    (["--api", "rerank", "--workload", "mixed"], "use --workload rerank"),
    (["--url", "http://"], "has no host"),
    (["--url", "localhost:x"], "invalid port number"),
    (["--file", WORKLOAD, "--template", "{nix} {text}"], "line 1: the template's {nix}"),
    (["--file", WORKLOAD, "--preset", "nix"], "nix"),
    (["--file", WORKLOAD, "--clients", 201, "--preset", "chat-embedding"], "too few for --clients 201"),
    (["--size-for", 10], "--p99"),
    (["--p99", 10], "--size-for"),
    (["--size-for", 10, "--p99", 0], "must be greater than 0"),
    (["--size-for", 10, "--p99", 5, "--rate", 5], "cannot be used with"),
    (["plot", "none.json", "--svg", "x.svg"], "none.json"),
])
def test_bad_arguments_are_refused_by_name(tmp_path, args, named):
    status, out, err = bench(tmp_path, *args)
    assert status != 0 and named in err and "panicked" not in err, (out, err)


def test_ctrl_c_ends_the_run_and_prints_its_result(tmp_path, served):
    server = served("qwen3-tiny")
    served_before = server.metric("te_request_success", method="embed")
    process = subprocess.Popen(
        [PREFOLD, "bench", "--url", server.url(), "--file", WORKLOAD, "--duration", "600", "--warmup", "0",
         "--json", "out.json"],
        cwd=tmp_path, env=environment(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    try:
        eventually(lambda: server.metric("te_request_success", method="embed") > served_before + 3, "it runs")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 130, out
    assert "interrupted after" in out, out
    (run,) = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert run["interrupted"] and run["answered"] > 0 and run["texts_per_s"] > 0
