"""The command: order of comparisons and timings, and the exit status."""

import argparse
import json
import subprocess
from pathlib import Path

from answer_file import WAYS, AnswersError, read
from bisection import Cut, fewest_that_miss
from comparison import GOAL, compare, nearest
from document import Clock, Document, OutOfTime

# Status of a machine that lacks torch, by the kit's convention (benches/gpu/kit.py).
SKIPPED = 77


def main(arguments, start=None, open_reference=None):
    """0 if all answers reach the goal, 1 if not, 2 for files that cannot be compared.

    `open_reference(args)` returns the reference side, an object like TorchSide (torch_side.py), which is the default.
    """
    args = parse(arguments)
    clock = Clock(args.budget, start)
    try:
        answers = read(args.answers)
        check_layers(answers, args.model)
        reference = (open_reference or open_torch)(args)
    except AnswersError as error:
        print(f"parity: {error}")
        return 2
    except ImportError as error:
        print(f"=> no {error.name} here")
        return SKIPPED
    metadata = answers.metadata
    head = {"model": metadata["shape"], "layers of the model": answers.layers, "dtype": metadata["dtype"], "device": metadata["device"]}
    document = Document(args.out, head | reference.head | {"goal": args.goal})
    print(", ".join(f"{name} {value}" for name, value in document.content.items() if isinstance(value, (str, int, float))))
    verdicts = {}
    try:
        compare_all(answers, reference.models(args.model), args.goal, document, "parity", clock, verdicts)
        if args.layers and not all(verdicts.values()):
            try:
                bisect(args, answers, reference, document, clock)
            except (OSError, subprocess.SubprocessError) as error:
                document.content["search"] = f"the search for the layer ended: {error}"
                print(document.content["search"])
        if args.time:
            time_all(args, answers, reference, document, clock)
    except OutOfTime:
        done = f"{len(verdicts)} of {len(answers.batches)} batches are compared, {len({row['batch'] for row in document.content['times']})} timed"
        document.ended(f"the budget of {args.budget:.0f} s is spent: {done}")
    document.write()
    print(f"=> {summary(document.content, args.goal)}")
    return 0 if verdicts and all(verdicts.values()) else 1


def compare_all(answers, models, goal, document, table, clock, verdicts, **cells):
    """Compares all batches, and records in `verdicts`, as soon as it is known, whether each batch reaches the goal in all ways."""
    with models as models:
        for index, batch in enumerate(answers.batches):
            exact, rounded = (model.pooled(batch.sequences, clock.check) for model in models)
            rows = [{"way": way} | compare(batch.ways[way], exact, goal) for way in WAYS if way in batch.ways]
            verdicts[index] = all(row["ok"] for row in rows)
            # The effect of rounding alone; not a goal for prefold.
            rows.append({"way": "torch bfloat16"} | compare(rounded, exact, goal))
            for row in rows:
                ok = row.pop("ok")
                verdict = "-" if row["way"] not in WAYS else "ok" if ok else "MISSES"
                document.add(table, cells | {"batch": batch.name, "sequences": len(batch.sequences), "nearest": nearest(exact)} | row | {"verdict": verdict})
            document.write()


def bisect(args, answers, reference, document, clock):
    """Compares models of fewer layers until the first that misses the goal is known."""

    def agrees(layers):
        clock.check()
        verdicts = {}
        timeout = None if clock.left() == float("inf") else clock.left()
        with Cut(args.layers, answers.command, layers, timeout) as cut:
            compare_all(cut.answers, reference.models(cut.model), args.goal, document, "layers", clock, verdicts, layers=layers)
        return all(verdicts.values())

    fewest = fewest_that_miss(answers.layers, agrees)
    document.content["first layer that differs"] = fewest - 1
    print(f"\nA model of {fewest} layers misses the goal" + (f", one of {fewest - 1} does not" if fewest > 1 else "") +
          f": layer {fewest - 1} differs first" + (", or the embeddings or the final norm do" if fewest == 1 else ""))  # fmt: skip
    document.write()


def time_all(args, answers, reference, document, clock):
    ours = forward_rows(args.forward)
    times = reference.times(args.model)
    for batch in answers.batches:
        for row in times.rows(batch, clock):
            mine = ours.get(batch.name, {})
            for way in WAYS:
                speed = mine.get(f"{way} tokens/s")
                row[f"{way} x"] = speed / row["tokens/s"] if speed and "tokens/s" in row else None
            document.add("times", row)
        document.write()
        clock.check()


def forward_rows(path):
    """Rows of `prefold-bench forward --json` by the name of their batch."""
    try:
        return {row["case"]: row for row in json.loads(path.read_text())["rows"]} if path else {}
    except (OSError, ValueError) as error:
        print(f"no ratios: {error}")
        return {}


def summary(content, goal):
    rows = [row for row in content["parity"] if row["way"] in WAYS]
    if not rows:
        return "nothing was compared"
    worst = {way: [row["smallest"] for row in rows if row["way"] == way] for way in WAYS}
    # NaN counts as the worst.
    parts = [f"{way} {min(found, key=lambda value: value if value == value else -2):.6f}" for way, found in worst.items() if found]
    missed = sum(row["verdict"] == "MISSES" for row in rows)
    text = f"smallest cosine {', '.join(parts)} (goal {goal}{f'; {missed} of {len(rows)} miss' if missed else ''})"
    if "first layer that differs" in content:
        text += f"; layer {content['first layer that differs']} differs first"
    fastest = [max(row["tokens/s"] for row in group) for group in timed(content["times"]).values()]
    return text + (f"; torch's fastest on {len(fastest)} batches: {min(fastest):.0f} to {max(fastest):.0f} tokens/s" if fastest else "")


def timed(rows):
    """Rows with a time, by batch."""
    batches = {}
    for row in rows:
        if "tokens/s" in row:
            batches.setdefault(row["batch"], []).append(row)
    return batches


def check_layers(answers, directory):
    """Raises AnswersError if the number of layers of the answers differs from the directory's model."""
    try:
        config = json.loads((directory / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise AnswersError(f"{directory}/config.json: {error}") from error
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    if layers != answers.layers:
        raise AnswersError(f"the answers are of a model of {answers.layers} layers, {directory} has {layers}")


def open_torch(args):
    from torch_side import TorchSide

    return TorchSide(args)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="parity", description=__doc__)
    parser.add_argument("model", type=Path, help="directory of `prefold-bench model` or `forward`")
    parser.add_argument("answers", type=Path, help="file of `prefold-bench forward --answers`")
    parser.add_argument("--device", default="cuda", help="torch's device (%(default)s)")
    parser.add_argument("--goal", type=float, default=GOAL, help="smallest cosine that agrees (%(default)s)")
    parser.add_argument("--layers", metavar="PROGRAM", type=Path,
                        help="if the goal is missed, find the first layer that differs with this prefold-bench")  # fmt: skip
    parser.add_argument("--time", action="store_true", help="time the batches in torch, in bfloat16")
    parser.add_argument("--forward", metavar="FILE", type=Path, help="JSON of `prefold-bench forward`, for ratios of tokens/s")
    parser.add_argument("--runs", type=int, default=5, help="timed passes of each way (%(default)s)")
    parser.add_argument("--compile-seconds", type=float, default=90, help="limit of torch.compile, all batches together (%(default)s)")
    parser.add_argument("--budget", type=float, help="time limit in seconds; the results so far are kept")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the results as JSON")
    return parser.parse_args(arguments)
