"""From a file to an Assessment."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np

from keyhole.data import Microdata, SourceOptions, count_records, encode, read_codebook, read_microdata
from keyhole.data.frames import name_library
from keyhole.data.order import order_keys
from keyhole.data.population import population_size
from keyhole.data.strata import add_strata, check_design, make_strata
from keyhole.errors import RulesError, SettingsError, Stopped, warn_not_converged
from keyhole.files import sha256
from keyhole.progress import notebook_progress
from keyhole.results.assessment import Assessment
from keyhole.results.folder import make_manifest
from keyhole.results.restored import describe_strata, list_boxes
from keyhole.risk import Diagnosis, Risk, check_fit, check_half
from keyhole.risk.all_records import choose_points
from keyhole.risk.measures import find_certain, make_certain
from keyhole.risk.policies import Policy, find_policies, refuse_unfit
from keyhole.risk.quick import Answer, find_answer
from keyhole.risk.release import Posterior
from keyhole.sampling import OnProgress, Trace
from keyhole.sampling.saved_run import MEMORY, refuse_unfinished
from keyhole.sampling.trace import pad_draws
from keyhole.settings import Options, Settings, make_settings
from keyhole.summary import (
    Design,
    describe_input,
    describe_zeros,
    explain_risk,
    judge_risk,
    make_records,
    make_summary,
    refuse_taken_names,
)
from keyhole.zeros import (
    RuleSource,
    Zeros,
    add_levels,
    describe_contradictions,
    find_contradictions,
    read_zeros,
    rule_text,
)


def refuse_half_of_blanks(microdata: Microdata, self_check: bool) -> None:
    """The half-sample check counts the truth in the other half, which it cannot where answers are missing."""
    if self_check and microdata.cells.size and microdata.cells.min() < 0:
        raise SettingsError(
            "`self_check` needs every answer, because it counts the truth in the other half: "
            "use `missing` category or drop with it"
        )


def name_of(source: Any) -> str | None:
    """Return a path or an address as it was given; None for values, whose run has no command."""
    return str(source) if isinstance(source, str | Path) else None


def fingerprint_rules(zeros: RuleSource) -> str:
    """Return the SHA-256 of a file of rules, or of rules given as values."""
    return (
        sha256(Path(zeros)) if isinstance(zeros, str | Path) else hashlib.sha256(rule_text(zeros).encode()).hexdigest()
    )


def fingerprint_codebook(codebook: str | Path | Mapping[str, Any]) -> str:
    """Return the SHA-256 of a codebook, of a file or of values."""
    if isinstance(codebook, str | Path):
        return sha256(Path(codebook))
    return hashlib.sha256(json.dumps(codebook, default=str).encode()).hexdigest()


def describe_result(risk: Risk, diagnosis: Diagnosis, trace: Trace | None) -> dict[str, Any]:
    """Return what manifest.json holds of the result, so that a repetition can be compared with it."""
    taus = {"tau1": risk.tau1, "tau2": risk.tau2}
    return {
        **{name: {"mean": tau.mean, "sd": tau.sd, "interval": list(tau.interval)} for name, tau in taus.items()},
        "grade": diagnosis.grade,
        "stopped": None if trace is None else trace.stopped,
        "sweeps": 0 if trace is None else trace.sweeps,
    }


def settle_contradictions(rules: Zeros, microdata: Microdata, drop: bool) -> tuple[Microdata, int]:
    """Refuse rules that the records contradict, or leave those records out and say how many."""
    found = find_contradictions(rules, microdata)
    if not len(found.records):
        return microdata, 0
    if not drop:
        raise RulesError(
            f"{describe_contradictions(found)}. Correct the rules or the records, "
            "or leave the records out with `drop_contradictions`."
        )
    kept = np.ones(microdata.records, dtype=np.bool_)
    kept[found.records] = False
    if kept.sum() < 2:
        raise RulesError("the rules call all records but one impossible: correct the rules.")
    return microdata.keep(kept), len(found.records)


def assess(
    source: Any,
    keys: str | Sequence[str],
    population: int | None = None,
    fraction: float | None = None,
    codebook: str | Path | Mapping[str, Any] | None = None,
    zeros: RuleSource | None = None,
    *,
    weight: str | None = None,
    household: str | None = None,
    strata: str | Sequence[str] = (),
    strata_sizes: Any = None,
    weight_classes: int | None = None,
    drop_contradictions: bool = False,
    self_check: bool = False,
    quick: bool = False,
    allow_identifier: Sequence[str] = (),
    query: str | None = None,
    count: str | None = None,
    bands: Mapping[str, Any] | None = None,
    user_missing: Literal["keep", "blank"] = "keep",
    na: Sequence[str] | None = None,
    count_cells: bool = False,
    merge: Mapping[str, Any] | None = None,
    with_keys: bool = False,
    keep_data: bool = False,
    policy: str | Policy | Sequence[str | Policy] = (),
    on_progress: OnProgress | None = None,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    settings: Settings | None = None,
    **options: Unpack[Options],
) -> Assessment:
    """Estimate the disclosure risk of a file or dataframe.

    Parameters
    ----------
    source
        Path of a file (CSV, TSV, Parquet, SPSS, Stata, SAS) or of a folder of Parquet files, a dataframe of any
        library, or with `query` the address of a database.
    keys
        Key variables: the columns that an intruder could know, as a list or separated by commas.
    population, fraction
        Size of the population from which the records are a simple random sample, or the sampling fraction. Give one of
        them, `weight`, or `strata` with their sizes. Of records that are left out the population counts the people too:
        it is multiplied by the share of those used.
    codebook
        Path (YAML, JSON, or a DDI Codebook), or mapping from keys to the categories that exist, in order.
    zeros
        Combinations that cannot exist: path of a table or YAML file, its content as a mapping, or a list of expressions
        such as ``"AGE <= 15 and MARITAL == married"``.
    weight
        Column of survey weights; the population is their sum unless it is given.
    household
        Column that identifies households, whose risk is then reported too.
    strata
        Columns within whose values people were drawn at random, such as the region; they need not be keys. The number
        of people in each is needed, as `strata_sizes` or by `weight`.
    strata_sizes
        Path of a table, or a dataframe, with the columns of `strata` and N, the people in each stratum.
    weight_classes
        Take records with similar weights as strata: the number of classes to make of `weight`.
    drop_contradictions
        Leave out records that contradict `zeros` instead of refusing the rules.
    self_check
        Also fit half of the records and compare what it predicts with the whole file, in a quarter of the time limit
        more.
    quick
        Stop after the quick answer of the model `classes`, which comes first with the model `hdp`, and ends when it is
        usable. ``model="classes"`` runs to its verdict.
    allow_identifier
        Keys to use although nearly every record has a value of its own.
    query
        SQL query whose result is the source.
    count
        Column that says for how many records a row stands.
    bands
        For numeric keys, limits or the width of bands, as in ``{"AGE": "5y"}``.
    user_missing
        Whether codes that SPSS, Stata or SAS files or a DDI Codebook declare missing are categories ("keep") or blank.
    na
        Texts that mean missing in the keys, in place of NA, N/A, NaN, NULL and a point; the empty text always does. A
        category of the codebook never does.
    count_cells
        Let the database count the records of each cell of the query, so that no row is read. `records` then has one row
        for each cell, in the order of ``ORDER BY`` the keys.
    merge
        Categories of keys to merge before anything is estimated, as in ``{"AGE": [[1, 2], [3, 4]]}`` or
        ``{"AGE": "1,2|3,4"}``; after `bands`. ``{"EDUC": {"school": [1, 2, 3]}}`` names a merged category.
    with_keys
        Add the keys of each record to `Assessment.records`, and so to records.csv and records.parquet.
    keep_data
        Have `Assessment.save` write the encoded keys of the records too, so that `load(folder).what_if(...)` needs no
        data. Whoever can read that folder has the keys of all records.
    policy
        Limits that the result is judged by, in `Assessment.summary.policies`: the name of a shipped policy, the path of
        a YAML file, a limit such as ``"tau1.upper=5"`` or ``"all.max=0.09"``, or several.
    on_progress
        Called with a `Progress` or `Notice` while chains run; by default a notebook shows a table, and any other
        session nothing.
    executor
        Runs the chains in place of threads.
    checkpoint, resume, overwrite
        Folder in which an unfinished run is stored, and whether to continue the run that it holds, or to replace it.
        Without a folder, a run that was interrupted stays in memory: the same call with `resume` continues it.
    settings, **options
        Model, chains, time limit and so on: a `Settings`, or its fields as keyword arguments, which take precedence.

    Returns
    -------
    Assessment

    Raises
    ------
    KeyholeError
        If anything is wrong with the input; the message names what, where, and the remedy.

    Warns
    -----
    NotConvergedWarning
        Unless the chains have converged; `Assessment.grade` says how far they are.
    """
    on_progress = on_progress or notebook_progress()
    clock, started = time.perf_counter(), datetime.now(UTC)
    chosen = make_settings(settings, **options)
    kept = None if checkpoint is None else Path(checkpoint)
    if kept is not None:
        refuse_unfinished(kept, resume or overwrite)
    reading = SourceOptions(query, count, bands, user_missing, na, count_cells, merge)
    columns = (strata,) if isinstance(strata, str) else tuple(strata)
    check_design(columns, strata_sizes, weight, weight_classes, fraction)
    asked_policies = (policy,) if isinstance(policy, str | Policy) else tuple(policy)
    policies = find_policies(asked_policies)
    microdata = read_microdata(
        source, keys, codebook, allow_identifier, chosen.missing, reading,
        weight=weight, household=household, strata=columns, weight_classes=weight_classes,
    )  # fmt: skip
    microdata = order_keys(microdata, chosen.ordered, chosen.unordered)
    if with_keys:
        refuse_taken_names(microdata)
    design = Design(weight, household, microdata.extra)
    refuse_half_of_blanks(microdata, self_check)
    refuse_unfit(policies, len(microdata.variables), bool(microdata.cells.size and microdata.cells.min() < 0))
    rules = None if zeros is None else read_zeros(zeros, microdata.variables, microdata.ignored_variables)
    left_out = 0
    if rules is not None:
        microdata, left_out = settle_contradictions(rules, microdata, drop_contradictions)
    given = population
    found_strata = make_strata(microdata, columns, strata_sizes, weight, weight_classes, population)
    if found_strata is not None:
        people = found_strata.population
    else:
        summed = design.sum_of_weights(population, fraction, microdata.row_used)
        people = population_size(population, fraction, microdata) if summed is None else summed
    counts = count_records(microdata.cells, microdata.cell)
    reason = find_certain(counts, people)
    answer: Answer | None = None
    several = found_strata if found_strata is not None and found_strata.matters else None
    if reason is not None:
        trace, fit, half = None, None, None
        risk, diagnosis = make_certain(counts, reason)
        draws = {name: np.full((1, 1), float(len(counts.unique_record))) for name in ("tau1", "tau2")}
    else:
        records, free = add_strata(encode(microdata), several), rules
        if several is not None and rules is not None:
            free = add_levels(rules, several.further_levels)
        if not resume:
            MEMORY.clear()
        try:
            answer = find_answer(
                records,
                counts.unique_record,
                people,
                chosen,
                free,
                on_progress,
                quick=quick,
                executor=executor,
                checkpoint=kept or MEMORY,
                resume=resume,
                strata=several,
            )
        except Stopped as stopped:
            stopped.in_memory = kept is None and MEMORY.holds_run
            raise
        trace, diagnosis, risk = answer.trace, answer.diagnosis, answer.risk
        names = [variable.name for variable in microdata.variables]
        further = [] if several is None else [name for name in several.columns if name not in names]
        fit = check_fit(trace, records, [*names, " and ".join(further)], answer.settings, free, len(names))
        half = check_half(encode(microdata), answer.settings, rules, on_progress) if self_check else None
        draws = dict(trace.quantities)
    asked = time.perf_counter()
    posterior = Posterior(
        microdata, rules, people - microdata.records, () if trace is None else trace.draws,
        chosen.seed, chosen.workers, diagnosis.grade, several,
    )  # fmt: skip
    limits = [found.limit for found in policies if found.limit is not None]
    explained = explain_risk(
        posterior,
        counts,
        risk,
        trace,
        design,
        given is None and fraction is None and strata_sizes is None,
        found_strata,
        choose_points(limits),
    )
    verdicts = judge_risk(policies, risk, trace, explained, microdata.records)
    seconds = {"total": time.perf_counter() - clock, "sampling": 0.0, "risk": 0.0, "compile": 0.0}
    seconds |= {} if trace is None else dict(trace.seconds)
    seconds["compile"] += 0.0 if answer is None else answer.compiled_before
    seconds["attribution"] = time.perf_counter() - asked
    if not diagnosis.converged:
        warn_not_converged(diagnosis.message)
    number = given if found_strata is None or given is not None else found_strata.given
    source_block = describe_input(microdata, counts, people, chosen, read_codebook(codebook), number)
    zeros_block = describe_zeros(rules, microdata, trace, left_out)
    return Assessment(
        tau1=risk.tau1,
        tau2=risk.tau2,
        summary=make_summary(
            chosen, source_block, zeros_block, answer, diagnosis, risk, fit, half, explained, seconds, verdicts
        ),
        diagnosis=diagnosis,
        draws=draws,
        profiles={} if trace is None else pad_draws(trace.draws),
        manifest=make_manifest(
            microdata, people, chosen, None if zeros is None else fingerprint_rules(zeros), started, seconds
        )
        | {
            "design": {"weight": weight, "household": household, **describe_strata(several)},
            "codebook": None if codebook is None else fingerprint_codebook(codebook),
            "strata_sizes": sha256(Path(strata_sizes)) if isinstance(strata_sizes, str | Path) else None,
            "result": describe_result(risk, diagnosis, trace),
            "asked": {
                "file": name_of(source),
                "query": query,
                "keys": keys if isinstance(keys, str) else ",".join(keys),
                "population": given,
                "fraction": fraction if given is None and weight is None else None,
                "codebook": name_of(codebook),
                "zeros": name_of(zeros),
                "strata": list(columns),
                "strata_sizes": name_of(strata_sizes),
                "weight_classes": weight_classes,
                "allow_identifier": list(allow_identifier),
                "na": None if na is None else list(na),
                "drop_contradictions": drop_contradictions,
                "self_check": self_check,
                "quick": quick,
                "with_keys": with_keys,
                "keep_data": keep_data,
                "policy": [found if isinstance(found, str) else found.name for found in asked_policies],
            },
        },
        record_table=make_records(
            microdata,
            counts,
            risk,
            explained.unique_columns,
            explained.record_columns,
            with_keys,
            explained.record_risk,
        ),
        boxes=list_boxes(rules),
        _posterior=posterior,
        _keep_data=keep_data,
        _checkpoint=kept,
        _library=name_library(source),
    )
