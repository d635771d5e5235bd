"""A safe report reveals no record: checked by code that shares nothing with the report's own rounding."""

import re
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.report import make_content
from keyhole.report.asked import Asked
from keyhole.report.content import Count, count_safely, round_population
from keyhole.report.render import content_json, render
from tests.unit.report_results import HASH, HandMade, Observed, make_records, make_result, make_summary


class Text(HTMLParser):
    """The text of a page, without its style."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.inside.append("")

    def handle_data(self, data: str) -> None:
        if self.inside[-1:] != ["style"]:
            self.parts.append(data)


def text_of(page: str) -> str:
    parser = Text()
    parser.feed(page)
    return " ".join(parser.parts)


def integers_of(text: str) -> list[int]:
    """Whole numbers in a text: digits with or without commas, not parts of decimals, words or versions."""
    found = re.findall(r"(?<![\w.,])\d+(?:,\d{3})*(?![\w]|[.,]\d)", text)
    return [int(number.replace(",", "")) for number in found]


def obeys(shown: str) -> bool:
    """The rule, written again: "<10", or a multiple of 5 from 10."""
    return shown == "<10" or (int(shown.replace(",", "")) >= 10 and shown.replace(",", "")[-1] in "05")


def walk(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every Count, text and number of a content, with its place."""
    if isinstance(value, Count) or not (is_dataclass(value) or isinstance(value, tuple | dict)):
        return [(path, value)]
    if isinstance(value, dict):
        return [leaf for name, item in value.items() for leaf in walk(item, f"{path}.{name}")]
    if isinstance(value, tuple):
        return [leaf for place, item in enumerate(value) for leaf in walk(item, f"{path}[{place}]")]
    return [leaf for found in fields(value) for leaf in walk(getattr(value, found.name), f"{path}.{found.name}")]


def random_observed(rng: np.random.Generator) -> Observed:
    """Counts of every size, small ones often."""

    def some(how_many: int) -> tuple[int, ...]:
        return tuple(int(2 ** rng.uniform(0, 12)) - 1 for _ in range(how_many))

    bands = tuple(count % 300 for count in some(6))
    used = sum(bands) + some(1)[0]
    rows, distinct, doubles, triples, left_out, households, with_unique, half = some(8)
    return Observed(
        used + rows, used, sum(bands), distinct, doubles, triples, left_out, households, with_unique, half,
        some(3), some(2), tuple(sorted(some(4))), bands, some(1)[0], tuple(sorted(some(3), reverse=True)),
    )  # fmt: skip


