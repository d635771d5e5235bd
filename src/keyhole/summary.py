"""The numbers of a run: `Summary`, which writes and reads summary.json, and the table of records.csv.

A field of a block that is declared with a default is absent where it does not apply.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, ValidationError, ValidationInfo, field_validator

from keyhole._version import __version__
from keyhole.classical import make_sample
from keyhole.classical.catalogue import Comparator, estimate_quickly
from keyhole.data import CellCounts, Microdata
from keyhole.data.design import ExtraColumns, Weights, describe_weights, population_from_weights, very_unequal
from keyhole.data.order import list_ordered
from keyhole.data.strata import Strata
from keyhole.diagnostics.gates import Gate
from keyhole.diagnostics.groups import Group
from keyhole.diagnostics.laws import Estimate, Interval
from keyhole.errors import SettingsError
from keyhole.readable import ReadableModel
from keyhole.risk import Diagnosis, Fit, Measure, Risk, SelfCheck
from keyhole.risk.advice import Grade, Verdict, describe_cautions
from keyhole.risk.all_records import (
    MISSING,
    USUAL,
    AllRecords,
    CellRisks,
    Points,
    RecordRisk,
    evaluate_cells,
    find_record_risk,
    prepare_cells,
    summarise_records,
    take_uniques,
)
from keyhole.risk.attribution import (
    Attribution,
    Threshold,
    attribute_risk,
    describe_thresholds,
    leave_each_out,
    rank_uniques,
)
from keyhole.risk.helps import Help, find_helps
from keyhole.risk.households import Households, find_household_risk
from keyhole.risk.policies import Chances, Policy, PolicyVerdict, judge
from keyhole.risk.quick import Answer
from keyhole.risk.release import Posterior
from keyhole.risk.stacking import Stacking
from keyhole.sampling import Trace
from keyhole.sampling.events import leave_out
from keyhole.settings import Settings
from keyhole.words import enumerate_words
from keyhole.zeros import Zeros
from keyhole.zeros.boxes import fixed_variables


class DesignBlock(ReadableModel):
    """How the records were drawn, as assumed.

    kind: srs, a simple random sample; strata; weight-classes, classes of similar weights in place of strata.
    sizes: whether the people of the strata come from a file or from weights; columns: those that define the strata.
    fractions: the smallest and the largest sampling fraction of a stratum; cv_within: of the weights within strata.
    assumes: what was assumed, in words.
    """

    kind: Literal["srs", "strata", "weight-classes"]
    strata: int
    sizes: Literal["file", "weights"] | None
    columns: list[str]
    fractions: tuple[float, float] | None
    cv_within: float | None
    assumes: str


SIMPLE = DesignBlock(
    kind="srs",
    strata=1,
    sizes=None,
    columns=[],
    fractions=None,
    cv_within=None,
    assumes="the records are a simple random sample of the population, one record per person",
)


class SettingsBlock(Settings, ReadableModel):
    """Every option of a run but where it ran, which changes no number."""


class MissingBlock(ReadableModel):
    """Texts that mean missing; by key, the number of rows that have one, other than the empty text, and which."""

    texts: list[str]
    found: dict[str, int]
    met: dict[str, list[str]]


class InputBlock(ReadableModel):
    """What was read, and what it was taken to be. `keys` of a mapping is a method, hence the other name."""

    rows: int
    used: int
    key_variables: list[str] = Field(alias="keys")
    levels: dict[str, int]
    cells: int
    population: int
    population_given: int | None = None
    sample_uniques: int
    distinct_cells: int | None
    missing: Literal["category", "drop", "model"]
    missing_answers: int = 0
    records_with_missing: int = 0
    undecided: int = 0
    ignored_keys: list[str]
    ordered: list[str] = Field(default_factory=list)
    count: str | None
    bands: dict[str, str]
    merge: dict[str, dict[str, list[str]]] = Field(default_factory=dict)
    user_missing: Literal["keep", "blank"]
    na: MissingBlock | None = None
    dropped: int
    decimal_comma: list[str] = Field(default_factory=list)
    observed_keys: list[str] = Field(default_factory=list)
    codebook_strangers: dict[str, str] = Field(default_factory=dict)
    missing_codes: dict[str, list[str]] = Field(default_factory=dict)
    spelling: dict[str, str] = Field(default_factory=dict)


class ZerosBlock(ReadableModel):
    """The rules.

    p0: mean probability of the impossible cells under the model before they are excluded, none when nothing was
    sampled; left_out: records that contradicted a rule and were left out; words: the first rules, each with
    words_declared: whether it names nothing but categories of a codebook, which reveal nothing of the records.
    """

    rules: int
    boxes: int
    impossible_cells: int
    share: float
    p0: float | None
    left_out: int
    words: list[str]
    words_declared: list[bool]


class ModelBlock(ReadableModel):
    """The model, and how the probabilities of cells were found."""

    name: str
    why: str | None = None
    prior: str
    estimator: str
    estimator_error: float | None = None
    profiles: Estimate | None


class ConvergenceBlock(ReadableModel):
    """The diagnosis, and how long the chains were."""

    converged: bool
    grade: Grade
    message: str
    verdict: Verdict
    rhat: float
    ess_bulk: float
    ess_tail: float
    modes: int
    groups: tuple[Group, ...]
    disagree: bool
    envelope: dict[str, Interval] | None
    stacking: Stacking | None
    chains: int
    start_sweeps: int = 0
    sweeps: int
    warm_up: int = 0
    spacing: int = 1
    starts: list[int] = Field(default_factory=list)
    stopped: str | None = None
    by_chain: list[dict[str, Estimate]] = Field(default_factory=list)
    gates: tuple[Gate, ...]

    @field_validator("verdict")
    @classmethod
    def restore_rhat(cls, verdict: Verdict) -> Verdict:
        """JSON has no infinity: R-hat is null where it was infinite."""
        if verdict.numbers.get("rhat", 0.0) is not None:
            return verdict
        return replace(verdict, numbers=verdict.numbers | {"rhat": math.inf})

    @field_validator("rhat", "ess_bulk", "ess_tail", mode="before")
    @classmethod
    def restore_infinity(cls, value: object, info: ValidationInfo) -> object:
        """JSON has neither infinity nor NaN, which stands where nothing was sampled."""
        if value is not None:
            return value
        verdict = info.data.get("verdict")
        return math.nan if verdict is not None and verdict.reason == "certain" else math.inf

    @property
    def diagnosis(self) -> Diagnosis:
        return Diagnosis(**{part.name: getattr(self, part.name) for part in fields(Diagnosis)})


class QuickBlock(ReadableModel):
    """The quick answer of `classes`; message: how the answer of the model differs from it."""

    tau1: Measure
    tau2: Measure
    convergence: ConvergenceBlock
    seconds: float
    message: str


class Summary(ReadableModel):
    """The numbers of a run, in the order of summary.json. docs/results.md explains every field.

    all_records_missing: why `all_records` is null, if it is.
    """

    version: str
    settings: SettingsBlock
    input: InputBlock
    design: DesignBlock = SIMPLE
    zeros: ZerosBlock | None
    model: ModelBlock
    tau1: Measure
    tau2: Measure
    all_records: AllRecords | None = None
    all_records_missing: str = ""
    policies: list[PolicyVerdict] = Field(default_factory=list)
    convergence: ConvergenceBlock
    quick: QuickBlock | None = None
    fit: Fit | None
    self_check: SelfCheck | None
    seconds: dict[str, float]
    attribution: Attribution
    helps: list[Help] = Field(default_factory=list)
    thresholds: list[Threshold]
    weights: Weights | None
    households: Households | None
    comparators: list[Comparator] | None
    cautions: list[str] = Field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what this or an earlier version wrote; ValueError if it is not that."""
        content = complete(json.loads(text))
        try:
            return cls.model_validate_json(json.dumps(content), strict=True)
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)
            incomplete = {str(item["loc"][0]) for item in found if item["type"] in ("missing", "missing_argument")}
            if len(incomplete) == 0 or not incomplete <= NOT_NEEDED.keys() or not incomplete <= content.keys():
                raise
        content |= {name: NOT_NEEDED[name] for name in incomplete}
        return cls.model_validate_json(json.dumps(content), strict=True)


