"""Read delimited text: the delimiter is detected, and every value stays text.

Polars ignores surplus values of a row if not all columns are read. So a fast scan of the bytes checks whether a row
may have too many values, and only then the csv module looks for it. The scan skips delimiters and line ends between
quotes; if a quote is not at the start of a value, the csv module checks every row.
"""

import contextlib
import csv
import io
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.categories import compact
from keyhole.data.columns import find_columns, is_name
from keyhole.data.decimals import read_decimals
from keyhole.data.opening import OpenedFile
from keyhole.data.variables import BLANK, Table
from keyhole.errors import InputError
from keyhole.files import NUMBER

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 1 << 16
SAMPLE_LINES = 50
MOST_COLUMNS = 100_000
CHUNK = 1 << 22
NO_LAST = "no last value"
QUOTE, NEWLINE, RETURN = b'"\n\r'


def may_have_long_rows(source: Path | bytes, delimiter: str, width: int) -> bool:
    """Whether a row may have more than `width` values; False only if none has."""
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
    """Return the largest number of delimiters of a row that ends in this chunk, and those of the unfinished row."""
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


def read_delimited(
    opened: OpenedFile,
    wanted: Sequence[str] | None,
    without_names: bool = False,
    keys: Collection[str] = (),
    na: Collection[str] | None = None,
) -> Table:
    """Return the wanted columns (None: all named ones) as text, in that order; blank values are null.

    keys: columns with few distinct values, whose texts are numbered; na: texts that mean missing, None: the usual ones.
    """
    source = _source(opened)
    try:
        with _text(source) as text:
            sample = text.read(SAMPLE)
        # The last line may be incomplete: drop it if there is another.
        sample = sample[: sample.rfind("\n") + 1] or sample
        delimiter = find_delimiter(sample, wanted or ())
        header = [name.strip() for name in next(_lines(source, delimiter), [])]
        if not any(header):
            raise InputError(f"{opened.path} has no header: its first line must name the columns.")
        if len(header) > MOST_COLUMNS:
            raise InputError(f"{opened.path} has more than {MOST_COLUMNS:,} columns: save only the keys.")
        named = not looks_like_record(header, sample, delimiter)
        if not named and without_names:
            header = [f"V{place}" for place in range(1, len(header) + 1)]
        elif not named and not set(wanted or ()) & set(header):
            raise InputError(
                f"{opened.path}: its first row looks like a record, not names: "
                "add a header line that names the columns."
            )
        names = [name for name in header if name] if wanted is None else list(wanted)
        positions = find_columns(header, names, str(opened.path), text=True)
        numbered = [str(place) for place, name in enumerate(names) if name in keys]
        frame = _read(source, delimiter, [*positions, len(header) - 1], opened.path, numbered)
        if len(names) < len(header) and may_have_long_rows(source, delimiter, len(header)):
            _refuse_long_row(source, delimiter, opened.path)
        kept = _real_rows(frame, source, delimiter, len(header), opened.path)
    except csv.Error as error:
        raise InputError(f"{opened.path} is not a readable table: {error}.") from None
    chosen = frame.drop(NO_LAST).rename(dict(zip(frame.columns, names, strict=False)))
    chosen = chosen if kept is None else chosen.filter(kept)
    chosen, decimals = read_decimals(chosen, delimiter, na)
    return Table(str(opened.path), tuple(header), chosen, opened.fingerprint, named=named, decimal_comma=decimals)


def find_delimiter(sample: str, keys: Sequence[str]) -> str:
    """Return the delimiter for which the header has most keys; on ties, the one with most lines of equal length."""

    def fitness(delimiter: str) -> tuple[int, float, int]:
        lines = [line for line in csv.reader(io.StringIO(sample), delimiter=delimiter) if line][:SAMPLE_LINES]
        if not lines:
            return (0, 0.0, 0)
        header = [name.strip() for name in lines[0]]
        alike = sum(len(line) == len(header) for line in lines) / len(lines) if len(header) > 1 else 0.0
        return (len(set(keys) & set(header)), alike, len(header))

    return max(DELIMITERS, key=fitness)