def same_when_rounded(rng: np.random.Generator, count: int) -> int:
    """Another count that must look the same as this one."""
    if count < 10:
        return int(rng.integers(0, 10))
    nearest = 5 * ((count + 2) // 5)
    return int(rng.integers(max(10, nearest - 2), nearest + 3))


def disguise(rng: np.random.Generator, seen: Observed) -> Observed:
    """Change every count as far as rounding hides it. The population's rounding depends on `used`, which stays."""
    changed = {}
    for found in fields(seen):
        value = getattr(seen, found.name)
        if found.name == "used":
            continue
        if isinstance(value, tuple):
            changed[found.name] = tuple(same_when_rounded(rng, count) for count in value)
        else:
            changed[found.name] = same_when_rounded(rng, value)
    return replace(seen, **changed)


def result_of(seen: Observed) -> HandMade:
    # Draws hold no count of the file, and drawing them a thousand times would only take time.
    return HandMade(make_summary(seen), make_records(seen.bands), {}, {"input": {"sha256": HASH}})


def test_the_rule_for_every_count():
    for exact in range(20_000):
        shown = count_safely(exact)
        assert obeys(shown.text)
        assert (shown.text == "<10") == (exact < 10) == (shown.value is None)
        if shown.value is not None:
            assert abs(shown.value - exact) <= 2


def test_no_small_count_can_be_worked_out_from_a_total():
    """A total and all parts but one are shown rounded: several values remain for the part that is not shown."""
    for hidden, shown in product(range(1, 10), range(10, 60)):
        total, part = count_safely(hidden + shown).value, count_safely(shown).value
        assert total is not None
        assert part is not None
        possible = {
            x for x in range(10) for y in range(10, 70)
            if count_safely(y).value == part and count_safely(x + y).value == total
        }  # fmt: skip
        assert len(possible) >= 3


@pytest.mark.parametrize("fraction", [0.5, 0.1, 0.01, 0.0013])
def test_the_population_does_not_reveal_the_number_of_records(fraction):
    for records in range(10, 3000, 7):
        shown = round_population(round(records / fraction), records)
        near = range(max(1, records - 10), records + 11)
        assert sum(round_population(round(other / fraction), other) == shown for other in near) >= 3


def test_counts_that_round_alike_give_the_same_report(rng):
    """So a safe report holds nothing of a count but its rounded value: a thousand files and their doubles."""
    for _ in range(1000):
        seen = random_observed(rng)
        other = disguise(rng, seen)
        assert make_content(result_of(seen)) == make_content(result_of(other))


def test_the_internal_report_would_be_caught(rng):
    different = 0
    for _ in range(50):
        seen = random_observed(rng)
        other = disguise(rng, seen)
        different += make_content(result_of(seen), internal=True) != make_content(result_of(other), internal=True)
    assert different >= 49


def canaries(rng: np.random.Generator) -> Observed:
    """Counts that stand out: from 10,000, all different, none a multiple of 5, none near another."""
    numbers = iter(sorted(10_000 + 20 * rng.permutation(2000)[:30] + rng.integers(1, 5, 30)))

    def some(how_many: int) -> tuple[int, ...]:
        return tuple(int(next(numbers)) for _ in range(how_many))

    one = [some(1)[0] for _ in range(10)]
    return Observed(*one, some(3), some(2), some(4), (12, 23, 34, 46, 57, 68), *some(1))


def counts_in(seen: Observed) -> set[int]:
    found: set[int] = set()
    for name in fields(seen):
        value = getattr(seen, name.name)
        found |= set(value if isinstance(value, tuple) else (value,)) if name.name != "bands" else set()
    return found


def test_no_exact_count_stands_in_a_safe_page(rng):
    """A thousand files with counts that stand out: none of them is on the page or in its JSON."""
    for turn in range(1000):
        seen = canaries(rng)
        content = make_content(result_of(seen))
        exact = counts_in(seen)
        for path, leaf in walk(content):
            assert not exact & set(integers_of(leaf.text if isinstance(leaf, Count) else str(leaf))), path
            assert not isinstance(leaf, Count) or obeys(leaf.text), path
        if turn % 25 == 0:
            assert not exact & set(integers_of(text_of(render(content))))
            assert not exact & set(integers_of(content_json(content)))


def test_exact_counts_stand_in_an_internal_page(rng):
    seen = canaries(rng)
    found = integers_of(text_of(render(make_content(result_of(seen), internal=True))))
    missing = counts_in(seen) - set(found)
    # Those the report never shows.
    assert missing <= set()


def table_cells(page: str, section: str) -> list[str]:
    body = page.split(f'id="{section}"')[1].split("</section>")[0].split("</table>")[0]
    return re.findall(r'<td class="n">([^<]*)</td>', body)


def test_the_table_of_risks_obeys(rng):
    for _ in range(30):
        seen = replace(Observed(), bands=tuple(int(x) for x in rng.integers(0, 40, 6)))
        cells = table_cells(render(make_content(result_of(seen))), "records")
        assert len(cells) == 12
        assert all(obeys(cell.replace("&lt;", "<")) for cell in cells)


def observe(codes: np.ndarray) -> Observed:
    """Count a table of records in plain Python."""
    records = [tuple(row) for row in codes.tolist()]
    cells = Counter(records)
    sizes = Counter(cells.values())
    without = tuple(
        sum(size == 1 for size in Counter(row[:j] + row[j + 1 :] for row in records).values()) for j in range(3)
    )
    alone = [row for row in records if cells[row] == 1]
    bands = [0] * 6
    for row in alone:
        bands[sum(row) % 6] += 1
    above = tuple(sum(bands[k:]) for k in (5, 4, 3, 2))
    categories = tuple(sum(row[0] == x for row in alone) for x in (0, 1))
    return Observed(
        len(codes), len(codes), len(alone), len(cells), sizes[2], sizes[3], 0, len(codes) // 2, len(alone) // 2,
        len(alone) // 3, without, categories, above, tuple(bands),
    )  # fmt: skip


def test_one_record_less_moves_counts_by_one_step_at_most(rng):
    """500 tables, with and without one record: a shown count stays, or goes to its neighbour; none is below 10."""
    moved = 0
    for _ in range(500):
        codes = rng.integers(0, [rng.integers(2, 9), 5, 6], (int(rng.integers(20, 120)), 3))
        contents = [make_content(result_of(observe(table))) for table in (codes, codes[1:])]
        before, after = (dict(walk(content)) for content in contents)
        assert {path for path, leaf in before.items() if isinstance(leaf, Count)} <= after.keys()
        for path, leaf in before.items():
            if isinstance(leaf, Count):
                steps = [10 if found.value is None else found.value for found in (leaf, after[path])]
                assert abs(steps[0] - steps[1]) in (0, 5), path
                moved += leaf != after[path]
    assert moved > 100


def test_without_rounding_one_record_would_show():
    codes = np.random.default_rng(5).integers(0, [7, 5, 6], (60, 3))
    before, after = (dict(walk(make_content(result_of(observe(table)), internal=True))) for table in (codes, codes[1:]))
    assert any(isinstance(leaf, Count) and abs(leaf.value - after[path].value) == 1 for path, leaf in before.items())


def test_only_the_owner_sees_rows_categories_hashes_and_weights():
    result = make_result(labels=("zzcanaryzz", "yycanaryyy"))
    safe, internal = (render(make_content(result, kind)) for kind in (False, True))
    for secret in ("zzcanaryzz", "yycanaryyy", HASH, "777.7", "row of the file", "39,600"):
        assert secret in internal
        assert secret not in safe
        assert secret not in content_json(make_content(result))
    assert "INTERNAL" in internal
    assert "INTERNAL" not in safe


def test_a_threshold_is_shown_only_when_enough_records_lie_between():
    def shown(above: tuple[int, ...], uniques: int) -> list[bool]:
        seen = replace(Observed(), above=above, sample_uniques=uniques)
        return [row.tau1 is not None for row in make_content(result_of(seen)).thresholds]

    assert shown((3, 24, 58, 91), 503) == [False, True, True, True]
    assert shown((12, 13, 30, 31), 503) == [True, False, True, False]
    assert shown((12, 40, 495, 500), 503) == [True, True, False, False]
    assert shown((1, 2, 3, 4), 8) == [False] * 4


@pytest.mark.parametrize(("uniques", "everybody"), [(0, False), (4, True), (503, True)])
def test_a_counted_answer_is_a_count(uniques, everybody):
    """When the sample is the population, tau1 and all made from it are counts, and shown as such."""
    result = make_result(replace(Observed(), sample_uniques=uniques, bands=(0, 0, 0, 0, 0, uniques)))
    result.summary["model"] = {"name": "hdp", "prior": "adaptive", "estimator": "none", "profiles": None}
    result.summary["convergence"] |= {"chains": 0, "sweeps": 0, "message": f"{uniques}", "gates": []}
    result.draws = {name: np.full((1, 1), float(uniques)) for name in ("tau1", "tau2")}
    for name in ("tau1", "tau2"):
        result.summary[name] = result.summary[name] | {"mean": float(uniques), "interval": [float(uniques)] * 2}
    content = make_content(result)
    if everybody:
        assert content.tau1.text == {4: "<10", 503: "505"}[uniques]
        assert content.tau1.mean is None
        assert content.verdict.sentence.startswith("The sample is the whole population")
    else:
        assert "these keys identify nobody" in content.verdict.sentence
    assert content.variables == content.thresholds == content.distributions == ()
    page = render(content)
    assert "503" not in page
    assert str(uniques) in make_content(result, internal=True).verdict.sentence or uniques == 0


def test_merged_categories_are_named_to_the_owner_only(tmp_path):
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({"A": rng.integers(1, 9, 60), "B": rng.choice(["zzcanary", "y", "z"], 60)})
    frame.write_csv(tmp_path / "s.csv")
    merge = {"B": [["zzcanary", "y"]]}
    keyhole.assess(tmp_path / "s.csv", "A,B", 500, merge=merge, quick=True, max_sweeps=40).save(tmp_path / "r")
    loaded = keyhole.load(tmp_path / "r")
    loaded.report(tmp_path / "safe.html")
    loaded.report(tmp_path / "internal.html", internal=True)
    safe, internal = ((tmp_path / f"{kind}.html").read_text(encoding="utf-8") for kind in ("safe", "internal"))
    for text in (safe, internal):
        assert "Categories were merged before the estimate" in text
    assert "zzcanary" not in safe
    assert "(y, zzcanary)" in internal
    assert "--merge B=y,zzcanary" in str(Asked(loaded.manifest, internal=True).suggest())
    assert Asked(loaded.manifest, internal=False).suggest() is None
