"""The content of a report, as typed and immutable values. Templates write it down and compute nothing.

Every count of records is a Count, which holds no more than may be shown: in a safe report "<10" below 10, zero
included, otherwise the count rounded to 5. The exact value is not kept, so that nothing computed from a Count can
reveal more than the Count itself. Estimates and their intervals are not counts and are shown as they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

SMALLEST = 10
STEP = 5


@dataclass(frozen=True)
class Count:
    """A count as it is shown; value is None where only "<10" may be shown."""

    value: int | None
    text: str

    @property
    def in_a_sentence(self) -> str:
        return f"fewer than {SMALLEST}" if self.value is None else self.text


Rule = Callable[[int], Count]


def count_safely(exact: int) -> Count:
    """Keep only what reveals nothing of single records."""
    if exact < SMALLEST:
        return Count(None, f"<{SMALLEST}")
    rounded = STEP * round(exact / STEP)
    return Count(rounded, f"{rounded:,}")


def count_exactly(exact: int) -> Count:
    """Keep the count as it is, for the owner's own report."""
    return Count(int(exact), f"{exact:,}")


def round_population(population: int, records: int) -> int:
    """Round N so coarsely that the number of records cannot be computed from it when a fraction was given."""
    grain: int = 10 ** math.ceil(math.log10(max(1.0, STEP * population / max(records, 1))))
    return max(grain, grain * round(population / grain))


