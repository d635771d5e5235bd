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


BROKEN = """() => {
  const broken = [];
  for (const cell of document.querySelectorAll("td, th")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
      for (const word of node.data.matchAll(/[^\\s-]+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) broken.push(word[0]);
      }
  }
  return broken;
}"""
FARTHEST = """part => {
  const range = document.createRange();
  range.selectNodeContents(part);
  return Math.max(...[...range.getClientRects()].map(box => box.right));
}"""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("internal", [True, False])
def test_the_way_through_is_on_the_first_screen_and_words_are_whole(
    browser: Any, tmp_path: Path, width: int, height: int, internal: bool
) -> None:
    (tmp_path / "r.html").write_text(render(make_content(make_result(), internal=internal)), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"file://{tmp_path}/r.html")
    box = page.locator("nav").bounding_box()
    assert box["y"] + box["height"] < height
    assert page.locator(".verdict").bounding_box()["y"] < height
    for target in page.locator("nav a").evaluate_all("links => links.map(link => link.getAttribute('href'))"):
        assert page.locator(target).count() == 1, target
    assert page.evaluate(BROKEN) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_a_desk_is_used_to_its_right_edge(browser: Any, tmp_path: Path) -> None:
    """The first screen, and every section whose terms stand beside it; nothing of it covers anything else."""
    (tmp_path / "r.html").write_text(render(make_content(make_result())), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"file://{tmp_path}/r.html")
    for part in page.locator("header, #answer .pair, section:has(> .terms)").all():
        assert part.evaluate(FARTHEST) > 1440 * 0.8
    for part in page.locator("section:not(#answer):has(> .terms)").all():
        whole, aside = part.bounding_box(), part.locator("> .terms").bounding_box()
        assert aside["y"] + aside["height"] <= whole["y"] + whole["height"]
        for other in part.locator("> :not(.terms)").all():
            box = other.bounding_box()
            assert box is None or box["x"] + box["width"] <= aside["x"] + 1
    page.close()
