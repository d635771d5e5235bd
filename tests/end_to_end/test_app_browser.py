"""The page in Chromium: the whole line as a user goes it, on a CSV and on an SPSS file, and for everybody."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyreadstat
import pytest

import keyhole
from tests.end_to_end.serving import KEYHOLE, Served, serve

KEYS = ["AGE", "SEX", "MARITAL", "WORK", "REGION"]
RULES = ["AGE <= 2 and MARITAL in (married, widowed)", "AGE == 1 and WORK == full"]
AXE = Path(__file__).parents[2] / ".axe" / "axe.min.js"
SCREENS = ("variables", "rules", "run", "answer", "help", "take")
STANDARD = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
PAYLOADS = [
    "<img src=x onerror=document.title=666>", "</script><script>document.title=666</script>", "<svg/onload=alert(1)>",
    "{{7*7}}", "'\"><b>bold</b>", "javascript:alert(1)", "&lt;i&gt;", "<style>*{display:none}</style>", "]]><x>",
    "<a href=//evil.com>", "<!-- ", "</table><h1>x</h1>", "</textarea><iframe src=//evil.com>", "\u2028<b>", "${7*7}",
]  # fmt: skip


def make_frame() -> pl.DataFrame:
    """160 people; the first two rules hold."""
    rng = np.random.default_rng(5)
    rows = 160
    age = rng.integers(1, 9, rows)
    marital = np.where(age < 3, "single", rng.choice(["single", "married", "widowed"], rows))
    work = rng.choice(["none", "part", "full", "other"], rows)
    frame = pl.DataFrame(
        {
            "AGE": age, "SEX": rng.choice(["f", "m"], rows), "MARITAL": marital, "WORK": work,
            "REGION": rng.integers(1, 6, rows), "ID": [f"p{x}" for x in range(rows)],
            "INCOME": rng.normal(3e4, 9e3, rows),
        }
    )  # fmt: skip
    return frame.filter(~((pl.col("AGE") == 1) & (pl.col("WORK") == "full")))


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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("page") / "home") as found:
        yield found


def open_tab(browser: Any, served: Served, complaints: list[str], **options: Any) -> Any:
    """Enter through the file, as a person does. Whatever the browser complains about is noted."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, **options)
    page = context.new_page()
    page.set_default_timeout(180_000)
    page.on("console", lambda message: complaints.append(f"{message.text} {message.location}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: check_request(request.url, served, complaints))
    page.goto(served.entry.as_uri())
    if options.get("java_script_enabled") is False:
        page.click("button")
    page.wait_for_selector(".brand")
    page.wait_for_load_state("load")
    assert page.url.startswith(served.address)
    return page


def check_request(url: str, served: Served, complaints: list[str]) -> None:
    """Nothing is loaded from elsewhere, and no address holds a secret."""
    if not url.startswith((f"{served.address}/", "file://")) or served.cookie.split("=")[1] in url:
        complaints.append(url)


def choose_file(page: Any, path: Path) -> str:
    page.set_input_files("#file", str(path))
    page.wait_for_url("**/variables")
    page.wait_for_selector("table.variables")
    return str(re.search("/p/([0-9a-f]{16})/", page.url)[1])  # type: ignore[index]


def go_on(page: Any, screen: str) -> None:
    """Press Next; the scripts of the next screen have run when this returns."""
    page.click(".onward a")
    page.wait_for_url(f"**/{screen}")


def run_to_the_answer(page: Any) -> None:
    page.click("#start")
    page.wait_for_selector("#to-answer:not([hidden])")
    page.click("#to-answer")
    page.wait_for_url("**/answer")
    page.wait_for_selector("#report .verdict")


def go_the_whole_line(page: Any, path: Path, seed: int, rules: list[str]) -> str:
    """From the file to What would help."""
    project = choose_file(page, path)
    for key in KEYS:
        page.check(f'tr[data-name="{key}"] .is-key')
    page.fill("#population", "4,000")
    go_on(page, "rules")
    for rule in rules:
        page.fill("#new-rule", rule)
        page.click("text=Add")
        page.wait_for_selector(".rules .found:has-text('No record contradicts it')")
    go_on(page, "run")
    page.fill("#seed", str(seed))
    run_to_the_answer(page)
    return project


def compare(served: Served, project: str, wanted: Any) -> Path:
    """The result is that of `assess`, to the bit."""
    folder = served.entry.parent / "projects" / project / "runs" / "1" / "result"
    found = keyhole.load(folder)
    assert found.tau1 == wanted.tau1
    assert found.tau2 == wanted.tau2
    assert found.records.equals(wanted.records)
    for name, values in wanted.draws.items():
        assert np.array_equal(values, found.draws[name]), name
    return folder


def shell(page: Any) -> list[str]:
    """The command that the screen shows, with our own keyhole."""
    words = shlex.split(page.inner_text("#said-command"))
    assert words[0] == "keyhole"
    return [KEYHOLE, *words[1:]]


def test_a_csv_from_the_file_to_the_report(browser: Any, served: Served, tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    make_frame().write_csv(path)
    complaints: list[str] = []
    page = open_tab(browser, served, complaints)
    project = go_the_whole_line(page, path, 3, RULES)
    wanted = keyhole.assess(path, KEYS, population=4000, zeros=RULES, seed=3)
    folder = compare(served, project, wanted)
    # The answer is the report, safe first, internal on request.
    assert page.inner_text(".verdict") in (folder / "report.html").read_text(encoding="utf-8")
    assert page.locator("text=Riskiest rows").count() == 0
    page.check("#internal")
    page.wait_for_selector("text=Riskiest rows")
    # What would help: the same numbers as what_if, and as the command that is shown.
    go_on(page, "help")
    page.wait_for_selector("#help:not([hidden])")
    page.check('.key-card[aria-label="REGION"] >> text=Leave it out')
    assert page.locator(".key-card >> text=Best single step").count() == len(KEYS)
    page.click('.key-card[aria-label="MARITAL"] summary')
    for code in ("married", "widowed"):
        page.check(f'.key-card[aria-label="MARITAL"] input[value="{code}"]')
    page.click('.key-card[aria-label="MARITAL"] >> text=Merge the ticked')
    changed = wanted.what_if(["REGION"], {"MARITAL": [["married", "widowed"]]})
    page.wait_for_selector(f'#change tr[data-row=uniques] .after:text-is("{changed.sample_uniques}")')
    found = served.ask(f"{project}/what-if", drop=["REGION"], merge={"MARITAL": [["married", "widowed"]]})
    assert found["after"]["tau1"]["mean"] == changed.tau1.mean
    assert found["after"]["tau2"]["interval"] == list(changed.tau2.interval)
    printed = json.loads(subprocess.run([*shell(page), "--json"], capture_output=True, check=True).stdout)
    assert printed["after"]["tau1"]["mean"] == changed.tau1.mean
    page.uncheck('.key-card[aria-label="REGION"] >> text=Leave it out')
    page.select_option("#remove", "r1>0.01")
    fewer = wanted.what_if(recode={"MARITAL": [["married", "widowed"]]}, remove="r1>0.01")
    assert fewer.sample_uniques != changed.sample_uniques
    page.wait_for_selector(f'#change tr[data-row=uniques] .after:text-is("{fewer.sample_uniques}")')
    page.wait_for_selector("#said-command:has-text('--remove')")
    printed = json.loads(subprocess.run([*shell(page), "--json"], capture_output=True, check=True).stdout)
    assert printed["after"]["tau1"]["mean"] == fewer.tau1.mean
    page.select_option("#remove", "")
    page.check('.key-card[aria-label="REGION"] >> text=Leave it out')
    page.wait_for_selector(f'#change tr[data-row=uniques] .after:text-is("{changed.sample_uniques}")')
    plan_and_protect(page, wanted, path, folder.parent)
    # Take away.
    go_on(page, "take")
    for name, button in (
        ("report.html", "Safe report"),
        ("records.csv", "Risk of every record"),
        ("rules.yaml", "Rules"),
        ("plan.yaml", "Plan to apply"),
        ("protected.csv", "Protected file"),
    ):
        with page.expect_download() as download:
            page.click(f".downloads >> text={button}")
        assert download.value.suggested_filename == name
        places = {"rules.yaml": folder.parents[2], "plan.yaml": folder.parent / "plan", "protected.csv": folder.parent}
        kept = places.get(name, folder) / name
        assert Path(download.value.path()).read_bytes() == kept.read_bytes()
    with page.expect_download() as download:
        page.click(".downloads >> text=Internal report")
    assert "INTERNAL" in Path(download.value.path()).read_text(encoding="utf-8")
    keyhole.load(folder)
    # Back, a second tab, a reload: nothing is lost.
    for address in (f"{served.address}/p/{project}/variables",):
        other = page.context.new_page()
        other.goto(address)
        assert [key for key in KEYS if other.is_checked(f'tr[data-name="{key}"] .is-key')] == KEYS
        assert other.input_value("#population") == "4,000"
        other.goto(f"{served.address}/p/{project}/rules")
        other.wait_for_selector("#rules li >> nth=1")
        assert [other.locator("#rules input").nth(x).input_value() for x in (0, 1)] == RULES
        other.goto(f"{served.address}/p/{project}/help")
        other.wait_for_selector(f'#change tr[data-row=uniques] .after:text-is("{changed.sample_uniques}")')
        assert other.is_checked('.key-card[aria-label="REGION"] >> text=Leave it out')
        other.close()
    page.goto(served.address)
    assert "158 records" in page.inner_text(".list") or f"{len(make_frame())} records" in page.inner_text(".list")
    assert complaints == []
    page.context.close()


def read_plan(folder: Path) -> str:
    return (folder / "plan.yaml").read_text(encoding="utf-8")


def plan_and_protect(page: Any, wanted: Any, path: Path, run: Path) -> None:
    """A plan against a limit, the protected file, and its own assessment: those of Python."""
    page.fill("#plan-limits", "tau1.upper=5")
    page.click("summary:has-text('importance')")
    page.check('#plan-keys tr[data-name="SEX"] input[type=checkbox]')
    page.click("#plan-start")
    page.wait_for_selector("#plan .verdict")
    plan = wanted.plan("tau1.upper=5", keep=["SEX"], at_most="30s")
    assert (run / "plan" / "plan.yaml").read_text(encoding="utf-8") == plan.recipe.to_yaml()
    assert page.locator("#plan .steps li").count() == len(plan.steps)
    page.click("#protect")
    page.wait_for_selector("#protected:not([hidden])")
    with pytest.warns(keyhole.TelltaleWarning):
        protected = keyhole.protect(path, plan)
    assert pl.read_csv(run / "protected.csv", infer_schema=False).equals(protected.cast(pl.String))
    assert "ID looks like an identifier" in page.inner_text("#undoing-what")
    page.click("#leave-out")
    page.wait_for_selector("#undoing", state="hidden")
    assert "ID" not in pl.read_csv(run / "protected.csv", infer_schema=False).columns
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("#protected:not([hidden])")
    assert other.inner_text("#plan .verdict") == page.inner_text("#plan .verdict")
    other.click("#assess-protected")
    other.wait_for_url("**/variables")
    other.wait_for_selector("table.variables")
    ticked = [row.get_attribute("data-name") for row in other.locator("tr.chosen").all()]
    assert sorted(ticked) == sorted(key.name for key in plan.recipe.keys if key.groups is not None)
    assert other.input_value("#population") == "4,000"
    other.close()


def test_an_spss_file_has_its_labels_and_the_same_numbers(browser: Any, served: Served, tmp_path: Path) -> None:
    frame = make_frame().drop("ID", "INCOME")
    codes = {"single": 1.0, "married": 2.0, "widowed": 3.0}
    work = {"none": 1.0, "part": 2.0, "full": 3.0, "other": 4.0}
    frame = frame.with_columns(
        pl.col("MARITAL").replace_strict(codes, return_dtype=pl.Float64),
        pl.col("WORK").replace_strict(work, return_dtype=pl.Float64),
    )
    labels = {"MARITAL": {code: PAYLOADS[x] for x, code in enumerate(codes.values())}}
    labels["WORK"] = {code: PAYLOADS[3 + x] for x, code in enumerate(work.values())}
    path = tmp_path / "survey.sav"
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels, column_labels={"AGE": PAYLOADS[1]})
    complaints: list[str] = []
    page = open_tab(browser, served, complaints)
    project = go_the_whole_line(page, path, 4, [])
    compare(served, project, keyhole.assess(path, KEYS, population=4000, seed=4))
    for screen in SCREENS:
        page.goto(f"{served.address}/p/{project}/{screen}")
        page.wait_for_selector({"answer": "#report .verdict", "help": ".key-card"}.get(screen, "main"))
        check_markup(page)
    assert page.title() != "666"
    assert complaints == []
    page.context.close()


ADDED = """() => {
  const all = [...document.querySelectorAll("*")];
  const names = "img, iframe, object, embed, style, b, i, x, link:not([href^='/static/'])";
  const strange = one => one.name.startsWith("on") || one.name === "style"
    || one.name === "href" && /^\\s*javascript:/.test(one.value);
  return [...document.querySelectorAll(names)].map(found => found.outerHTML)
    .concat(all.flatMap(found => [...found.attributes].filter(strange).map(one => one.name)))
    .concat([...document.scripts].filter(one => !one.src && one.type !== "application/json").map(one => one.text));
}"""


def check_markup(page: Any) -> None:
    """No element and no attribute that our templates do not write."""
    assert page.evaluate(ADDED) == []


def test_hostile_names_and_values_add_nothing_to_any_screen(browser: Any, served: Served, tmp_path: Path) -> None:
    """In header, values, file name and rules; the run is a quick one."""
    rows = 120
    rng = np.random.default_rng(2)
    names = [payload.replace("\u2028", "") for payload in PAYLOADS]
    frame = pl.DataFrame({name: [names[k] for k in rng.integers(0, 4 + x % 5, rows)] for x, name in enumerate(names)})
    path = tmp_path / "a<b>&'x.csv"
    frame.write_csv(path)
    complaints: list[str] = []
    page = open_tab(browser, served, complaints)
    project = choose_file(page, path)
    check_markup(page)
    for place in range(4):
        page.locator(".is-key").nth(place).check()
    page.fill("#population", "900")
    for card in page.locator("#coarser .key-card").all():
        card.locator("summary").click()
        for place in range(2):
            card.locator(".merging input").nth(place).check()
        card.locator("text=Merge the ticked").click()
        card.locator(".merging li.merged").wait_for()
    check_markup(page)
    for card in page.locator("#coarser .key-card").all():
        card.locator("text=Undo all").click()
        card.locator(".merging li.merged").wait_for(state="detached")
    go_on(page, "rules")
    page.fill("#new-rule", f"`{names[0]}` == '{names[1]}' and RGE == 1")
    page.click("text=Add")
    page.wait_for_selector(".rules .found.wrong")
    check_markup(page)
    page.click("text=Remove")
    page.click("#suggest")
    page.wait_for_selector("#looking:not(:text-is('Looking ...'))")
    check_markup(page)
    go_on(page, "run")
    page.check("#quick")
    page.click("text=Limits to judge the result by")
    page.check('.policy[value="ema-0070"]')
    page.fill("#limits", "tau1.upper=900")
    run_to_the_answer(page)
    assert page.locator(".policies li").count() == 2
    check_markup(page)
    page.check("#internal")
    page.wait_for_selector("text=Riskiest rows")
    check_markup(page)
    page.goto(f"{served.address}/p/{project}/help")
    page.wait_for_selector(".key-card")
    assert page.locator("#policies li").count() == 2
    page.locator(".key-card >> text=Leave it out").first.check()
    page.wait_for_selector("#said-command:has-text('--policy ema-0070 --policy tau1.upper=900')")
    page.locator(".key-card >> text=Leave it out").first.uncheck()
    for summary in page.locator(".key-card summary").all():
        summary.click()
    check_markup(page)
    page.goto(served.address)
    check_markup(page)
    assert complaints == []
    assert "666" not in page.title()
    page.context.close()


def count_alone(frame: pl.DataFrame) -> str:
    sizes = frame.group_by(frame.columns).len()["len"]
    return str(int((sizes == 1).sum()))


def wait_for_alone(page: Any, frame: pl.DataFrame) -> None:
    page.wait_for_selector(f'#alone:text-is("{count_alone(frame)}")', timeout=10_000)


def test_categories_are_merged_and_numbers_cut_before_the_run(browser: Any, served: Served, tmp_path: Path) -> None:
    """By mouse, by keys alone and typed: the count follows, and the run is that of the command and of Python."""
    from playwright.sync_api import expect

    rng = np.random.default_rng(3)
    frame = make_frame().with_columns(AGE=pl.Series(rng.integers(18, 40, len(make_frame()))))
    path = tmp_path / "merged.csv"
    frame.write_csv(path)
    complaints: list[str] = []
    page = open_tab(browser, served, complaints)
    page.set_default_timeout(30_000)
    project = choose_file(page, path)
    keys = ["AGE", "MARITAL", "WORK", "REGION"]
    for key in keys:
        page.check(f'tr[data-name="{key}"] .is-key')
    now = frame.select(keys)
    wait_for_alone(page, now)
    cards = {key: page.locator(f'.key-card[data-name="{key}"]') for key in keys}
    # One category dragged onto another; into another card it goes nowhere.
    cards["MARITAL"].locator("summary").click()
    cards["WORK"].locator("summary").click()
    cards["MARITAL"].locator("li", has_text="married").drag_to(cards["WORK"].locator("li", has_text="part"))
    cards["MARITAL"].locator("li", has_text="married").drag_to(cards["MARITAL"].locator("li", has_text="widowed"))
    cards["MARITAL"].locator("li.merged", has_text="married + widowed").wait_for()
    now = now.with_columns(pl.col("MARITAL").replace("married", "widowed"))
    wait_for_alone(page, now)
    assert cards["WORK"].locator("li.merged").count() == 0
    # By the keyboard: ticked and merged, undone, and merged again.
    for _ in range(2):
        for code in ("none", "part"):
            cards["WORK"].locator("li", has_text=code).locator("input").focus()
            page.keyboard.press("Space")
        cards["WORK"].locator("text=Merge the ticked").focus()
        page.keyboard.press("Enter")
        cards["WORK"].locator("li.merged", has_text="none + part").wait_for()
        wait_for_alone(page, now.with_columns(pl.col("WORK").replace("none", "part")))
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Undo merging none, part"
        page.keyboard.press("Enter")
        cards["WORK"].locator("li.merged").wait_for(state="detached")
        wait_for_alone(page, now)
    # Typed as on the command line; what is wrong is said and changes nothing.
    cards["REGION"].locator("summary").focus()
    page.keyboard.press("Enter")
    cards["REGION"].locator("li").first.wait_for()
    typed = cards["REGION"].locator("input[type=text]")
    for text, message in (("1,", "Write the categories to merge"), ("1,9", "'9' is not a category")):
        typed.fill(text)
        typed.press("Enter")
        cards["REGION"].locator(".refused", has_text=message).wait_for()
    typed.fill("1,2|4,5")
    typed.press("Enter")
    now = now.with_columns(pl.col("REGION").replace({2: 1, 5: 4}))
    wait_for_alone(page, now)
    assert cards["REGION"].locator(".refused:visible").count() == 0
    # Numbers: cuts by keys and by the mouse, always those of the field for bands.
    cards["AGE"].locator("summary").click()
    field = page.locator('tr[data-name="AGE"] .bands')

    def cut_at(limits: str) -> None:
        expect(field).to_have_value(limits)
        below = [int(limit) for limit in limits.split(",")[1:]]
        wait_for_alone(page, now.with_columns(AGE=sum((pl.col("AGE") >= limit).cast(pl.Int8) for limit in below)))

    for cuts in range(2):
        cards["AGE"].locator("text=Add a cut").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(f"[role=slider] >> nth={cuts}")
        page.wait_for_selector("[role=slider]:focus")
    first, second = (int(limit) for limit in field.input_value().split(",")[1:])
    cards["AGE"].locator("[role=slider]").nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    cut_at(f"18,{first + 2},{second}")
    page.wait_for_selector("[aria-label='Cut 1 of AGE']:focus")
    cards["AGE"].scroll_into_view_if_needed()
    box = cards["AGE"].locator("svg.cuts").bounding_box()
    grip = cards["AGE"].locator("[role=slider] .grip").nth(1).bounding_box()
    page.mouse.move(grip["x"] + 7, grip["y"] + 7)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * (8 + 384 * (35 - 18) / (40 - 18)) / 400, grip["y"] - 30, steps=3)
    page.mouse.up()
    cut_at(f"18,{first + 2},35")
    cards["AGE"].locator("[role=slider]").nth(0).focus()
    page.keyboard.press("Delete")
    cut_at("18,35")
    # Too low for the band by its first limit: said beside the field.
    field.fill("20,35")
    page.wait_for_selector('tr[data-name="AGE"] .refused:has-text("below the lowest limit")')
    field.fill("18,25,35")
    cut_at("18,25,35")
    page.fill("#population", "4000")
    page.check('.key-card[data-name="MARITAL"] li.merged input')  # what is ticked only is not kept
    page.wait_for_selector("#said-command:has-text('--population 4000')")
    assert page.inner_text("#said-command").endswith(
        "--band AGE=18,25,35 --merge MARITAL=married,widowed --merge 'REGION=1,2|4,5' --out merged.keyhole"
    )
    check_markup(page)
    page.reload()
    page.wait_for_selector('.key-card[data-name="REGION"] summary:has-text("2 merged")')
    wait_for_alone(page, now.with_columns(AGE=sum((pl.col("AGE") >= limit).cast(pl.Int8) for limit in (25, 35))))
    page.goto(f"{served.address}/p/{project}/run")
    page.fill("#seed", "4")
    page.check("#quick")
    page.wait_for_selector("#said-command:has-text('--seed 4 --quick')")
    command = [*shell(page)[:-1], str(tmp_path / "out")]
    run_to_the_answer(page)
    merge = {"MARITAL": [["married", "widowed"]], "REGION": [["1", "2"], ["4", "5"]]}
    options: dict[str, Any] = {"bands": {"AGE": "18,25,35"}, "merge": merge, "seed": 4, "quick": True}
    compare(served, project, keyhole.assess(path, keys, population=4000, **options))
    subprocess.run(command, capture_output=True, check=False)
    compare(served, project, keyhole.load(tmp_path / "out"))
    assert [one for one in complaints if "422" not in one] == []
    page.context.close()


def test_stratum_sizes_and_hierarchies_are_given_as_files(browser: Any, served: Served, tmp_path: Path) -> None:
    path, sizes, tree = tmp_path / "strata.csv", tmp_path / "sizes.csv", tmp_path / "tree.yaml"
    frame = make_frame()
    frame.write_csv(path)
    frame.group_by("REGION").len("N").with_columns(pl.col("N") * 25).sort("REGION").write_csv(sizes)
    tree.write_text("WORK: [[none, other], [part, full]]\n", encoding="utf-8")
    table = tmp_path / "marital.csv"
    table.write_text("single;alone\nwidowed;alone\nmarried;married\n", encoding="utf-8")
    complaints: list[str] = []
    page = open_tab(browser, served, complaints)
    page.set_default_timeout(60_000)
    project = choose_file(page, path)
    for key in KEYS:
        page.check(f'tr[data-name="{key}"] .is-key')
    page.click("summary:has-text('Strata')")
    page.check('.stratum[value="REGION"]')
    with page.expect_navigation():
        page.set_input_files("#sizes", str(tree))
    page.wait_for_selector("#sizes-found.wrong:has-text('tree.yaml')")
    with page.expect_navigation():
        page.set_input_files("#sizes", str(sizes))
    page.wait_for_selector(f"#sizes-found:has-text('5, with {25 * len(frame):,} people')")
    assert page.is_checked("input[name=size][value=strata]")
    page.goto(f"{served.address}/p/{project}/run")
    page.fill("#seed", "6")
    page.check("#quick")
    run_to_the_answer(page)
    wanted = keyhole.assess(path, KEYS, strata="REGION", strata_sizes=sizes, seed=6, quick=True)
    folder = compare(served, project, wanted)
    page.goto(f"{served.address}/p/{project}/help")
    page.wait_for_selector("#help:not([hidden])")
    page.click("summary:has-text('importance')")
    page.set_input_files("#hierarchy", str(sizes))
    page.wait_for_selector("#problem:has-text('--hierarchy sizes.csv')")
    assert page.locator("#hierarchies li").count() == 0
    page.set_input_files("#hierarchy", str(tree))
    page.wait_for_selector("#hierarchies >> text=tree.yaml")
    page.select_option("#hierarchy-key", "MARITAL")
    page.set_input_files("#hierarchy", str(table))
    page.wait_for_selector("#hierarchies >> text=MARITAL: marital.csv")
    page.fill('#plan-keys tr[data-name="AGE"] input[type=number]', "3")
    page.check('#plan-keys tr[data-name="SEX"] input[type=checkbox]')
    page.fill("#plan-limits", "tau1.upper=5")
    page.press("#plan-limits", "Tab")
    page.wait_for_selector("#said-command:has-text('several.yaml')")
    page.set_input_files("#hierarchy", str(sizes))  # what does not fit leaves the one before
    page.wait_for_selector("#problem:has-text('--hierarchy sizes.csv')")
    page.click("#plan-start")
    page.wait_for_selector("#plan .verdict")
    given: dict[str, Any] = {"importance": {"AGE": 3}, "keep": ["SEX"], "hierarchy": [tree, f"MARITAL={table}"]}
    plan = wanted.plan("tau1.upper=5", at_most="30s", **given)
    # The page keeps the sizes of a run beside its result.
    assert read_plan(folder.parent / "plan") == plan.recipe.to_yaml().replace(
        str(sizes), str(folder.parent / "strata-sizes.csv")
    )
    first = shlex.split(page.inner_text("#said-command").splitlines()[0])
    subprocess.run([KEYHOLE, *first[1:-1], str(tmp_path / "plan")], capture_output=True, check=True)
    assert read_plan(tmp_path / "plan") == read_plan(folder.parent / "plan")
    page.click("#hierarchies >> text=tree.yaml")
    page.wait_for_selector("#hierarchies >> text=tree.yaml", state="detached")
    page.wait_for_selector("#said-command:not(:has-text('several.yaml'))")
    assert [one for one in complaints if "422" not in one] == []
    page.context.close()


def latest_project(served: Served) -> str:
    """A project that has a result, of the tests before."""
    for path in (served.entry.parent / "projects").iterdir():
        found = json.loads((path / "project.json").read_text(encoding="utf-8"))
        if found["choices"]["rules"] and (path / "runs" / "1" / "result" / "manifest.json").exists():
            return path.name
    raise AssertionError("no project has a result")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark"), (900, "light"), (1600, "dark")])
def test_everybody_can_use_every_screen(browser: Any, served: Served, width: int, scheme: str) -> None:
    """axe-core finds nothing against WCAG 2.1 AA, and nothing has to be scrolled sideways."""
    if not AXE.exists() and not os.environ.get("CI"):
        pytest.skip("no axe-core: scripts/axe")
    project = latest_project(served)
    page = open_tab(browser, served, [], bypass_csp=True, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("/", *(f"/p/{project}/{screen}" for screen in SCREENS)):
        page.goto(f"{served.address}{path}")
        wanted = {"answer": "#report .verdict", "help": ".key-card", "rules": "#rules .found"}
        page.wait_for_selector(wanted.get(path.split("/")[-1], "main"))
        page.evaluate("document.querySelectorAll('main details').forEach(one => one.open = true)")
        page.wait_for_timeout(300)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("options => axe.run(document, options)", STANDARD)
        said = [(item["id"], node["html"][:160]) for item in found["violations"] for node in item["nodes"]]
        assert said == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.context.close()


def test_the_keyboard_alone_is_enough(browser: Any, served: Served, tmp_path: Path) -> None:
    path = tmp_path / "keys.csv"
    make_frame().select("AGE", "SEX", "REGION").write_csv(path)
    page = open_tab(browser, served, [])
    choose_file(page, path)

    def tab_to(wanted: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("wanted => document.activeElement.matches(wanted)", wanted):
                return
        raise AssertionError(f"{wanted} cannot be reached")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    tab_to('tr[data-name="AGE"] .is-key')
    page.keyboard.press("Space")
    tab_to('tr[data-name="SEX"] .is-key')
    page.keyboard.press("Space")
    tab_to("#population")
    page.keyboard.type("4000")
    tab_to(".onward a")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rules")
    tab_to("#new-rule")
    page.keyboard.type("AGE = 1 and SEX = q")
    page.keyboard.press("Enter")
    page.wait_for_selector(".found.wrong")
    assert "expected a category of 'SEX'" in page.inner_text(".found")
    tab_to("#rules button, .add button")
    page.locator("#rules button").focus()
    page.keyboard.press("Enter")
    tab_to(".onward a")
    page.keyboard.press("Enter")
    page.wait_for_url("**/run")
    tab_to("#quick")
    page.keyboard.press("Space")
    tab_to("#start")
    page.keyboard.press("Enter")
    page.wait_for_selector("#to-answer:not([hidden])")
    page.context.close()


def test_without_scripts_and_without_the_cookie_it_says_so(browser: Any, served: Served) -> None:
    page = open_tab(browser, served, [], java_script_enabled=False)
    assert "needs JavaScript" in page.inner_text("main")
    page.context.close()
    stranger = browser.new_context().new_page()
    answer = stranger.goto(served.address)
    assert answer.status == 401
    assert "belongs to the person who started it" in stranger.inner_text("body")
    stranger.context.close()


def test_another_site_cannot_act_for_the_user(browser: Any, served: Served, tmp_path: Path) -> None:
    """A page elsewhere, in the browser of somebody who has entered, posts and embeds: nothing is changed or shown."""
    project = latest_project(served)
    tried = tmp_path / "evil.html"
    tried.write_text(
        f"<iframe src='{served.address}/'></iframe><form method=post enctype='text/plain' target=f "
        f"action='{served.address}/api/{project}/choices'><input name='{{\"keys\":[],\"x' value='\":1}}'></form>"
        f"<iframe name=f></iframe><script>document.forms[0].submit();"
        f"fetch('{served.address}/api/{project}/version', {{credentials: 'include'}})"
        ".then(() => document.title = 'read')"
        ".catch(() => document.title = 'refused')</script>",
        encoding="utf-8",
    )
    page = open_tab(browser, served, [])
    before = served.send("GET", f"/api/{project}/version")[2]
    page.goto(tried.as_uri())
    page.wait_for_timeout(800)
    assert page.title() == "refused"
    assert served.send("GET", f"/api/{project}/version")[2] == before
    page.context.close()
