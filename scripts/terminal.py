"""A picture of a terminal in which a command of keyhole runs: its real output, as an SVG that loads nothing.

python scripts/terminal.py PICTURE.svg keyhole assess survey.csv ...
"""

import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 80
NO_BREAK = "\N{NO-BREAK SPACE}"
LAST = "Riskiest records"
"""The picture ends after this row of the table: what comes below would make it too tall for a page."""

WAITING = re.compile(r"(Preparing|Compiling|chain \d)")
"""Lines of progress: a terminal shows them as a table, which it erases in the end."""

# The template of rich without the fonts that it would load from the network.
TEMPLATE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run(words: list[str]) -> list[str]:
    """Run the command for 80 columns, without colours, and return the lines that a terminal has in the end."""
    shown = {**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    done = subprocess.run(words, env=shown, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return [line for line in done.stdout.splitlines() if not WAITING.match(line)]


def shorten(lines: list[str]) -> list[str]:
    """Return the lines down to the last row that is shown."""
    first = next(i for i, line in enumerate(lines) if line.startswith(LAST))
    end = next(i for i in range(first + 1, len(lines)) if not lines[i].startswith(" "))
    return [*lines[:end], "..."]


def draw(words: list[str], lines: list[str]) -> str:
    """Return the picture: a prompt with the command, as a person would type it, and what followed."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    prompt = shlex.join([Path(words[0]).name, *words[1:]])
    # An option and its value stay on one line.
    whole = " ".join(part.replace(" ", NO_BREAK) for part in re.split(" (?=--)", prompt))
    typed = textwrap.wrap(whole, WIDTH - 4, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    console.print(Text("$ ", style="bold green") + Text(" \\\n".join(typed).replace(NO_BREAK, " "), style="bold"))
    for line in lines:
        console.print(Text(line))
    return console.export_svg(title="keyhole assess", theme=MONOKAI, code_format=TEMPLATE, unique_id="keyhole")


if __name__ == "__main__":
    picture, *command = sys.argv[1:]
    Path(picture).write_text(draw(command, shorten(run(command))), encoding="utf-8")
