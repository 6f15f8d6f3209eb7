#!/usr/bin/env python3
"""Random checkpoints of all families with random settings: transformers and sentence-transformers against a server, over HTTP.

    tests/parity/parity.py [--seconds 600] [--seed 1] [--only FAMILY|FIXTURE] [--flags "--pooling cls"] [--folder DIR]
    tests/parity/parity.py --replay FOLDER        a finding again; --seed N --count 1 gives the draft of a seed again

Draft n of a run has the seed `SEED * 1000000 + n`. A difference is minimised and written to a folder with the checkpoint and a
`finding.json`. Exits with 1 if there is a finding. README: tests/README.md.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections import Counter
from pathlib import Path

for name, value in {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1",
                    "CUDA_VISIBLE_DEVICES": ""}.items():
    os.environ[name] = value

import torch  # noqa: E402
import transformers  # noqa: E402

import drafts  # noqa: E402
import gguf_drafts  # noqa: E402
import gguf_files  # noqa: E402
from findings import Findings, told  # noqa: E402
from judge import Judge  # noqa: E402

RUN = 1_000_000
# Bytes of address space: a few settings make transformers allocate more than the machine has, which counts as its refusal.
MOST_MEMORY = 12 << 30


class Figures:
    """What a run counts."""

    def __init__(self):
        self.kinds, self.reasons, self.families, self.fields = Counter(), {}, Counter(), Counter()
        self.texts = self.answers = self.skipped = 0
        self.requests = Counter()

    def add(self, draft, family, outcome):
        self.kinds[outcome.kind] += 1
        self.families[family] += 1
        self.fields.update(f"{file} {name}" for file, name, _ in draft["settings"])
        self.texts += len(draft["texts"])
        self.answers += outcome.compared
        self.skipped += outcome.skipped
        self.requests.update(outcome.requests_refused)
        if outcome.kind not in ("equal", "different"):
            self.reasons.setdefault(outcome.kind, Counter())[outcome.reason] += 1

    def report(self):
        return {"checkpoints": sum(self.kinds.values()), "texts": self.texts, "equal_answers": self.answers,
                "answers_that_the_libraries_lack": self.skipped, "outcomes": dict(self.kinds), "families": dict(self.families),
                "settings_varied": len(self.fields), "reasons": {kind: dict(of.most_common()) for kind, of in self.reasons.items()},
                "requests_refused": dict(self.requests.most_common())}


def run(args, source, judge, findings, say):
    figures, end, number = Figures(), time.monotonic() + args.seconds, 0
    while time.monotonic() < end and (args.count is None or number < args.count):
        seed = args.seed * RUN + number if args.seed < RUN else args.seed + number
        number += 1
        draft = source.draft(seed)
        outcome = judge(draft)
        figures.add(draft, source.bases[draft["base"]].family, outcome)
        if args.verbose:
            say(f"{seed} {draft['base']} {outcome.kind} {outcome.reason}")
        if outcome.kind == "different":
            ask, fields = findings.add(draft, outcome)
            say(f"{seed}: {draft['base']} differs in {ask}: {', '.join(f'{file} {name}' for file, name in sorted(fields)) or 'no setting'}")
    return figures


def replay(folder, judge):
    """Judges a finding again."""
    draft = json.loads((folder / "finding.json").read_text(encoding="utf-8"))["draft"]
    outcome = judge(draft)
    print(json.dumps(draft, ensure_ascii=False, indent=1))
    print(outcome.kind, told(outcome) if outcome.where else outcome.reason)
    return 1 if outcome.kind == "different" else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="most checkpoints")
    parser.add_argument("--only", help="one family or fixture")
    parser.add_argument("--flags", default="", help="further flags of the server")
    parser.add_argument("--gguf", type=Path, metavar="PATH", help="serve GGUF files, made by llama.cpp's convert_hf_to_gguf.py at this path")
    parser.add_argument("--replay", type=Path, metavar="FOLDER")
    parser.add_argument("--folder", type=Path, default=Path("target/parity"), help="folder of findings and figures")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    transformers.utils.logging.set_verbosity_error()
    converter = gguf_files.Converter(args.gguf) if args.gguf else None
    source = gguf_drafts.Source(args.only, converter.classes) if converter else drafts.Source(args.only)
    judge = Judge(source, tuple(args.flags.split()), converter)
    if args.replay:
        return replay(args.replay, judge)
    findings = Findings(judge, judge.write, args.folder / f"findings-{args.seed}")
    figures = run(args, source, judge, findings, lambda line: print(line, flush=True))
    report = {**figures.report(), "findings": findings.report()}
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / f"parity-{args.seed}.json").write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, ensure_ascii=False, indent=1))
    return 1 if findings.known else 0


if __name__ == "__main__":
    sys.exit(main())
