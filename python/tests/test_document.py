"""docs/python.md names methods, arguments and errors that exist, and its recipes run."""

import inspect
import re

import prefold
from conftest import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text()


def rows(heading):
    table = PAGE.split(f"| {heading} |")[1].split("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_methods_have_the_arguments_of_the_page():
    named = set()
    for cell, *_ in rows("method"):
        for name, arguments in re.findall(r"`([\w.]+)(?:\(([^`]*)\))?`", cell):
            name = name.removeprefix("Model.")
            named.add(name)
            member = getattr(prefold.Model, name)
            parameters = inspect.signature(member).parameters if callable(member) else {}
            for argument in re.findall(r"(\w+)=(\w*)", arguments):
                default = parameters[argument[0]].default
                assert default is None if not argument[1] else str(default) == argument[1], (name, argument)
    public = {name for name in vars(prefold.Model) if not name.startswith("_")}
    assert public == named | {"close"}


def test_errors_are_those_of_the_page():
    found = {}
    for cell, base, _ in rows("error"):
        for name in re.findall(r"`(\w+)`", cell):
            found[name] = base.strip("`")
            assert base.strip("`") in {kind.__name__ for kind in getattr(prefold, name).__mro__[1:]}
    errors = {name for name in prefold.__all__ if isinstance(getattr(prefold, name), type) and name.endswith("Error")}
    assert errors == found.keys() | {"PrefoldError"}


def test_recipes_print_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("one\ntwo\nthree\n")
    recipes = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.split("\n## ")[1], re.S))
    variables = {}
    exec(compile(recipes, "docs/python.md", "exec"), variables)
    assert capsys.readouterr().out.splitlines() == re.findall(r"^ *print\(.*\) +# (.*)$", recipes, re.M) != []
    assert variables["vectors"].shape == (3, 384)
