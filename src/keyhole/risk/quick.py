"""The answer of a run: `classes` gives a first one within seconds, then comes the model that was asked for."""

import math
import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keyhole.data.strata import Strata
from keyhole.diagnostics.gates import is_usable, may_stop
from keyhole.kernels.state import Integers, Records
from keyhole.risk.advice import Remedy
from keyhole.risk.diagnosis import Diagnosis, diagnose, weigh_groups
from keyhole.risk.measures import Risk, summarise_risk
from keyhole.sampling import Event, Notice, OnProgress, Trace, run_chains
from keyhole.sampling.checkpoint import QUICK, holds_generation
from keyhole.sampling.classes import MOST_VISITED
from keyhole.sampling.costs import estimate_seconds
from keyhole.sampling.runner import Enough
from keyhole.sampling.saved_run import Memory, Place, hold, is_intact
from keyhole.sampling.trace import Forecast, show_nothing
from keyhole.settings import Settings, make_settings
from keyhole.words import duration, interval_words, number
from keyhole.zeros import Zeros

SHARE = 1.0 / 3.0
"""Most of the time limit that the quick answer may take."""

SWEEPS, VISITING_SWEEPS = 1_000, 300
"""Most sweeps of the quick answer, and of one whose sweeps visit the records and so take longer and go farther: on some
files `classes` mixes more slowly than `hdp`, which should not wait."""

SHORTEST = 0.1
"""Shortest time limit that there is, in seconds."""

AFFORDABLE = 900.0
"""Seconds that `hdp` may need to its first verdict on two cores; `classes` answers for files that would take longer."""

ASKED = "the quick answer was asked for"

ERRORS = 3.0
"""Monte Carlo errors that two models may differ by without a word."""


@dataclass(frozen=True)
class Answer:
    """What a model says. settings: those of the model, which need not be the one that was asked for; why: why not.

    seconds: of all sessions; quick: the answer of `classes` that came first.
    """

    settings: Settings
    trace: Trace
    diagnosis: Diagnosis
    risk: Risk
    seconds: float
    why: str | None = None
    quick: "Answer | None" = None

    @property
    def compiled_before(self) -> float:
        """Seconds of compiling before a quick answer of another model, which finds nothing compiled yet."""
        return 0.0 if self.quick is None or self.why is not None else self.quick.trace.seconds["compile"]

    @property
    def difference(self) -> str:
        """How the model and the quick answer differ, in words; nothing without a quick answer of another model."""
        if self.quick is None or self.why is not None:
            return ""
        mine, quick = self.risk.tau1, self.quick.risk.tau1
        if mine.mcse is None or quick.mcse is None:
            return "The two are compared only when both have converged."
        gap, error = quick.mean - mine.mean, math.hypot(mine.mcse, quick.mcse)
        if abs(gap) <= ERRORS * error:
            return "The two agree within their Monte Carlo error."
        way, share = ("above" if gap > 0.0 else "below"), abs(gap) / mine.sd
        return (
            f"The quick tau1 is {number(abs(gap))} {way} that of {self.settings.model}, more than the Monte Carlo "
            f"error of {number(error)} explains: the models differ, by {number(share)} standard deviations of tau1."
        )


def find_answer(
    records: Records,
    unique_record: Integers,
    population: int,
    settings: Settings,
    zeros: Zeros | None = None,
    on_progress: OnProgress | None = None,
    *,
    quick: bool = False,
    executor: Executor | None = None,
    checkpoint: Path | Memory | None = None,
    resume: bool = False,
    strata: Strata | None = None,
) -> Answer:
    """Answer by `classes` if the model is `hdp`, then by the model itself unless `quick` or it would take too long."""

    def answer(
        chosen: Settings, report: OnProgress | None, place: Place | None, resumes: bool, enough: Enough = may_stop
    ) -> Answer:
        clock = time.perf_counter()
        trace = run_chains(
            records, unique_record, population, chosen, zeros, report,
            executor=executor, checkpoint=place, resume=resumes, enough=enough, strata=strata,
        )  # fmt: skip
        diagnosis = weigh_groups(diagnose(trace), trace, records, zeros)
        risk = summarise_risk(trace, diagnosis.grade)
        spent = time.perf_counter() - clock - trace.seconds["compile"] + trace.seconds["earlier"]
        return Answer(chosen, trace, diagnosis, risk, spent)

    with hold(checkpoint):
        own = find_place(checkpoint)
        resume = resume and own is not None
        if settings.model != "hdp":
            return answer(settings, on_progress, own, resume)
        report: OnProgress = on_progress or show_nothing
        why = None if quick else explain_time(records, settings, zeros, strata)
        if why is not None:
            last = answer(make_classes(settings), report, own, resume)
            return replace(last, why=why, quick=last)
        # The quick answer need only be usable: whoever wants more has the model's own, which comes next.
        most = VISITING_SWEEPS if zeros is None and len(records.level) <= MOST_VISITED else SWEEPS
        share = 1.0 if quick else SHARE
        sweeps, limit = min(settings.max_sweeps or most, most), max(share * settings.time_limit, SHORTEST)
        brief = make_classes(settings, max_sweeps=sweeps, time_limit=limit)
        continues = resume and not quick and holds_own(checkpoint)
        place = find_quick_place(checkpoint, continues)
        # What the model has done is not lost if its quick answer is, which is soon made again.
        resumes = resume and (not continues or is_intact(place))
        clock = time.perf_counter()
        first = answer(brief, report if quick else _before_another(report, continues), place, resumes, is_usable)
        if quick:
            found = replace(set_remedy(first, "quick"), settings=make_classes(settings), why=ASKED)
            return replace(found, quick=found)
        first = set_remedy(first, "none")
        report(Notice(describe_quick(first)))
        left = max(settings.time_limit - (time.perf_counter() - clock - first.trace.seconds["compile"]), SHORTEST)
        second = None if own is None else Place(own.folder)
        found = answer(settings.model_copy(update={"time_limit": left}), report, second, continues)
        return replace(found, settings=settings, quick=first)


