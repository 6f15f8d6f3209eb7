"""Rules of `make parity`, without its libraries: verdicts, minimisation and the list of fields, on fakes."""

import json
import random
import sys

import pytest

from harness import ROOT

sys.path.append(str(ROOT / "tests" / "parity"))

import asks  # noqa: E402
import fields  # noqa: E402
import findings  # noqa: E402
import gguf_rules  # noqa: E402
import texts  # noqa: E402
import verdicts  # noqa: E402
from minimise import minimise  # noqa: E402
from verdicts import Outcome  # noqa: E402

EMBED = {"ask": "embed"}
POOLING = ["Pooling/config.json", "pooling_mode", "cls"]
OTHERS = [["config.json", "hidden_size", 48], ["tokenizer_config.json", "truncation_side", "left"], ["structure", "modules", ["Dense"]]]


def fake(draft):
    """A server whose `--pooling mean` overrules the files: it differs where they give another pooling and a text has two words."""
    wrong = any(name == "pooling_mode" and value != "mean" for _, name, value in draft["settings"])
    numbers = [number for number, text in enumerate(draft["texts"]) if " " in text.strip()]
    if wrong and numbers:
        return Outcome("different", "embed", {"ask": EMBED, "text": numbers[0], "want": [1.0], "got": [0.5]})
    return Outcome("equal")


def draft(settings, sentences=("one", "three short words", "two words")):
    return {"seed": 7, "base": "bert-mean-tiny", "task": "embed", "settings": settings, "texts": list(sentences)}


def test_a_wrong_setting_is_found_and_minimised():
    found = fake(draft([*OTHERS, POOLING]))
    assert found.kind == "different"
    smallest = minimise(draft([*OTHERS, POOLING]), lambda it: fake(it).kind == "different", found.where["text"])
    assert smallest["settings"] == [POOLING, ["config.json", "num_hidden_layers", 1]]
    (text,) = smallest["texts"]
    assert len(text) == 3 and " " in text.strip()


def test_values_of_settings_are_minimised_too():
    prompts = ["config_sentence_transformers.json", "prompts", {"a": "x", "b": "y", "c": "z"}]
    smallest = minimise(draft([prompts]), lambda it: "b" in it["settings"][0][2] if it["settings"] else False)
    assert smallest["settings"][0][2] == {"b": "y"}


def test_minimisation_ends():
    calls = []
    minimise(draft(OTHERS * 20), lambda it: calls.append(it) or len(calls) % 3 == 0, budget=50)
    assert len(calls) <= 50


def test_findings_are_told_apart_and_written(tmp_path):
    written = []
    known = findings.Findings(fake, lambda it, folder: written.append((it, folder)), tmp_path)
    for number in range(5):
        one = {**draft([*OTHERS[: number % 3], POOLING]), "seed": number}
        assert known.add(one, fake(one)) == ("embed", frozenset({("Pooling/config.json", "pooling_mode")}))
    assert len(written) == 2, "a finding is written a few times, and counted always"
    assert known.report() == ["   5 embed: Pooling/config.json pooling_mode; seeds 0 (bert-mean-tiny), 1 (bert-mean-tiny)"]
    file = json.loads((tmp_path / "seed-0" / "finding.json").read_text())
    assert fake(file["draft"]).kind == "different" and file["where"]["ask"] == EMBED


@pytest.mark.parametrize("ask, want, got, same", [
    (EMBED, [0.5, 0.5], [0.50005, 0.5], True), (EMBED, [0.5, 0.5], [0.5002, 0.5], False), (EMBED, [90.0, 1.0], [90.005, 1.0], True),
    (EMBED, [0.5], [0.5, 0.5], False), ({"ask": "tokenize"}, [1, 2], [1, 2], True), ({"ask": "tokenize"}, [1, 2], [1, 3], False),
    ({"ask": "classify"}, [["a", 0.5]], [["a", 0.5001]], True), ({"ask": "classify"}, [["a", 0.5]], [["b", 0.5]], False),
    ({"ask": "tokens"}, [["O", 0, 3, 0.5]], [["O", 0, 4, 0.5]], False),
])
def test_answers_agree_within_the_tolerance_of_their_kind(ask, want, got, same):
    assert verdicts.agree(ask, want, got) == same


