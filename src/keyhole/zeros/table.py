"""The table of impossible combinations: one column for each key variable, one rule a line, blank or * = any.

An entry is a category by code or label or, when it is not one itself, a list `1;2` or a range `1-3`.
"""

import csv
import io

from keyhole.errors import RulesError
from keyhole.zeros.boxes import Box, is_empty
from keyhole.zeros.expression import Value
from keyhole.zeros.rule import Rule, make_rule
from keyhole.zeros.vocabulary import Vocabulary, show

ANY = ("", "*")
_DELIMITERS = (",", "\t", ";", "|")


def read_table(text: str, file_name: str, vocabulary: Vocabulary) -> list[Rule]:
    """Read the rules of a table."""
    rules: list[Rule] = []
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(text), strict=True)
        header: list[str] | None = None
        for row in reader:
            where = f"{file_name}, line {reader.line_num}"
            if all(not entry.strip() for entry in row):
                continue
            if header is None:
                header = _read_header(row, where, vocabulary)
            else:
                rules.append(_read_row(row, header, where, f"rule {len(rules) + 1}", vocabulary))
    except csv.Error:
        raise RulesError(
            f"{file_name}: the table cannot be read as delimited text near line {reader.line_num}; "
            "check its quotes, or save it again as CSV."
        ) from None
    if header is None:
        raise RulesError(f"{file_name}: the table is empty; its first line names key variables.")
    return rules


def _find_delimiter(text: str) -> str:
    """Take the delimiter that cuts the first line into most columns: lists in entries must not mislead."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=first.count)


def _read_header(row: list[str], where: str, vocabulary: Vocabulary) -> list[str]:
    names = [entry.strip() for entry in row]
    for column, name in enumerate(names, start=1):
        vocabulary.require(name, f"{where}, column {column}")
        if name in names[: column - 1]:
            raise RulesError(f"{where}, column {column}: '{show(name)}' heads two columns; leave one out.")
    return names


def _read_row(row: list[str], header: list[str], where: str, name: str, vocabulary: Vocabulary) -> Rule:
    if len(row) != len(header):
        raise RulesError(
            f"{where}: expected {len(header)} entries, found {len(row)}; leave blank what may be anything."
        )
    box: Box = vocabulary.grid.full
    for variable, entry in zip(header, row, strict=True):
        if entry.strip() not in ANY or (entry.strip() and vocabulary.is_category(variable, entry.strip())):
            values = split_entry(entry, variable, vocabulary)
            box &= vocabulary.select(variable, "in", values, f"{where}, column '{show(variable)}'")
    boxes = [] if is_empty(vocabulary.grid, box) else [box]
    return make_rule(vocabulary, name, where, boxes)


def split_entry(entry: str, variable: str, vocabulary: Vocabulary) -> list[Value]:
    """Read an entry as one category if it is one, else as a list cut at semicolons."""
    if vocabulary.is_category(variable, entry.strip()):
        return [Value(entry.strip())]
    return [Value(part.strip()) for part in entry.split(";")]
