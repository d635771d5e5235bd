"""Hostile files and options, drawn by hypothesis, and the one way in which they are judged."""

import csv
import io
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from keyhole.errors import KeyholeError

CANARY = "zzcanaryzz"
LONGEST_SECONDS = 5.0
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "windows-1252")
PIECES = (CANARY, "1", "2", "1.0", "-1", "0.5", "1e9", "1e999", "nan", "inf", "", " ", "é", "ß", "'", '"', '""', "\\")
BREAKS = ("\n", "\r\n", "\r", "\n\n", "\r\r\n", ",", ";", "\t", "|", "\x00", "\x1a", "\v", "\ufeff", "\u2028")
NAMES = ("A", "B", "C", "A", "Größe", " B ", '"A"', "1", "")

LETTERS = CANARY + 'ab1,;"\t\n'

values = st.sampled_from(PIECES) | st.text(alphabet=LETTERS, max_size=4).map(str)
band_specs = st.sampled_from(["5y", "0,15", "0", "-5,0,5", "1e-9y", "0.1y", "1e300,1e301", "", "y", "0,nan"]) | st.text(
    alphabet="0159y,.-e ", max_size=8
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A table that hypothesis can make smaller when it fails."""
    return make_table(lambda low, high: draw(st.integers(low, high)))


def make_table(number: Callable[[int, int], int]) -> bytes:
    """A table with a header in one line, then anything; the canary is never in the header.

    number: gives an integer between two limits, both included.
    """

    def choose(options: Sequence[str]) -> str:
        return options[number(0, len(options) - 1)]

    def value() -> str:
        if number(0, 1):
            return choose(PIECES)
        return "".join(choose(LETTERS) for _ in range(number(0, 4)))

    delimiter = choose(",;\t| ^")
    header = [choose(NAMES) for _ in range(number(1, 5))]
    width = len(header)
    lines = []
    for _ in range(number(0, 12)):
        size = width if number(0, 9) else number(0, width + 2)
        lines.append(delimiter.join(value() for _ in range(size)))
    newline = choose(("\n", "\r\n", "\r"))
    text = delimiter.join(header) + newline + newline.join(lines)
    for _ in range(number(0, 2)):
        place = number(len(delimiter.join(header)) + 1, len(text))
        text = text[:place] + choose(BREAKS) + text[place:]
    encoding = choose(ENCODINGS)
    content = text.encode(encoding, errors="replace")
    # Not in the header or its line end: columns may be named in a message, and the canary would become a name.
    first = len((delimiter.join(header) + newline).encode(encoding, errors="replace"))
    if number(0, 9) == 0 and first < len(content):
        place = number(first, len(content) - 1)
        content = content[:place] + bytes([number(0, 255)]) + content[place + 1 :]
    return content


def seeded_table(seed: int) -> bytes:
    """A table made from one number: ten times faster, and a failure repeats all the same."""
    return make_table(Random(seed).randint)


seeds = st.integers(0, 2**64 - 1)


def judge(action: Callable[[], Any]) -> Any:
    """Run; only our own errors may come out, in one line, soon, without the canary. Return the result or None."""
    started = time.process_time()
    try:
        found = action()
        told = ""
    except KeyholeError as error:
        found, told = None, str(error)
    assert time.process_time() - started < LONGEST_SECONDS
    assert "\n" not in told
    assert CANARY not in told
    return found


def rows_by_the_book(text: str, delimiter: str) -> list[list[str]]:
    """Read with the standard library: blank lines are no records."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return [[value.strip() for value in line] for line in lines if line]
