"""Numbers in words: the same on the screen, in messages and in the report."""

import math
from collections.abc import Sequence

NOTHING = "not known"
DIGITS = 2
"""Significant digits of an estimate below one, at most."""

JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # part of words in Persian, Hindi and others


def number(value: float | None) -> str:
    """A count with one decimal where that says anything; what is there but tiny is not called nothing."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if 0.0 < abs(value) < 0.05:
        return f"{value:.1g}"
    return f"{value:,.1f}" if abs(round(value, 1)) < 10 and value != round(value) else f"{value:,.0f}"


def rounded(value: float, error: float | None) -> str:
    """Round an estimate so that its last digit is worth at least its Monte Carlo error; counts get one decimal."""
    if error is None or not math.isfinite(error) or error <= 0.0:
        return number(value)
    most = 1 if abs(value) >= 1.0 or value == 0.0 else DIGITS - 1 - math.floor(math.log10(abs(value)))
    places = min(-math.ceil(math.log10(error) - 1e-9), most)
    return f"{round(value, places):,.{max(places, 0)}f}"


def round_up(error: float) -> float:
    """Round an error up to one digit."""
    if not math.isfinite(error) or error <= 0.0:
        return error
    step = 10.0 ** math.floor(math.log10(error))
    return float(f"{math.ceil(error / step - 1e-9) * step:.1g}")


def two_digits(value: float) -> str:
    """A number to two digits, so that it does not tell the counts it comes from."""
    if value == 0.0 or not math.isfinite(value):
        return "0" if value == 0.0 else NOTHING
    rounded = round(value, 1 - math.floor(math.log10(abs(value))))
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"


def percent(share: float | None) -> str:
    """A share in percent, with one decimal below 10 and above 90; only nothing is called 0 %, only all 100 %."""
    if share is None or not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    value = round(100 * share, 1)
    return f"{value:.1f} %" if not 10 <= value <= 90 and value != round(value) else f"{100 * share:.0f} %"


def decimals(value: float | None, places: int = 3) -> str:
    """A plain number for tables of diagnostics."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:,.{places}f}"


def one_in(part: float, whole: float) -> str | None:
    """A share as people say it: "about 1 in 80"; None when there is next to nothing."""
    if part <= 0 or whole <= 0 or whole / part > 1e6:
        return None
    times = whole / part
    if times < 1.5:
        return "nearly all"
    digits = max(0, len(str(int(times))) - 2)
    return f"about 1 in {round(times, -digits):,.0f}"


def plural(count: int, word: str) -> str:
    """A number and its noun."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def enumerate_words(words: Sequence[str], last: str = "and") -> str:
    """Put commas between, and a word before the last."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours; no time is none at all."""
    if seconds < 90:
        return f"{max(seconds, 1.0):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def clean_name(name: object) -> str:
    """A name from the data without characters that hide or turn around what follows them."""
    return "".join(_clean_letter(letter) for letter in str(name))


def _clean_letter(letter: str) -> str:
    if letter.isspace():
        return " "
    return letter if letter.isprintable() or letter in JOINERS else "\N{REPLACEMENT CHARACTER}"
