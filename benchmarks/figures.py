"""The figures that the project promises (issues 2 and 3), next to what was measured."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One promise: `measured` must be at least (or at most) `limit`."""

    name: str
    measured: float
    limit: float
    at_least: bool
    unit: str

    @property
    def met(self) -> bool:
        """Whether the promise is kept."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


EFFECTIVE = {
    ("ny_adults_5000", "paper"): 10.0,
    ("ny_adults_5000", "adaptive"): 4.0,
    ("ny_adults_1000", "paper"): 40.0,
    ("ny_adults_1000", "adaptive"): 20.0,
    ("ny_full_1000_rules", "paper"): 10.0,
    ("ny_full_1000_rules", "adaptive"): 5.0,
    ("ny_full_10000_rules", "paper"): 1.0,
    ("ny_full_10000_rules", "adaptive"): 0.5,
}
VERDICTS = {
    "ny_adults_1000": 2.0,
    "ny_adults_5000": 5.0,
    "ny_full_1000_rules": 6.0,
    "ny_full_10000_rules": 60.0,
    "twenty_keys_5000": 60.0,
}
CELL = {6: 1.0, 8: 6.0, 10: 50.0, 12: 400.0}


def compare(sections: dict[str, Any]) -> list[Figure]:
    """Return every promise for which something was measured."""
    figures = list(compare_mixing(sections.get("mixing", [])))
    for row in sections.get("cells", []):
        if row["variables"] in CELL:
            name = f"cell probability, J = {row['variables']}"
            figures.append(Figure(name, row["microseconds"], CELL[row["variables"]], False, "microseconds"))
    figures += compare_answers(sections.get("answers", []))
    for row in sections.get("steps", []):
        if row["file"].endswith("_rules"):
            cost = sum(value for name, value in row["milliseconds"].items() if "augmented" in name)
            figures.append(Figure(f"augmented records, {row['file']} {row['prior']}", cost, 3.0, False, "ms"))
    figures += compare_classes(sections.get("classes", {}))
    startup = sections.get("startup", {})
    if startup:
        figures.append(Figure("keyhole --help", startup["help_seconds"], 0.3, False, "s"))
    if "compile" in startup:
        added = startup["compile"]["added_by_second"] + startup["compile"]["added_by_a_run"]
        figures.append(Figure("compiled by a second run", added, 0, False, "files"))
    return figures


def compare_mixing(rows: list[dict[str, Any]]) -> Iterator[Figure]:
    """Return the promises on effective draws, for tau1 and (stricter) its expectation given a draw."""
    for row in rows:
        limit = EFFECTIVE.get((row["file"], row["prior"]))
        if limit is not None:
            for name, value in row["effective_per_second"].items():
                yield Figure(f"{name}, {row['file']} {row['prior']}", value, limit, True, "effective/s")


def compare_classes(section: dict[str, Any]) -> Iterator[Figure]:
    """Return the promises on `classes`: processor seconds, of which an idle machine needs half on two cores."""
    rows = section.get("verdicts", [])
    for name, limit in VERDICTS.items():
        for key, most in (("cpu_seconds", limit), ("first_figure", 1.0)):
            found = [row[key] / (2.0 if key == "cpu_seconds" else 1.0) for row in rows if row["file"] == name]
            if found:
                what = "verdict of classes" if key == "cpu_seconds" else "first figure of classes"
                yield Figure(f"{what}, {name}", statistics.median(found), most, False, "s")
    large = section.get("large", [])
    if large:
        sweep, ten = (row["milliseconds"]["sweep"] for row in large)
        yield Figure("sweep of classes, a million records, two cores", sweep / 2.0, 100.0, False, "ms")
        yield Figure("the same, ten million records", ten / sweep, 1.2, False, "times")
        yield Figure("chains within 3 %, a million records", large[0]["until_close"]["seconds"], 600.0, False, "s")
        yield Figure("peak memory, a million records", large[0]["peak_megabytes"], 2000.0, False, "MB")


def compare_answers(rows: list[dict[str, Any]]) -> Iterator[Figure]:
    """Return the promises on the cost of an answer and its growth."""
    base = {}
    for row in rows:
        n, variables, cost = row["records"], row["variables"], row["nanoseconds_per_answer"]
        if n == 10_000:
            base[variables] = cost
            if variables == 8:
                yield Figure("seats and labels, n = 10,000, J = 8", cost, 80.0, False, "ns/answer")
        else:
            # Linear: an answer costs what it did, give or take memory that no longer fits the cache.
            name = f"growth to n = {n:,}, J = {variables}"
            yield Figure(name, cost / base[variables], 1.5, False, "times per answer")
        if "peak_megabytes" in row:
            yield Figure(f"peak memory, n = {n:,}", row["peak_megabytes"], 2048.0, False, "MB")


def format_table(figures: list[Figure]) -> str:
    """Return the promises as lines."""
    lines = [f"{'figure':46s} {'measured':>10s} {'promised':>12s}"]
    for figure in figures:
        sign = ">=" if figure.at_least else "<="
        verdict = "" if figure.met else "   NOT MET"
        lines.append(f"{figure.name:46s} {figure.measured:10.3g} {sign:>4s} {figure.limit:<7g} {figure.unit}{verdict}")
    return "\n".join(lines)
