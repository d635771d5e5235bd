"""Numbers in words, the same everywhere in a report."""

import math
from collections.abc import Sequence

NOTHING = "not known"
JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # part of words in Persian, Hindi and others


def number(value: float | None) -> str:
    """A number of people or records with one decimal where that says anything."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.1f}" if abs(round(value, 1)) < 10 and value != round(value) else f"{value:,.0f}"


def two_digits(value: float) -> str:
    """A number to two digits, so that it does not tell the counts it comes from."""
    if value == 0.0 or not math.isfinite(value):
        return "0" if value == 0.0 else NOTHING
    rounded = round(value, 1 - math.floor(math.log10(abs(value))))
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"


def percent(share: float | None) -> str:
    """A share in percent; what is there but rounds to nothing is not called nothing."""
    if share is None or not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.005:
        return "< 1 %"
    return f"{100 * share:.0f} %"


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
    """Seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
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
