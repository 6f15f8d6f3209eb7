"""Results as Markdown, in the format of docs/benchmarks.md."""

from rounds import ratios, spread


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def shown(values):
    """`median (low to high)`."""
    low, high = number(values["low"]), number(values["high"])
    return number(values["median"]) + (f" ({low} to {high})" if low != high else "")


def table(header, rows):
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def compared(rows, unit):
    """Rows {"name", "prefold", "dtype", "rounds"} with the ratio of each prefold row to each other row of the same round, and a
    summary: each prefold row against the fastest peer, and against the fastest peer of its dtype."""
    own = [row for row in rows if row["prefold"]]
    peers = [row for row in rows if not row["prefold"]]
    header = ["", f"{unit}, median (range)"] + [f"{row['name']} : it" for row in own]
    body = [[row["name"], shown(spread(row["rounds"]))] + [("" if row["prefold"] else shown(ratios(mine["rounds"], row["rounds"])))
                                                            for mine in own] for row in rows]
    if any("cosine" in row for row in rows):
        header.insert(2, "cosine to float32, mean and least")
        for cells, row in zip(body, rows):
            cells.insert(2, "{:.4f}, {:.4f}".format(*row["cosine"]))
    return table(header, body) + "\n\n" + "\n".join(verdicts(own, peers))


def verdicts(own, peers):
    lines = []
    for mine in own:
        for what, group in (("peer", peers), (f"{mine['dtype']} peer", [row for row in peers if row["dtype"] == mine["dtype"]])):
            if group:
                best = max(group, key=lambda row: spread(row["rounds"])["median"])
                lines.append(f"- {mine['name']}: {shown(ratios(mine['rounds'], best['rounds']))} times the fastest {what} ({best['name']})")
    return lines
