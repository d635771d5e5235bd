"""Bands: turn a numeric key into categories, by lower limits (`0,15,30`) or by equal widths (`5y`).

A band includes its lower limit and excludes the next one. Whole-number limits are named 0-14, 75+ and so on; the
last band is open. Bands of equal width start at multiples of the width and span the observed values.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.categories import order_categories, value_texts
from keyhole.data.variables import BLANK, Variable
from keyhole.errors import InputError, SettingsError
from keyhole.files import NUMBER

WIDTH = re.compile(r"(\d+(?:\.\d+)?)y")
MOST_BANDS = 1000
REMEDY = "write the lower limits, as in 0,15,30,45, or a width, as in 5y"


@dataclass(frozen=True)
class Bands:
    """How one key is cut: by its lower limits, or by a width if there are none. text: the specification as given."""

    name: str
    text: str
    limits: tuple[float, ...] = ()
    width: float = 0.0


def read_bands(bands: Mapping[str, Any] | None) -> dict[str, Bands]:
    """Parse the specification of each key: text such as "5y" or "0,15,30", or a list of lower limits."""
    if bands is None:
        return {}
    if not isinstance(bands, Mapping):
        raise SettingsError("bands must map keys to limits, for instance {'AGE': '5y'} or {'AGE': [0, 15, 30]}")
    return {str(name): _read(str(name), entry) for name, entry in bands.items()}


def _read(name: str, entry: Any) -> Bands:
    invalid = SettingsError(f"`bands` {name}: {REMEDY}")
    if not isinstance(entry, str):
        if isinstance(entry, Mapping) or not isinstance(entry, Sequence):
            raise invalid
        entry = ",".join(str(limit) for limit in entry)
    text = "".join(entry.split())
    found = WIDTH.fullmatch(text)
    if found is not None:
        width = float(found[1])
        if not 0.0 < width < math.inf:
            raise SettingsError(f"`bands` {name}: the width must be above 0")
        return Bands(name, text, width=width)
    try:
        limits = tuple(float(limit) for limit in text.split(","))
    except ValueError:
        raise invalid from None
    if not all(math.isfinite(limit) for limit in limits):
        raise invalid
    if len(limits) == 1:
        # A single limit puts every value into one band, which is hardly ever meant: the key would be left out.
        guess = f"did you mean {text}y (bands of width {text}, whatever the unit)?" if limits[0] > 0 else REMEDY
        raise SettingsError(f"`bands` {name}: {text} is a single lower limit, so there is one band; {guess}")
    if any(low >= high for low, high in itertools.pairwise(limits)):
        raise SettingsError(f"`bands` {name}: the limits must rise, as in 0,15,30,45")
    if len(limits) > MOST_BANDS:
        raise SettingsError(f"`bands` {name}: {len(limits)} bands exceed the maximum of {MOST_BANDS}; use fewer limits")
    return Bands(name, text, limits=limits)


def cut(
    column: pl.Series, bands: Bands, special: Mapping[str, str], where: str, rows: NDArray[np.int64]
) -> tuple[pl.Series, Variable]:
    """Replace numbers by the names of their bands; blanks stay blank.

    special: codes and labels that are reasons rather than numbers, such as 99 "not stated". Those observed stay
    separate categories, listed after the bands. rows: the input row of each value, from 0.
    """
    column = column.fill_nan(None) if column.dtype.is_float() else column
    values = column.drop_nulls().unique(maintain_order=True)
    texts = value_texts(values)
    excluded = {BLANK, *special}
    readable = [text if NUMBER.fullmatch(text) else "inf" for text in texts]
    number = np.array(
        [math.nan if a in excluded else float(b) for a, b in zip(texts, readable, strict=True)], np.float64
    )
    finite = np.isfinite(number)

    def refuse_first(wrong: NDArray[np.bool_], problem: str) -> None:
        """Name the first row with one of the values marked in `wrong`, never the value."""
        if wrong.any():
            hit = column.is_in(values.filter(pl.Series(wrong)).implode()).fill_null(value=False)
            row = rows[int(hit.arg_max() or 0)] + 1
            raise InputError(f"{where} row {row}, column '{column.name}': the value {problem}.")

    refuse_first(np.isinf(number), "is not a number and has no band: correct the row, or omit `bands` for this key")
    limits = find_limits(number[finite], bands, where)
    place = np.searchsorted(limits, number, side="right") - 1
    refuse_first(finite & (place < 0), "is below the lowest limit of `bands`: add a lower limit, or correct the row")
    names = _names(limits.tolist(), bands.width)
    written = [names[k] if banded else (text or None) for text, k, banded in zip(texts, place, finite, strict=True)]
    extra = [code for code in order_categories(set(texts) & set(special)) if code not in names]
    variable = Variable(column.name, (*names, *extra), (*names, *(special[code] for code in extra)) if extra else None)
    if not len(values):
        return column.cast(pl.String), variable
    return column.replace_strict(values, written, default=None, return_dtype=pl.String), variable


def find_limits(number: NDArray[np.float64], bands: Bands, where: str) -> NDArray[np.float64]:
    """Return the lower limits: multiples of a width run from the band of the lowest number to that of the highest."""
    if bands.limits:
        return np.array(bands.limits)
    if not len(number):
        return np.empty(0)
    width = Decimal(bands.text.removesuffix("y"))
    first, last = (math.floor(Decimal(str(end)) / width) for end in (number.min(), number.max()))
    if last - first >= MOST_BANDS:
        raise InputError(
            f"{where}: `bands` {bands.name}={bands.text} makes more than {MOST_BANDS} bands: choose a larger width."
        )
    return np.array([float(k * width) for k in range(first, last + 1)])


def _names(limits: list[float], width: float) -> list[str]:
    """Name the bands: 0-14 and 75+; 0.5 to <1 if limits have fractions; -10 to -1 if the first is negative."""
    whole = all(limit.is_integer() for limit in limits) and width.is_integer()
    ends = [*limits[1:], limits[-1] + width] if width and limits else limits[1:]
    names = []
    for low, high in zip(limits, ends, strict=False):
        if not whole:
            names.append(f"{low:g} to <{high:g}")
        elif high - low == 1:
            names.append(f"{low:.0f}")
        else:
            names.append(f"{low:.0f}{' to ' if limits[0] < 0 else '-'}{high - 1:.0f}")
    return names if width else [*names, f"{limits[-1]:g}+"]
