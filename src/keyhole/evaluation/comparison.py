"""Compare estimators on one file: those of keyhole through `assess`, the classical ones through `classical`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from keyhole.api import assess, settle_contradictions
from keyhole.classical import CLASSICAL, Sample, estimate_classical, make_sample
from keyhole.classical.catalogue import Guess
from keyhole.data import SourceOptions, read_microdata
from keyhole.data.design import describe_weights, population_from_weights
from keyhole.data.order import order_keys
from keyhole.data.population import population_size
from keyhole.data.strata import check_design, make_strata
from keyhole.errors import InputError, KeyholeError, SettingsError, silenced
from keyhole.sampling import OnProgress
from keyhole.settings import Options, Settings, make_settings
from keyhole.zeros import RuleSource, Zeros, read_zeros

OUR_REFERENCE = "keyhole, docs/model.md; Battiston and Rimella (2024)"
MIXED_REFERENCE = "Manrique-Vallier and Reiter (2012), JASA 107, 1385-1394"


@dataclass(frozen=True)
class Ours:
    """A model of keyhole: its settings and its assumptions in one line."""

    settings: dict[str, Any]
    assumes: str
    reference: str


OURS = {
    "hdp-adaptive": Ours({}, "people mix profiles; number of profiles and prior learned", OUR_REFERENCE),
    "hdp-paper": Ours(
        {"prior": "paper", "ordered": None, "unordered": None},
        "people mix profiles; number learned, prior fixed",
        OUR_REFERENCE,
    ),
    "classes": Ours({"model": "classes"}, "each person has one profile; number learned", OUR_REFERENCE),
    "mixed-5": Ours({"model": "mixed", "profiles": 5}, "people mix 5 profiles", MIXED_REFERENCE),
    "mixed-20": Ours({"model": "mixed", "profiles": 20}, "people mix 20 profiles", MIXED_REFERENCE),
}
ESTIMATORS = (*OURS, *CLASSICAL)
TIME_LIMIT = 25.0
"""Seconds for each of keyhole's models, unless another limit is given."""


@dataclass(frozen=True)
class Outcome:
    """The result of one estimator, or its error; converged: None for estimators without chains."""

    name: str
    tau1: Guess
    tau2: Guess
    seconds: float
    converged: bool | None = None
    error: str | None = None
    r1: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    r2: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """The data as arguments of `assess`, and as a sample for the classical estimators.

    na: which texts were taken as missing; strata: columns of the strata, none in a simple random sample; warning: what
    unequal weights mean if no strata account for them.
    """

    arguments: Mapping[str, Any]
    sample: Sample
    na: Mapping[str, Any]
    strata: tuple[str, ...] = ()
    warning: str | None = None


