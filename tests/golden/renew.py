"""Write the golden reports again. Read the difference before committing it."""

from pathlib import Path

from keyhole.report import make_content
from keyhole.report.render import content_json, render
from tests.unit.report_results import make_result


def renew() -> None:
    """Write content and page of both kinds."""
    folder = Path(__file__).parent
    for kind in ("safe", "internal"):
        content = make_content(make_result(converged=False), kind == "internal")
        (folder / f"{kind}.json").write_text(content_json(content), encoding="utf-8")
        (folder / f"{kind}.html").write_text(render(content), encoding="utf-8")


if __name__ == "__main__":
    renew()