Kind = Literal["safe", "internal"]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, and both as text. Only the text is there where it is really a count.

    pooled: whether chains agree; if not, there is no mean to show, and the text is the range over chains.
    """

    mean: float | None
    low: float | None
    high: float | None
    text: str
    pooled: bool = True

    @property
    def about(self) -> str:
        """The text, with "about" before an estimate."""
        return f"about {self.text}" if self.pooled else self.text


@dataclass(frozen=True)
class Step:
    """One thing to do next: what, why or how, and a command if there is one."""

    what: str
    how: str
    command: str | None = None


@dataclass(frozen=True)
class Verdict:
    """The answer in words."""

    sentence: str
    matches: str
    certainty: str
    cause: str
    meaning: tuple[str, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Source:
    """The file.

    population: as shown; missing: how blank values were treated; undecided: whether blank values leave open if further
    records are alone; bands: how keys were cut; merged: keys with merged categories; missing_texts: which
    texts were read as blank.
    """

    records: Count
    rows: Count
    population: str
    keys: tuple[str, ...]
    ignored: tuple[str, ...]
    ordered: tuple[str, ...]
    sample_uniques: Count
    missing: str
    cells: str | None
    undecided: bool = False
    bands: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    missing_texts: str = ""


@dataclass(frozen=True)
class Distribution:
    """The predictive distribution of one risk of the file; there is one more edge than shares."""

    name: str
    of_what: str
    estimate: Estimate
    level: float
    edges: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class RiskBand:
    """How many sample uniques have a risk in this range."""

    label: str
    r1: Count
    r2: Count


@dataclass(frozen=True)
class Threshold:
    """Records with a risk above `above`, and what remains without them; None where it may not be shown."""

    above: float
    records: Count
    tau1: float | None
    tau2: float | None


@dataclass(frozen=True)
class PolicyRow:
    """Whether the limit of a policy is met, in words, and where its number is from."""

    met: bool
    sentence: str
    source: str


@dataclass(frozen=True)
class EveryRecord:
    """The risk of every record: estimates by what they are of, and how many records have a risk above a number."""

    estimates: tuple[tuple[str, str], ...]
    above: tuple[tuple[str, Count], ...]
    note: str


@dataclass(frozen=True)
class Category:
    """The risk of the sample uniques of one category (internal reports only)."""

    name: str
    uniques: Count
    tau1: float
    tau2: float


@dataclass(frozen=True)
class VariableRisk:
    """The share of the risk that is due to a variable, and what remains without it."""

    name: str
    share: float
    tau1_without: Estimate
    tau2_without: Estimate
    uniques_without: Count
    categories: tuple[Category, ...]


@dataclass(frozen=True)
class HelpRow:
    """The best single step for a variable, what remains after it, and the share of the variable's information lost.

    option: that of what-if which does the same (internal reports only).
    """

    name: str
    step: str
    tau1: Estimate
    tau2: Estimate
    uniques: Count
    lost: str
    option: str | None


@dataclass(frozen=True)
class CheckRow:
    """A count in the file and what the model expects."""

    name: str
    observed: Count
    expected: Estimate
    ok: bool


@dataclass(frozen=True)
class ModelCheck:
    """Whether files simulated from the fitted model resemble this one.

    verdict: of the model check in a clause, without what the half-sample check says; None if there was none.
    """

    ok: bool
    fits: Literal["fits", "fits except", "does not fit"]
    verdict: str | None
    sentence: str
    rows: tuple[CheckRow, ...]
    two_way: str | None


@dataclass(frozen=True)
class ChainPicture:
    """One chain: thinned draws, the distribution of its ranks, and its own estimate."""

    label: str
    trace: tuple[float, ...]
    ranks: tuple[float, ...]
    own: Estimate


@dataclass(frozen=True)
class ChainsPicture:
    """All chains for one quantity; every `step`-th draw is shown; left_out: chains not shown."""

    name: str
    of_what: str
    chains: tuple[ChainPicture, ...]
    draws: int
    step: int
    left_out: int


@dataclass(frozen=True)
class GateRow:
    """One condition of convergence. role: decides, guards or shown."""

    name: str
    value: str
    limit: str
    passed: bool
    role: str


@dataclass(frozen=True)
class ChainGroup:
    """Chains that agree among themselves."""

    chains: str
    tau1: Estimate
    tau2: Estimate
    weight: str


@dataclass(frozen=True)
class Convergence:
    """Whether chains from different starts agree.

    grade: converged, usable, not converged; pooled: whether there is one estimate of all chains; command: what
    continues a run that ran out of time.
    """

    grade: str
    converged: bool
    pooled: bool
    sampled: bool
    sentence: str
    message: str
    remedy: str
    command: str | None
    gates: tuple[GateRow, ...]
    groups: tuple[ChainGroup, ...]
    envelope: str | None
    pictures: tuple[ChainsPicture, ...]


@dataclass(frozen=True)
class Impossible:
    """Combinations that cannot exist. rules_in_words: empty when the result folder does not hold them."""

    given: bool
    sentence: str
    rules_in_words: tuple[str, ...]


@dataclass(frozen=True)
class Comparator:
    """Another estimator on the same file, and what it assumes."""

    name: str
    tau1: str
    tau2: str
    assumes: str


@dataclass(frozen=True)
class RecordRow:
    """One of the riskiest records (internal reports only): its row and risks, never its values."""

    row: int
    r1: str
    r2: str


@dataclass(frozen=True)
class Term:
    """A term and its meaning."""

    word: str
    meaning: str


@dataclass(frozen=True)
class Content:
    """All content of a report. None and empty: not computed in this run; about: what it is of, from when, for whom."""

    kind: Kind
    title: str
    about: tuple[tuple[str, str], ...]
    version: str
    made: str
    verdict: Verdict
    source: Source
    tau1: Estimate
    tau2: Estimate
    level: float
    distributions: tuple[Distribution, ...]
    bands: tuple[RiskBand, ...]
    thresholds: tuple[Threshold, ...]
    every: EveryRecord
    policies: tuple[PolicyRow, ...]
    households: str | None
    variables: tuple[VariableRisk, ...]
    helps: tuple[HelpRow, ...]
    release_draws: str
    check: ModelCheck | None
    convergence: Convergence
    assumptions: tuple[str, ...]
    impossible: Impossible
    comparators: tuple[Comparator, ...]
    riskiest: tuple[RecordRow, ...]
    provenance: tuple[tuple[str, str], ...]
    cautions: tuple[str, ...]
    glossary: dict[str, tuple[Term, ...]]
