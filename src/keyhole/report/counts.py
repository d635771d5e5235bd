"""How a count of records may be shown.

Safe: below 10 as "<10", zero included, otherwise rounded to 5. The exact value is not kept, so that nothing made from
a Count can tell more than the Count itself. Estimates and their intervals are not counts and are shown as they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

SMALLEST = 10
STEP = 5


@dataclass(frozen=True)
class Count:
    """A count as it is shown; value is None where only "<10" may be told."""

    value: int | None
    text: str

    @property
    def in_a_sentence(self) -> str:
        """The count as a sentence says it."""
        return f"fewer than {SMALLEST}" if self.value is None else self.text


Rule = Callable[[int], Count]


def count_safely(exact: int) -> Count:
    """Forget what could tell of single records."""
    if exact < SMALLEST:
        return Count(None, f"<{SMALLEST}")
    rounded = STEP * round(exact / STEP)
    return Count(rounded, f"{rounded:,}")


def count_exactly(exact: int) -> Count:
    """Show the count as it is: for the owner's own report."""
    return Count(int(exact), f"{exact:,}")


def round_population(population: int, records: int) -> int:
    """Round N so coarsely that the number of records cannot be worked out from it when a fraction was given."""
    grain: int = 10 ** math.ceil(math.log10(max(1.0, STEP * population / max(records, 1))))
    return max(grain, grain * round(population / grain))
