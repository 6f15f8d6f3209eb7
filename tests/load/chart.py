"""SVG charts of samples over time."""

import math
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 220, 70, 30, 40, 40


@dataclass
class Panel:
    """One quantity over time, with straight lines over parts of the time."""

    title: str
    points: list  # (seconds, value)
    lines: list = field(default_factory=list)  # ((seconds, value), (seconds, value))
    shade: tuple = (0, 0)  # Start and end, in seconds, of a marked period.


def ticks(low, high, count=5):
    """Round numbers from `low` to `high`."""
    span = (high - low) or 1.0
    power = 10 ** math.floor(math.log10(span / count))
    step = next(power * part for part in (1, 2, 5, 10) if span / (power * part) <= count)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def draw(panel, top):
    end = max(time for time, _ in panel.points) or 1
    high = max(value for _, value in panel.points) * 1.1 or 1
    x = lambda time: LEFT + (WIDTH - LEFT - RIGHT) * time / end  # noqa: E731
    y = lambda value: top + HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / high  # noqa: E731
    path = lambda points: " ".join(f"{x(time):.1f},{y(value):.1f}" for time, value in points)  # noqa: E731
    text = lambda at, anchor, content, rest="": (  # noqa: E731
        f"<text x='{at[0]:.1f}' y='{at[1]:.1f}' text-anchor='{anchor}'{rest}>{escape(content)}</text>")
    out = [text((LEFT, top + 22), "start", panel.title, " font-weight='bold'")]
    if panel.shade[1] > panel.shade[0]:
        left, right = map(x, panel.shade)
        size = f"width='{right - left:.1f}' height='{y(0) - y(high):.1f}'"
        out.append(f"<rect x='{left:.1f}' y='{y(high):.1f}' {size} fill='#eee'/>")
    for tick in ticks(0, high):
        out.append(f"<path d='M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}' stroke='#ddd'/>")
        out.append(text((LEFT - 8, y(tick) + 4), "end", f"{tick:g}"))
    out += [text((x(tick * 60), y(0) + 18), "middle", f"{tick:g} min") for tick in ticks(0, end / 60, 10)]
    out.append(f"<polyline points='{path(panel.points)}' fill='none' stroke='#4269d0'/>")
    for line in panel.lines:
        out.append(f"<polyline points='{path(line)}' fill='none' stroke='#d97706' stroke-width='2' stroke-dasharray='6 4'/>")
    return out


def svg(panels):
    """Chart of panels, one below the other."""
    height = HEIGHT * len(panels)
    return "\n".join([
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' font-size='12'>",
        "<rect width='100%' height='100%' fill='white'/>",
        *(part for i, panel in enumerate(panels) for part in draw(panel, HEIGHT * i)), "</svg>", ""])
