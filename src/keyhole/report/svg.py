"""SVG by hand: elements with everything escaped, linear scales, round ticks. Equal input gives equal bytes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 400.0
"""Drawn for a telephone; on a wide screen two stand side by side, so text never gets small."""


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """An element. `class_` is class and `text_anchor` is text-anchor; text is escaped, elements are not."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_write(value))}"' for key, value in attributes.items()
    )
    inner = "".join(str(escape(child)) for child in children)
    return Markup(f"<{name}{told}>{inner}</{name}>" if inner else f"<{name}{told}/>")


def picture(height: float, told: str, *children: str, width: float = WIDTH, stretch: bool = False) -> Markup:
    """A picture with its description for those who cannot see it. stretch: it has no text and may be widened alone."""
    title = element("title", told)
    box = f"0 0 {_write(width)} {_write(height)}"
    ratio = {"preserveAspectRatio": "none"} if stretch else {}
    return element("svg", title, *children, viewBox=box, role="img", class_="picture", **ratio)


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> Markup:
    """Text at a place; anchor: start, middle or end."""
    return element("text", words, x=x, y=y, text_anchor=anchor, **({"class_": class_} if class_ else {}))


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rectangle(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    """A rectangle; never of negative size."""
    return element("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=class_)


def polyline(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return element("polyline", points=" ".join(f"{_write(x)},{_write(y)}" for x, y in points), class_=class_)


@dataclass(frozen=True)
class Scale:
    """Numbers from low to high onto places from start to end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a number; what lies outside stays at the border."""
        if self.high <= self.low:
            return (self.start + self.end) / 2
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between low and high, at most so many."""
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
    """Ticks with as many decimals as they need, and no more."""
    places = next((p for p in range(6) if all(math.isclose(round(v, p), v, abs_tol=1e-9) for v in values)), 6)
    return [f"{value + 0.0:,.{places}f}" for value in values]


def axis(scale: Scale, y: float, words: str) -> Markup:
    """A horizontal axis with ticks, numbers and what they count."""
    values = ticks(scale.low, scale.high)
    parts = [line(scale.start, y, scale.end, y, "axis")]
    for value, told in zip(values, tick_words(values), strict=True):
        parts += [
            line(scale(value), y, scale(value), y + 4, "axis"),
            text(scale(value), y + 17, told, "tick", "middle"),
        ]
    parts.append(text((scale.start + scale.end) / 2, y + 35, words, "label", "middle"))
    return Markup("").join(parts)


def _write(value: str | float) -> str:
    """Numbers with one decimal at most: a tenth of a pixel is enough. Adding 0 turns -0 into 0."""
    return value if isinstance(value, str) else f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")
