"""The pictures of a report, as SVG. Shapes and shades differ as colours do, so they can be read in black and white.

Everything is escaped, and equal input gives equal bytes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from keyhole.report.content import ChainsPicture, CheckRow, Distribution, Estimate, Source
from keyhole.words import number, percent

WIDTH = 400.0
"""For a telephone. On a wide screen two pictures are side by side, so that text never gets small."""


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """Return an element. `class_` is class and `text_anchor` is text-anchor; text is escaped, elements are not."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_write(value))}"' for key, value in attributes.items()
    )
    inner = "".join(str(escape(child)) for child in children)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def picture(height: float, description: str, *children: str, width: float = WIDTH, stretch: bool = False) -> Markup:
    """Return a picture with a description for screen readers. stretch: without text, so only its width may grow."""
    title = element("title", description)
    box = f"0 0 {_write(width)} {_write(height)}"
    ratio = {"preserveAspectRatio": "none"} if stretch else {}
    return element("svg", title, *children, viewBox=box, role="img", class_="picture", **ratio)


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> Markup:
    """Return text; anchor: start, middle or end."""
    return element("text", words, x=x, y=y, text_anchor=anchor, **({"class_": class_} if class_ else {}))


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rectangle(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    """Return a rectangle; sizes below 0 are 0."""
    return element("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=class_)


def polyline(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    return element("polyline", points=" ".join(f"{_write(x)},{_write(y)}" for x, y in points), class_=class_)


@dataclass(frozen=True)
class Scale:
    """Maps numbers from low to high to places from start to end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a number; numbers outside are placed at the border."""
        if self.high <= self.low:
            return (self.start + self.end) / 2
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers between low and high, at most `most` of them."""
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20, 50):
        places = [
            n * step * factor for n in range(math.ceil(low / (step * factor)), math.floor(high / (step * factor)) + 1)
        ]
        if len(places) <= most:
            return places
    return [low, high]


def tick_words(values: Sequence[float]) -> list[str]:
    """Write ticks with as many decimals as they need, and no more."""
    places = next((p for p in range(6) if all(math.isclose(round(v, p), v, abs_tol=1e-9) for v in values)), 6)
    return [f"{value + 0.0:,.{places}f}" for value in values]


def axis(scale: Scale, y: float, words: str) -> Markup:
    """Return a horizontal axis with ticks, numbers and a label."""
    values = ticks(scale.low, scale.high)
    parts = [line(scale.start, y, scale.end, y, "axis")]
    for value, label in zip(values, tick_words(values), strict=True):
        x = scale(value)
        parts += [line(x, y, x, y + 4, "axis"), text(x, y + 17, label, "tick", "middle")]
    parts.append(text((scale.start + scale.end) / 2, y + 35, words, "label", "middle"))
    return Markup("").join(parts)


def _write(value: str | float) -> str:
    """Write numbers with one decimal at most: a tenth of a pixel is enough. Adding 0 turns -0 into 0."""
    return value if isinstance(value, str) else f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


MARGIN = 12.0
STRIP = 46.0


def draw_verdict(source: Source, tau1: Estimate) -> Markup | None:
    """Draw a bar of all records alone in the sample, and in it those alone in the population."""
    whole = source.sample_uniques.value
    if not whole or tau1.mean is None or tau1.high is None or tau1.low is None:
        return None
    # The whole is rounded, so the part may be larger.
    scale = Scale(0.0, max(float(whole), tau1.high), 0.0, 800.0)
    return picture(
        26.0,
        f"Of {source.sample_uniques.text} records alone in the sample, {tau1.about} are alone in the population",
        rectangle(0.5, 0.5, 799.0, 17.0, "whole"),
        *([rectangle(0.5, 0.5, scale(tau1.mean), 17.0, "part")] if tau1.pooled else []),
        rectangle(scale(tau1.low), 20.0, scale(tau1.high) - scale(tau1.low), 6.0, "range"),
        width=800.0,
        stretch=True,
    )


def draw_distribution(found: Distribution) -> Markup:
    """Draw the predictive distribution: bars inside the interval are dark, those outside pale."""
    edges, shares = found.edges, found.shares
    low, high = _ends(found.estimate)
    scale = Scale(min(edges[0], low), max(edges[-1], high), MARGIN, WIDTH - MARGIN)
    bottom, top = 150.0, 46.0
    tallest = max(shares) or 1.0
    # A bar is inside when its middle or a limit is: bars of counts are centred on the counts.
    bars = []
    for left, right, share in zip(edges[:-1], edges[1:], shares, strict=True):
        height = share / tallest * (bottom - top)
        inside = low <= (left + right) / 2 <= high or (left <= low <= right) or (left <= high <= right)
        wide = scale(right) - scale(left)
        class_ = "inside" if inside else "outside"
        bars.append(rectangle(scale(left), bottom - height, wide - min(1.0, wide / 4), height, class_))
    mean = found.estimate.mean or 0.0
    words = f"{percent(found.level)} between {number(low)} and {number(high)}"
    middle = min(max(scale((low + high) / 2), 100.0), WIDTH - 100.0)
    return picture(
        195.0,
        f"{found.name}: {found.estimate.about} {found.of_what}",
        *bars,
        line(scale(low), 32.0, scale(high), 32.0, "whisker"),
        line(scale(low), 27.0, scale(low), 37.0, "whisker"),
        line(scale(high), 27.0, scale(high), 37.0, "whisker"),
        *([element("circle", cx=scale(mean), cy=32.0, r=5.0, class_="dot")] if found.estimate.pooled else []),
        text(middle, 17.0, words, "strong", "middle"),
        axis(scale, bottom, found.of_what),
    )


def draw_traces(found: ChainsPicture) -> Markup:
    """Draw a trace for each chain, all on one scale."""
    values = [value for chain in found.chains for value in chain.trace]
    low, high = min(values), max(values)
    longest = max(len(chain.trace) for chain in found.chains)
    across = Scale(0.0, max(1.0, longest - 1.0), 44.0, WIDTH - MARGIN)
    parts = []
    for place, chain in enumerate(found.chains):
        top = place * (STRIP + 20.0) + 20.0
        up = Scale(low, high, top + STRIP, top)
        parts += [
            text(44.0, top - 6.0, chain.label, "label"),
            rectangle(44.0, top, WIDTH - MARGIN - 44.0, STRIP, "frame"),
            text(38.0, top + 9.0, number(high), "tick", "end"),
            text(38.0, top + STRIP, number(low), "tick", "end"),
            polyline([(across(x), up(value)) for x, value in enumerate(chain.trace)], "trace"),
        ]
    bottom = len(found.chains) * (STRIP + 20.0) + 18.0
    return picture(
        bottom + 6.0,
        f"Draws of {found.name} in order, chain by chain",
        *parts,
        text(WIDTH / 2 + 16, bottom, f"draws, first to last ({found.draws:,})", "label", "middle"),
    )


def draw_ranks(found: ChainsPicture) -> Markup:
    """Draw the ranks of each chain's draws among all: bars near the dashed line when chains agree."""
    bins = len(found.chains[0].ranks)
    tallest = max(2.0 / bins, max(share for chain in found.chains for share in chain.ranks))
    wide = (WIDTH - MARGIN - 44.0) / bins
    parts = []
    for place, chain in enumerate(found.chains):
        top = place * (STRIP + 20.0) + 20.0
        up = Scale(0.0, tallest, top + STRIP, top)
        parts.append(text(44.0, top - 6.0, chain.label, "label"))
        parts += [
            rectangle(44.0 + k * wide, up(share), wide - 1.0, top + STRIP - up(share), "inside")
            for k, share in enumerate(chain.ranks)
        ]
        parts += [
            line(44.0, top + STRIP, WIDTH - MARGIN, top + STRIP, "axis"),
            line(44.0, up(1.0 / bins), WIDTH - MARGIN, up(1.0 / bins), "level"),
        ]
    bottom = len(found.chains) * (STRIP + 20.0) + 18.0
    return picture(
        bottom + 6.0,
        f"Ranks of {found.name}, chain by chain, with the line at which all chains would be equal",
        *parts,
        text(WIDTH / 2 + 16, bottom, "rank among all draws, lowest to highest", "label", "middle"),
    )


def draw_agreement(found: ChainsPicture, together: Estimate) -> Markup:
    """Draw each chain's own estimate below that of all chains."""
    rows = [("All chains", together), *((chain.label, chain.own) for chain in found.chains)]
    lows, highs = zip(*(_ends(own) for _, own in rows), strict=True)
    pad = 0.05 * (max(highs) - min(lows)) or 0.5
    scale = Scale(max(0.0, min(lows) - pad), max(highs) + pad, MARGIN, WIDTH - MARGIN)
    parts = []
    for place, (label, own) in enumerate(rows):
        y = 30.0 + place * 36.0
        low, high = _ends(own)
        shape = "dot" if place else "diamond"
        parts += [
            text(MARGIN, y - 12.0, f"{label}: {own.text}", "label" if place else "strong"),
            line(scale(low), y, scale(high), y, "whisker"),
            *([_mark(scale(own.mean or 0.0), y, shape)] if own.pooled else []),
        ]
    bottom = 30.0 + len(rows) * 36.0 - 20.0
    return picture(
        bottom + 42.0,
        f"{found.name} by each chain alone",
        *parts,
        axis(scale, bottom, f"{found.of_what} ({found.name})"),
    )


def draw_check(row: CheckRow) -> Markup:
    """Draw what the model expects as a bar, and what the file has as a diamond."""
    low, high = _ends(row.expected)
    seen = [low, high] if row.observed.value is None else [low, high, float(row.observed.value)]
    pad = 0.15 * (max(seen) - min(seen)) or 0.5
    scale = Scale(min(seen) - pad, max(seen) + pad, 8.0, 152.0)
    marks = [line(scale(low), 12.0, scale(high), 12.0, "band")]
    if row.observed.value is not None:
        marks.append(_mark(scale(float(row.observed.value)), 12.0, "diamond"))
    description = f"{row.name}: the file has {row.observed.text}, the model expects {number(low)} to {number(high)}"
    return picture(24.0, description, *marks, width=160.0)


def draw_bar(share: float, description: str) -> Markup:
    """Draw a bar for one row of a table, from none to all."""
    part = rectangle(0.0, 0.0, 100.0 * min(max(share, 0.0), 1.0), 12.0, "part")
    return picture(12.0, description, rectangle(0.0, 0.0, 100.0, 12.0, "whole"), part, width=100.0)


def _mark(x: float, y: float, shape: str) -> Markup:
    if shape == "dot":
        return element("circle", cx=x, cy=y, r=5.0, class_="dot")
    return element("path", d=f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z", class_="diamond")


def _ends(found: Estimate) -> tuple[float, float]:
    low = found.low if found.low is not None else 0.0
    return low, found.high if found.high is not None else low