def looks_like_record(header: Sequence[str], sample: str, delimiter: str) -> bool:
    """Whether at least half of the names are numbers, values that recur in their columns, or duplicates.

    Duplicates alone prove nothing, nor does one name that recurs among several. A column of one value is not
    considered, since a box to tick is often named after its value, nor are lines that repeat the header, as in files
    joined end to end.
    """
    filled = [place for place, name in enumerate(header) if name]
    if not all(is_name(header[place]) for place in filled):
        return False
    columns: list[set[str]] = [set() for _ in header]
    for line in itertools.islice(csv.reader(io.StringIO(sample), delimiter=delimiter), 1, None):
        values = [value.strip() for value in line]
        if len(header) > 1 and values == list(header):
            continue
        for column, value in zip(columns, values, strict=False):
            column.add(value)
    numbers = {place for place in filled if NUMBER.fullmatch(header[place])}
    recurring = {place for place in filled if header[place] in columns[place] and len(columns[place] - {BLANK}) > 1}
    if not numbers and len(recurring) < min(2, len(filled)):
        return False
    times = Counter(header)
    twice = {place for place in filled if times[header[place]] > 1}
    return 2 * len(numbers | recurring | twice) >= len(filled)


def _source(opened: OpenedFile) -> Path | bytes:
    """Return the path if polars can read the file directly, else its text as UTF-8 with Unix line ends."""
    if opened.encoding == "utf-8-sig" and not opened.lone_returns:
        return opened.path if opened.content is None else opened.content
    raw = opened.path.read_bytes() if opened.content is None else opened.content
    try:
        text = raw.decode(opened.encoding)
    except UnicodeDecodeError:
        if opened.encoding == "utf-16":
            raise InputError(
                f"{opened.path} has the first bytes of UTF-16 but is not UTF-16: save it as UTF-8."
            ) from None
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n").encode()


def _text(source: Path | bytes) -> io.TextIOWrapper:
    raw = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
    return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def _lines(source: Path | bytes, delimiter: str) -> Iterator[list[str]]:
    with _text(source) as text:
        reader = csv.reader(text, delimiter=delimiter)
        try:
            yield from reader
        except csv.Error as error:
            raise csv.Error(f"line {reader.line_num}: {error}; look for unbalanced quotes") from None


def _read(
    source: Path | bytes, delimiter: str, positions: Sequence[int], path: Path, numbered: Collection[str]
) -> pl.DataFrame:
    """Read the columns at these positions, which may repeat; of the last, NO_LAST says only where it is blank."""
    try:
        lazy = pl.scan_csv(
            source,
            separator=delimiter,
            infer_schema=False,
            truncate_ragged_lines=False,
            glob=False,
            low_memory=True,
        )
        names = lazy.collect_schema().names()
        columns = [pl.col(names[position]).alias(str(place)) for place, position in enumerate(positions[:-1])]
        columns.append(pl.col(names[positions[-1]]).is_null().alias(NO_LAST))
        return compact(lazy.select(columns), numbered).collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, IndexError):
        _refuse_long_row(source, delimiter, path)
        raise _unbalanced(path, _find_open_quote(source, delimiter)) from None


def _find_open_quote(source: Path | bytes, delimiter: str) -> int | None:
    """Return the row with a quote that is not closed, or closed before the end of its value; 0 is the header."""
    row = 0
    with _text(source) as text, contextlib.suppress(csv.Error):
        for line in csv.reader(text, delimiter=delimiter, strict=True):
            row += bool(line)
        return None
    return row


def _unbalanced(path: Path, row: int | None) -> InputError:
    where = f" in row {row}" if row else ""
    return InputError(f"{path} is not a readable table: look for unbalanced quotes{where}.")


def _refuse_long_row(source: Path | bytes, delimiter: str, path: Path) -> None:
    lines = _lines(source, delimiter)
    width = len(next(lines, []))
    for row, line in enumerate((line for line in lines if line), start=1):
        if len(line) > width:
            raise InputError(
                f"{path} row {row} has {len(line)} values for {width} columns: "
                "quote values that contain the delimiter, or correct the row."
            )


def _real_rows(frame: pl.DataFrame, source: Path | bytes, delimiter: str, width: int, path: Path) -> pl.Series | None:
    """Mark the rows that are not blank lines, and refuse rows that are too short.

    Polars fills both with nulls, so a check is needed only if the last column has nulls.
    """
    if width == 1 or not frame[NO_LAST].any():
        return None
    sizes = [len(line) for line in _lines(source, delimiter)][1:]
    sizes += [0] * (frame.height - len(sizes))
    if len(sizes) != frame.height:
        raise _unbalanced(path, _find_open_quote(source, delimiter))
    kept = pl.Series(sizes) > 0
    short = next((row for row, size in enumerate((size for size in sizes if size), start=1) if size < width), None)
    if short is not None:
        if _find_open_quote(source, delimiter) == short:
            raise _unbalanced(path, short)
        raise InputError(f"{path} row {short} has fewer values than the {width} columns: correct the row.")
    return kept