@dataclass(frozen=True)
class Comparison:
    """What the estimators find on one file; iterating yields the outcomes.

    Attributes
    ----------
    outcomes : tuple of Outcome
        One for each estimator, in the order of docs/estimators.md. One that fails has its `error`.
    records, population, sample_uniques : int
        Records of the sample, people of the population, and records that are alone in the sample.
    missing : str
        What was done with blank keys.
    na : dict
        Which texts were taken as missing, as `input.na` in summary.json.
    strata : tuple of str
        Columns of the strata; empty for a simple random sample.
    warning : str or None
        What unequal weights mean if no strata account for them.
    """

    outcomes: tuple[Outcome, ...]
    records: int
    population: int
    sample_uniques: int
    missing: str
    na: Mapping[str, Any]
    strata: tuple[str, ...] = ()
    warning: str | None = None

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return what `keyhole compare --json` prints.

        Returns
        -------
        dict
        """
        counts = {"records": self.records, "population": self.population, "sample_uniques": self.sample_uniques}
        return {
            "input": {**counts, "na": dict(self.na), "strata": list(self.strata), "warning": self.warning},
            "estimators": [describe_outcome(outcome) for outcome in self.outcomes],
        }


def choose_estimators(names: str | Sequence[str] | None, allowed: Sequence[str] = ESTIMATORS) -> tuple[str, ...]:
    """Return the named estimators (None: all) in the order of `allowed`."""
    if names is None:
        return tuple(allowed)
    chosen = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    for name in chosen:
        if name not in allowed:
            raise SettingsError(f"unknown estimator '{name}': the estimators are {', '.join(allowed)}")
    return tuple(name for name in allowed if name in chosen)


def describe_estimator(name: str) -> tuple[str, str]:
    entry = OURS[name] if name in OURS else CLASSICAL[name]
    return entry.assumes, entry.reference


def run_estimator(
    name: str, given: Given, settings: Mapping[str, Any], on_progress: OnProgress | None = None
) -> Outcome:
    """Run one estimator; its outcome has the error if it fails."""
    clock = time.perf_counter()
    try:
        found = _run_ours(name, given, settings, on_progress) if name in OURS else _run_classical(name, given)
    except (KeyholeError, MemoryError) as error:
        reason = str(error) or "not enough memory."
        return Outcome(name, Guess(), Guess(), time.perf_counter() - clock, error=reason)
    return Outcome(name, **found, seconds=time.perf_counter() - clock)


def prepare(
    source: Any,
    keys: str | Sequence[str],
    population: int | None = None,
    fraction: float | None = None,
    codebook: str | Path | Mapping[str, Any] | None = None,
    zeros: RuleSource | None = None,
    drop_contradictions: bool = False,
    allow_identifier: Sequence[str] = (),
    missing: Literal["category", "drop", "model"] = "category",
    reading: SourceOptions | None = None,
    weight: str | None = None,
    strata: Sequence[str] = (),
    strata_sizes: Any = None,
    weight_classes: int | None = None,
    ordered: str | None = None,
    unordered: str | None = None,
) -> Given:
    """Read the data and refuse what no estimator can use; missing, reading, design and order: as in `assess`."""
    reading = reading or SourceOptions()
    make_settings(missing=missing)
    check_design(strata, strata_sizes, weight, weight_classes, fraction)
    microdata = read_microdata(
        source, keys, codebook, allow_identifier, missing, reading,
        weight=weight, strata=strata, weight_classes=weight_classes,
    )  # fmt: skip
    order_keys(microdata, ordered, unordered)  # refuses names that are no keys; each model orders them itself
    rules: Zeros | None = None
    if zeros is not None:
        rules = read_zeros(zeros, microdata.variables, microdata.ignored_variables)
        microdata, _ = settle_contradictions(rules, microdata, drop_contradictions)
    found = make_strata(microdata, strata, strata_sizes, weight, weight_classes, population)
    weights = None if microdata.extra.weight is None else microdata.extra.weight[microdata.row_used]
    warning = None
    if weight is not None and weights is not None:
        warning = describe_weights(weights, weight, population is None, found is not None).warning
    if found is not None:
        size, weights = found.population, (found.people / found.records)[found.of_record]
    elif weights is not None and population is None and fraction is None:
        size = population_from_weights(weights, str(weight))
    else:
        size = population_size(population, fraction, microdata)
    if not microdata.variables:
        raise InputError("all keys have a single category, so records do not differ: add keys.")
    arguments = {
        "source": source,
        "keys": keys,
        "population": population,
        "fraction": fraction,
        "codebook": codebook,
        "zeros": zeros,
        "drop_contradictions": drop_contradictions,
        "allow_identifier": tuple(allow_identifier),
        "missing": missing,
        "weight": weight,
        "strata": tuple(strata),
        "strata_sizes": strata_sizes,
        "weight_classes": weight_classes,
        **vars(reading),
    }
    sample = make_sample(microdata, size, rules, weights)
    columns = () if found is None or not found.matters else found.columns
    return Given(arguments, sample, microdata.reading["na"], columns, warning)


def run_estimators(
    given: Given,
    estimators: Sequence[str] = ESTIMATORS,
    on_start: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
    **settings: Any,
) -> tuple[Outcome, ...]:
    """Run the estimators one by one; on_progress: as in `assess`, for keyhole's models."""
    settings = {"time_limit": TIME_LIMIT, **settings}
    make_settings(**settings)
    outcomes = []
    for name in estimators:
        if on_start is not None:
            on_start(name)
        outcomes.append(run_estimator(name, given, settings, on_progress))
    return tuple(outcomes)


