"""`keyhole assess`, with its limits: `--fail-above tau1=5` leaves the results written; the status is 4."""

from pathlib import Path
from typing import Any

import click

from keyhole.commands import flags
from keyhole.commands.config import CONFIG, drop_overruled
from keyhole.commands.flags import add, choose_source, default_folder, given, settings_flags
from keyhole.errors import silenced
from keyhole.settings import make_settings, option_names

NOT_CONVERGED = 3
GATE_CROSSED = 4


@click.command("assess", short_help="Estimate the disclosure risk of a file.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@add(flags.KEYS, flags.POPULATION, flags.FRACTION, flags.WEIGHT, *flags.STRATA)
@click.option("--household", metavar="ID", help="Column that identifies households; adds their risk.")
@add(flags.CODEBOOK, flags.ZEROS, flags.DROP)
@click.option("--self-check", is_flag=True, help="Fit half of the file too, and see how well it predicts the whole.")
@click.option("--quick", is_flag=True, help="Stop after the quick answer of the model classes.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: FILE-stem.keyhole]")
@add(flags.IDENTIFIER)
@click.option(
    "--accept",
    type=click.Choice(["usable"]),
    help="Exit with 0 also if the result is usable: within twice the limits of a converged one.",
)
@click.option("--resume", is_flag=True, help="Continue the unfinished run in the result folder.")
@click.option(
    "--overwrite", is_flag=True, help="Replace the results or the unfinished run in the folder; other files stay."
)
@click.option("--with-keys", is_flag=True, help="Add the keys of each record to records.csv and records.parquet.")
@click.option(
    "--keep-data",
    is_flag=True,
    help="Keep the encoded keys of all records in the result folder, so that what-if needs no FILE.",
)
@add(*flags.DATABASE, *flags.CELLS, flags.MERGE)
@click.option(
    "--fail-above",
    multiple=True,
    metavar="tau1=5",
    help="Exit with 4 if tau1 (tau2, tau1.upper, all.max, ...) exceeds this limit. May be repeated.",
)
@click.option(
    "--policy",
    multiple=True,
    metavar="NAME",
    help="Say whether the limit of this policy is met, and exit with 4 if not: a name (docs/policies.md) or a YAML "
    "file. May be repeated.",
)
@add(CONFIG, settings_flags(), flags.JSON, flags.QUIET)
def command(
    file: Path | None,
    url: str | None,
    out: Path | None,
    accept: str | None,
    fail_above: tuple[str, ...],
    policy: tuple[str, ...],
    resume: bool,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Estimate how many people in FILE could be identified by the key variables.

    FILE is a table with one row per person, a simple random sample of the population: CSV or TSV (also gzipped),
    Parquet (a file, or a folder of parts), SPSS (.sav, .zsav, .por), Stata (.dta), SAS (.sas7bdat, .xpt), or a
    database (--url and --query).

    \b
    Examples:
      keyhole assess survey.csv --keys AGE,SEX,MARST --population 953076
      keyhole assess survey.sav --keys AGE,SEX --band AGE=0,15,30,45,60,75 --population 953076

    The result folder holds report.html (to read and to print), summary.json, records.csv (the risk of every record;
    also as records.parquet), draws.nc (for ArviZ) and manifest.json. Only its owner can read it. Results that are there
    already are replaced with --overwrite only.
    """
    population, fraction = drop_overruled(click.get_current_context(), "population", "fraction")
    sizes = (population is not None) + (fraction is not None)
    if sizes > 1 or (sizes == 0 and options["weight"] is None and not options["strata"]):
        raise click.UsageError("give one of --population N and --fraction F, or --weight W, or --strata with sizes.")
    source = choose_source(file, url, options["query"])
    folder = out if out is not None else default_folder(source, ".keyhole")

    from keyhole import assess
    from keyhole.commands.progress import show_progress
    from keyhole.commands.screen import CHECKS, print_json, print_note, print_summary
    from keyhole.data.bands import read_bands
    from keyhole.data.categories import describe_missing_codes
    from keyhole.data.codebook import describe_strangers
    from keyhole.data.opening import refuse_unreadable
    from keyhole.data.population import check_fraction
    from keyhole.results.folder import CHECKPOINT, reserve
    from keyhole.results.restored import KEYS
    from keyhole.risk.limits import exceeded, parse_limits
    from keyhole.risk.policies import find_policies
    from keyhole.sampling.workers import stoppable

    gates = parse_limits(fail_above, "fail-above")
    find_policies(policy)
    # Before the folder is refused: whoever makes room for a run should not learn then that it was asked wrongly.
    if isinstance(source, Path):
        refuse_unreadable(source)
    if fraction is not None:
        check_fraction(fraction)
    read_bands(options["bands"])
    make_settings(**given({name: options[name] for name in option_names()}))
    with stoppable(), reserve(folder, overwrite, resume), silenced():
        with show_progress(quiet or as_json) as on_progress:
            assessment = assess(
                source,
                on_progress=on_progress,
                checkpoint=folder / CHECKPOINT,
                resume=resume,
                overwrite=overwrite,
                policy=[*policy, *(gate.text for gate in gates)],
                **given({**options, "population": population, "fraction": fraction}),
            )
        assessment.manifest["asked"]["out"] = str(folder)
        assessment.save(folder, overwrite=True)  # what was there has been refused before the run, or may go
    summary = assessment.summary
    if as_json:
        print_json(summary)
    elif not quiet:
        print_summary(summary, folder)
    if assessment.summary.input.codebook_strangers:
        print_note(f"{describe_strangers(assessment.summary.input.codebook_strangers)}.")
    for name, codes in assessment.summary.input.missing_codes.items():
        print_note(f"{describe_missing_codes(name, codes)}.")
    for name, hint in assessment.summary.input.spelling.items():
        print_note(f"{name}: {hint}. Correct the file, or list the categories in a `codebook`.")
    unseen = quiet or as_json  # else the table has these messages
    for check, title in CHECKS.items():
        if summary[check] is not None and not summary[check]["ok"]:
            print_note(summary[check]["message"] if unseen else f"{title}: not passed, see the table.")
    over = exceeded(gates, summary)
    judged = assessment.summary.policies
    unmet = [found.words for found in judged[: len(judged) - len(gates)] if not found.met]
    if options["keep_data"]:
        print_note(
            f"{folder / KEYS} holds the keys of all records (`keep_data`): treat the folder like the data, and delete "
            "that file when what-if is done."
        )
    if over:
        print_note(f"--fail-above: {'; '.join(over)}.")
    for words in unmet:
        print_note(f"--policy: the file {words}.")
    if not assessment.converged:
        message = assessment.diagnosis.message
        print_note(message if unseen else f"{assessment.grade.upper()}: see Convergence in the table.")
        if summary["convergence"].get("stopped") == "time" and (folder / CHECKPOINT).is_dir():
            print_note("the same command with `resume` continues this run.")
    if over or unmet:
        return GATE_CROSSED
    return 0 if assessment.converged or assessment.grade == accept else NOT_CONVERGED