NOT_NEEDED: Mapping[str, Any] = {
    "all_records": None,
    "policies": [],
    "quick": None,
    "fit": None,
    "self_check": None,
    "attribution": {"draws": 0, "variables": []},
    "helps": [],
    "thresholds": [],
    "weights": None,
    "households": None,
    "comparators": None,
}
"""Blocks that a result can be read without: if an earlier version wrote none, or one with less, they are like this."""

ADDED: Mapping[str, Mapping[str, Any]] = {
    "input": {
        "distinct_cells": None,
        "ignored_keys": [],
        "count": None,
        "bands": {},
        "user_missing": "keep",
        "dropped": 0,
    },
    "design": {"sizes": None, "columns": [], "fractions": None, "cv_within": None},
    "zeros": {"left_out": 0, "words": [], "words_declared": []},
    "convergence": {"groups": [], "disagree": False, "envelope": None, "stacking": None, "gates": []},
}
"""Fields of the other blocks that earlier versions did not write, and what they are then."""


def complete(content: Any) -> dict[str, Any]:
    """Return the content of a summary.json with the fields that earlier versions did not write."""
    if not isinstance(content, dict):
        raise ValueError("not a summary")
    found = {name: value for name, value in NOT_NEEDED.items() if Summary.model_fields[name].is_required()} | content
    for name, fields_added in ADDED.items():
        if isinstance(found.get(name), dict):
            found[name] = {**fields_added, **found[name]}
    if isinstance(found.get("zeros"), dict) and "words_declared" not in content["zeros"]:
        found["zeros"]["words_declared"] = [False] * len(found["zeros"]["words"])
    if isinstance(found.get("convergence"), dict) and "grade" not in found["convergence"]:
        grade = "converged" if found["convergence"].get("converged") is True else "not converged"
        found["convergence"]["grade"] = grade
    return found