def compare(
    source: Any,
    keys: str | Sequence[str],
    population: int | None = None,
    fraction: float | None = None,
    codebook: str | Path | Mapping[str, Any] | None = None,
    zeros: RuleSource | None = None,
    *,
    estimators: str | Sequence[str] | None = None,
    drop_contradictions: bool = False,
    allow_identifier: Sequence[str] = (),
    query: str | None = None,
    count: str | None = None,
    bands: Mapping[str, Any] | None = None,
    user_missing: Literal["keep", "blank"] = "keep",
    na: Sequence[str] | None = None,
    count_cells: bool = False,
    merge: Mapping[str, Any] | None = None,
    weight: str | None = None,
    strata: str | Sequence[str] = (),
    strata_sizes: Any = None,
    weight_classes: int | None = None,
    on_start: Callable[[str], None] | None = None,
    on_progress: OnProgress | None = None,
    settings: Settings | None = None,
    **options: Unpack[Options],
) -> Comparison:
    """Estimate tau1 and tau2 by keyhole's models and by the classical methods.

    Parameters
    ----------
    source, keys, population, fraction, codebook, zeros
        As in `assess`.
    estimators
        Names, as a list or separated by commas; all of docs/estimators.md if not given.
    drop_contradictions, allow_identifier, query, count, bands, user_missing, na, count_cells, merge
        As in `assess`.
    weight, strata, strata_sizes, weight_classes
        As in `assess`. Only keyhole's models know strata; `individual-risk` uses weights, those of the strata if there
        are any; all other classical estimators take the sample for a simple random one.
    on_start
        Called with the name of each estimator before it runs.
    on_progress
        Called with a `Progress` or `Notice` while chains of keyhole's models run.
    settings, **options
        As in `assess`, for keyhole's models; with a time limit of 25 s each unless it is given.

    Returns
    -------
    Comparison

    Raises
    ------
    KeyholeError
        If no estimator can use the input.
    """
    chosen, names = make_settings(settings, **options), choose_estimators(estimators)
    reading = SourceOptions(query, count, bands, user_missing, na, count_cells, merge)
    given = prepare(
        source,
        keys,
        population,
        fraction,
        codebook,
        zeros,
        drop_contradictions,
        allow_identifier,
        chosen.missing,
        reading,
        weight,
        (strata,) if isinstance(strata, str) else tuple(strata),
        strata_sizes,
        weight_classes,
        chosen.ordered,
        chosen.unordered,
    )
    named = {name: getattr(chosen, name) for name in chosen.model_fields_set - {"missing"}}
    outcomes = run_estimators(given, names, on_start, on_progress, **named)
    sample = given.sample
    return Comparison(
        outcomes, sample.records, sample.population, sample.uniques, chosen.missing, given.na, given.strata,
        given.warning,
    )  # fmt: skip


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return an entry of `estimators` in the JSON of `compare`."""
    assumes, reference = describe_estimator(outcome.name)
    return {
        "name": outcome.name,
        "seconds": outcome.seconds,
        "tau1": outcome.tau1,
        "tau2": outcome.tau2,
        "converged": outcome.converged,
        "error": outcome.error,
        "details": outcome.details,
        "assumes": assumes,
        "reference": reference,
    }


def _run_ours(name: str, given: Given, settings: Mapping[str, Any], on_progress: OnProgress | None) -> dict[str, Any]:
    with silenced():  # the outcome has `converged` instead of the warning
        found = assess(**given.arguments, on_progress=on_progress, **{**settings, **OURS[name].settings})
    unique = found.uniques
    return {
        "tau1": Guess(found.tau1.mean, found.tau1.interval),
        "tau2": Guess(found.tau2.mean, found.tau2.interval),
        "converged": found.diagnosis.converged,
        "r1": unique["r1"].to_numpy(),
        "r2": unique["r2"].to_numpy(),
        "details": {"message": found.diagnosis.message, "grade": found.grade},
    }


def _run_classical(name: str, given: Given) -> dict[str, Any]:
    found = estimate_classical(name, given.sample)
    details: dict[str, Any] = dict(found.details)
    if given.arguments["zeros"] is not None and not CLASSICAL[name].follows_rules:
        details["rules"] = "ignored: this estimator uses cell sizes only"
    if given.strata and name != "k-anonymity":
        details["strata"] = "used as weights" if CLASSICAL[name].weighs else "ignored"
    return {"tau1": Guess(found.tau1), "tau2": Guess(found.tau2), "r1": found.r1, "r2": found.r2, "details": details}
