"""What a notebook shows of a safe report: the verdict with its pictures, and single pictures.

A notebook has a page of its own, so every rule of the style applies below one class only, and the colours are those of
a light page, whatever the theme. The rules for pictures are those of the report.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from keyhole.errors import SettingsError
from keyhole.files import refuse_existing, write_text
from keyhole.report.figures import draw_agreement, draw_distribution
from keyhole.report.render import make_environment, read_style

if TYPE_CHECKING:
    from keyhole.report.content import Content

CLASS = "keyhole-result"
LAYOUT = f"""\
.{CLASS} {{ background: var(--page); color: var(--ink); padding: .5rem 1rem; max-width: 56rem; line-height: 1.45; }}
.{CLASS} p {{ margin: .4rem 0; color: inherit; }}
.{CLASS} .verdict {{ font-size: 1.25em; font-weight: 600; }}
.{CLASS} .banner {{ border: 3px double var(--warn); background: var(--warn-panel); padding: .5rem .75rem; }}
.{CLASS} .note {{ color: var(--soft); font-size: .9em; }}
.{CLASS} .picture {{ display: block; width: 100%; height: auto; overflow: visible; }}
.{CLASS} > .picture {{ height: 1.7rem; }}
.{CLASS} .figures {{ display: flex; flex-wrap: wrap; gap: .5rem 2rem; }}
.{CLASS} .figures > div {{ flex: 1 1 20rem; max-width: 27rem; }}
"""
PICTURES = ("tau1", "tau2", "chains")


@dataclass(frozen=True, repr=False)
class Picture:
    """A picture of a result: shown by a notebook, and written by `save`. It holds nothing of a record.

    Attributes
    ----------
    name : str
        What it shows.
    svg : str
        The picture, complete in itself.
    """

    name: str
    svg: str

    def __repr__(self) -> str:
        """Say what to do with it."""
        return f"Picture of {self.name}: a notebook shows it, .save(path) writes it as SVG"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return f'<div style="max-width: 30rem">{self.svg}</div>'

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the picture as SVG.

        Parameters
        ----------
        path
            The file to write.
        overwrite
            Replace the file if it exists.

        Raises
        ------
        OutputError
            If the file exists or cannot be written.
        """
        refuse_existing(Path(path), overwrite, "path")
        write_text(self.svg, Path(path))


def render_verdict(content: "Content") -> str:
    """Return the verdict and its pictures as a part of a page."""
    body = make_environment().get_template("notebook.html").render(content=content)
    return f'<div class="{CLASS}"><style>{_colours()}{LAYOUT}{_picture_rules()}</style>\n{body}</div>'


def draw_picture(content: "Content", what: str) -> Picture:
    """Return one picture of the report."""
    if what not in PICTURES:
        raise SettingsError(f"`what` must be one of {', '.join(PICTURES)}")
    if what == "chains":
        drawn = [draw_agreement(found, content.tau1) for found in content.convergence.pictures if found.name == "tau1"]
    else:
        drawn = [draw_distribution(found) for found in content.distributions if found.name == what]
    if not drawn:
        raise SettingsError(f"there is no picture of {what}: nothing had to be estimated, or with too few draws")
    # A picture has its style inside, so that it looks the same as a file.
    style = Markup(f"<style>{_colours()}{_picture_rules()}</style>")
    opening = re.sub("^<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" class="{CLASS}" ', str(drawn[0]), count=1)
    opening = opening.replace(' class="picture"', "", 1)
    return Picture(what, opening.replace("<title>", f"{style}<title>", 1))


def _colours() -> str:
    """Return the colours of the light page, as variables of our class."""
    block = re.search(r"^:root \{\n  color-scheme: light dark;\n(.*?)^\}", read_style(), re.DOTALL | re.MULTILINE)
    if block is None:
        raise ValueError("style.css has no block of colours")
    return f".{CLASS} {{ color-scheme: light;\n{block[1]}}}\n"


def _picture_rules() -> str:
    """Return the rules for what is inside a picture, below our class, which the picture itself may have."""
    rules = []
    for selectors, declarations in re.findall(r"^(svg [^{]*)\{([^}]*)\}", read_style(), re.MULTILINE):
        names = [selector.strip().removeprefix("svg ") for selector in selectors.split(",")]
        rules.append(f"{', '.join(f'.{CLASS} {name}' for name in names)} {{{declarations}}}")
    return "\n".join(rules) + "\n"
