"""Files of rules: tables and YAML, codes and labels, and what is refused with which words."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyhole.data import Variable
from keyhole.errors import RulesError
from keyhole.zeros import Zeros, list_boxes, read_zeros
from keyhole.zeros.vocabulary import describe_categories
from tests.oracle import boxes as oracle

AGE = Variable("AGE", ("1", "2", "3", "4"), ("0-13", "14-15", "16-17", "18+"))
MARST = Variable("MARST", ("1", "2", "6"))
VETSTAT = Variable("VETSTAT", ("1", "2", "3"))
VARIABLES = (AGE, MARST, VETSTAT)
LEVELS = (4, 3, 3)
YOUNG = ("and", [("is", 0, {0}), ("is", 1, {0, 1})])
CASES = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read(tmp_path: Path, name: str, text: str | bytes, ignored=()) -> Zeros:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_zeros(path, VARIABLES, ignored)


def impossible(zeros: Zeros):
    cells = oracle.cells_of_rows(LEVELS, zeros.impossible.tolist())
    others = oracle.cells_of_rows(LEVELS, zeros.possible.tolist())
    assert sorted(cells + others) == oracle.all_cells(LEVELS)
    assert len(cells) == zeros.impossible_cells
    return set(cells)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "AGE,MARST,VETSTAT\n1,1,\n1,2,*\n"),
        ("a.csv", "MARST,AGE\n1,1\n2,1\n"),
        ("a.csv", "\ufeffMARST,AGE\r\n1;2,0-13\r\n,\r\n\r\n"),
        ("a.csv", "MARST;AGE\n1;1\n2;1\n"),
        ("a.tsv", "MARST\tAGE\n1-2\t1\n"),
        ("a.csv", 'AGE,MARST\n"0-13"," 1 ; 2 "\n'),
        ("a.yaml", "impossible:\n  - {AGE: [1], MARST: [1, 2]}\n"),
        ("a.yaml", "impossible:\n  - AGE: 1\n    MARST: 1-2\n"),
        ("a.yaml", "impossible:\n  - 'AGE == 1 and MARST in (1, 2)'\n"),
        ("a.yaml", "impossible:\n  - AGE <= '0-13' & MARST < 6\n"),
        (
            "a.yml",
            "rules:\n- expr: '!(AGE == 1 & MARST != 6)'\n  name: x\n  meta: []\noptions: {raise: none}\n",
        ),
        ("a.yml", "rules: ['if (AGE == 1) MARST == 6']"),
        ("a.json", '{"impossible": [{"AGE": 1, "MARST": ["1", "2"]}]}'),
    ],
)
def test_forms_of_the_same_rule(tmp_path: Path, name: str, text: str) -> None:
    assert impossible(read(tmp_path, name, text)) == oracle.impossible_cells(LEVELS, [YOUNG])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("É\nmarié\n".encode(encoding))
    assert read_zeros(path, [Variable("É", ("marié", "seul"))]).impossible_cells == 1


def test_rules_carry_words_names_and_places(tmp_path: Path) -> None:
    text = (
        "impossible:\n  - {AGE: [1], MARST: [1, 2]}\n  - 'AGE == 4 and AGE == 1'\n"
        "rules:\n  - {expr: 'VETSTAT != 2 or AGE == 4', name: no_young_veteran, label: Veterans are adults}\n"
    )
    first, second, third = read(tmp_path, "a.yaml", text).rules
    assert (first.name, first.source) == ("rule 1", "a.yaml, line 2")
    assert first.words == "AGE is 0-13 and MARST is 1 or 2"
    assert second.words == "no combination"
    assert second.boxes == ()
    assert (third.name, third.label) == ("no_young_veteran", "Veterans are adults")
    assert third.words == "AGE is 0-13, 14-15 or 16-17 and VETSTAT is 2"
    assert third.source == "a.yaml, line 5"


def test_long_lists_in_words() -> None:
    many = Variable("V", tuple(str(x) for x in range(40)))
    assert describe_categories(many, range(3)) == "0, 1 or 2"
    assert describe_categories(many, range(1, 40)) == "not 0"
    assert describe_categories(many, [*range(15), 20]) == "0 to 14 or 20"
    assert describe_categories(many, range(0, 40, 2)).startswith("one of 20 categories (0, 2, 4")
    assert describe_categories(Variable("V", ("", "1")), [0]) == "blank"


def test_nothing_and_everything(tmp_path: Path) -> None:
    for text in ("impossible: []\n", "impossible:\n", "rules: ['AGE >= 1']"):
        zeros = read(tmp_path, "a.yaml", text)
        assert (zeros.impossible.shape, zeros.possible.shape) == ((0, 10), (1, 10))
        assert (zeros.impossible_cells, zeros.share) == (0, 0.0)
        assert zeros.possible.all()
    for name, text in (("a.csv", "AGE,MARST\n*,*\n"), ("a.yaml", "impossible: ['AGE < 3', 'AGE >= 3']")):
        zeros = read(tmp_path, name, text)
        assert (zeros.impossible.shape, zeros.possible.shape) == ((1, 10), (0, 10))
        assert zeros.impossible_cells == zeros.cells == 36
        assert [line.words for line in list_boxes(zeros)] == ["any combination"]
    assert zeros.impossible.dtype == zeros.possible.dtype == "uint8"


def test_codes_go_before_labels_and_categories_before_ranges(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("V\n1-3\n")
    swapped = Variable("V", ("2", "1", "1-3"), ("1", "2", "both"))
    assert [line.words for line in list_boxes(read_zeros(path, [swapped]))] == ["V is both"]
    path.write_text("V\n1\n")
    assert [line.words for line in list_boxes(read_zeros(path, [swapped]))] == ["V is 2"]


def test_blank_answers_have_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("V,W\n(blank),1\n")
    zeros = read_zeros(path, [Variable("V", ("", "1")), Variable("W", ("1", "2"))])
    assert zeros.rules[0].words == "V is blank and W is 1"


@pytest.mark.parametrize(
    ("text", "applies"),
    [
        ("{AGE: 1, MARST: [1, 2], SEX: 2}", True),
        ("{AGE: 1, MARST: [1, 2], SEX: female}", True),
        ("{AGE: 1, MARST: [1, 2], SEX: 1}", False),
        ("{AGE: 1, MARST: [1, 2], SEX: 1-3}", True),
        ("{AGE: 1, MARST: [1, 2], SEX: 3-4}", False),
        ("'AGE == 1 and MARST <= 2 and SEX >= 2'", True),
        ("'AGE == 1 and MARST <= 2 and SEX > 1'", True),
        ("'AGE == 1 and MARST <= 2 and SEX < 2'", False),
        ("'AGE == 1 and MARST <= 2 and SEX != 2'", False),
        ("'AGE == 1 and MARST <= 2 and not SEX == 1'", True),
        ("'AGE == 1 and MARST <= 2 and SEX in 1:2'", True),
    ],
)
def test_a_key_with_one_category_is_still_understood(tmp_path: Path, text: str, applies: bool) -> None:
    zeros = read(tmp_path, "a.yaml", f"impossible: [{text}]", [Variable("SEX", ("2",), ("female",))])
    assert impossible(zeros) == (oracle.impossible_cells(LEVELS, [YOUNG]) if applies else set())


def test_a_key_with_one_category_may_be_undecidable(tmp_path: Path) -> None:
    for text in ("SEX < m", "SEX in a:m"):
        with pytest.raises(RulesError, match=r"'SEX' has one category in this file .* to the codebook"):
            read(tmp_path, "a.yaml", f"impossible: ['{text}']", [Variable("SEX", ("f",))])
    found = read(tmp_path, "a.csv", "SEX,AGE\nf,\nm,1\n", [Variable("SEX", ("f",))])
    assert impossible(found) == set(oracle.all_cells(LEVELS))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv: the table is empty"),
        ("a.csv", "AGE,INCOME\n1,2\n", "a.csv, line 1, column 2: 'INCOME' is not one of the key variables"),
        ("a.csv", "AGE,MARTS\n1,2\n", "did you mean 'MARST'?"),
        ("a.csv", "AGE,AGE\n1,2\n", "a.csv, line 1, column 2: 'AGE' heads two columns"),
        ("a.csv", "AGE,MARST\n1,2\n1,9\n", "a.csv, line 3, column 'MARST': expected a category of 'MARST'"),
        ("a.csv", "AGE,MARST\n1,1;9\n", "a.csv, line 2, column 'MARST': expected a category of 'MARST'"),
        ("a.csv", "AGE,MARST\n3-1,1\n", "a range of categories of 'AGE'"),
        ("a.csv", "AGE,MARST\n1\n", "a.csv, line 2: expected 2 entries, found 1"),
        ("a.csv", 'AGE,MARST\n"1"x,2\n', "cannot be read as delimited text near line 2"),
        ("a.csv", b"AGE\n\0\n", "a.csv: this is not a text file"),
        ("a.xlsx", "AGE\n1\n", "a.xlsx: expected a table (.csv, .tsv) or YAML"),
        ("a.yaml", "", "a.yaml: expected 'impossible:' or 'rules:', found nothing"),
        ("a.yaml", "- 1\n", "a.yaml, line 1: expected 'name: value' entries"),
        (
            "a.yaml",
            "impossibel: []\n",
            "a.yaml, line 1: expected 'impossible:' or 'rules:', not 'impossibel'",
        ),
        ("a.yaml", "impossible: 3\n", "a.yaml, line 1: expected a list"),
        ("a.yaml", "impossible:\n  - {}\n", "a.yaml, line 2: the rule is empty"),
        ("a.yaml", "impossible:\n  - {AGE: []}\n", "a.yaml, line 2, 'AGE': expected at least one category"),
        ("a.yaml", "impossible:\n  - {AGE: }\n", "a.yaml, line 2, 'AGE': expected a category of 'AGE'"),
        ("a.yaml", "impossible:\n  - {AGE: {a: 1}}\n", "a.yaml, line 2: expected a category or a list"),
        ("a.yaml", "impossible:\n  - {AGE: 1, AGE: 2}\n", "a.yaml, line 2: 'AGE' is there twice"),
        (
            "a.yaml",
            "impossible:\n  - {INCOME: 1}\n",
            "a.yaml, line 2, 'INCOME': 'INCOME' is not one of the key",
        ),
        ("a.yaml", "impossible:\n  - AGE == 1\n  - 'AGE = 1'\n", "a.yaml, line 3, position 5: expected '=='"),
        ("a.yaml", "impossible: [\n", "this is not YAML"),
        ("a.yaml", "impossible: [*a]\n", "a.yaml, line 1, position 14: this is not YAML"),
        ("a.yaml", "rules:\n  - {exp: 'AGE == 1'}\n", "expected expr, name, label or description, not 'exp'"),
        ("a.yaml", "rules:\n  - {name: x}\n", "a.yaml, line 2: expected 'expr:' with what must hold"),
        ("a.yaml", "rules:\n  - {expr: [1]}\n", "a.yaml, line 2: expected text after 'expr:'"),
        ("a.yaml", "? [1]\n: 2\n", "expected a name before the colon"),
        (
            "a.yaml",
            "rules:\n  - {expr: AGE == 1, name: x}\n  - {expr: AGE == 2, name: x}\n",
            "a.yaml, line 3: the name 'x' is taken by a.yaml, line 2",
        ),
        ("a.yaml", "impossible: " + "[" * 100_000, "a.yaml"),
        ("a.yaml", "#" * 1_000_001, "more than 1,000,000 characters"),
        ("a.yaml", "impossible: [!!python/object/apply:os.system [ls]]\n", "a.yaml, line 1: expected"),
    ],
)
def test_refusals_name_place_and_remedy(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    started = time.perf_counter()
    with pytest.raises(RulesError) as raised:
        read(tmp_path, name, text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert time.perf_counter() - started < 5


def test_missing_files_and_missing_keys(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"none\.csv: cannot be read"):
        read_zeros(tmp_path / "none.csv", VARIABLES)
    with pytest.raises(RulesError, match="two or more categories"):
        read_zeros(tmp_path / "none.csv", [])
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(RulesError, match="cannot be read"):
        read_zeros(tmp_path / "folder.csv", VARIABLES)


def test_aliases_do_not_multiply_without_end(tmp_path: Path) -> None:
    levels = ["a0: &a0 [1, 2]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    started = time.perf_counter()
    with pytest.raises(RulesError):
        read(tmp_path, "a.yaml", "\n".join([*levels, "impossible: [{AGE: *a29}]"]))
    assert time.perf_counter() - started < 5


WORDS = "impossible: rules: expr: name: AGE MARST 1 2 6 1-2 !!int == é"
SIGNS = "{ } [ ] , ; * \" ' &a *a | > # ! ? \0"
pieces = st.sampled_from([*WORDS.split(), *SIGNS.split(" "), "\n", "\n  - ", "- ", ": ", "\t"])


@CASES
@given(st.sampled_from(["a.csv", "a.yaml"]), st.lists(pieces, max_size=20).map("".join) | st.text(max_size=40))
def test_any_file_is_read_or_refused(tmp_path: Path, name: str, text: str) -> None:
    try:
        impossible(read(tmp_path, name, text))
    except RulesError:
        return


@pytest.mark.parametrize(
    ("declared", "text", "hint"),
    [
        (True, "maried", " (nearest: 'married')"),
        (True, "9", " (nearest: '2' and '1')"),
        (True, "Married", " (nearest: 'married')"),
        (False, "maried", ""),
        (False, "Married ", " (nearest: 'married')"),
        (False, "02", " (nearest: '2')"),
        (False, "9", ""),
    ],
)
def test_an_unknown_category_is_named_with_the_nearest(declared, text, hint):
    """Categories that only the records show are values of the data; of them other spellings of the text are named."""
    variable = Variable("MARST", ("1", "2"), ("single", "married"), declared)
    assert variable.hint(text) == hint
    with pytest.raises(RulesError) as caught:
        read_zeros([{"MARST": [text]}], (variable, Variable("A", ("1", "2"))))
    assert f"not '{text.strip()}'{variable.hint(text.strip())}; correct it" in str(caught.value)
