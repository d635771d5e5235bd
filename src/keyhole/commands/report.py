"""`keyhole report`."""

from pathlib import Path

import click


@click.command("report", short_help="Write the report of a result folder again, safe or internal.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--internal", is_flag=True, help="For the owner only: exact counts, categories, the riskiest rows.")
@click.option("--title", metavar="TEXT", help="Heading of the report.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File.  [default: report.html or report-internal.html in DIR]"
)
@click.option("--json", "as_json", is_flag=True, help="Write the content as JSON, to the screen or to the --out file.")
def command(folder: Path, internal: bool, title: str | None, out: Path | None, as_json: bool) -> int:
    """Write the report of the result folder DIR as one HTML page without scripts.

    A safe report (the default) holds no record and no small count: counts of records below 10 are shown as <10, others
    rounded to 5. An internal report holds exact counts and the riskiest rows; it is marked as internal.

    \b
    Example:
      keyhole report survey.keyhole --internal --out for-us.html
    """
    from keyhole.files import write_text
    from keyhole.report import make_content
    from keyhole.report.render import content_json, render
    from keyhole.results.folder import INTERNAL_REPORT, REPORT, load, replace_report

    content = make_content(load(folder), internal, title)
    if as_json and out is None:
        click.echo(content_json(content), nl=False)
        return 0
    path = out if out is not None else folder / (INTERNAL_REPORT if internal else REPORT)
    if out is None and not internal:
        replace_report(folder, render(content))
    else:
        write_text(content_json(content) if as_json else render(content), path)
    kind = "INTERNAL, for the owner only" if internal else "safe: no records, no small counts"
    click.echo(f"{path} ({kind})")
    return 0
