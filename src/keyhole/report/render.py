"""The page: one file that has no scripts and loads nothing, and a content security policy that enforces it."""

import base64
import hashlib
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from keyhole.files import json_text
from keyhole.report import figures
from keyhole.report.content import Content
from keyhole.words import decimals, number, percent, percents

TEMPLATES = Path(__file__).parent / "templates"


def render(content: Content) -> str:
    """Return the content as one HTML page."""
    return render_page("report.html", content=content)


def render_page(template: str, **values: Any) -> str:
    """Return a template as one page, with the style of reports and the policy that allows it."""
    style = read_style()
    # The policy allows exactly these characters between the style tags.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return make_environment().get_template(template).render(style=Markup(style), policy=policy, **values)


def read_style() -> str:
    """Return the style of the page."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def render_sections(content: Content) -> str:
    """Return the sections of the page alone, for another page that has the same style."""
    template = make_environment().get_template("report.html")
    return "".join(template.blocks["main"](template.new_context({"content": content})))


def content_json(content: Content) -> str:
    """Return the content for a program."""
    return json_text(asdict(content))


@cache
def make_environment() -> Environment:
    """Return an environment that escapes everything and refuses names that are not in the content."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    drawn: dict[str, Any] = {name: value for name, value in vars(figures).items() if name.startswith("draw_")}
    environment.globals.update(drawn)
    environment.filters.update(number=number, percent=percent, percents=percents, decimals=decimals)
    return environment
