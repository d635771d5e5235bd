"""`keyhole report`."""

from pathlib import Path

import click

from keyhole.commands.flags import OVERWRITE, add


@click.command("report", short_help="Write the report of a result folder again, safe or internal.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--internal", is_flag=True, help="For the owner only: exact counts, categories, the riskiest rows.")
@click.option("--title", metavar="TEXT", help="Heading of the report.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File.  [default: report.html or report-internal.html in DIR]"
)
@click.option("--json", "as_json", is_flag=True, help="Write the content as JSON, to the screen or to the --out file.")
@add(OVERWRITE)
def command(folder: Path, internal: bool, title: str | None, out: Path | None, as_json: bool, overwrite: bool) -> int:
    """Write the report of the result folder DIR as one HTML page without scripts.

    A safe report (the default) holds no record and no small count: counts of records below 10 are shown as <10, others
    rounded to 5. An internal report holds exact counts and the riskiest rows; it is marked as internal.

    \b
    Example:
      keyhole report survey.keyhole --internal --out for-us.html
    """
    from keyhole.report import make_content
    from keyhole.report.render import content_json
    from keyhole.results.folder import INTERNAL_REPORT, REPORT, load, write_report

    assessment = load(folder)
    path = out if out is not None else folder / (INTERNAL_REPORT if internal else REPORT)
    if as_json:
        text = content_json(make_content(assessment, internal, title))
        if out is None:
            click.echo(text, nl=False)
            return 0
        write_report(text, path, overwrite)
    else:
        assessment.report(path, internal, title, overwrite)
    kind = "INTERNAL, for the owner only" if internal else "safe: no records, no small counts"
    click.echo(f"{path} ({kind})")
    return 0
