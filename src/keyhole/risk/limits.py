"""Limits on a risk, written tau1=5, tau1.upper=5 or all.above.0.09=0, and whether a result is within them.

The mean is compared with the limit, or with `.upper` the upper end of the 95 % interval. A limit that is met exactly is
met.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from keyhole.errors import SettingsError

MEASURES = {
    "tau1": "population uniques among the sample uniques",
    "tau2": "correct matches expected among the sample uniques",
    "tau1.share": "tau1, divided by the number of records",
    "tau2.share": "tau2, divided by the number of records",
    "all.max": "the largest risk of a record",
    "all.mean": "the mean risk of all records",
    "all.matches": "correct matches expected among all records",
    "all.above": "records whose match risk is above a number, as in all.above.0.09",
    "all.k": "records in cells with fewer than k people, as in all.k.11",
}
"""The measures that may be limited. The risk of a record is E(1/F) of its cell."""

BLOCKS = {
    "all.max": "largest",
    "all.mean": "expected_matches",
    "all.matches": "expected_matches",
    "all.above": "exceeding",
    "all.k": "k",
}
"""The fields of the block `all_records` of a summary that hold them."""

SHARES = frozenset({"tau1.share", "tau2.share", "all.max", "all.mean"})
"""Measures that are at most 1, so that a limit of 1 or more would never be missed."""

SMALLEST_K, LARGEST_K = 2, 100
EXAMPLES = (
    "write tau1=5 for the mean or tau1.upper=5 for the upper end of the interval, with a limit of 0 or more; besides "
    "tau1 and tau2 there are all.matches, all.above.0.09 and all.k.11, and, with limits below 1, tau1.share, "
    "tau2.share, all.max and all.mean"
)

_NUMBER = r"[0-9.]+(?:[eE][+-]?[0-9]+)?"
_FORM = re.compile(
    rf"\s*(tau[12](?:\.share)?|all\.(?:max|mean|matches)|(all\.above)\.(0?\.[0-9]{{1,6}})|(all\.k)\.([0-9]{{1,3}}))"
    rf"(?:\.(mean|upper))?\s*=\s*({_NUMBER})\s*"
)


@dataclass(frozen=True)
class Limit:
    """A limit on a risk.

    measure: one of MEASURES; threshold: the largest value that meets the limit; upper: whether the upper end of the
    interval is judged, otherwise the mean.
    at: the risk of all.above, or the k of all.k.
    """

    measure: str
    threshold: float
    upper: bool = False
    at: float | None = None

    @property
    def name(self) -> str:
        """The measure as it is written, without `.upper`."""
        return self.measure if self.at is None else f"{self.measure}.{self.at:g}"

    @property
    def text(self) -> str:
        """The limit as `parse_limit` reads it."""
        short = f"{self.threshold:g}"
        number = short if float(short) == self.threshold else repr(self.threshold)
        return f"{self.name}{'.upper' if self.upper else ''}={number}"

    @property
    def needs_all_records(self) -> bool:
        """Whether the risk of every record is judged, not only that of the sample uniques."""
        return self.measure in BLOCKS

    @property
    def per_record(self) -> bool:
        """Whether the measure is divided by the number of records."""
        return self.measure in SHARES and self.measure != "all.max"

    @property
    def judged(self) -> str:
        """What of the risk is compared, in words."""
        return "the upper end of the interval" if self.upper else "the mean"

    def value(self, numbers: Mapping[str, Any]) -> float:
        """Return what is compared with the limit; numbers: a summary, or its blocks tau1, tau2, input, all_records."""
        found = find_estimate(self, numbers)
        return float(found["interval"][1] if self.upper else found["mean"])

    def met(self, numbers: Mapping[str, Any]) -> bool:
        """Return whether the limit is met."""
        return self.value(numbers) <= self.threshold

    def describe(self, numbers: Mapping[str, Any]) -> str:
        """Say by how much the limit is exceeded."""
        value = self.value(numbers)
        return f"{self.name} is {value:.4g} ({self.judged}), {value - self.threshold:.3g} above {self.threshold:g}"


def find_estimate(limit: Limit, numbers: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return mean and interval of the measure of a limit."""
    if limit.needs_all_records:
        block = numbers.get("all_records")
        if block is None:
            raise SettingsError(f"{limit.name}: this result does not have the risk of every record")
        found = block[BLOCKS[limit.measure]]
        if limit.at is not None:
            if f"{limit.at:g}" not in found:
                raise SettingsError(f"{limit.name} was not computed in this result, which has {', '.join(found)}")
            found = found[f"{limit.at:g}"]
    else:
        found = numbers[limit.measure.removesuffix(".share")]
    parts = max(int(numbers["input"]["used"]), 1) if limit.per_record else 1
    return {"mean": found["mean"] / parts, "interval": tuple(end / parts for end in found["interval"])}


def parse_limit(text: str) -> Limit | None:
    """Return a limit, or None if the text is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    try:
        threshold = float(found[7])
    except ValueError:
        return None
    measure, at = found[1], None
    if found[2] is not None:
        measure, at = found[2], float(found[3])
        valid = 0.0 < at < 1.0
    elif found[4] is not None:
        measure, at = found[4], float(found[5])
        valid = SMALLEST_K <= at <= LARGEST_K
    else:
        valid = True
    if not valid or not 0.0 <= threshold < math.inf or (measure in SHARES and threshold >= 1.0):
        return None
    return Limit(measure, threshold, found[6] == "upper", at)


def parse_limits(texts: Iterable[str], option: str = "limit") -> list[Limit]:
    """Return the limits; all mistakes are reported at once, under the name of the option that they were given to."""
    found = {text: parse_limit(text) for text in texts}
    wrong = [text.strip() for text, limit in found.items() if limit is None]
    if wrong:
        raise SettingsError(f"{option} {', '.join(wrong)}: {EXAMPLES}")
    return [limit for limit in found.values() if limit is not None]


def read_limits(given: Any, option: str = "limit") -> list[Limit]:
    """Return the limits of a text, a limit, a mapping such as {"tau1.upper": 10}, or a list of these."""
    if isinstance(given, Limit):
        return [given]
    if isinstance(given, str):
        return parse_limits([given], option)
    if isinstance(given, Mapping):
        return parse_limits([f"{name}={value}" for name, value in given.items()], option)
    if not isinstance(given, Iterable):
        raise SettingsError(f"`{option}`: {EXAMPLES}")
    return [limit for item in given for limit in read_limits(item, option)]


def exceeded(limits: Iterable[Limit], numbers: Mapping[str, Any]) -> list[str]:
    """Describe the limits that are exceeded."""
    return [limit.describe(numbers) for limit in limits if not limit.met(numbers)]