def find_place(checkpoint: Path | Memory | None) -> Place | None:
    """Return where a run without a quick answer is kept; its first checkpoint removes that of an earlier one."""
    if checkpoint is None or isinstance(checkpoint, Memory):
        return None if checkpoint is None else Place(checkpoint)
    return Place(checkpoint, checkpoint / QUICK)


def find_quick_place(checkpoint: Path | Memory | None, continues: bool) -> Place | None:
    """Return where a quick answer is kept; its first checkpoint removes that of an earlier run, unless it continues."""
    if checkpoint is None or isinstance(checkpoint, Memory):
        return None if checkpoint is None or checkpoint.quick is None else Place(checkpoint.quick)
    return Place(checkpoint / QUICK, None if continues else checkpoint, keeps_finished=True)


def holds_own(checkpoint: Path | Memory | None) -> bool:
    """Whether the model itself, and not only its quick answer, has been kept."""
    if isinstance(checkpoint, Memory):
        return checkpoint.run is not None
    return checkpoint is not None and holds_generation(checkpoint)


def set_remedy(answer: Answer, remedy: Remedy) -> Answer:
    """Return a quick answer with this advice in place of more sweeps or time: it ends on purpose.

    Not if none is needed, the clock ended it, or there is one chain only.
    """
    verdict = answer.diagnosis.verdict
    if verdict.remedy in ("none", "chains") or answer.trace.stopped == "time":
        return answer
    numbers = verdict.numbers | {"seconds_more": None}
    return replace(
        answer, diagnosis=replace(answer.diagnosis, verdict=replace(verdict, remedy=remedy, numbers=numbers))
    )


def make_classes(settings: Settings, **options: Any) -> Settings:
    """Return the settings of `classes`, with these options."""
    kept = ("missing", "chains", "seed", "workers", "scheduler", "target_ess", "max_sweeps", "time_limit")
    return make_settings(model="classes", **{name: getattr(settings, name) for name in kept} | options)


def explain_time(records: Records, settings: Settings, zeros: Zeros | None, strata: Strata | None = None) -> str | None:
    """Return why the model would take too long, or None; from sizes alone, never from the clock."""
    n, variables = records.level.shape
    seconds = estimate_seconds(
        n, variables, settings, zeros is not None, 0 if strata is None else strata.further_levels
    )
    if seconds <= AFFORDABLE:
        return None
    return (
        f"with {n:,} records and {variables} keys {settings.model} would take about {duration(seconds)} to its first "
        "verdict"
    )


def describe_quick(answer: Answer) -> str:
    """Return the quick answer in a sentence, without a mean if chains disagree."""
    tau1, tau2 = (
        f"about {number(item.mean)} ({interval_words(item.interval)})" if item.pooled else interval_words(item.interval)
        for item in (answer.risk.tau1, answer.risk.tau2)
    )
    settled = "" if answer.risk.tau1.pooled else " over its chains, which have not settled yet"
    return (
        f"Quick answer after {duration(answer.seconds)}, by the simpler model classes: tau1 {tau1}, tau2 {tau2}"
        f"{settled}. Now the full model, hdp."
    )


def _before_another(report: OnProgress, continues: bool) -> OnProgress:
    """Leave out what the model says next: the estimate of time and memory, and where it goes on if it `continues`."""

    def pass_on(event: Event) -> None:
        said_next = isinstance(event, Forecast) or (continues and isinstance(event, Notice) and not event.warning)
        if not said_next:
            report(event)

    return pass_on
