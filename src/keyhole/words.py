"""Numbers in words, the same on the screen, in messages and in the report; and options as flags.

`keyhole --help` loads this module, so what is slow to import is imported where it is used.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keyhole.errors import SettingsError

NOTHING = "not known"
DIGITS = 2
"""Significant digits of an estimate below one, at most."""

NEGLIGIBLE = 0.01
"""Below this an expected number of people, with an interval from zero to zero, is worded as none."""

JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # part of words in Persian, Hindi and others

OPTIONS = frozenset((
    "no_browser", "port",
    "accept", "allocation", "allow_identifier", "at_most", "band", "blank", "bottom", "chains", "codebook",
    "config", "count", "count_cells", "csv", "data", "drop", "drop_columns", "drop_contradictions", "estimator",
    "estimators", "fail_above", "false_discovery", "fraction", "hierarchy", "household", "ignore_strata",
    "importance", "internal", "json", "keep", "keep_data", "keys", "levels", "limit", "max_sweeps", "mc_draws",
    "merge", "missing", "model", "na", "order", "ordered", "out", "overwrite", "plan", "policy", "population",
    "possible", "prior", "profiles", "query", "quick", "quiet", "raw_labels", "remove", "replicates", "resume",
    "sample", "sample_size", "scheduler", "seed", "self_check", "shuffle", "strata", "strata_sizes", "subsample",
    "suppress", "target_ess", "time_limit", "title", "top", "unordered", "url", "user_missing", "weight",
    "weight_classes", "with_keys", "workers", "zeros",
))  # fmt: skip
"""Names of the options of all commands. Listed here because importing the commands is slow."""

GROUPED = re.compile(
    r"[0-9]{1,3}(?:([,_' \N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}])[0-9]{3})(?:\1[0-9]{3})*"
)
"""Digits in groups of three. A point may also be a decimal one, so it is not among the separators."""

RENAMED = {"bands": "band", "recode": "merge"}
"""Options of Python that have another name on the command line."""


_NAME = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^,|]*?))\s*([,|]|$)""")
"""The name of a category and what separates it from the next. A quote counts only where it encloses a whole name."""


def read_groups(text: str) -> list[list[str]]:
    """Turn 1,2|3,4 into lists of categories; nothing if a name without quotes is empty."""
    groups: list[list[str]] = [[]]
    place, separator = 0, ","
    while separator:
        found = _NAME.match(text, place)
        if found is None or found[3] == "":
            return []
        groups[-1].append(next(name for name in found.groups()[:3] if name is not None))
        place, separator = found.end(), found[4]
        if separator == "|":
            groups.append([])
    return groups


def write_groups(groups: Iterable[Iterable[str]]) -> str:
    """Write lists of categories as `read_groups` reads them."""
    return "|".join(",".join(map(_quote_name, group)) for group in groups)


def _quote_name(name: str) -> str:
    """Quote a category where it would be read otherwise."""
    if name and not set(name) & set(",|'\"") and name == name.strip():
        return name
    return f'"{name}"' if "'" in name else f"'{name}'"


def as_flags(text: str) -> str:
    """Write options, which library messages name in backticks, as flags: `time_limit` as --time-limit."""
    return re.sub("`([a-z_]+)`", _as_flag, text)


def _as_flag(found: re.Match[str]) -> str:
    name = RENAMED.get(found[1], found[1])
    return f"--{name.replace('_', '-')}" if name in OPTIONS else found[0]


def split_pair(text: str) -> tuple[str, str] | None:
    """Turn KEY=text into the two, or return None."""
    name, equals, rest = text.partition("=")
    return (name.strip(), rest.strip()) if equals and name.strip() and rest.strip() else None


def read_people(text: str) -> int:
    """Read a number of people, with or without separators of thousands; what could be another one is refused."""
    text = text.strip()
    if GROUPED.fullmatch(text):
        text = re.sub("[^0-9]", "", text)
    if not re.fullmatch("-?[0-9]+", text):
        raise SettingsError(f"'{text}' is not a whole number: write 20293, 20,293 or 20_293.")
    return int(text)


def read_share(text: str) -> float:
    """Read a share, also in percent."""
    text = text.strip()
    try:
        return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        raise SettingsError(f"'{text}' is not a share: write 0.05 or 5%.") from None