@dataclass(frozen=True)
class Design:
    """The design as the user gave it: names of the columns of weights and households, and what they hold."""

    weight: str | None
    household: str | None
    columns: ExtraColumns

    def sum_of_weights(self, population: int | None, fraction: float | None, row_used: NDArray[np.bool_]) -> int | None:
        """Return the sum of the weights of the records used, if they give the population."""
        if self.weight is None or self.columns.weight is None or population is not None or fraction is not None:
            return None
        return population_from_weights(self.columns.weight[row_used], self.weight)


@dataclass(frozen=True)
class Explanation:
    """Blocks of the summary; unique_columns, record_columns: of records.csv, for uniques and for records.

    record_risk: the risk of every record, and cell_risks, the draws that it is from; None if missing answers leave it
    open.
    """

    design: DesignBlock
    attribution: Attribution
    helps: list[Help]
    thresholds: list[Threshold]
    weights: Weights | None
    households: Households | None
    comparators: list[Comparator] | None
    all_records: AllRecords | None = None
    record_risk: RecordRisk | None = None
    cell_risks: CellRisks | None = None
    unique_columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    record_columns: dict[str, NDArray[Any]] = field(default_factory=dict)


def explain_risk(
    posterior: Posterior,
    counts: CellCounts,
    risk: Risk,
    trace: Trace | None,
    design: Design,
    summed: bool,
    strata: Strata | None = None,
    points: Points = USUAL,
) -> Explanation:
    """Say which variables, categories and records carry the risk; summed: the population is the sum of weights.

    strata: also if there is only one, unlike those of the posterior; points: what is counted over all records.
    """
    used = posterior.microdata.row_used
    columns: dict[str, NDArray[Any]] = {}
    weights = None if design.columns.weight is None else design.columns.weight[used]
    weights_block, households, comparators = None, None, None
    if design.weight is not None and weights is not None:
        weights_block = describe_weights(weights, design.weight, summed, strata is not None)
    if trace is not None:
        people = posterior.n_unseen + posterior.microdata.records
        represented = weights if strata is None else (strata.people / strata.records)[strata.of_record]
        sample = make_sample(posterior.microdata, people, posterior.zeros, represented, counts)
        comparators = estimate_quickly(sample, posterior.strata is not None)
    if design.household is not None and design.columns.household is not None:
        # Households of which no row is used do not count.
        _, household = np.unique(design.columns.household[used], return_inverse=True)
        members = household.reshape(-1).astype(np.int64)
        households, columns = find_household_risk(design.household, members, counts.unique_record, risk, trace)
    without = leave_each_out(posterior, trace)
    records, found = None, measure_all_records(posterior, points)
    if found is not None:
        records = find_record_risk(found, posterior.n_unseen, risk.tau1.pooled)
        records = take_uniques(records, risk, counts.unique_record)
    return Explanation(
        describe_design(strata),
        attribute_risk(posterior, counts.unique_record, risk, without),
        find_helps(posterior, without.full, without.each, without.draws),
        describe_thresholds(risk),
        weights_block,
        households,
        comparators,
        None
        if found is None or records is None
        else summarise_records(found, records, posterior.n_unseen, posterior.grade, risk.tau1),
        records,
        found,
        unique_columns={"rank": rank_uniques(risk)},
        record_columns=columns,
    )


