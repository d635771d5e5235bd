"""The page: hostile names stay text, nothing runs, nothing comes from elsewhere, every picture is drawn."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.report import make_content
from keyhole.report.figures import Scale, element, tick_words, ticks
from keyhole.report.render import TEMPLATES, content_json, make_environment, render
from keyhole.words import clean_name, number, one_in, percent, two_digits
from tests.unit.report_results import Observed, by_chain, interval, make_draws, make_result

GOLDEN = Path(__file__).parents[1] / "golden"
VOID = {"meta", "br", "img", "link", "input", "base", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, and the text, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.style = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            self.style += data
        else:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def attributes(self, name: str) -> list[str | None]:
        return [value for _, attributes in self.elements for key, value in attributes if key == name]


BREAKS = [
    "",
    '"',
    "'",
    ">",
    '">',
    "'>",
    "-->",
    "]]>",
    "</style>",
    "</title>",
    "</svg>",
    "</bdi>",
    "</td>",
    "&quot;>",
    "`",
]
ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src=//evil.example>",
    "<style>*{background:url(//evil.example)}</style>",
    "<link rel=stylesheet href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<base href=//evil.example>",
    "<a href=javascript:alert(1)>x</a>",
    "<form action=//evil.example><input name=x>",
    "<details open ontoggle=alert(1)>",
    "<math><mtext></mtext><mglyph><svg><mtext><style><path id='</style><img onerror=alert(1) src>'>",
    " onmouseover=alert(1) x=",
    "style=position:fixed",
    "javascript:alert(1)",
    "{{ 7*7 }}{% for x in y %}",
    "${alert(1)}",
    "<!--",
    "<![CDATA[<script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\x00<script>\x0b</script>",
    "\u202e<script>txet</script>\u202c",
    "<scr\u0000ipt>",
    "=HYPERLINK(1)",
    "\ud800<b>",
]
TAILS = ["", "<b", '="']
PAYLOADS = [start + attack + tail for start in BREAKS for attack in ATTACKS for tail in TAILS][:1000]
SLOTS = 12


def hostile(names: list[str]) -> tuple[str, str]:
    """Pages, safe and internal, with these names in every place that takes one."""
    result = make_result(keys=tuple(names[:3]), labels=tuple(names[3:5]))
    summary = result.summary
    summary["input"]["ignored_keys"] = [names[5]]
    summary["zeros"]["words"] = [names[6]]
    summary["comparators"][0]["name"] = names[7]
    summary["weights"]["warning"] = names[8]
    summary["convergence"]["message"] = names[9]
    summary["fit"]["message"] = names[10]
    safe, internal = (render(make_content(result, kind, title=names[11])) for kind in (False, True))
    return safe, internal


def test_a_thousand_payloads_stay_text():
    assert len(set(PAYLOADS)) == 1000
    plain = [Page(page).elements for page in hostile([f"name{k}" for k in range(SLOTS)])]
    for first in range(0, len(PAYLOADS), SLOTS):
        names = (PAYLOADS + PAYLOADS)[first : first + SLOTS]
        for page, expected in zip(hostile(names), plain, strict=True):
            parsed = Page(page)
            assert parsed.elements == expected
            page.encode("utf-8")
        text = "".join(parsed.text)
        for name in names[:9]:
            assert clean_name(name) in text


def test_a_template_without_escaping_would_be_caught():
    environment = make_environment().overlay(autoescape=False)
    page = environment.from_string("<p><bdi>{{ name }}</bdi></p>").render(name="<script>alert(1)</script>")
    assert ("script", ()) in Page(page).elements


def test_everything_is_escaped():
    assert make_environment().autoescape is True
    for template in TEMPLATES.glob("*.html"):
        assert not re.search(r"\|\s*safe|autoescape", template.read_text(encoding="utf-8")), template


@pytest.mark.parametrize("internal", [False, True])
@pytest.mark.parametrize("converged", [False, True])
def test_the_page_is_alone_in_the_world(internal, converged):
    parsed = Page(render(make_content(make_result(converged=converged), internal)))
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "a:href"}
    names = {key for _, attributes in parsed.elements for key, _ in attributes}
    assert not [name for name in names if name.startswith("on") or name in ("style", "src", "srcset", "xlink:href")]
    assert "url(" not in parsed.style
    assert "@import" not in parsed.style
    ids = parsed.attributes("id")
    assert len(ids) == len(set(ids))
    for target in parsed.attributes("href"):
        assert target is not None
        assert target.startswith("#")
        assert target[1:] in ids
    digest = base64.b64encode(hashlib.sha256(parsed.style.encode()).digest()).decode()
    policy = dict(
        next(
            attrs
            for tag, attrs in parsed.elements
            if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attrs
        )
    )["content"]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert parsed.open == []


def test_the_verdict_comes_first_and_says_it_in_words():
    page = render(make_content(make_result()))
    text = " ".join(" ".join(Page(page).text).split())
    sentence = (
        "Of 505 records that are alone in the sample, about 41 (21 to 62) are alone in the population, and the model "
        "fits the file."
    )
    assert sentence in text
    assert text.index(sentence) < 500  # after the name of the file and the links to the sections
    for phrase in (
        "How certain is it?", "Which variables cause it?", "What to do next", "make AGE coarser",
        "Mostly AGE: without it, about 12 instead of 41",
        "With 95 % probability", "nobody else among about 80,000 people", "10 rules exclude 53 % of all combinations",
        "loglinear-main", "independence", "160", "simple random sample",
        "alone in the sample (sample unique)", "tau1", "R-hat",
        "AGE is 0-9 and MARITAL is married", "keyhole 0.1.0", "2026-11-16 02:52 UTC",
    ):  # fmt: skip
        assert phrase in text, phrase


def test_not_converged_cannot_be_overlooked():
    for converged in (True, False):
        page = render(make_content(make_result(converged=converged)))
        assert ("NOT CONVERGED: do not use these numbers yet</h2>" in page) != converged
        assert ("Run longer before deciding" in page) != converged
        assert ("to 57 records alone in the population" in page) != converged
    assert page.index("NOT CONVERGED") < page.index("So far, of 505 records")
    assert "Decide whether" not in page


def test_chains_that_disagree_have_no_mean_in_the_report():
    """Neither in words nor in pictures, for the file or without a variable: the range over chains stands alone."""
    pooled, apart = (render(make_content(make_result(converged=converged))) for converged in (True, False))
    assert "about 41 (21 to 62) are alone" in pooled
    assert "Mostly AGE: without it, about 12 instead of 41" in pooled
    assert "21 to 62 seem to be alone" in apart
    assert "Mostly AGE: without it, 6.0 to 18 instead of 21 to 62" in apart
    for words in ("41 (21 to 62)", "12 (6", "The estimate is", "the dot is the estimate", "about 1 in"):
        assert words in pooled
        assert words not in apart
    answer = apart[apart.index('id="answer"') : apart.index('id="certainty"')]
    assert 'class="part"' not in answer
    assert "range over chains" in answer


def test_what_was_not_computed_is_left_out_or_said():
    result = make_result()
    for name in ("attribution", "thresholds", "fit", "self_check", "households", "weights", "comparators"):
        result.summary[name] = None
    result.summary["zeros"] = None
    for name in ("groups", "envelope", "starts"):
        del result.summary["convergence"][name]
    page = render(make_content(result))
    assert page.count("was not computed in this run") == 3
    assert "No rules were given" in page
    assert "State which combinations cannot exist" in page
    assert "keyhole zeros suggest survey.csv --keys AGE,SEX,MARITAL --out survey-rules.yaml</code>" in page
    result.manifest = {**result.manifest, "asked": {"file": None}}
    assert 'class="command"' not in render(make_content(result)), "a dataframe has no complete command"
    result.manifest = make_result().manifest
    assert 'id="comparators"' not in page
    for name in ("attribution", "thresholds", "fit", "self_check", "households", "weights", "comparators"):
        del result.summary[name]
    assert render(make_content(result)) == page


def test_households_as_a_count_and_an_expectation():
    result = make_result()
    result.summary["households"] = {"count": 412, "expected": 39.5}
    text = make_content(result).households
    assert text == "Households in the file: 410. With a member alone in the population: about 40."


def test_a_model_that_does_not_fit_is_reported():
    result = make_result()
    fit = result.summary["fit"]
    fit["ok"] = fit["sample_uniques"]["ok"] = False
    fit["verdict"], fit["without"] = "does not fit", ("AGE",)
    fit["sample_uniques"]["predicted"] = {"mean": 715.0, "interval": [690.0, 740.0]}
    fit["unseen_pairs"] = {"observed": 30.0, "predicted": {"mean": 10.0, "interval": [5.0, 15.0]}, "ok": False}
    content = make_content(result)
    assert content.check is not None
    assert "do NOT resemble this one" in content.check.sentence
    assert "690 to 740 records alone in the sample; the file has 505" in content.check.sentence
    assert "likely too high" in content.check.sentence
    assert "The rules may miss some" in content.check.sentence
    assert "Without AGE the counts agree" in content.check.sentence
    assert content.verdict.sentence.endswith("but the model does not fit the file: do not rely on the interval.")
    assert "do not rely on the interval" in content.verdict.certainty
    assert content.verdict.steps[0].what == "Find out why the model does not fit."
    assert "NO." in render(content)
    assert "the file has 503" in make_content(result, internal=True).check.sentence


def test_a_model_that_fits_in_part_is_reported_with_the_pairs():
    result = make_result()
    fit = result.summary["fit"]
    fit["ok"] = fit["two_way"]["ok"] = False
    fit["verdict"], fit["exceptions"] = "fits except", (("AGE", "SEX\u202e"),)
    for internal in (False, True):
        content = make_content(result, internal)
        clause = "and the model fits the file except for the margin of AGE and SEX\N{REPLACEMENT CHARACTER}."
        assert content.verdict.sentence.endswith(clause)
        assert "may be further off" in content.verdict.certainty
        assert content.verdict.steps[0].what == "Find out why the model fits in part only."
        assert "In part." in render(content)
    assert "fit worst are AGE with SEX" in make_content(result).check.sentence


@pytest.mark.parametrize("chains", [1, 4, 256])
@pytest.mark.parametrize("draws", [1, 7, 8, 5000])
def test_any_number_of_draws_is_drawn(chains, draws):
    result = make_result()
    result.draws = make_draws(chains, draws)
    result.summary["convergence"]["by_chain"] = by_chain(chains)
    page = render(make_content(result, internal=True))
    assert len(page) < 500_000
    assert ("<polyline" in page) == (draws >= 8)
    assert not re.search(r"\bnan\b|\binf\b", page)
    Page(page)


def test_a_long_file_stays_small():
    keys = tuple(f"VARIABLE_WITH_A_LONG_NAME_{k}" for k in range(60))
    result = make_result()
    first = result.summary["attribution"]["variables"][0]
    first["categories"] = first["categories"] * 50
    result.summary["attribution"]["variables"] = [{**first, "name": name} for name in keys]
    result.summary["input"]["keys"] = list(keys)
    result.draws = make_draws(256, 2000)
    result.summary["convergence"]["by_chain"] = by_chain(256)
    assert len(render(make_content(result))) < 200_000
    assert len(render(make_content(result, internal=True))) < 500_000


@pytest.mark.parametrize("value", [0.0, 3.0, 41.0, 1e9])
def test_draws_that_do_not_move_are_drawn(value):
    result = make_result()
    result.draws = {name: np.full((2, 20), value) for name in result.draws}
    for name in ("tau1", "tau2"):
        result.summary[name] = result.summary[name] | {"mean": value, "interval": [value, value]}
    page = render(make_content(result))
    assert not re.search(r"\bnan\b|\binf\b", page)
    Page(page)


def test_the_same_result_gives_the_same_bytes():
    assert render(make_content(make_result())) == render(make_content(make_result()))


def test_json_is_the_content():
    content = make_content(make_result())
    written = json.loads(content_json(content))
    assert written["verdict"]["sentence"] == content.verdict.sentence
    assert written["source"]["sample_uniques"] == {"value": 505, "text": "505"}
    assert written["bands"][5]["r1"] == {"value": 30, "text": "30"}
    assert set(written) == set(vars(content))


@pytest.mark.parametrize("kind", ["safe", "internal"])
def test_golden(kind):
    """tests/golden/README.md says how to renew them."""
    content = make_content(make_result(converged=False), kind == "internal")
    assert json.loads(content_json(content)) == json.loads((GOLDEN / f"{kind}.json").read_text(encoding="utf-8"))
    assert render(content) == (GOLDEN / f"{kind}.html").read_text(encoding="utf-8")


def test_an_assessment_writes_its_report(tmp_path):
    frame = pl.DataFrame({"A": [1, 1, 2, 3] * 3, "B": ["x", "x", "y", "zzcanaryzz"] * 3, "C": range(12)})
    assessment = keyhole.assess(frame, "A,B,C", population=12, allow_identifier=["C"])
    assessment.report(tmp_path / "r.html", title="<b>A survey</b>")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (tmp_path / "r.html").stat().st_mode & 0o777 == 0o600
    assert "&lt;b&gt;A survey&lt;/b&gt;" in page
    assert "The sample is the whole population: all 10 records" in page
    assessment.report(tmp_path / "r.html", internal=True, overwrite=True)
    assert "all 12 records" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "zzcanaryzz" not in page


def test_elements_escape_and_scales_keep_inside():
    assert element("text", 'a<b>"', x=1.25, class_='"><script>') == (
        '<text x="1.2" class="&#34;&gt;&lt;script&gt;">a&lt;b&gt;&#34;</text>'
    )
    scale = Scale(0.0, 10.0, 100.0, 200.0)
    assert [scale(x) for x in (-5, 0, 5, 10, 99)] == [100, 100, 150, 200, 200]
    assert Scale(3.0, 3.0, 0.0, 10.0)(3.0) == 5.0


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (32.0, 51.0), (0.001, 0.0017), (0.0, 1e9), (-3.0, 4.0), (5.0, 5.0)]
)
def test_ticks_are_few_and_inside(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 6
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
    assert len(set(tick_words(found))) == len(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (number(12.1), "12"), (number(4.8175), "4.8"), (number(9.96), "10"), (number(7.0), "7"),
        (number(None), "not known"),
        (number(float("nan")), "not known"), (percent(0.0001), "< 0.1 %"), (percent(0.0), "0 %"),
        (percent(0.903), "90.3 %"),
        (one_in(41.2, 1000), "about 1 in 24"), (one_in(12, 12), "nearly all"), (one_in(0, 10), None),
        (one_in(3, 100_000), "about 1 in 33,000"),
        (two_digits(0.0), "0"), (two_digits(0.5588), "0.56"), (two_digits(9.96), "10"), (two_digits(155.4), "160"),
        (two_digits(0.0312), "0.031"), (two_digits(7.0), "7"), (two_digits(float("inf")), "not known"),
    ],
)  # fmt: skip
def test_numbers_in_words(text, expected):
    assert text == expected


def test_a_verdict_without_anybody_at_risk_says_so():
    result = make_result(replace(Observed(), sample_uniques=0, bands=(0,) * 6))
    result.summary["model"] = {"name": "hdp", "prior": "adaptive", "estimator": "none", "profiles": None}
    result.summary["convergence"] |= {"chains": 0, "sweeps": 0, "message": "No sampling.", "gates": []}
    result.draws = {name: np.zeros((1, 1)) for name in ("tau1", "tau2")}
    verdict = make_content(result, internal=True).verdict
    assert verdict.sentence == "No record is alone in the sample, and these keys identify nobody."
    assert "Nothing has to be done" in verdict.steps[-1].what
    assert make_content(result).verdict.sentence.startswith("Fewer than 10 records are alone")


def test_thresholds_name_the_one_that_halves_the_risk():
    steps = make_content(make_result(), internal=True).verdict.steps
    assert any(
        "Without the 58 records whose probability of being alone in the population (r1) is above 20 %, about 15"
        in step.how
        for step in steps
    )


def test_chains_apart_are_named():
    groups = make_content(make_result()).convergence.groups
    assert [(group.chains, group.weight) for group in groups] == [("1", "70 %"), ("2", "30 %")]
    result = make_result()
    result.summary["convergence"]["groups"] = [
        {"chains": [1, 2], "tau1": interval(38.0), "tau2": interval(97.0), "stacking": None}
    ]
    assert make_content(result).convergence.groups == ()


def test_what_the_model_check_says_of_pairs_is_said_once():
    result = make_result()
    pairs = make_content(result, internal=True).check.two_way
    assert pairs.endswith("AGE and SEX most. This may be chance.")
    result.summary["fit"]["message"] += f" {pairs}"
    check = make_content(result, internal=True).check
    assert (check.two_way, check.sentence.count("further from the model")) == (None, 1)


def test_bands_and_texts_that_mean_missing_are_named():
    result = make_result()
    for internal, counted in ((False, "categories: fewer than 10 values of keys"), (True, "categories: AGE 4 ('.')")):
        content = make_content(result, internal)
        assert content.source.bands == ("AGE in bands of 5y", "SEX in bands from 0, 15 and 30")
        told = content.source.missing_texts
        named = " ('NA' or '.', and what a codebook declares missing)" if internal else ""
        assert told.startswith(f"Texts that mean missing{named} were read as blank")
        assert told.endswith(counted)
        page = html.unescape(render(content))
        assert f"{told}." in page
        assert "cut into bands: <bdi>AGE in bands of 5y</bdi>" in page
