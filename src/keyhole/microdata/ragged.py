"""Rows with more values than there are columns, where not all columns are read: polars then looks at no other.

A fast look at the bytes says whether there may be such a row; the csv module then says which. Within quotes neither
delimiters nor line ends count, and a quote may stand only at the beginning of a value: where one does not, the csv
module looks at every row.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 22
QUOTE, NEWLINE, RETURN = b'"\n\r'


def may_have_long_rows(source: Path | bytes, delimiter: str, width: int) -> bool:
    """Say whether a row may have more than `width` values; false only if none has."""
    before, inside, found = NEWLINE, False, 0
    for chunk in _chunks(source):
        content = np.frombuffer(chunk, np.uint8)
        ends, cuts = content == NEWLINE, content == ord(delimiter)
        quote = content == QUOTE
        if inside or quote.any():
            places = np.flatnonzero(quote)
            opening = places[1 if inside else 0 :: 2]
            ahead = np.where(opening > 0, content[opening - 1], before)
            if not np.isin(ahead, (QUOTE, NEWLINE, RETURN, ord(delimiter))).all():
                return True
            outside = (np.cumsum(quote) + inside) % 2 == 0
            ends &= outside
            cuts &= outside
            inside = bool((len(places) + inside) % 2)
        counted = np.cumsum(cuts)
        longest, found = _longest(counted, ends, found)
        if longest >= width:
            return True
        before = int(content[-1])
    return found >= width


def _longest(counted: NDArray[np.int64], ends: NDArray[np.bool_], found: int) -> tuple[int, int]:
    """Return the most delimiters of a row that ends here, and those of the row that does not yet."""
    at_end = counted[ends]
    if not len(at_end):
        return 0, found + int(counted[-1])
    most = int(max(at_end[0] + found, np.diff(at_end).max(initial=0)))
    return most, int(counted[-1] - at_end[-1])


def _chunks(source: Path | bytes) -> Iterator[bytes]:
    stream: BinaryIO = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
    with stream:
        while chunk := stream.read(CHUNK):
            yield chunk
