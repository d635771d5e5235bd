"""Expressions: grammar, precedence, round trips, positions of errors, and any text at all."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.data import Variable
from keyhole.errors import RulesError
from keyhole.zeros.boxes import unpack
from keyhole.zeros.expression import And, Comparison, Condition, Not, Or, Value, parse_expression
from keyhole.zeros.vocabulary import make_vocabulary, to_boxes
from tests.oracle import boxes as oracle

CASES = settings(max_examples=300)
VARIABLES = (
    Variable("AGE", ("1", "2", "3", "4"), ("0-13", "14-15", "16 to 17", "18+")),
    Variable("MARST", ("1", "2", "6")),
    Variable("STATE", ("OR", "IN")),
)
LEVELS = (4, 3, 2)
VOCABULARY = make_vocabulary(VARIABLES)


def parse(text: str):
    return parse_expression(text, "rules.yaml, line 3")


def cells(text: str):
    boxes = to_boxes(parse(text), VOCABULARY, "rules.yaml, line 3")
    return set(oracle.cells_of_rows(LEVELS, unpack(VOCABULARY.grid, boxes).tolist()))


def is_one(name: str, operator: str, *values: str) -> Comparison:
    return Comparison(name, operator, tuple(Value(value) for value in values))


A, B, C = (is_one(name, "==", "1") for name in "ABC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A == 1", A),
        ("A==1", A),
        ("'A' == \"1\"", A),
        ("A == 1 or B == 1 and C == 1", Or((A, And((B, C))))),
        ("A == 1 | B == 1 & C == 1", Or((A, And((B, C))))),
        ("A == 1 || B == 1 && C == 1", Or((A, And((B, C))))),
        ("(A == 1 or B == 1) and C == 1", And((Or((A, B)), C))),
        ("not A == 1 and B == 1", And((Not(A), B))),
        ("!A == 1 & B == 1", And((Not(A), B))),
        ("not (A == 1 and B == 1)", Not(And((A, B)))),
        ("not not A == 1", A),
        ("A == 1 AND B == 1 OR NOT C == 1", Or((And((A, B)), Not(C)))),
        ("A in (1, 2)", is_one("A", "in", "1", "2")),
        ("A %in% c(1,2)", is_one("A", "in", "1", "2")),
        ("A in [1, 2]", is_one("A", "in", "1", "2")),
        ("A in 1", is_one("A", "in", "1")),
        ("A not in (1)", is_one("A", "not in", "1")),
        ("A %in% 1:3", Comparison("A", "in", (Value("1", "3"),))),
        ("if (A == 1) B == 1", Or((Not(A), B))),
        ("`not` == 1", is_one("not", "==", "1")),
        ("not == 1", is_one("not", "==", "1")),
        ("S == or or S == in", Or((is_one("S", "==", "or"), is_one("S", "==", "in")))),
        ("A == -1", is_one("A", "==", "-1")),
        ("A >= 'it\\'s'", is_one("A", ">=", "it's")),
        ("âge <= célibataire", is_one("âge", "<=", "célibataire")),
    ],
)
def test_grammar(text: str, expected) -> None:
    assert parse(text) == expected


comparisons = st.builds(
    Comparison,
    st.text(min_size=1, max_size=5),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.builds(lambda text: (Value(text),), st.text(max_size=5)),
) | st.builds(
    Comparison,
    st.text(min_size=1, max_size=5),
    st.sampled_from(["in", "not in"]),
    st.lists(st.builds(Value, st.text(max_size=5), st.none() | st.text(max_size=3)), min_size=1, max_size=3).map(tuple),
)
conditions = st.recursive(
    comparisons,
    lambda inner: (
        inner.map(lambda part: part if isinstance(part, Not) else Not(part))
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts)))
    ),
    max_leaves=8,
)


def format_expression(condition: Condition) -> str:
    """Format a condition as an expression that parses to the same condition."""
    if isinstance(condition, Comparison):
        values = ", ".join(
            ":".join(quote(text, '"') for text in (value.text, value.last) if text is not None)
            for value in condition.values
        )
        if condition.operator in ("in", "not in"):
            values = f"({values})"
        return f"{quote(condition.name, '`')} {condition.operator} {values}"
    if isinstance(condition, Not):
        return f"not ({format_expression(condition.operand)})"
    word = " and " if isinstance(condition, And) else " or "
    return word.join(f"({format_expression(operand)})" for operand in condition.operands)


def quote(text: str, mark: str) -> str:
    return mark + text.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark


@CASES
@given(conditions)
def test_round_trip(condition) -> None:
    assert parse(format_expression(condition)) == condition


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 1, "a variable, 'not' or '('"),
        ("AGE", 4, "one of == != < <= > >= in"),
        (
            "AGE <= 1 and Marital Status in (1)",
            22,
            "one of == != < <= > >= in (write names with spaces in backticks: `Marital Status`).",
        ),
        ("AGE = 1", 5, "'==' (a comparison has two equal signs)"),
        ("AGE == ", 8, "a category"),
        ("AGE == 1 MARST == 2", 10, "'and', 'or' or the end of the expression"),
        ("(AGE == 1", 10, "')'"),
        ("AGE == 1)", 9, "'and', 'or' or the end of the expression"),
        ("AGE in (1, 2", 13, "',' or ')'"),
        ("AGE in ()", 9, "a category"),
        ("AGE == c(1, 2)", 9, "one category (a list or range of categories goes with 'in')"),
        ("AGE == 1:2", 9, "one category (a list or range of categories goes with 'in')"),
        ("AGE == 'x", 8, "a closing ' for the one that opens here"),
        ("AGE not 1", 9, "'in'"),
        ("1 < AGE < 3", 9, "'and', 'or' or the end of the expression"),
        ("AGE == 1 and", 13, "a variable, 'not' or '('"),
        ("AGE == 9", 8, "a category of 'AGE'"),
        ("AGE in (1, 9)", 12, "a category of 'AGE'"),
        ("MARST == 1 and AGE < 1-2", 22, "one category of 'AGE' after '<'"),
        ("AGE in 3:1", 8, "a range of categories of 'AGE'"),
        ("AGE == 1 % 2", 10, "'%in%'"),
    ],
)
def test_errors_name_place_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(RulesError) as raised:
        cells(text)
    message = str(raised.value)
    assert message.startswith(f"rules.yaml, line 3, position {position}: expected {expected}")
    assert "\n" not in message


def test_unknown_variable_is_refused_with_a_remedy() -> None:
    with pytest.raises(RulesError, match=r"position 14: 'AGEE' is not one of .* did you mean 'AGE'\?"):
        cells("MARST == 1 & AGEE == 1")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("AGE <= 2", ("is", 0, {0, 1})),
        ("AGE < 2", ("is", 0, {0})),
        ("AGE > 2", ("is", 0, {2, 3})),
        ("AGE >= '14-15'", ("is", 0, {1, 2, 3})),
        ("AGE == 0-13", ("is", 0, {0})),
        ("AGE == '16 to 17'", ("is", 0, {2})),
        ("AGE in 2-4", ("is", 0, {1, 2, 3})),
        ("2 >= AGE", ("is", 0, {0, 1})),
        ("AGE < 1", ("or", [])),
        ("AGE >= 1", ("and", [])),
        ("MARST != 6", ("is", 1, {0, 1})),
        ("STATE == OR or STATE == IN", ("and", [])),
        ("!(AGE == 1 & MARST != 6)", ("not", ("and", [("is", 0, {0}), ("is", 1, {0, 1})]))),
        ("if (AGE == 1) MARST == 6", ("or", [("is", 0, {1, 2, 3}), ("is", 1, {2})])),
        ("AGE == 1 and AGE == 2", ("or", [])),
    ],
)
def test_meaning(text: str, condition) -> None:
    assert cells(text) == oracle.impossible_cells(LEVELS, [condition])


def _write(condition, names=("AGE", "MARST", "STATE")) -> str:
    kind = condition[0]
    if kind == "is":
        _, j, categories = condition
        codes = ", ".join(f"'{VARIABLES[j].categories[x]}'" for x in sorted(categories))
        return f"{names[j]} %in% c({codes})"
    if kind == "not":
        return f"!({_write(condition[1])})"
    return f" {kind} ".join(f"({_write(part)})" for part in condition[1])


meanings = st.recursive(
    st.integers(0, 2).flatmap(
        lambda j: st.tuples(st.just("is"), st.just(j), st.sets(st.integers(0, LEVELS[j] - 1), min_size=1))
    ),
    lambda inner: (
        st.tuples(st.just("not"), inner)
        | st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=8,
)


@CASES
@given(meanings)
def test_meaning_agrees_with_enumeration(condition) -> None:
    assert cells(_write(condition)) == oracle.impossible_cells(LEVELS, [condition])
    assert cells(f"not ({_write(condition)})") == oracle.impossible_cells(LEVELS, [("not", condition)])


WORDS = "AGE MARST STATE 1 2 6 9 and or not in if c"
SIGNS = "( ) [ ] , : == != < <= > >= & | ! && || %in% ' \" ` \\ - . = % é \0"
pieces = st.sampled_from((WORDS + " " + SIGNS).split())


def refusal(text: str) -> str:
    """The message with which an expression is refused, empty when it is accepted."""
    try:
        cells(text)
    except RulesError as error:
        return str(error)
    return ""


@settings(CASES, max_examples=1000)
@given(st.lists(pieces, max_size=25).map(" ".join) | st.lists(pieces, max_size=25).map("".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    message = refusal(text)
    assert not message or message.startswith("rules.yaml, line 3")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000,
        "!" * 50_000 + "AGE == 1",
        "not " * 20_000 + "AGE == 1",
        "if (" * 20_000,
        "AGE == 1 and " * 5_000 + "AGE == 1",
        "AGE == 1 or " * 5_000 + "MARST == 1",
        "AGE in (" + "1," * 40_000 + "1)",
        "AGE == '" + "\\" * 90_000,
        "AGE == " + "1-" * 45_000,
        "x" * 200_000,
        "(" * 40 + "AGE == 1" + ")" * 40,
    ],
    ids=range(11),
)
def test_hostile_text_ends_soon(text: str) -> None:
    started = time.perf_counter()
    assert len(refusal(text)) < 400
    assert time.perf_counter() - started < 5


def test_a_product_of_unions_is_refused_when_too_large() -> None:
    variables = [Variable(f"V{j}", ("0", "1")) for j in range(60)]
    text = " and ".join(f"(V{2 * i} == 0 or V{2 * i + 1} == 0)" for i in range(30))
    with pytest.raises(RulesError, match="more than 20,000 disjoint boxes"):
        to_boxes(parse(text), make_vocabulary(variables), "rules.yaml, line 3")
