"""`prefold accuracy` compares the answers in two dtypes with the server's own code, and reports what it cannot compare."""

import json
import math
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from harness import FIXTURES, PREFOLD, Server, environment

TEXTS = [line for line in (FIXTURES / "corpus.txt").read_text().splitlines() if line.strip()][:14]
QUESTIONS = [{"query": TEXTS[number], "documents": TEXTS[number + 1:number + 5]} for number in range(4)]


def accuracy(tmp_path, *args, stdin=None, env=None):
    return subprocess.run([PREFOLD, "accuracy", *map(str, args)], cwd=tmp_path, env={**environment(tmp_path), **(env or {})},
                          input=stdin, capture_output=True, text=True, timeout=120)


def compare(tmp_path, model, *args, stdin=None):
    """The report of a fixture, as JSON and as text."""
    done = accuracy(tmp_path, "--model-id", FIXTURES / model, *args, "--json", "report.json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "report.json").read_text()), done.stdout


def lines(objects):
    return "".join(json.dumps(line) + "\n" for line in objects)


def test_cosines_and_nearest_texts_are_those_of_the_servers_vectors(tmp_path):
    found, text = compare(tmp_path, "bert-mean-tiny", "--texts", "-", "--svg", "chart.svg", stdin=lines(TEXTS))
    vectors = []
    for dtype in ["float32", "bfloat16"]:
        with Server("--model-id", FIXTURES / "bert-mean-tiny", "--dtype", dtype) as server:
            vectors.append(server.ask("/embed", inputs=TEXTS))

    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b)) / math.hypot(*a) / math.hypot(*b)

    agreement = found["embeddings"]
    cosines = [cosine(a, b) for a, b in zip(*vectors)]
    assert [one["cosine"] for one in agreement["texts"]] == pytest.approx(cosines, abs=1e-7)
    worst = min(range(len(TEXTS)), key=cosines.__getitem__)
    assert agreement["cosine"]["worst_text"]["line"] == worst + 1
    assert agreement["cosine"]["mean"] == pytest.approx(sum(cosines) / len(cosines), abs=1e-7)
    for number, one in enumerate(agreement["texts"]):
        others = [other for other in range(len(TEXTS)) if other != number]
        top = [set(sorted(others, key=lambda o: -cosine(of[number], of[o]))[:10]) for of in vectors]
        assert one["top_10_overlap"] == len(top[0] & top[1]) / 10
    changes = [abs(cosine(vectors[0][a], vectors[0][b]) - cosine(vectors[1][a], vectors[1][b]))
               for a in range(len(TEXTS)) for b in range(a)]
    assert agreement["similarity_error"]["pairs"] == len(changes)
    assert agreement["similarity_error"]["worst"] == pytest.approx(max(changes), abs=1e-7)
    assert f"line {worst + 1}: {TEXTS[worst][:20]}" in text and "14 texts, -, " in text
    assert found["reference"]["dtype"] == "float32" and found["other"]["dtype"] == "bfloat16"
    for cost in found["reference"], found["other"]:
        assert 0 < cost["resident_bytes"] <= cost["peak_bytes"] + (1 << 20) and cost["tokens_per_s"] > 0
    assert len(ElementTree.parse(tmp_path / "chart.svg").getroot()) > 4


def test_scores_are_those_of_the_server(tmp_path):
    found, text = compare(tmp_path, "bert-reranker-tiny", "--texts", "-", stdin=lines(QUESTIONS))
    assert found["texts"] == 16 and "16 pairs of 4 queries" in text
    scores = []
    for dtype in ["float32", "bfloat16"]:
        with Server("--model-id", FIXTURES / "bert-reranker-tiny", "--dtype", dtype) as server:
            scores.append([{one["index"]: one["score"] for one in
                            server.ask("/rerank", query=line["query"], texts=line["documents"])} for line in QUESTIONS])
    errors = [abs(a[index] - b[index]) for a, b in zip(*scores) for index in range(4)]
    assert found["rerank"]["errors"]["score"]["mean"] == pytest.approx(sum(errors) / len(errors), abs=1e-6)
    assert found["rerank"]["errors"]["score"]["worst"] == pytest.approx(max(errors), abs=1e-6)
    same = [max(a, key=a.get) == max(b, key=b.get) for a, b in zip(*scores)]
    assert found["rerank"]["top_1_agreement"]["mean"] == sum(same) / len(same)


def test_classifiers_take_texts_and_pairs(tmp_path):
    found, text = compare(tmp_path, "bert-nli-tiny", "--texts", "-", stdin=lines(QUESTIONS))
    assert found["texts"] == 16 and found["classification"]["labels"] == 3
    assert 0 < found["classification"]["errors"]["logit"]["worst"] < 0.5 and "fraction of inputs with the same label" in text
    found, _ = compare(tmp_path, "bert-nli-tiny", "--texts", "-", stdin="\n".join(TEXTS))
    assert found["texts"] == 14


