"""The page in Chromium: nothing is refused or requested, and it fits a telephone, a desk and paper."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyhole.report import make_content
from keyhole.report.render import render
from tests.unit.report_results import KEYS, make_result


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The Chromium of the system; Playwright's own is never downloaded."""
    from playwright.sync_api import sync_playwright

    path = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if path is None and not os.environ.get("CI"):
        pytest.skip("no Chromium: apt-get install chromium, or name another browser in CHROMIUM")
    assert path is not None, "CI has no Chromium: scripts/test installs it where it may"
    with sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-quic"])
        yield chromium
        chromium.close()


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it_without_complaint(browser: Any, tmp_path: Path, width: int) -> None:
    """No complaint about the policy, no request, no sideways scrolling, and the style is in force."""
    (tmp_path / "r.html").write_text(render(make_content(make_result(), internal=True)), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: complaints.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(f"file://{tmp_path}/r.html")
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.querySelector('.verdict')).fontWeight") == "600"
    assert set(KEYS) <= set(page.locator("#variables th bdi").all_inner_texts())
    page.close()
