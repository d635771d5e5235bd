"""No cell of an exported table starts like a formula; numbers are not escaped; escaping can be undone."""

import csv
import io

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.data.columns import NUMBER
from keyhole.files import TRIGGERS, csv_text, escape

# Text that likes to start with what spreadsheets look for.
LABELS = st.builds(
    lambda start, rest: start + rest,
    st.sampled_from(["", "'", "''", "-1", "1", *TRIGGERS, *("'" + x for x in TRIGGERS)]),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12),
)


def unescape(cell):
    """Remove the prefix from a cell that starts with one or more ' and then a trigger."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'")[:1] in [*TRIGGERS] else cell


@settings(max_examples=500)
@given(st.lists(LABELS, min_size=20, max_size=20), LABELS)
def test_ten_thousand_labels_hold_no_formula_and_come_back(labels, header):
    name = header or "x"
    written = csv_text(pl.DataFrame({name: labels, "number": [-1.5] * 20}))
    rows = list(csv.reader(io.StringIO(written, newline="")))
    cells = [row[0] for row in rows if row]
    assert len(cells) == 21
    for cell in cells:
        assert not cell.startswith(tuple(TRIGGERS)) or NUMBER.fullmatch(cell)
    assert [unescape(cell) for cell in cells] == [name, *labels]
    assert [row[1] for row in rows[1:]] == ["-1.5"] * 20
    raw = list(csv.reader(io.StringIO(csv_text(pl.DataFrame({name: labels}), raw=True), newline="")))
    assert [row[0] if row else "" for row in raw][1:] == labels


@pytest.mark.parametrize("text", ["1", "-1", "+2.5", "-1e-9", "a=b", "", "'quoted'", "0-13"])
def test_what_is_no_formula_is_left_alone(text):
    assert escape(text) == text


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "-1;-2", "+x", "\tx", "\rx", "\0", "-", "'=1"])
def test_formulas_are_escaped(text):
    assert escape(text) == "'" + text
    assert unescape(escape(text)) == text