def judge_risk(
    policies: Sequence[Policy], risk: Risk, trace: Trace | None, explained: Explanation, records: int
) -> list[PolicyVerdict]:
    """Judge the risk by policies."""
    numbers = {
        "tau1": risk.tau1,
        "tau2": risk.tau2,
        "input": {"used": records},
        "all_records": explained.all_records,
    }
    tau1, tau2 = (risk.tau1.mean, risk.tau2.mean) if trace is None else (trace.laws["tau1"], trace.laws["tau2"])
    return judge(policies, numbers, Chances(tau1, tau2, records, explained.cell_risks, risk.tau1.pooled))


def measure_all_records(posterior: Posterior, points: Points) -> CellRisks | None:
    """Evaluate the cells of all records as they are."""
    table = prepare_cells(posterior, leave_out(posterior.microdata.levels, None))
    return None if table is None else evaluate_cells(posterior, table, points)


def describe_design(strata: Strata | None) -> DesignBlock:
    """Say how the records are assumed to be drawn.

    The words are in safe reports too, so they give no number of strata, which may be that of the categories of a key.
    """
    if strata is None:
        return SIMPLE
    assumes = SIMPLE.assumes
    fractions = strata.records / strata.people
    if strata.matters:
        columns = enumerate_words(list(strata.columns))
        where = f"strata of {columns}"
        if strata.kind == "weight-classes":
            where = (
                f"classes of similar weights ({columns}), which stand for strata (within them the weights have a CV of "
                f"{strata.cv_within or 0.0:.2f}, about the error of a record's exposure)"
            )
        assumes = f"the records are drawn at random within the {where}, one record per person"
        if strata.sizes == "weights":
            assumes += "; the people of each are the sum of its weights, an estimate that is taken as exact"
    return DesignBlock(
        kind=strata.kind,
        strata=len(strata.people),
        sizes=strata.sizes,
        columns=list(strata.columns),
        fractions=(float(fractions.min()), float(fractions.max())),
        cv_within=strata.cv_within,
        assumes=assumes,
    )


MOST_RULES = 100
"""Most rules written out in words."""

RISKS = ("r1", "r1_low", "r1_high", "r2", "r2_low", "r2_high")
ALL_RISKS = {"risk": "r2", "risk_low": "r2_low", "risk_high": "r2_high"}
"""The columns with the risk of every record, and those that they equal for sample uniques."""


def describe_input(
    microdata: Microdata,
    counts: CellCounts,
    population: int,
    settings: Settings,
    listed: Collection[str],
    given: int | None,
) -> InputBlock:
    """Describe what was read. Undecided: others agree, but each lacks an answer; listed: keys that a codebook lists.

    population: behind the records used; given: the number that was given, None if weights or a fraction were.
    """
    known = {*listed, *microdata.reading["bands"]}
    # The missing answers of each distinct cell, and of all records.
    lacking = (microdata.cells < 0).sum(axis=1)[microdata.cell]
    further = dict(microdata.reading)
    if settings.missing == "model":
        further |= {
            "missing_answers": int(lacking.sum()),
            "records_with_missing": int((lacking > 0).sum()),
            "undecided": counts.undecided,
        }
    return InputBlock(
        rows=microdata.rows,
        used=microdata.records,
        keys=[variable.name for variable in microdata.variables],
        levels={variable.name: len(variable.categories) for variable in microdata.variables},
        cells=microdata.table_cells,
        population=population,
        population_given=given,
        sample_uniques=len(counts.unique_record),
        distinct_cells=counts.distinct,
        missing=settings.missing,
        ignored_keys=list(microdata.ignored),
        ordered=list_ordered(microdata) if settings.prior == "adaptive" else [],
        observed_keys=[x.name for x in microdata.variables if x.labels is None and x.name not in known],
        **further,
    )