@pytest.mark.parametrize("want, got, exact, rounding", [
    ([1.0, 2.001], [1.0, 1.9985], [1.0, 2.0], True),
    ([1.0, 2.001], [1.0, 1.99], [1.0, 2.0], False),
    ([1.0, 2.0], [1.0, 2.001], [1.0, 2.0], False),
    ([["a", 0.5], ["b", 0.501]], [["a", 0.5], ["b", 0.499]], [["a", 0.5], ["b", 0.5]], True),
    ([1.0], [1.0, 2.0], [1.0, 2.0], False),
    ("answers", "a refusal", None, False),
    ([1.0], [1.1], None, False),
])
def test_rounding_is_measured_in_the_libraries_own(want, got, exact, rounding):
    assert verdicts.is_rounding(want, got, exact) == rounding


def outcome(want, got, warnings=(), settings=(POOLING,)):
    return verdicts.compare([(EMBED, want, got)], list(warnings), settings)


def test_a_difference_is_allowed_only_if_a_warning_names_the_setting():
    assert outcome([[1.0]], [[1.0]]).kind == "equal"
    assert outcome([[1.0]], [[0.5]]).kind == "different"
    assert outcome([[1.0]], [[0.5]], ["config.json: `prompts` is ignored"]).kind == "different"
    assert outcome([[1.0]], [[0.5]], ["1_Pooling/config.json: `pooling_mode` is ignored"]).kind == "named"


def test_what_the_libraries_lack_is_counted_and_not_compared():
    nothing = outcome([None, [float("nan")], [1.0]], [[5.0], [5.0], [1.0]])
    assert (nothing.kind, nothing.skipped, nothing.compared) == ("equal", 2, 1)
    refused = outcome([[1.0]], [{"status": 422, "error": "`inputs` has 7 tokens"}])
    assert (refused.kind, refused.requests_refused) == ("equal", ["`inputs` has N tokens"])
    assert outcome([[1.0]], [{"status": 500, "error": "no"}]).kind == "different"


def test_reasons_without_values_are_the_same():
    line = "2026-11-28T00:18:57Z ERROR prefold::app: config.json: `rope_type` \"{}\" is not supported (default), {}"
    assert verdicts.shortened(line.format("linear", 3)) == verdicts.shortened(line.format("yarn", -1.5e3))


def test_the_fields_are_those_of_the_documentation():
    listed = fields.listed()
    assert len(listed) == len({(field.file, field.name) for field in listed}) > 400
    assert {field.mark for field in listed} == {"followed", "refused", "named", "named in some", "no effect"}
    by_name = {(field.file, field.name): field for field in listed}
    assert by_name["config.json", "partial_rotary_factor"].defaults() == [1.0]
    assert by_name["adapter_config.json", "init_lora_weights"].defaults() == [True, "gaussian", "eva", "orthogonal"]


def test_texts_depend_only_on_the_seed():
    def some(seed):
        return texts.some(random.Random(seed), ["[CLS]"], 50)
    assert some(1) == some(1) != some(2)
    longest, kinds = max(map(len, some(1))), {text.isascii() for text in some(1)}
    assert longest > 200 and kinds == {True, False}


def test_each_text_is_in_two_pairs():
    assert asks.pairs(["a", "b", "c"]) == [["a", "b"], ["b", "c"], ["c", "a"]]


def of_gguf(settings, family="bert", seed=1, task="embed"):
    one = {"seed": seed, "base": "bert-mean-tiny", "task": task, "settings": settings, "texts": ["a", "b <pad>", "c"]}
    return gguf_rules.adapted(one, family, random.Random(seed))


def test_a_draft_for_gguf_keeps_what_its_folder_can_have():
    prompts = ["config_sentence_transformers.json", "prompts", {"query": "q "}]
    normalizer = ["tokenizer.json", "normalizer", None]
    beside = set()
    for seed in range(30):
        found = of_gguf([["config.json", "hidden_act", "relu"], ["structure", "folder", "0_Transformer"], ["structure", "pooling", "max"], prompts,
                         normalizer], seed=seed)
        names = [name for _, name, _ in found["settings"]]
        assert found["gguf"] and "hidden_act" not in names and "folder" not in names and prompts in found["settings"]
        assert next(value for _, name, value in found["settings"] if name == "pooling") in ("mean", "cls", "lasttoken")
        options = {name: value for file, name, value in found["settings"] if file == "gguf"}
        assert options["beside"] == "tokenizer" or normalizer not in found["settings"]
        beside.add(options["beside"])
        assert gguf_rules.is_carried(found)
        without = {**found, "settings": [setting for setting in found["settings"] if setting[1] != "beside"]}
        assert not gguf_rules.is_carried(without), "a smaller draft must not lose the files that it needs"
    assert beside == {"files", "tokenizer"}