def number(value: float | None) -> str:
    """Write a count, with one decimal below ten; a tiny one is not shown as 0."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if 0.0 < abs(value) < 0.05:
        return f"{value:.1g}"
    return f"{value:,.1f}" if abs(round(value, 1)) < 10 and value != round(value) else f"{value:,.0f}"


def rounded(value: float, error: float | None) -> str:
    """Write an estimate whose last digit is worth at least its Monte Carlo error; counts get one decimal at most."""
    if error is None or not math.isfinite(error) or error <= 0.0:
        return number(value)
    most = 1 if abs(value) >= 1.0 or value == 0.0 else DIGITS - 1 - math.floor(math.log10(abs(value)))
    places = min(-math.ceil(math.log10(error) - 1e-9), most)
    return f"{round(value, places):,.{max(places, 0)}f}"


def expects_none(mean: float, error: float | None, interval: Sequence[float]) -> bool:
    """Whether an estimate with an interval from zero to zero would be written as zero, or is as good as zero."""
    return not any(interval) and (mean < NEGLIGIBLE or float(rounded(mean, error).replace(",", "")) == 0.0)


def round_up(error: float) -> float:
    """Round an error up to one digit."""
    if not math.isfinite(error) or error <= 0.0:
        return error
    step = 10.0 ** math.floor(math.log10(error))
    return float(f"{math.ceil(error / step - 1e-9) * step:.1g}")


def two_digits(value: float) -> str:
    """Write a number to two digits, so that it does not reveal the counts it was computed from."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0.0:
        return "0"
    rounded = round(value, 1 - math.floor(math.log10(abs(value))))
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"


def percent(share: float | None) -> str:
    """Write a share in percent, with one decimal below 10 and above 90; only 0 is shown as 0 %, only 1 as 100 %."""
    if share is None or not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    value = round(100 * share, 1)
    return f"{value:.1f} %" if not 10 <= value <= 90 and value != round(value) else f"{100 * share:.0f} %"


def percents(shares: Sequence[float]) -> list[str]:
    """Write the shares of one column in percent, all with one decimal if some need it."""
    found = [percent(share) for share in shares]
    if not any("." in text for text in found if text[0] not in "<>"):
        return found
    usual = [
        share is not None and math.isfinite(share) and text[0] not in "<>"
        for share, text in zip(shares, found, strict=True)
    ]
    return [f"{100 * x:.1f} %" if use else text for x, text, use in zip(shares, found, usual, strict=True)]


def decimals(value: float | None, places: int = 3) -> str:
    """Write a number for tables of diagnostics."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:,.{places}f}"


def at_most(value: float) -> str:
    """Write an upper bound; one below 1 with two digits, so that it is not rounded past a limit."""
    return f"at most {two_digits(value) if value < 1.0 else number(value)}"


def one_in(part: float, whole: float) -> str | None:
    """Write a share as "about 1 in 80"; None when it is below one in a million."""
    if part <= 0 or whole <= 0 or whole / part > 1e6:
        return None
    times = whole / part
    if times < 1.5:
        return "nearly all"
    digits = max(0, len(str(int(times))) - 2)
    return f"about 1 in {round(times, -digits):,.0f}"


def interval_words(ends: Sequence[float]) -> str:
    """Write the two ends of an interval."""
    return f"{number(ends[0])} to {number(ends[1])}"


def with_interval(estimate: Mapping[str, Any]) -> str:
    """Write a mean with its interval in brackets."""
    return f"{number(estimate['mean'])} ({interval_words(estimate['interval'])})"


def first_few(items: Sequence[object], most: int) -> str:
    """Join the first items with commas, and say how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint at the nearest of these names, to be put behind a message; empty if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(names), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def plural(count: int, word: str) -> str:
    """Write a number and its noun."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def enumerate_words(words: Sequence[str], last: str = "and") -> str:
    """Join words with commas, and with `last` before the last."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def duration(seconds: float) -> str:
    """Write seconds, minutes or hours; at least one second."""
    if seconds < 90:
        return f"{max(seconds, 1.0):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def command_line(words: Sequence[str]) -> str:
    """Join the words of a command for the shell of this system."""
    if os.name == "nt":
        from subprocess import list2cmdline

        return list2cmdline(words)
    from shlex import join

    return join(words)


def clean_name(name: object) -> str:
    """Replace characters of a name that are invisible or reverse the text after them."""
    return "".join(_clean_letter(letter) for letter in str(name))


def _clean_letter(letter: str) -> str:
    if letter.isspace():
        return " "
    return letter if letter.isprintable() or letter in JOINERS else "\N{REPLACEMENT CHARACTER}"
