"""Suggestions: planted gaps are found, chance gaps are not, and the file can be read back."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from keyhole.cli import main
from keyhole.data import BLANK, Microdata, Variable, find_cells
from keyhole.errors import RulesError
from keyhole.zeros import check_zeros, format_suggestions, read_zeros, suggest_zeros
from keyhole.zeros.suggest import _fit, _Limit, find_threshold

LEVELS = (3, 4, 2, 3)
VARIABLES = tuple(
    Variable(name, tuple(f"{x}" for x in range(size)), tuple(f"{name.lower()}: {x}\n#" for x in range(size)))
    for name, size in zip(("A", "B", "C", "D"), LEVELS, strict=True)
)


def make_data(codes: np.ndarray) -> Microdata:
    used = np.ones(len(codes), dtype=np.bool_)
    return Microdata(VARIABLES, *find_cells(codes.T.astype(np.int32), len(codes)), len(codes), used, (), "")


def independent(rng: np.random.Generator, records: int) -> np.ndarray:
    return np.stack([rng.integers(0, size, records) for size in LEVELS], axis=1)


def test_independent_variables_give_nothing(rng: np.random.Generator) -> None:
    # At 1 % false discoveries a single suggestion in any of 20 files has probability under 0.2.
    assert [suggest_zeros(make_data(independent(rng, n))).items for n in (50, 500) for _ in range(10)] == [()] * 20


def test_planted_gaps_are_found_and_joined(rng: np.random.Generator) -> None:
    codes = independent(rng, 4000)
    pair = (codes[:, 0] == 1) & np.isin(codes[:, 1], [0, 2])
    triple = (codes[:, 0] == 0) & (codes[:, 2] == 1) & np.isin(codes[:, 3], [1, 2])
    found = suggest_zeros(make_data(codes[~(pair | triple)]))
    rules = {(item.variables, item.categories) for item in found.items}
    assert rules == {(("A", "B"), (("1",), ("0", "2"))), (("A", "C", "D"), (("0",), ("1",), ("1", "2")))}
    assert [item.expected for item in found.items] == sorted((i.expected for i in found.items), reverse=True)
    assert all(item.chance < 1e-6 and item.margin_cells == 2 for item in found.items)
    only_pairs = suggest_zeros(make_data(codes[~(pair | triple)]), order=2)
    assert {item.variables for item in only_pairs.items} == {("A", "B")}


def test_the_file_has_no_effect_until_a_person_edits_it(rng: np.random.Generator, tmp_path: Path) -> None:
    codes = independent(rng, 4000)
    data = make_data(codes[~((codes[:, 0] == 1) & (codes[:, 1] == 0))])
    found = suggest_zeros(data)
    text = format_suggestions(found)
    assert text.count("SUGGESTION 1, to be confirmed by a person") == 1
    assert yaml.safe_load(text) == {"impossible": None}
    path = tmp_path / "suggested.yaml"
    path.write_text(text)
    assert read_zeros(path, VARIABLES).impossible_cells == 0
    accepted = text.replace("# - {", "- {")
    assert yaml.safe_load(accepted) == {"impossible": [{"A": ["1"], "B": ["0"]}]}
    path.write_text(accepted)
    zeros = read_zeros(path, VARIABLES)
    assert zeros.impossible_cells == 6
    assert len(check_zeros(zeros, data)[1]) == 0


def test_suggestions_that_rest_on_blanks_are_apart(rng: np.random.Generator, tmp_path: Path) -> None:
    """B is a question that those with A = 1 skip, and nobody else; and nobody with A = 1 has D = 0."""
    codes = independent(rng, 4000)
    codes[:, 1] = np.where(codes[:, 0] == 1, 3, codes[:, 1] % 3)
    codes = codes[~((codes[:, 0] == 1) & (codes[:, 3] == 0))]
    skipped = Variable("B", ("0", "1", "2", BLANK), ("b0", "b1", "b2", "(blank)"))
    variables = (VARIABLES[0], skipped, *VARIABLES[2:])
    found = suggest_zeros(replace(make_data(codes), variables=variables))
    assert [item.blanks for item in found.items] == [()] * 2 + [("B",)] * 2
    assert {item.variables for item in found.items if not item.blanks} == {("A", "B"), ("A", "D")}
    assert all(BLANK not in codes for item in found.items if not item.blanks for codes in item.categories)
    text = format_suggestions(found)
    assert text.count("(blank: B)") == 2
    assert text.index("SUGGESTION 2,") < text.index("THESE REST ON BLANK ANSWERS") < text.index("SUGGESTION 3,")
    path = tmp_path / "suggested.yaml"
    path.write_text(text.replace("# - {", "- {"))
    assert yaml.safe_load(path.read_text())["impossible"][2]["B"] == ["(blank)"]
    assert len(read_zeros(path, variables).rules) == 4


def test_how_many_people_a_suggestion_could_leave_out(rng: np.random.Generator) -> None:
    """The limit follows from the chance of missing all of so many people, and is one for all suggestions."""
    codes = independent(rng, 2000)
    data = make_data(codes[~((codes[:, 0] == 1) & (codes[:, 1] == 0))])
    records, population = data.records, 40_000
    found = suggest_zeros(data, population=population)
    [item] = found.items
    people = round(item.share * population)

    def missed(count: int) -> float:
        return math.exp(sum(math.log1p(-records / (population - i)) for i in range(count)))

    # One cell of all that were tested, at half of 5 %.
    assert missed(people + 1) * found.tested <= 0.025
    assert missed(people - 5) * found.tested > 0.025
    assert f"at most {people:,} of 40,000 people" in format_suggestions(found)
    [unknown] = suggest_zeros(data).items
    assert unknown.share == pytest.approx(math.log(found.tested / 0.025) / records)
    assert suggest_zeros(data, population=records).items[0].share == 0.0
    with pytest.raises(RulesError, match=r"`population` is 10, and the file has [0-9,]+ records"):
        suggest_zeros(data, population=10)


@pytest.mark.parametrize("joined", [1, 3, 40])
def test_the_limit_holds_for_what_chance_selects(rng: np.random.Generator, joined: int) -> None:
    """Of many rare combinations, those of which no one is sampled have more people than the limit in few samples."""
    cells, population, records = 400, 20_000, 1_000
    limit = _Limit(tested=cells, boxes=math.comb(cells, joined), records=records, population=population)
    size = rng.integers(0, 100, cells)
    size[-1] += population - size.sum()
    exceeded = 0
    for _ in range(300):
        drawn = rng.multivariate_hypergeometric(size, records)
        empty = np.sort(size[drawn == 0])[::-1]
        exceeded += empty[:joined].sum() > limit.share(joined) * population
    assert exceeded <= 300 * 0.05


def test_no_suggestions_make_an_empty_rules_file(tmp_path: Path) -> None:
    found = suggest_zeros(make_data(np.zeros((0, 4))))
    path = tmp_path / "suggested.yaml"
    path.write_text(format_suggestions(found))
    assert found.items == ()
    assert read_zeros(path, VARIABLES).impossible_cells == 0


def test_blanks_and_unseen_categories_are_no_evidence(rng: np.random.Generator) -> None:
    codes = independent(rng, 4000)
    codes[codes[:, 1] == 3, 1] = 2
    codes[rng.random(4000) < 0.3, 0] = -1
    assert suggest_zeros(make_data(codes)).items == ()


def test_threshold_is_benjamini_yekutieli() -> None:
    chance = np.array([1e-6, 2e-4, 0.002, 0.9])  # the third would pass Benjamini-Hochberg
    tested = 10
    harmonic = sum(1 / i for i in range(1, tested + 1))
    limits = [k * 0.01 / (tested * harmonic) for k in range(1, 5)]
    passed = max(p for p, limit in zip(chance, limits, strict=True) if p <= limit)
    assert find_threshold(chance[::-1], tested, 0.01) == passed == 2e-4
    assert find_threshold(chance[2:], tested, 0.01) == -1.0
    assert find_threshold(np.empty(0), 0, 0.01) == -1.0


def test_fit_reproduces_the_margins(rng: np.random.Generator) -> None:
    table = rng.gamma(2.0, 10.0, size=(3, 4, 2))
    sides = [table.sum(axis=axis, keepdims=True) for axis in range(3)]
    fitted = _fit(sides)
    for axis, side in enumerate(sides):
        assert fitted.sum(axis=axis, keepdims=True) == pytest.approx(side, abs=0.02)
    # No interaction of all three: every ratio of odds ratios is one.
    odds = fitted[:-1, :-1] * fitted[1:, 1:] / (fitted[1:, :-1] * fitted[:-1, 1:])
    assert odds[..., 0] == pytest.approx(odds[..., 1], rel=0.02)


def test_large_margins_are_skipped_and_said() -> None:
    variables = tuple(Variable(f"V{j}", tuple(str(x) for x in range(200))) for j in range(3))
    codes = np.zeros((5, 3), dtype=np.int32)
    found = suggest_zeros(Microdata(variables, *find_cells(codes.T, 5), 5, np.ones(5, dtype=np.bool_), (), ""))
    assert found.skipped == (("V0", "V1", "V2"),)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("# - {A: [x], B: [1]}\n  # - {A: [y], B: [1]}\n", "All 2 entries are comments, so"),
        ("# - {A: [x], B: [1]}\n", "The only entry is a comment, so"),
        ("# nothing\n", "has no rule, so nothing was checked."),
    ],
)
def test_a_check_says_that_all_rules_are_comments(rules, told, tmp_path, capsys) -> None:
    data, path = tmp_path / "x.csv", tmp_path / "rules.yaml"
    data.write_text("A,B\nx,1\ny,2\nx,2\n")
    path.write_text(f'# SUGGESTIONS: remove the "# " before its "- {{".\nimpossible:\n{rules}')
    with pytest.raises(SystemExit) as stopped:
        main(["zeros", "check", str(path), str(data), "--keys", "A,B"])
    text = " ".join(capsys.readouterr().out.split())
    assert stopped.value.code == 0
    assert told in text
    assert "contradicts" not in text