def describe_zeros(zeros: Zeros | None, microdata: Microdata, trace: Trace | None, left_out: int) -> ZerosBlock | None:
    """Describe the rules; left_out: records that contradicted one."""
    if zeros is None:
        return None
    p0 = None if trace is None else trace.quantities.get("p0")
    return ZerosBlock(
        rules=len(zeros.rules),
        boxes=len(zeros.impossible),
        impossible_cells=zeros.impossible_cells,
        share=zeros.impossible_cells / microdata.table_cells,
        p0=None if p0 is None else float(p0.mean()),
        left_out=left_out,
        words=[f"{rule.label}: {rule.words}" if rule.label else rule.words for rule in zeros.rules[:MOST_RULES]],
        words_declared=[
            all(microdata.variables[j].declared for box in rule.boxes for j in fixed_variables(zeros.grid, box))
            for rule in zeros.rules[:MOST_RULES]
        ],
    )


def describe_model(settings: Settings, answer: Answer | None) -> ModelBlock:
    if answer is None:
        return ModelBlock(name=settings.model, prior=settings.prior, estimator="none", profiles=None)
    settings, trace = answer.settings, answer.trace
    profiles = trace.quantities["profiles"]
    low, high = np.quantile(profiles, [0.025, 0.975])
    return ModelBlock(
        name=settings.model,
        why=answer.why,
        prior=settings.prior,
        estimator=trace.estimator,
        estimator_error=trace.estimator_error,
        profiles=Estimate(float(profiles.mean()), (float(low), float(high))),
    )


def describe_convergence(diagnosis: Diagnosis, settings: Settings, trace: Trace | None) -> ConvergenceBlock:
    run: dict[str, Any] = {"chains": 0, "sweeps": 0}
    if trace is not None:
        run = {
            "chains": settings.chains,
            "start_sweeps": trace.start_sweeps,
            "sweeps": trace.sweeps,
            "warm_up": trace.burn_in,
            "spacing": trace.thin,
            "starts": list(trace.starts),
            "stopped": trace.stopped,
            "by_chain": [
                {name: law.estimate((chain,)) for name, law in trace.laws.items()} for chain in range(len(trace.starts))
            ],
        }
    return ConvergenceBlock(
        converged=diagnosis.converged, grade=diagnosis.grade, message=diagnosis.message, **vars(diagnosis), **run
    )


def describe_quick(answer: Answer | None) -> QuickBlock | None:
    if answer is None or answer.quick is None:
        return None
    quick = answer.quick
    return QuickBlock(
        tau1=quick.risk.tau1,
        tau2=quick.risk.tau2,
        convergence=describe_convergence(quick.diagnosis, quick.settings, quick.trace),
        seconds=quick.seconds,
        message=answer.difference,
    )


def make_summary(
    settings: Settings,
    source: InputBlock,
    zeros: ZerosBlock | None,
    answer: Answer | None,
    diagnosis: Diagnosis,
    risk: Risk,
    fit: Fit | None,
    self_check: SelfCheck | None,
    explained: Explanation,
    seconds: dict[str, float],
    policies: list[PolicyVerdict],
) -> Summary:
    return Summary(
        version=__version__,
        settings=SettingsBlock(**settings.model_dump(exclude={"workers", "scheduler"})),
        input=source,
        design=explained.design,
        zeros=zeros,
        model=describe_model(settings, answer),
        tau1=risk.tau1,
        tau2=risk.tau2,
        all_records=explained.all_records,
        **({} if explained.all_records is not None else {"all_records_missing": MISSING}),
        policies=policies,
        convergence=describe_convergence(diagnosis, settings, None if answer is None else answer.trace),
        quick=describe_quick(answer),
        fit=fit,
        self_check=self_check,
        seconds=seconds,
        attribution=explained.attribution,
        helps=explained.helps,
        thresholds=explained.thresholds,
        weights=explained.weights,
        households=explained.households,
        comparators=explained.comparators,
        cautions=describe_cautions(
            source.used,
            source.observed_keys,
            source.dropped + (0 if zeros is None else zeros.left_out),
            very_unequal(explained.weights),
            source.codebook_strangers,
            answer is not None,
        ),
    )


