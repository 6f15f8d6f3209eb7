"""texts/s per core of five models at 16, 128 and 512 tokens on one and on two cores, memory, and what follows for more cores.

`UPDATE_DOCS=1` also writes the tables to docs/operations.md.
"""

import os
import re
from pathlib import Path

import machine
import models
import texts
from prefold_server import Pinned
from report import number, table
from rounds import alternate, running, spread
from tables.setting import Setting
from venvs import ROOT

LENGTHS = [16, 128, 512]
CORES = [1, 2]
# Machines of the calculated columns.
LARGER = [4, 16, 64]
# Seconds that a request takes about, and at least: long enough for full batches, short enough for many rounds.
REQUEST_S, SHORTEST_S = 3.0, 1.5
FEWEST_TEXTS, MOST_TEXTS = 2, 1024
DOCUMENT = ROOT / "docs" / "operations.md"
PLACE = re.compile(r"(<!-- sizing -->\n).*?(<!-- end -->)", re.DOTALL)


class Sized(Pinned):
    """A server with texts of its model's lengths."""

    def __init__(self, binary, model, name, cores):
        super().__init__(binary, model, name, range(cores))
        self.model_name, self.number_of_cores, self.made = name, cores, {}
        # Per length: the texts of each round's measured request.
        self.texts_per_request = {length: [] for length in LENGTHS}

    def start(self):
        seconds = super().start()
        self.facts = self.info()
        return seconds

    def of_length(self, length):
        """Texts with this number of tokens, special ones included, that share no prefix."""
        if length not in self.made:
            special = self.embed(texts.of_lengths(self, [1])).tokens - 1
            made = texts.of_lengths(self, [length - special] * MOST_TEXTS)
            # Equal texts of a request are computed once.
            if len(set(made)) < MOST_TEXTS:
                raise RuntimeError(f"{MOST_TEXTS - len(set(made))} texts of {length} tokens occur twice")
            self.made[length] = made
        return self.made[length]


def compared_models(prefold):
    """Name and directory of each model."""
    return {
        "prefold-mini (built in)": models.builtin(),
        "all-MiniLM-L6-v2": Path(models.minilm()),
        "bge-base's shape": models.random_shape("bge-base", prefold),
        "Qwen3 of SmolLM2-135M's size": models.decoder_shape("qwen3-135m", prefold),
        "Qwen3-0.6B's shape": models.decoder_shape("qwen3-0.6b", prefold),
    }


def sizing(setting: Setting, chosen=compared_models):
    servers = [Sized(setting.prefold, model, name, cores) for name, model in chosen(setting.prefold).items() for cores in CORES]
    with running(servers):
        results = alternate(servers, speeds, setting.rounds)
        rows = [row(server, rounds) for server, rounds in zip(servers, results)]
    markdown = f"{machine.headline(machine.describe())}, {setting.rounds} rounds. {load(rows)}\n\n{measured(rows)}\n\n{calculated(rows)}"
    if "UPDATE_DOCS" in os.environ:
        document = DOCUMENT.read_text()
        DOCUMENT.write_text(PLACE.sub(lambda found: f"{found[1]}{markdown}\n{found[2]}", document))
    return {"unit": "texts/s", "rows": rows, "markdown": markdown}


def speeds(server):
    """texts/s at each length, in a request of as many texts as take about `REQUEST_S`."""
    return [speed(server, length) for length in LENGTHS]


def speed(server, length):
    """`None` for a length that the model cuts."""
    if length > server.facts["max_input_length"]:
        return None
    made, number_of_texts = server.of_length(length), FEWEST_TEXTS
    while True:
        seconds = server.embed(made[:number_of_texts]).seconds
        if seconds >= SHORTEST_S or number_of_texts == MOST_TEXTS:
            server.texts_per_request[length].append(number_of_texts)
            return number_of_texts / seconds
        growth = min(max(REQUEST_S / seconds, 2.0), 16.0)
        number_of_texts = min(int(number_of_texts * growth), MOST_TEXTS)


def row(server, rounds):
    speeds = {length: [values[at] for values in rounds] for at, length in enumerate(LENGTHS)}
    return {"name": server.model_name, "cores": server.number_of_cores, "dtype": server.facts["dtype"], "kernels": server.facts["kernels"],
            "resident_mb": server.memory()["resident_mb"], "texts_per_request": server.texts_per_request,
            "texts_per_s": {length: None if None in values else spread(values) for length, values in speeds.items()}}


def cell(one, length, cores=1):
    """texts/s of some cores at the pace of this row's."""
    values = one["texts_per_s"][length]
    return number(cores * values["median"] / one["cores"]) if values else "-"


def load(rows):
    """The requests of the measurement: how many at a time, and of how many texts."""
    sizes = [size for one in rows for rounds in one["texts_per_request"].values() for size in rounds]
    return (f"One request was in flight at a time. It had {min(sizes)} to {max(sizes):,} texts, all different: as many as take {SHORTEST_S} s, at most "
            f"{MOST_TEXTS:,}.")


def measured(rows):
    """A line for each model: texts/s per core on one core and on two, and the memory of the server on two."""
    header = ["model", "type", *(f"{length} tokens, {cores} core{'s' if cores > 1 else ''}" for length in LENGTHS for cores in CORES),
              "resident, MB"]
    lines = []
    for name, group in grouped(rows):
        cells = [cell(group[cores], length) for length in LENGTHS for cores in CORES]
        lines.append([name, group[CORES[-1]]["dtype"], *cells, number(group[CORES[-1]]["resident_mb"])])
    return "Measured, texts/s per core:\n\n" + table(header, lines)


def calculated(rows):
    """texts/s of larger machines: the figure per core on two cores times the cores, which memory bandwidth and waiting only lower."""
    header = ["model", *(f"{cores} cores, {length} tokens" for cores in LARGER for length in LENGTHS)]
    lines = [[name, *(cell(group[CORES[-1]], length, cores) for cores in LARGER for length in LENGTHS)]
             for name, group in grouped(rows)]
    return "Calculated, not measured: texts/s, the figure per core on two cores times the cores, an upper bound:\n\n" + table(header, lines)


def grouped(rows):
    """Each model's rows by cores."""
    names = list(dict.fromkeys(one["name"] for one in rows))
    return [(name, {one["cores"]: one for one in rows if one["name"] == name}) for name in names]
