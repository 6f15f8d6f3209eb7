"""Compares prefold with other engines on CPUs, in alternating runs within the same minutes. See README.md.

    python3 benches/compare/compare.py minilm
    python3 benches/compare/compare.py minilm --without-amx --out minilm-without-amx.json
    python3 benches/compare/compare.py queries --peers onnxruntime,openvino --rounds 3 --out queries.json
"""

import argparse
import json
import os
import sys
from pathlib import Path

import amx
import machine
from peer import PEERS
from tables.encoders import encoders, windows
from tables.in_process import in_process
from tables.mixed import mixed
from tables.ndcg import ndcg
from tables.queries import queries
from tables.rerank import rerank
from tables.setting import Setting
from tables.sizing import sizing
from tables.start import start
from tables.throughput import bge_base, minilm, reranker
from tables.two_servers import two_servers
from venvs import ROOT, TARGET

TABLES = {"minilm": minilm, "queries": queries, "bge-base": bge_base, "reranker": reranker, "rerank": rerank,
          "encoders": encoders, "windows": windows, "ndcg": ndcg, "mixed": mixed, "start": start,
          "in-process": in_process, "sizing": sizing, "two-servers": two_servers}


def labels(text):
    chosen = text.split(",")
    if unknown := [label for label in chosen if label not in PEERS]:
        raise argparse.ArgumentTypeError(f"unknown peer {unknown[0]}; there are {', '.join(PEERS)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--peers", type=labels, help=f"peers of the table to run, of {','.join(PEERS)}; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default 5)")
    parser.add_argument("--out", type=Path, help="file of the results; default: target/compare/TABLE.json")
    parser.add_argument("--prefold", type=Path, default=ROOT / "target/release/prefold", help="the binary, next to prefold-bench")
    parser.add_argument("--wheel", type=Path, help="the wheel for the table in-process; default: the wheel in target/dist (make wheel)")
    parser.add_argument("--tei", type=Path, help="a text-embeddings-router with its ONNX Runtime backend, as a further contender")
    parser.add_argument("--without-amx", action="store_true", help="run all contenders without AMX, as on a CPU that lacks it")
    args = parser.parse_args()
    if args.without_amx:
        amx.withhold()

    out = args.out or TARGET / f"{args.table}.json"
    TARGET.mkdir(parents=True, exist_ok=True)
    before = machine.describe()
    result = TABLES[args.table](Setting(args.prefold.resolve(), args.peers, args.rounds, args.tei and args.tei.resolve(), args.wheel and args.wheel.resolve()))
    markdown = result.pop("markdown")
    result = {"table": args.table, "command": sys.argv, "machine": before, "load_average_after": os.getloadavg(), **result}
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\n{args.table}: {machine.headline(before)}, {args.rounds} rounds, load average "
          f"{before['load_average'][0]:.1f} to {os.getloadavg()[0]:.1f}\n\n{markdown}")
    for left_out in (check for check in result.get("checks", []) if not check["right"]):
        print(f"\nLeft out as wrong: {left_out['name']}: {left_out['finding']}")
    print(f"\nall figures: {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