@pytest.mark.parametrize("family, value, kept", [
    ("llama", {"rope_type": "llama3", "factor": 2.0}, True), ("qwen3", {"rope_type": "llama3", "factor": 2.0}, False),
    ("qwen3", {"rope_type": "linear", "factor": 2.0}, True), ("qwen3", {"rope_type": "default", "partial_rotary_factor": 0.5}, False),
    ("gemma3_text", {"sliding_attention": {"rope_type": "linear"}}, False), ("gemma3_text", {"full_attention": {"rope_type": "linear"}}, True),
    ("modernbert", {"full_attention": {"rope_type": "linear"}, "sliding_attention": {"rope_type": "default"}}, False), ("bert", None, True),
])
def test_a_draft_for_gguf_keeps_the_rope_that_a_file_has(family, value, kept):
    setting = ["config.json", "rope_parameters", value]
    assert (setting in of_gguf([setting], family)["settings"]) == kept


def test_a_base_for_gguf_has_what_the_converter_takes_for_granted():
    config = {"model_type": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 6, "hidden_size": 32}
    granted = {"model_type": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 16, "hidden_size": 32, "use_bidirectional_attention": True}
    assert gguf_rules.granted("gemma3_text", config) == granted
    assert gguf_rules.granted("bert", {"model_type": "bert", "hidden_act": "relu"}) == {"model_type": "bert"}


def test_a_refused_gguf_file_is_a_finding_unless_the_documentation_has_the_refusal():
    def kind(message, settings=()):
        return gguf_rules.refusal({"settings": list(settings)}, message).kind
    assert kind("`tokenizer.ggml.pre` \"x\" is not supported") == "refused"
    assert kind("tensor `x` is missing") == "different"
    assert kind("`pooling_mode` is odd", [POOLING]) == "refused"
    assert kind("`tokenizer.ggml.pre`: panicked at") == "different"
    key = "`bert.expert_count` 1 is not supported"
    assert kind(key, [["config.json", "num_experts", 1]]) == "refused" and kind(key, [["config.json", "num_labels", 1]]) == "different"
    missing = "`gemma-embedding.pooling_type` is missing, which says how an embedding model pools"
    assert kind(missing, [["structure", "without", "modules.json"]]) == "refused"
    assert kind(missing, [["structure", "without", "sentence_bert_config.json"]]) == "different"


def test_losses_of_the_converter_are_named_or_have_a_rule():
    warnings = ["`gemma-embedding`: llama.cpp's converter leaves out the Dense modules (2_Dense, 3_Dense) unless run with an option"]
    assert gguf_rules.is_named(draft([["structure", "modules", ["Dense", "Normalize"]]]), warnings)
    assert not gguf_rules.is_named(draft([]), warnings), "the warning is in every such file"
    assert not gguf_rules.is_named(draft(OTHERS), ["`prompts` is ignored"])
    own = {"base": "roberta-tiny", "settings": [], "texts": ["a", "b <pad>", "c"]}
    assert gguf_rules.explanation(own, {"ask": EMBED, "text": 1}) and not gguf_rules.explanation(own, {"ask": EMBED, "text": 0})
    assert gguf_rules.explanation(own, {"ask": {"ask": "pair"}, "text": 0}), "the second text of the pair"
    assert not gguf_rules.explanation({**own, "base": "bert-tiny"}, {"ask": EMBED, "text": 1})
    around = {**own, "settings": [["tokenizer.json", "post_processor", {"single": [{"SpecialToken": {"id": "<pad>"}}], "special_tokens": {}}]]}
    assert gguf_rules.explanation(around, {"ask": EMBED, "text": 0})
    around["settings"][0][2] = {"single": [], "special_tokens": {"<pad>": {"id": "<pad>"}}}
    assert not gguf_rules.explanation(around, {"ask": EMBED, "text": 0})
    masked = {"base": "modernbert-tiny", "settings": [], "texts": ["a [MASK]", "a[MASK]"]}
    assert [bool(gguf_rules.explanation(masked, {"ask": EMBED, "text": text})) for text in (0, 1)] == [True, False]
