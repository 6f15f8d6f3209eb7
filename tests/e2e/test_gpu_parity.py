"""benches/gpu/parity with answers of `prefold-bench forward`. torch is not installed here; prefold's values in float32 are the reference
instead."""

import functools
import json
import struct
import subprocess
import sys
from contextlib import contextmanager

import numpy
import pytest

from harness import BINARIES, ROOT, environment

sys.path.append(str(ROOT / "benches" / "gpu" / "parity"))

from answer_file import read, safetensors  # noqa: E402
from bisection import cut, fewest_that_miss  # noqa: E402
from command import main  # noqa: E402
from comparison import compare, nearest  # noqa: E402
from document import Clock, Document, OutOfTime  # noqa: E402

BENCH = BINARIES / "prefold-bench"
BATCHES = ["--no-msmarco", "--prefix", "1,9", "--batch", "3", "--suffix", "4", "--unshared", "2x7"]
NAMES = ["prefix 1", "prefix 9", "unshared 2 x 7"]
DECODER, ENCODER = "qwen3-135m", "minilm-l6"
LAYERS = {DECODER: 3, ENCODER: 2}
LIMIT = 120


class Forward:
    """A run of `prefold-bench forward`."""

    def __init__(self, home, shape, layers, dtype):
        self.answers, self.json = home / f"{shape}-{layers}-{dtype}.safetensors", home / f"{shape}-{layers}-{dtype}.json"
        models = home / shape
        # Products in float32 are slow without optimisation: one pass is enough for the reference values.
        runs = 0 if dtype == "float32" else 3
        command = [BENCH, "forward", "--shape", shape, "--layers", str(layers), "--dtype", dtype, "--models", models, *BATCHES, "--runs", str(runs),
                   "--answers", self.answers, "--json", self.json]
        done = subprocess.run(command, cwd=ROOT, env=environment(home), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, (done.stdout, done.stderr)
        self.table = done.stdout
        self.rows = json.loads(self.json.read_text())["rows"]
        (self.model,) = (path.parent for path in models.glob(f"*-{layers}/model.safetensors"))


@pytest.fixture(scope="module")
def forward(tmp_path_factory):
    """`forward(shape, layers, dtype)`: a run on the CPU, once."""
    return functools.cache(functools.partial(Forward, tmp_path_factory.mktemp("forward")))


class Reference:
    """The reference side with prefold's vectors in float32. `damage(layers, vectors)` changes the vectors of a model with
    `layers` layers."""

    head = {"torch": "none"}

    def __init__(self, forward, damage=lambda layers, vectors: vectors, times=None):
        self.forward, self.damage, self.fake_times = forward, damage, times

    @contextmanager
    def models(self, directory):
        config = json.loads((directory / "config.json").read_text())
        shape = ENCODER if config["model_type"] == "bert" else DECODER
        layers = config["num_hidden_layers"]
        known = {}
        for batch in read(self.forward(shape, layers, "float32").answers).batches:
            vectors = self.damage(layers, batch.ways["off"])
            known |= {(batch.name, ids.tobytes()): row for ids, row in zip(batch.sequences, vectors)}

        class Model:
            def pooled(self, sequences, check):
                check()
                name = next(name for name, ids in known if ids == sequences[0].tobytes())
                return numpy.stack([known[name, ids.tobytes()] for ids in sequences])

        yield [Model(), Model()]

    def times(self, directory):
        return self.fake_times


@pytest.fixture
def parity(forward, tmp_path, capsys):
    """`parity(shape, *flags, answers=..., **reference)`: status, results and output."""

    def run(shape, *flags, answers=None, **reference):
        ours = forward(shape, LAYERS[shape], "bfloat16")
        out = tmp_path / "results.json"
        arguments = [ours.model, answers or ours.answers, "--out", out, *flags]
        status = main([str(argument) for argument in arguments], open_reference=lambda _: Reference(forward, **reference))
        return status, json.loads(out.read_text()) if out.exists() else None, capsys.readouterr().out

    return run


def test_a_forward_pass_says_what_its_passes_took_and_how_its_ways_differ(forward):
    run = forward(DECODER, 3, "bfloat16")
    assert [row["case"] for row in run.rows] == NAMES
    for row in run.rows:
        for way in ("off", "ragged", "compact"):
            least, most = row[f"{way} range"]
            assert least <= row[f"{way} ms"] <= most
            assert row[f"{way} tokens/s"] == pytest.approx(row["N"] / row[f"{way} ms"] * 1e3)
        assert row["off/compact"] == pytest.approx(row["off ms"] / row["compact ms"])
        assert row["runs"] == 3
        # On a CPU all ways give the same bits.
        assert row["ragged cosine"] == row["compact cosine"] == pytest.approx(1, abs=1e-12)
    assert "off range" in run.table and "1.000000" in run.table
    for row in forward(ENCODER, 2, "bfloat16").rows:
        assert row["off ms"] > 0 and len(row["off range"]) == 2
        assert [row[name] for name in ("ragged ms", "ragged range", "compact ms", "off/compact", "compact cosine")] == [None] * 5


def test_answers_in_bfloat16_are_those_in_float32(parity, forward):
    status, results, text = parity(DECODER)
    assert status == 0, text
    assert [(row["batch"], row["way"], row["verdict"]) for row in results["parity"]] == [
        (name, way, "-" if way == "torch bfloat16" else "ok") for name in NAMES for way in ("off", "ragged", "compact", "torch bfloat16")
    ]
    for row in results["parity"]:
        # In bfloat16 the damage of other tests is still visible.
        assert 0.999 < row["smallest"] <= row["mean"] <= 1 and row["nearest"] < 0.99
        assert row["way"] == "torch bfloat16" or row["smallest"] < 1 - 1e-9
    assert (results["model"], results["layers of the model"], results["dtype"], results["device"]) == (DECODER, 3, "bfloat16", "cpu")
    assert "=> smallest cosine off 0.999" in text and "miss" not in text

    status, results, _ = parity(ENCODER)
    assert status == 0 and {row["way"] for row in results["parity"]} == {"off", "torch bfloat16"}


def swapped(rows):
    rows[[0, 1]] = rows[[1, 0]]


def noisy(rows):
    rows[1] += numpy.random.default_rng(1).normal(size=rows.shape[1]) * 0.06 * numpy.linalg.norm(rows[1]) / rows.shape[1] ** 0.5


def one_nan(rows):
    rows[1, 5] = numpy.nan


def zeros(rows):
    rows[0] = 0


def doubled(rows):
    rows[0] *= 2


@pytest.mark.parametrize("damage", [swapped, noisy, one_nan, zeros, doubled])
@pytest.mark.parametrize("way", ["off", "compact"])
def test_damaged_answers_miss_the_goal(parity, forward, tmp_path, damage, way):
    file = tmp_path / "damaged.safetensors"
    change(forward(DECODER, 3, "bfloat16").answers, file, lambda tensors: damage(tensors[f"1.{way}"]))
    status, results, text = parity(DECODER, answers=file)
    assert status == 1
    assert [(row["batch"], row["way"]) for row in results["parity"] if row["verdict"] == "MISSES"] == [("prefix 9", way)]
    assert "1 of 9 miss" in text
    assert (damage in (one_nan, zeros)) == (f"{way} nan" in text)


def test_a_lost_layer_misses_the_goal(parity, forward, tmp_path):
    """Answers of a model of two layers, labelled as a model of three."""
    file = tmp_path / "short.safetensors"
    change(forward(DECODER, 2, "bfloat16").answers, file, lambda tensors: None, layers="3")
    status, results, _ = parity(DECODER, answers=file)
    assert status == 1 and {row["verdict"] for row in results["parity"]} == {"MISSES", "-"}


def test_vectors_that_are_almost_the_same_are_not_misplaced():
    rows = numpy.eye(3, 8)
    assert compare(rows[[0, 2, 1]], rows)["misplaced"] == 2
    assert compare(rows, rows)["ok"] and nearest(rows) == 0 and nearest(rows[:1]) is None
    twins = numpy.stack([rows[0], rows[0] + 1e-3 * rows[1]])
    assert compare(twins[::-1], twins)["ok"]
    # Close to its own reference, at two degrees, but closer to the other one.
    degrees = numpy.radians([[0, 90], [3, 87]])
    fan = compare(numpy.cos(numpy.radians([[2, 88], [3, 87]])), numpy.cos(degrees))
    assert fan["smallest"] >= 0.999 and fan["misplaced"] == 1 and not fan["ok"]
    with pytest.raises(ValueError, match="shape"):
        compare(rows[:2], rows)


@pytest.mark.parametrize(("problem", "words"), [
    ("missing", "No such file"),
    ("text", "not a file of answers"),
    ("truncated", "ends within"),
    ("starts", "cu_seqlens of prefix 9"),
    ("rows", "vectors of prefix 9"),
    ("layers", "answers are of a model of 4 layers"),
])  # fmt: skip
def test_files_that_cannot_be_compared_have_status_2(parity, forward, tmp_path, problem, words):
    file, good = tmp_path / "broken.safetensors", forward(DECODER, 3, "bfloat16").answers
    if problem == "text":
        file.write_text("answers")
    elif problem == "truncated":
        file.write_bytes(good.read_bytes()[:-4])
    elif problem == "starts":
        change(good, file, lambda tensors: tensors["1.cu_seqlens"].__setitem__(1, 100))
    elif problem == "rows":
        change(good, file, lambda tensors: tensors.__setitem__("1.off", tensors["1.off"][1:]))
    elif problem == "layers":
        change(good, file, lambda tensors: None, layers="4")
    status, results, text = parity(DECODER, answers=file)
    assert status == 2 and results is None and words in text


def change(source, target, edit, **metadata):
    """Copies a file of answers with changed tensors and metadata."""
    tensors, known = safetensors(source.read_bytes())
    tensors = {name: values.copy() for name, values in tensors.items()}
    edit(tensors)
    header, data = {"__metadata__": known | metadata}, b""
    for name, values in tensors.items():
        end = len(data) + values.nbytes
        dtype = {"u": "U32", "f": "F32"}[values.dtype.kind]
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [len(data), end]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    target.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_bisection_finds_the_first_wrong_layer():
    for layers in range(1, 40):
        for fewest in range(1, layers + 1):
            asked = []
            agrees = lambda k: asked.append(k) or k < fewest  # noqa: B023, E731
            assert fewest_that_miss(layers, agrees) == fewest
            assert len(asked) <= layers.bit_length() and all(0 < k < layers for k in asked)


def test_a_run_of_fewer_layers_repeats_the_batches_alone():
    command = "forward --device cuda --layers 28 --json=a.json --shape x --runs 5 --unshared 1x2 --answers a --profile --warm=2 --models m --mixed"
    assert cut("/bin/p", command.split(), 4)[1:] == "forward --device cuda --shape x --unshared 1x2 --mixed --layers 4 --runs 0 --warm 1".split()


def test_the_first_layer_that_differs_is_named(parity):
    """The reference differs from the second layer on."""
    status, results, text = parity(DECODER, "--layers", BENCH, damage=lambda layers, rows: rows if layers < 2 else rows[:, ::-1])
    assert status == 1
    assert results["first layer that differs"] == 1 and "layer 1 differs first" in text
    verdicts = {(row["layers"], row["verdict"]) for row in results["layers"] if row["way"] == "compact"}
    assert verdicts == {(1, "ok"), (2, "MISSES")}
    status, results, _ = parity(DECODER, "--layers", BENCH)
    assert status == 0 and results["layers"] == [] and "first layer that differs" not in results


class Times:
    """Times of torch: 100 tokens/s in one way, none in the other. The budget ends before batch `end`."""

    def __init__(self, end=None):
        self.end = end

    def rows(self, batch, clock):
        if batch.name == self.end:
            raise OutOfTime
        row = {"batch": batch.name, "tokens": batch.tokens, "padded": batch.tokens}
        return [row | {"torch": "sdpa", "ms": batch.tokens * 10.0, "range": [1.0, 2.0], "tokens/s": 100.0}, row | {"torch": "cudnn", "failed": "no cuDNN"}]


def test_times_stand_beside_those_of_prefold(parity, forward):
    ours = forward(DECODER, 3, "bfloat16")
    status, results, text = parity(DECODER, "--time", "--forward", ours.json, times=Times())
    assert status == 0
    assert [(row["batch"], row["torch"]) for row in results["times"]] == [(name, torch) for name in NAMES for torch in ("sdpa", "cudnn")]
    for sdpa, cudnn, row in zip(results["times"][::2], results["times"][1::2], ours.rows):
        for way in ("off", "ragged", "compact"):
            assert sdpa[f"{way} x"] == pytest.approx(row[f"{way} tokens/s"] / 100)
        assert cudnn["compact x"] is None and cudnn["failed"] == "no cuDNN"
    assert text.count("no cuDNN") == 3 and "torch's fastest on 3 batches: 100 to 100 tokens/s" in text


def test_the_budget_ends_a_run_with_what_there_is(parity):
    status, results, text = parity(DECODER, "--time", "--budget", 1000, times=Times(end=NAMES[1]))
    assert status == 0 and len(results["parity"]) == 12
    assert {row["batch"] for row in results["times"]} == {NAMES[0]}
    assert results["ended"] == "the budget of 1000 s is spent: 3 of 3 batches are compared, 1 timed" and results["ended"] in text

    status, results, text = parity(DECODER, "--budget", 0)
    assert status == 1 and results["parity"] == [] and "0 of 3 batches are compared" in results["ended"]
    assert "=> nothing was compared" in text


def test_the_clock_keeps_a_twentieth_for_the_end():
    clock = Clock(1000)
    assert 900 < clock.left() <= 950
    clock.check()
    with pytest.raises(OutOfTime):
        Clock(1000, start=-1e9).check()
    assert Clock().left() == float("inf")


def test_values_that_json_lacks_become_strings(tmp_path):
    document = Document(tmp_path / "out.json", {"goal": float("nan"), "other": [float("inf"), -float("inf"), 1.5]})
    document.write()
    assert json.loads((tmp_path / "out.json").read_text())["goal"] == "NaN"
    assert json.loads((tmp_path / "out.json").read_text())["other"] == ["Infinity", "-Infinity", 1.5]


def test_a_machine_without_torch_skips_the_comparison(forward, tmp_path):
    run = forward(DECODER, 3, "bfloat16")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ModuleNotFoundError('absent', name='torch')\n")
    env = {**environment(tmp_path), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, ROOT / "benches/gpu/parity", run.model, run.answers], env=env, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (77, "=> no torch here"), (done.stdout, done.stderr)
