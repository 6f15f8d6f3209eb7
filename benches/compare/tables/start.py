"""Start of all-MiniLM-L6-v2 from warm files, and memory: ms from exec until ready and until the first answer, megabytes after each.

For a peer, `ready` means that its model is loaded, imports included.
"""

import time

import models
import texts
from report import shown, table
from rounds import spread
from tables.setting import Setting, row

PEERS = ["torch-f32", "torch-bf16", "onnxruntime", "onnxruntime-int8", "openvino-f32", "openvino", "openvino-int8", "fastembed"]
FIRST = "Where is the nearest railway station?"


def start(setting: Setting):
    forms = models.minilm_forms()
    contenders = setting.own(forms["checkpoint"]) + setting.other_server(forms["exported"])
    contenders += setting.others(PEERS, forms)
    once(contenders)  # files into the page cache
    measured = [[] for _ in contenders]
    for _ in range(setting.rounds):
        for results, values in zip(measured, once(contenders)):
            results.append(values)
    rows = [row(one, [values["ready_ms"] for values in results], measured=results) for one, results in zip(contenders, measured)]
    return {"unit": "ms", "rows": rows, "markdown": markdown(rows)}


def once(contenders):
    return [life(contender) for contender in contenders]


def life(contender):
    """Measures one process from start to end."""
    try:
        ready = contender.start()
        contender.embed([FIRST])
        first = time.perf_counter() - contender.launched
        idle = contender.memory()
        contender.embed(texts.passages())
        return {"ready_ms": ready * 1e3, "first_answer_ms": first * 1e3, "started": idle, "after_passages": contender.memory()}
    finally:
        contender.stop()


def markdown(rows):
    def column(one, *keys):
        values = one["measured"]
        for key in keys:
            values = [value[key] for value in values]
        return shown(spread(values))

    header = ["", "ready, ms", "first answer, ms", "resident MB", "of which anonymous", "after 512 passages", "of which anonymous"]
    return table(header, [[one["name"], column(one, "ready_ms"), column(one, "first_answer_ms"),
                           *(column(one, when, kind) for when in ("started", "after_passages")
                             for kind in ("resident_mb", "anonymous_mb"))] for one in rows])
