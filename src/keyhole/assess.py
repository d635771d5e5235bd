"""The straight line from a file to an Assessment."""

import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from keyhole.assessment import Assessment
from keyhole.certain import find_certain, make_certain
from keyhole.errors import NotConvergedWarning
from keyhole.explain import Design, explain_risk
from keyhole.files import sha256
from keyhole.manifest import make_manifest
from keyhole.microdata import SourceOptions, count_cells, encode, read_microdata
from keyhole.preparation import population_size, read_rules, refuse_half_of_blanks, settle_contradictions
from keyhole.risk import check_fit, check_half, summarise_risk
from keyhole.risk.coarser import Basis
from keyhole.sampling import OnProgress, diagnose, run_chains, weigh_groups
from keyhole.settings import make_settings
from keyhole.summary import describe_input, describe_zeros, make_records, make_summary


def assess(
    source: Any,
    keys: str | Sequence[str],
    population: int | None = None,
    fraction: float | None = None,
    codebook: str | Path | Mapping[str, Any] | None = None,
    zeros: str | Path | None = None,
    *,
    weight: str | None = None,
    household: str | None = None,
    drop_contradictions: bool = False,
    self_check: bool = False,
    allow_identifier: Sequence[str] = (),
    query: str | None = None,
    count: str | None = None,
    bands: Mapping[str, Any] | None = None,
    user_missing: Literal["keep", "blank"] = "keep",
    on_progress: OnProgress | None = None,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    **settings: Any,
) -> Assessment:
    """Estimate the disclosure risk of a file or dataframe.

    source: path of a file (CSV, Parquet, SPSS, Stata, SAS), a dataframe of any library, or with `query` the address
    of a database; keys: the columns an intruder could know. Give the population's size or the sampling fraction, or a
    column of survey weights whose sum is the population; household: the column that tells households apart.
    count, bands, user_missing: how the source is read (docs/files.md). Any option of `Settings` may follow.
    self_check: fit half of the file too, and see how well it predicts the whole; a quarter of the time limit more.
    executor: runs the chains, in place of threads; checkpoint: folder in which an unfinished run is kept, and
    from which it goes on with resume=True.

    Warns with NotConvergedWarning unless the chains have reached one answer; `Assessment.grade` says how far they are.
    """
    clock, started = time.perf_counter(), datetime.now(UTC)
    chosen = make_settings(**settings)
    reading = SourceOptions(query, count, bands, user_missing)
    microdata = read_microdata(
        source, keys, codebook, allow_identifier, chosen.missing, reading, weight=weight, household=household
    )
    design = Design(weight, household, microdata.extra)
    refuse_half_of_blanks(microdata, self_check)
    rules = None if zeros is None else read_rules(zeros, microdata)
    left_out = 0
    if rules is not None:
        microdata, left_out = settle_contradictions(rules, microdata, drop_contradictions)
    population, fraction = design.population(given := population, fraction, microdata.row_used)
    people = population_size(population, fraction, len(microdata.codes))
    counts = count_cells(microdata.codes)
    reason = find_certain(counts, people)
    if reason is not None:
        trace, fit, half = None, None, None
        risk, diagnosis = make_certain(counts, reason)
        draws = {name: np.full((1, 1), float(len(counts.unique_record))) for name in ("tau1", "tau2")}
    else:
        records = encode(microdata)
        trace = run_chains(
            records,
            counts.unique_record,
            people,
            chosen,
            rules,
            on_progress,
            executor=executor,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            resume=resume,
        )
        diagnosis = weigh_groups(diagnose(trace), trace, records, rules, chosen)
        risk = summarise_risk(trace, diagnosis.grade)
        fit = check_fit(trace, records, [variable.name for variable in microdata.variables], chosen, rules)
        half = check_half(records, chosen, rules, on_progress) if self_check else None
        draws = dict(trace.quantities)
    asked = time.perf_counter()
    basis = Basis(
        microdata, rules, people - len(microdata.codes), {} if trace is None else trace.kept,
        chosen.model == "mixed", chosen.seed, chosen.workers, diagnosis.grade,
    )  # fmt: skip
    explained = explain_risk(basis, counts, risk, trace, design, given != population)
    seconds = {"total": time.perf_counter() - clock, "sampling": 0.0, "risk": 0.0, "compile": 0.0}
    seconds |= {} if trace is None else dict(trace.seconds)
    seconds["attribution"] = time.perf_counter() - asked
    if not diagnosis.converged:
        warnings.warn(diagnosis.message, NotConvergedWarning, stacklevel=2)
    source_block = describe_input(microdata, counts, people, chosen)
    zeros_block = describe_zeros(rules, microdata, trace, left_out)
    return Assessment(
        tau1=risk.tau1,
        tau2=risk.tau2,
        records=make_records(microdata, counts, risk, explained.unique_columns, explained.record_columns),
        summary=make_summary(chosen, source_block, zeros_block, trace, diagnosis, risk, fit, half, seconds)
        | explained.blocks,
        diagnosis=diagnosis,
        draws=draws,
        profiles={} if trace is None else dict(trace.kept),
        manifest=make_manifest(
            microdata, people, chosen, None if zeros is None else sha256(Path(zeros)), started, seconds
        )
        | {"design": {"weight": weight, "household": household}},
        _basis=basis,
    )
