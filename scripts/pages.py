"""The pictures of the page: the screens of a run on the survey of README.md, taken in Chromium.

python scripts/pages.py DOCS survey.csv        needs keyhole[app], playwright and Chromium
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

KEYS = ("age", "gender", "married", "selfemp", "family", "region", "ethnicity", "education")
WIDTH = 1200


def take(page: Any, path: Path, height: int) -> None:
    """Take a picture of the top of a page."""
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_timeout(600)
    # A palette is enough for a page, and a third of the size.
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(64).save(path, optimize=True)


def take_cards(page: Any, path: Path) -> None:
    """Take a picture of merged categories and of cut numbers, and take them back."""
    page.fill('tr[data-name="age"] .bands', "15,25,35,45,55")
    for key in ("age", "ethnicity"):
        page.click(f'.key-card[data-name="{key}"] summary')
        page.wait_for_selector(f'.key-card[data-name="{key}"] .merging li')
    typed = page.locator('.key-card[data-name="ethnicity"] input[type="text"]')
    typed.fill("afam,other")
    typed.press("Enter")
    page.wait_for_selector('.key-card[data-name="ethnicity"] li.merged')
    page.wait_for_timeout(1_000)
    page.evaluate(
        "() => { document.activeElement.blur(); document.querySelector('#meter').style.position = 'static'; }"
    )
    shown = Image.open(io.BytesIO(page.locator("#coarser").screenshot()))
    shown.convert("RGB").quantize(64).save(path, optimize=True)
    page.click('.key-card[data-name="ethnicity"] >> text=Undo all')
    page.click('.key-card[data-name="age"] >> text=Without bands')
    page.wait_for_timeout(1_000)
    page.reload()
    page.wait_for_selector("table.variables")


def go(page: Any, docs: Path, survey: Path, entry: Path) -> None:
    """Go the line and take four pictures."""
    page.goto(entry.as_uri())
    page.wait_for_selector("#file")
    page.wait_for_load_state("load")
    page.set_input_files("#file", str(survey))
    page.wait_for_url("**/variables")
    page.wait_for_selector("table.variables")
    for key in KEYS[:-1]:
        page.check(f'tr[data-name="{key}"] .is-key')
    page.wait_for_timeout(3_000)
    take(page, docs / "page-variables.png", 980)
    take_cards(page, docs / "page-coarser.png")
    page.check(f'tr[data-name="{KEYS[-1]}"] .is-key')
    page.fill("#population", "8,802")
    page.wait_for_timeout(1_000)
    page.click(".onward a")
    page.wait_for_url("**/rules")
    page.click(".onward a")
    page.wait_for_url("**/run")
    page.click("#start")
    page.wait_for_selector("#to-answer:not([hidden])", timeout=600_000)
    take(page, docs / "page-run.png", 930)
    page.click("#to-answer")
    page.wait_for_selector("#report .verdict", timeout=60_000)
    page.click(".onward a")
    page.wait_for_url("**/help")
    page.wait_for_selector(".key-card", timeout=60_000)
    page.check('.key-card[aria-label="region"] >> text=Leave it out')
    page.wait_for_timeout(4_000)
    take(page, docs / "page-help.png", 760)


if __name__ == "__main__":
    docs, survey = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "KEYHOLE_STATE": f"{folder}/state"}
        keyhole = Path(sys.executable).with_name("keyhole")
        command = [keyhole, "app", "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
            assert server.stdout is not None
            found = re.search(r"open (.+\.html) in a browser", server.stdout.readline() + server.stdout.readline())
            assert found is not None
            with sync_playwright() as running:
                path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
                browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
                go(browser.new_page(viewport={"width": WIDTH, "height": 900}), docs, survey, Path(found[1]))
                browser.close()
            server.terminate()
