"""`keyhole compare`."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import click

from keyhole.classical.catalogue import TIME_LIMIT as CLASSICAL_LIMIT
from keyhole.classical.catalogue import Guess
from keyhole.commands import flags
from keyhole.commands.flags import add, choose_source, given, settings_flags
from keyhole.commands.progress import is_compiled, show_progress
from keyhole.commands.screen import fits, print_json, print_na, print_note, print_table, print_text
from keyhole.evaluation.comparison import OURS, TIME_LIMIT, Comparison, Outcome, describe_estimator
from keyhole.sampling import Event, Notice
from keyhole.settings import make_settings
from keyhole.words import as_flags, duration, enumerate_words, interval_words, number, plural, with_interval

TOO_SIMPLE = 2.0
GRADES = {
    "not converged": "NOT CONVERGED within `time_limit`: the range over chains, no estimate. Give a longer "
    "`time_limit`. That another line converged does not make its model better: `keyhole assess` checks whether a "
    "model fits, `keyhole validate` how well it predicts",
    "usable": "usable but not fully converged within `time_limit`",
}
FIXED_MARKS = dict(zip(GRADES.values(), "*+", strict=True))
COLUMNS = (
    "estimator",
    *(f"{tau}_{part}" for tau in ("tau1", "tau2") for part in ("mean", "low", "high")),
    *("seconds", "converged", "error", "assumes", "reference"),
)


def table_rows(outcomes: Sequence[Outcome]) -> list[list[Any]]:
    """Return the header and one row for each estimator; what it does not give is blank."""
    rows: list[list[Any]] = [list(COLUMNS)]
    for outcome in outcomes:
        values: list[Any] = []
        for guess in (outcome.tau1, outcome.tau2):
            values += [guess.mean, *(guess.interval or (None, None))]
        state = (f"{outcome.seconds:.2f}", outcome.converged, outcome.error)
        rows.append([outcome.name, *values, *state, *describe_estimator(outcome.name)])
    return [["" if value is None else value for value in row] for row in rows]


def print_outcomes(found: Comparison) -> None:
    """Print one line for each estimator; marks refer to the footnotes below."""
    drawn = f", drawn within strata of {enumerate_words(found.strata)}," if found.strata else ""
    print_text(
        f"{found.sample_uniques:,} of {found.records:,} records{drawn} are alone in the sample; "
        f"the population has {found.population:,} people."
    )
    marks: dict[str, str] = {}
    outcomes = found.outcomes
    names = [_mark(outcome, found.missing, marks) for outcome in outcomes]
    columns = {
        "tau1": [_estimate(outcome, outcome.tau1) for outcome in outcomes],
        "tau2": [_estimate(outcome, outcome.tau2) for outcome in outcomes],
    }
    seconds = [f"{outcome.seconds:.1f}" for outcome in outcomes]
    together = (("Estimator", *columns, "Seconds"), list(zip(names, *columns.values(), seconds, strict=True)))
    if fits(*together):
        print_table(*together)
    else:
        for tau, column in columns.items():
            print_table(("Estimator", tau, "Seconds"), zip(names, column, seconds, strict=True))
    for note, mark in sorted(marks.items(), key=lambda item: item[1]):
        print_text(f"{mark}  {as_flags(note)}", "   ")
    print_text(
        "In brackets: 95 % intervals. What each estimator assumes, and references: docs/estimators.md, --json or --csv."
    )


def _estimate(outcome: Outcome, guess: Guess) -> str:
    if guess.mean is None:
        return "-"
    if guess.interval is None:
        return number(guess.mean)
    if outcome.details.get("grade") == "not converged":
        return interval_words(guess.interval)
    return with_interval(guess)


def _mark(outcome: Outcome, missing: str, marks: dict[str, str]) -> str:
    """Return the name with the marks of its footnotes; `marks` maps each footnote to its mark."""
    own = []
    for note in _notes(outcome, missing):
        next_letter = ascii_lowercase[sum(mark.isalpha() for mark in marks.values())]
        own.append(marks.setdefault(note, FIXED_MARKS.get(note, next_letter)))
    return f"{outcome.name} {','.join(own)}" if own else outcome.name


def _notes(outcome: Outcome, missing: str) -> list[str]:
    """Return what a reader must know before using the line, from what makes it useless to what qualifies it."""
    details = outcome.details
    if outcome.error is not None:
        blanks = missing == "model" and outcome.name not in OURS
        return [f"{'not for this design' if blanks else 'not estimable'}: {outcome.error}"]
    notes = [note for grade, note in GRADES.items() if details.get("grade") == grade]
    if "below_2" in details:
        counts = ", ".join(f"{details[f'below_{k}']:,} in cells of fewer than {k}" for k in (2, 3, 5))
        notes.append(f"no estimate, but records of the sample: {counts}")
    elif "rules" in details:
        notes.append("not for this design: ignores the rules (`zeros`)")
    if details.get("strata") == "ignored":
        notes.append("not for this design: ignores the strata and takes the records for a simple random sample")
    elif "strata" in details:
        notes.append("uses the strata as weights only: people of a stratum by its records")
    if "chosen" in details:
        notes.append(f"takes the estimate of {details['chosen']} here")
    if (details.get("b1") or 0.0) > TOO_SIMPLE or (details.get("b2") or 0.0) > TOO_SIMPLE:
        values = f"B1 = {details['b1']:.1f}, B2 = {details['b2']:.1f}"
        notes.append(f"too simple for this file, so risk is overestimated ({values}; above {TOO_SIMPLE:g})")
    return notes


def describe_time(estimators: Sequence[str], time_limit: float) -> str:
    """Estimate how long these estimators take together."""
    ours = sum(name in OURS for name in estimators)
    theirs = len(estimators) - ours
    parts = []
    if ours:
        compiling = "" if is_compiled() else ", after compiling once (about a minute)"
        parts.append(
            f"up to {duration(ours * time_limit)} of sampling (`time_limit` {duration(time_limit)} for each of "
            f"{plural(ours, 'model')} of keyhole, and some seconds to evaluate it){compiling}"
        )
    if theirs:
        parts.append(
            f"usually seconds for {plural(theirs, 'classical method')} ({duration(CLASSICAL_LIMIT)} each at most)"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


@click.command("compare", short_help="Compare keyhole's estimates with those of other methods.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@add(
    flags.KEYS,
    flags.POPULATION,
    flags.FRACTION,
    flags.WEIGHT,
    *flags.STRATA,
    flags.CODEBOOK,
    flags.ZEROS,
    flags.DROP,
    flags.IDENTIFIER,
    *flags.DATABASE,
    *flags.CELLS,
    flags.MERGE,
    settings_flags("missing"),
)
@click.option("--estimators", metavar="A,B", help="Run only these.  [default: all]")
@click.option("--time-limit", metavar="DURATION", help=f"For each of keyhole's models.  [default: {TIME_LIMIT:g}s]")
@add(settings_flags("ordered", "unordered", "chains", "seed", "workers", "max_sweeps"))
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write the table to this file as well.")
@add(flags.OVERWRITE, flags.JSON, flags.QUIET)
def command(
    file: Path | None,
    url: str | None,
    estimators: str | None,
    csv_file: Path | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Estimate tau1 and tau2 of FILE by keyhole's models and by the classical methods, in one table.

    \b
    tau1: how many sample uniques are population uniques
    tau2: expected correct matches if every sample unique is matched
          at random to someone with the same keys

    \b
    hdp-adaptive, hdp-paper,     keyhole's models, with 95 % intervals
      classes, mixed-5, mixed-20
    loglinear-main, -two-way,    Poisson log-linear models
      -forward                   (Skinner and Shlomo 2008)
    individual-risk              Benedetti and Franconi (1998), as in sdcMicro
    pitman, zayatz, dankar,      population uniques U, as in ARX: tau1 = U n / N;
      slide-negative-binomial    dankar is the one to trust (Dankar et al. 2012)
    k-anonymity                  records in cells of fewer than 2, 3, 5 records

    Definitions and references are in docs/estimators.md. The line of an estimator that fails says why: with
    --missing model and blank keys, all but keyhole's models fail, since they need every answer. With --strata only
    keyhole's models know the design; the table marks those that do not.

    \b
    Example:
      keyhole compare survey.csv --keys AGE,SEX,MARST --population 953076
    """
    sizes = (options["population"] is not None) + (options["fraction"] is not None)
    if sizes > 1 or (sizes == 0 and options["weight"] is None and not options["strata"]):
        raise click.UsageError("give one of --population N and --fraction F, or --weight W, or --strata with sizes.")

    from keyhole.evaluation.comparison import choose_estimators, compare
    from keyhole.files import refuse_existing, write_text

    chosen = choose_estimators(estimators)
    source = choose_source(file, url, options["query"])
    if csv_file is not None:
        refuse_existing(csv_file, overwrite, "csv")
    time_limit = make_settings(**given({"time_limit": options["time_limit"] or TIME_LIMIT})).time_limit
    with show_progress(quiet or as_json) as report:

        def show_start(name: str) -> None:
            if name == chosen[0]:
                report(Notice(describe_time(chosen, time_limit)))
            report(Notice(f"{chosen.index(name) + 1} of {len(chosen)}: {name}"))

        def show_event(event: Event) -> None:
            # Every model would announce its own memory and time.
            if not isinstance(event, Notice) or event.warning:
                report(event)

        found = compare(source, estimators=chosen, on_start=show_start, on_progress=show_event, **given(options))
    if not quiet:
        print_na(found.na)
        if found.warning is not None:
            print_note(found.warning)
    if csv_file is not None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(table_rows(found.outcomes))
        write_text(text.getvalue(), csv_file)
    if as_json:
        print_json(found.to_dict())
    elif not quiet:
        print_outcomes(found)
    return 0
