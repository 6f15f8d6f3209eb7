"""Draws the panels of prefold.json from the results of their queries in Prometheus.

Without --url it does all that takes: it starts a server and Prometheus, sends traffic with `prefold bench` for --minutes, draws, and
stops them. The picture shows the dashboard's data without Grafana, in a different look.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from PIL import Image  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UNITS = {"s": "seconds", "percentunit": "", "reqps": "requests/s", "short": "", "bytes": ""}
SCRAPE_S = 2
# Traffic of the picture, one after another in turn: single texts, shared prefixes, bulk with queries.
TRAFFIC = [
    ["--workload", "instruction", "--texts", "1", "--rate", "40"],
    ["--workload", "rerank", "--concurrency", "8"],
    ["--random", "2000", "--texts", "100", "--concurrency", "2", "--rate", "10", "--rounds", "1"],
]
# Short enough for several turns in a picture. A mixed load has three phases of this length.
TURN_S = 8


def query(url, expression, start, end, step):
    """The series of an expression: (labels, times, values)."""
    # Four scrape intervals, as in Grafana's $__rate_interval.
    replaced = {"$__rate_interval": f"{4 * SCRAPE_S}s", "$instance": ".*", "$namespace": ".*", "$model": ".*"}
    for variable, value in replaced.items():
        expression = expression.replace(variable, value)
    parameters = urllib.parse.urlencode({"query": expression, "start": start, "end": end, "step": step})
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{parameters}", timeout=30) as response:
        answer = json.load(response)
    for series in answer["data"]["result"]:
        points = [(float(time), float(value)) for time, value in series["values"]]
        yield series["metric"], [time - start for time, _ in points], [value for _, value in points]


def legend(form, labels):
    for name, value in labels.items():
        form = form.replace("{{" + name + "}}", value)
    return form


def draw_lines(axis, panel, ask):
    """Line panel; series that Grafana puts on the right axis get a twin axis."""
    right = {o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]}
    twin = axis.twinx() if right else None
    lines = []
    for target in panel["targets"]:
        for labels, times, values in ask(target["expr"]):
            name = legend(target["legendFormat"], labels)
            on = twin if name in right else axis
            lines += on.plot(times, values, label=name, color=f"C{len(lines)}", linewidth=1.4)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    for on in filter(None, (axis, twin)):
        on.set_ylim(bottom=0)
    if unit == "percentunit":
        axis.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0))
        axis.set_ylim(top=max(1.0, axis.get_ylim()[1]))
    if unit == "bytes":
        axis.yaxis.set_major_formatter(matplotlib.ticker.EngFormatter("B"))
    axis.set_ylabel(UNITS[unit])
    for step in panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", []):
        if step["value"] is not None:
            axis.axhline(step["value"], linestyle="--", color=step["color"], linewidth=1)
    if lines:
        axis.legend(lines, [line.get_label() for line in lines], fontsize=7, loc="best", ncols=2)


def draw_heatmap(axis, panel, ask):
    """Heatmap panel. Prometheus' buckets are cumulative, so each row is the difference to the one below."""
    series = sorted(ask(panel["targets"][0]["expr"]), key=lambda one: float(one[0]["le"]))
    bounds = [labels["le"] for labels, _, _ in series]
    times = sorted({time for _, points, _ in series for time in points})
    below = [0.0] * len(times)
    rows = []
    for _, points, values in series:
        at = dict(zip(points, values, strict=True))
        row = [at.get(time, 0.0) for time in times]
        rows.append([value - less for value, less in zip(row, below, strict=True)])
        below = row
    image = axis.pcolormesh(times, range(len(rows)), rows, cmap="Oranges", shading="nearest", vmin=0)
    axis.set_yticks(range(len(bounds))[::3], bounds[::3])
    axis.figure.colorbar(image, ax=axis, label="batches/s")


def draw(url, minutes, output):
    """Draws the last minutes."""
    end = time.time()
    start = end - 60 * minutes
    step = max(1.0, (end - start) / 300)
    panels = json.loads((HERE / "prefold.json").read_text())["panels"]
    figure, axes = plt.subplots(-(-len(panels) // 2), 2, figsize=(15, 2.6 * -(-len(panels) // 2)), layout="constrained")
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.set_title(panel["title"], fontsize=10, loc="left", fontweight="bold")
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=7)
        axis.set_xlim(0, end - start)
        drawn = draw_heatmap if panel["type"] == "heatmap" else draw_lines
        drawn(axis, panel, lambda expression: query(url, expression, start, end, step))
    for axis in axes[-1]:
        axis.set_xlabel("seconds", fontsize=8)
    figure.suptitle("prefold: the dashboard's queries, evaluated by Prometheus (not a screenshot of Grafana)", fontsize=11)
    # A palette takes a third of the bytes, and lines have few colours.
    figure.savefig(output, dpi=90)
    Image.open(output).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(output, optimize=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def running(command, ready):
    """A process that runs until the end of the block, once its URL `ready` answers."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFOLD_")}
    process = subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(ready, timeout=5).close()
                break
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended with status {process.returncode}")
            time.sleep(0.1)
        else:
            raise SystemExit(f"{command[0]} is not ready after a minute")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def send_traffic(prefold, server, seconds):
    """Sends the kinds of traffic in turn."""
    end = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end:
        load = [*TRAFFIC[turn % len(TRAFFIC)], "--duration", TURN_S, "--warmup", 0, "--seed", turn + 1]
        subprocess.run([prefold, "bench", "--url", server, *map(str, load)], check=True, stdout=subprocess.DEVNULL)
        turn += 1


def draw_own(prefold, prometheus, minutes, output):
    """Starts a server and Prometheus, sends traffic and draws."""
    port, own = free_port(), free_port()
    server, url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{own}"
    with tempfile.TemporaryDirectory() as folder:
        # JSON is valid YAML.
        target = {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "default"}}
        jobs = [{"job_name": "prefold", "scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s", "static_configs": [target]}]
        config = Path(folder) / "prometheus.yml"
        config.write_text(json.dumps({"scrape_configs": jobs}))
        store = [f"--config.file={config}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{own}"]
        with running([prefold, "--hostname", "127.0.0.1", "--port", port], f"{server}/ready"), \
                running([prometheus, *store], f"{url}/-/ready"):
            # The first rate needs two samples.
            time.sleep(2 * SCRAPE_S)
            begin = time.monotonic()
            send_traffic(prefold, server, 60 * minutes)
            draw(url, (time.monotonic() - begin) / 60, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a running Prometheus that scrapes servers; nothing is started then")
    parser.add_argument("--prefold", default=ROOT / "target/release/prefold", help="program of the server (default: target/release/prefold)")
    parser.add_argument("--prometheus", default="prometheus", help="program (Debian: prometheus)")
    parser.add_argument("--minutes", type=float, default=3.0, help="how much traffic, or how far back with --url")
    parser.add_argument("--output", type=Path, default=HERE / "prefold.png")
    arguments = parser.parse_args()
    if arguments.url:
        draw(arguments.url, arguments.minutes, arguments.output)
    else:
        draw_own(arguments.prefold, arguments.prometheus, arguments.minutes, arguments.output)


if __name__ == "__main__":
    main()
