"""The page: one file without scripts, without anything from elsewhere, and a policy that says so to the browser."""

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
from keyhole.words import decimals, number, percent

TEMPLATES = Path(__file__).parent / "templates"


def render(content: Content) -> str:
    """Write the content as one HTML page."""
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    page: str = (
        make_environment()
        .get_template("report.html")
        .render(
            content=content,
            # The hash in the policy is of these very characters between the tags.
            style=Markup(style),
            policy=f"default-src 'none'; style-src '{hash_source(style)}'; base-uri 'none'; form-action 'none'",
        )
    )
    return page


def content_json(content: Content) -> str:
    """The same content for a program."""
    return json_text(asdict(content))


def hash_source(text: str) -> str:
    """The hash by which a policy allows exactly this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def make_environment() -> Environment:
    """Everything is escaped, and a name that is not in the content is an error."""
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
    environment.filters.update(number=number, percent=percent, decimals=decimals)
    return environment
