"""Draws the panels of prefold.json from the results of their queries in Prometheus.

The picture shows the dashboard's data without Grafana, in a different look.
"""

import argparse
import json
import time
import urllib.parse
import urllib.request
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from PIL import Image  # noqa: E402

HERE = Path(__file__).resolve().parent
UNITS = {"s": "seconds", "percentunit": "", "reqps": "requests/s", "short": "", "bytes": "bytes"}


def query(url, expression, start, end, step):
    """The series of an expression: (labels, times, values)."""
    # Four scrape intervals, as in Grafana's $__rate_interval.
    expression = expression.replace("$__rate_interval", "20s").replace("$instance", ".*")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:9090", help="Prometheus")
    parser.add_argument("--minutes", type=float, default=5.0, help="how far back")
    parser.add_argument("--output", type=Path, default=HERE / "prefold.png")
    arguments = parser.parse_args()
    end = time.time()
    start = end - 60 * arguments.minutes
    step = max(1.0, (end - start) / 300)
    panels = json.loads((HERE / "prefold.json").read_text())["panels"]
    figure, axes = plt.subplots(-(-len(panels) // 2), 2, figsize=(15, 2.6 * -(-len(panels) // 2)), layout="constrained")
    for axis, panel in zip(axes.flat, panels, strict=False):
        axis.set_title(panel["title"], fontsize=10, loc="left", fontweight="bold")
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=7)
        axis.set_xlim(0, end - start)
        draw = draw_heatmap if panel["type"] == "heatmap" else draw_lines
        draw(axis, panel, lambda expression: query(arguments.url, expression, start, end, step))
    for axis in axes[-1]:
        axis.set_xlabel("seconds", fontsize=8)
    figure.suptitle("prefold: the dashboard's queries, evaluated by Prometheus (not a screenshot of Grafana)", fontsize=11)
    # A palette takes a third of the bytes, and lines have few colours.
    figure.savefig(arguments.output, dpi=90)
    Image.open(arguments.output).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(arguments.output, optimize=True)


if __name__ == "__main__":
    main()
