"""`keyhole app`."""

from pathlib import Path

import click

from keyhole.errors import KeyholeError

MISSING = "the page needs Starlette and uvicorn: pip install 'keyhole[app]'."


@click.command("app", short_help="Do all of it in a browser, on this machine.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port of the page; 0: any free one."
)
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
def command(file: Path | None, port: int, no_browser: bool) -> int:
    """Open the page: choose a file, its keys and rules, run the estimate, read the answer, try what would help.

    Nothing leaves this machine. The page is served on the loopback address only, to whoever opens the file that is
    shown, which only you can read. FILE is read where it is; other files can be uploaded to a private folder
    (KEYHOLE_STATE, or ~/.local/state/keyhole).

    \b
    Example:
      keyhole app survey.sav
    """
    try:
        from keyhole.app.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise KeyholeError(MISSING) from None
    if file is not None:
        from keyhole.data.opening import refuse_unreadable

        refuse_unreadable(file)
    serve(file, port, not no_browser, click.echo)
    return 0
