"""Plot estimates against the truth, with intervals, as SVG and without a plotting library."""

from html import escape
from typing import Any

SIZE, MARGIN, LEGEND, FOOT = 340, 48, 190, 20
COLOURS = (
    *("#0b6e4f", "#c1440e", "#3b5bdb", "#a05195", "#b08900", "#1098ad", "#e8590c"),
    *("#5c5f66", "#862e9c", "#d6336c", "#66a80f", "#0c8599", "#495057"),
)
TICKS = 5
MOST = 3.0  # the axis of estimates ends at this many times the largest truth, so that one method does not flatten all
TAUS = ("tau1", "tau2")


def draw_plot(result: dict[str, Any]) -> str:
    """Return the plot: tau1 on the left, tau2 on the right; on the red line estimate and truth are equal.

    What lies above a frame is a triangle on its upper edge, and the legend counts those of each estimator.
    """
    width, height = 2 * (SIZE + MARGIN) + LEGEND, SIZE + 2 * MARGIN + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{width}" height="{height}" fill="white"/>'
    ]
    tops = {tau: _top(result, tau) for tau in TAUS}
    for place, tau in enumerate(TAUS):
        parts += _panel(result, tau, tops[tau], MARGIN + place * (SIZE + MARGIN))
    x, y = width - LEGEND + 14, MARGIN + 10
    for place, entry in enumerate(result["estimators"]):
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{COLOURS[place % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 10}" y="{y + 4}">{escape(entry["name"])}</text>')
        for note in _count_outside(entry, tops):
            y += 12
            parts.append(f'<text x="{x + 10}" y="{y + 3}" font-size="9" fill="#555">{note}</text>')
        y += 18
    if any("<path" in part for part in parts):
        parts.append(_triangle(MARGIN + 4, height - 12, "#555", filled=True))
        parts.append(_triangle(MARGIN + 16, height - 12, "#555", filled=False))
        parts.append(
            f'<text x="{MARGIN + 26}" y="{height - 12}" fill="#555">above the frame: estimate (filled), upper end of '
            "an interval (open)</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _top(result: dict[str, Any], tau: str) -> float:
    truth: list[float] = result["truth"][tau]
    values: list[float] = [x for entry in result["estimators"] for x in entry["estimates"][tau] if x is not None]
    return max(min(max([*truth, *values]), MOST * max(truth)), 1.0) * 1.05 + 0.5


def _count_outside(entry: dict[str, Any], tops: dict[str, float]) -> list[str]:
    """Say for each measure how many estimates lie above the frame, and up to where, unless none does."""
    notes = []
    for tau, top in tops.items():
        above = [value for value in entry["estimates"][tau] if value is not None and value > top]
        if above:
            notes.append(f"{tau}: {len(above)} above the frame, up to {max(above):,.3g}")
    return notes


def _panel(result: dict[str, Any], tau: str, top: float, left: float) -> list[str]:
    truth: list[float] = result["truth"][tau]
    first, last = max(0.95 * min(truth) - 0.5, 0.0), 1.05 * max(truth) + 0.5

    def across(value: float) -> float:
        return left + SIZE * (value - first) / (last - first)

    def down(value: float) -> float:
        return MARGIN + SIZE * (1.0 - min(value, top) / top)

    parts = [
        f'<rect x="{left}" y="{MARGIN}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#999"/>',
        f'<line x1="{left}" y1="{down(first):.1f}" x2="{left + SIZE}" y2="{down(last):.1f}" stroke="#c00"/>',
        f'<text x="{left + SIZE / 2}" y="{MARGIN - 14}" text-anchor="middle">{tau}: estimate against truth</text>',
        f'<text x="{left + SIZE / 2}" y="{MARGIN + SIZE + 32}" text-anchor="middle">truth</text>',
    ]
    for step in range(TICKS + 1):
        value, true = top * step / TICKS, first + (last - first) * step / TICKS
        parts.append(
            f'<text x="{across(true):.1f}" y="{MARGIN + SIZE + 16}" text-anchor="middle">{true:.3g}</text>'
            f'<text x="{left - 5}" y="{down(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
    for place, entry in enumerate(result["estimators"]):
        colour = COLOURS[place % len(COLOURS)]
        for true, estimate, interval in zip(truth, entry["estimates"][tau], entry["intervals"][tau], strict=True):
            if estimate is None:
                continue
            x = across(true)
            if interval is not None:
                low, high = down(interval[0]), down(interval[1])
                line = f'x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}"'
                parts.append(f'<line {line} stroke="{colour}" opacity="0.5"/>')
            if estimate > top or (interval is not None and interval[1] > top):
                parts.append(_triangle(x, MARGIN, colour, filled=estimate > top))
            if estimate <= top:
                parts.append(f'<circle cx="{x:.1f}" cy="{down(estimate):.1f}" r="3" fill="{colour}" opacity="0.8"/>')
    return parts


def _triangle(x: float, y: float, colour: str, filled: bool) -> str:
    """Draw a triangle that points up from its base on y."""
    fill = colour if filled else "white"
    return f'<path d="M{x - 4:.1f} {y} h8 l-4 -8 z" fill="{fill}" stroke="{colour}" opacity="0.8"/>'