@pytest.mark.parametrize("model", ["llama-tiny", "qwen3-reranker-tiny"])
def test_a_type_agrees_with_itself_on_the_built_in_texts(tmp_path, model):
    task = ["--task", "rerank"] if "reranker" in model else []
    found, _ = compare(tmp_path, model, *task, "--dtype", "float32", "--max-texts", "30")
    assert found["source"] == "built-in" and found["left_out"] > 0
    if task:
        assert found["rerank"]["errors"]["logit"]["worst"] == 0 and found["rerank"]["kendall_tau_b"]["worst"] == 1
    else:
        assert found["embeddings"]["similarity_error"]["worst"] == 0 and found["embeddings"]["top_10_overlap"]["worst"] == 1
    # Each pass has a separate process, so memory left by the first one does not count for the second.
    first, second = found["reference"]["resident_bytes"], found["other"]["resident_bytes"]
    assert abs(first - second) < 0.1 * first, (first, second)


def test_what_is_left_out_is_said(tmp_path):
    numbers = "".join(f"text {number}\n" for number in range(50)) + "text 0\n"
    found, text = compare(tmp_path, "bert-mean-tiny", "--texts", "-", "--max-texts", "20", stdin=numbers)
    assert (found["texts"], found["left_out"], found["repeated"]) == (20, 30, 1)
    assert "30 of 50 are left out (--max-texts)" in text and "1 equal to an earlier one" in text
    again, _ = compare(tmp_path, "bert-mean-tiny", "--texts", "-", "--max-texts", "20", stdin=numbers)
    assert again["embeddings"] == found["embeddings"]


@pytest.mark.parametrize("model, tasks", [
    ("router-encoders-tiny", ["query", "document"]),
    ("jina-v3-tiny", ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"]),
    ("bert-mean-tiny", []),
])
def test_tasks_that_are_not_compared_are_named(tmp_path, model, tasks):
    found, text = compare(tmp_path, model, "--texts", "-", stdin=lines(TEXTS))
    assert found["tasks_left_out"] == tasks
    assert (f"all without a task; the model's tasks are not compared: {', '.join(tasks)}\n" in text) == bool(tasks)


@pytest.mark.parametrize("dtype, warnings", [
    ("int8", []),
    ("bfloat16", ["warning: --int8-skip has no effect: the model runs in bfloat16"]),
    ("float32", ["warning: --int8-skip has no effect: the model runs in float32"]),
])
def test_the_pass_in_float32_needs_no_layers_of_int8(tmp_path, dtype, warnings):
    done = accuracy(tmp_path, FIXTURES / "bert-mean-tiny", "--dtype", dtype, "--int8-skip", "query", "--texts", "-", stdin=lines(TEXTS))
    assert done.returncode == 0 and [line for line in done.stderr.splitlines() if "int8-skip" in line] == warnings, done.stderr


@pytest.mark.parametrize("args, stdin, status, words", [
    (["--texts", "/no/such/file"], None, 1, "cannot read /no/such/file"),
    (["--texts", "."], None, 1, ". is a directory"),
    (["--texts", "-"], "\n", 1, "- has no text"),
    (["--texts", "-"], "one\n", 1, "1 text to embed: an order by similarity needs at least 3 different texts"),
    (["--texts", "-"], '"a"\n{"query": "q"}\n', 1, "-: line 2: has no text"),
    (["--texts", "-"], '"a"\n{"text": 5}\n', 1, "-: line 2: `text`: invalid type"),
    (["--texts", "-"], '"a"\n""\n', 1, "-: line 2: has an empty text"),
    (["--json", "/no/such/folder/a.json"], None, 1, "cannot write /no/such/folder/a.json"),
    (["--svg", "."], None, 1, "cannot write .: "),
    (["--json", "-", "--svg", "-"], None, 1, "--json and --svg both write to -: give them two names"),
    (["--texts", "-", "--model-id", FIXTURES / "bert-reranker-tiny", "--task", "embed"], "a\nb\nc\n", 1, "names no pooling"),
    (["--texts", "-", "--model-id", FIXTURES / "qwen3-reranker-tiny", "--task", "rerank"], "a\nb\nc\n", 1,
     "line 1: has a text without a query, and the model scores pairs"),
    (["--model-id", FIXTURES / "bert-ner-tiny"], None, 1, "error: token classifiers cannot be compared"),
    (["--model-id", "/no/such/model"], None, 2, "/no/such/model"),
    (["--dtype", "float16", "--device", "cpu"], None, 2, "float16 is for GPUs"),
    (["--dtype", "auto"], None, 2, "`auto` depends on the checkpoint; use float32, bfloat16"),
    (["--dtype", "int4"], None, 2, "unknown dtype `int4`; use float32, bfloat16"),
    (["--max-texts", "0"], None, 2, "at least 1"),
])
def test_what_cannot_be_compared_is_refused(tmp_path, args, stdin, status, words):
    done = accuracy(tmp_path, *args, stdin=stdin)
    assert done.returncode == status and words in done.stderr and done.stdout == "", done
    assert done.stderr.count("error:") == 1


def test_flags_are_variables_too(tmp_path):
    done = accuracy(tmp_path, "--texts", "-", stdin="a\nb\nc\n",
                    env={"PREFOLD_ACCURACY_DTYPE": "float32", "PREFOLD_MODEL_ID": str(FIXTURES / "bert-mean-tiny")})
    assert done.returncode == 0 and "float32 compared with float32" in done.stdout, done