def make_records(
    microdata: Microdata,
    counts: CellCounts,
    risk: Risk,
    unique_columns: Mapping[str, NDArray[Any]],
    record_columns: Mapping[str, NDArray[Any]],
    with_keys: bool = False,
    record_risk: RecordRisk | None = None,
) -> pl.LazyFrame:
    """One row per input row, in order; r1 and r2 only where a record is alone in its cell. Further columns come last.

    Risks are by distinct cell and join the rows when the table is written or collected, so that a table of many rows
    never has to be in memory.
    """
    unique_cell = counts.cell[counts.unique_record]
    sample_unique = np.zeros(counts.distinct, dtype=np.int8)
    sample_unique[unique_cell] = 1
    by_cell: dict[str, Any] = {
        "cell": np.arange(counts.distinct, dtype=np.int32),
        "cell_count": counts.size,
        "sample_unique": sample_unique,
    }
    for name in RISKS:
        by_cell[name] = _spread(np.asarray(getattr(risk, name), dtype=np.float64), unique_cell, counts.distinct)
    for name, own in ALL_RISKS.items():
        by_cell[name] = by_cell[own]
        if record_risk is not None:
            values = np.zeros(counts.distinct)
            values[counts.cell] = getattr(record_risk, name.replace("risk_", ""))[record_risk.cell]
            by_cell[name] = pl.Series(values)
    for name, values in unique_columns.items():
        by_cell[name] = _spread(values, unique_cell, counts.distinct)
    keys = decode_keys(microdata) if with_keys else {}
    by_cell |= keys
    record_row = microdata.record_row
    row_cell = np.full(microdata.rows, -1, dtype=np.int32)
    row_cell[record_row] = counts.cell
    by_row = {name: _spread(values, record_row, microdata.rows) for name, values in record_columns.items()}
    rows = pl.LazyFrame({"cell": row_cell, **by_row}).with_row_index("row", offset=1)
    joined = rows.join(pl.LazyFrame(by_cell), on="cell", how="left", maintain_order="left")
    return joined.select(
        pl.col("row").cast(pl.Int64),
        (pl.col("cell") >= 0).cast(pl.Int8).alias("used"),
        "cell_count",
        pl.col("sample_unique").fill_null(0),
        *RISKS,
        *ALL_RISKS,
        *by_row,
        *unique_columns,
        *keys,
    )


def decode_keys(microdata: Microdata) -> dict[str, pl.Series]:
    """Return the key columns of the distinct cells as codes of their categories; empty where blank."""
    columns = {}
    for j, variable in enumerate(microdata.variables):
        code = pl.Series(variable.name, [code or None for code in variable.categories], dtype=pl.String)
        columns[variable.name] = code.gather(pl.Series(microdata.cells[:, j]).replace(-1, None))
    return columns


def refuse_taken_names(microdata: Microdata) -> None:
    """Refuse keys that have the name of a column of records.csv."""
    households = [f"household_{name}" for name in RISKS]
    taken = {"row", "cell", "used", "cell_count", "sample_unique", "rank", *RISKS, *ALL_RISKS, *households}
    for variable in microdata.variables:
        if variable.name in taken:
            raise SettingsError(
                f"`with_keys` cannot add the key '{variable.name}', which is the name of another column of the "
                "records: rename it in the data, or omit `with_keys`."
            )


def _spread(values: NDArray[Any], place: NDArray[Any], length: int) -> pl.Series:
    """Return a column that is null but at these places."""
    spread = np.full(length, np.nan)
    spread[place] = values
    column = pl.Series(spread).fill_nan(None)
    return column.cast(pl.Int64) if values.dtype.kind == "i" else column
