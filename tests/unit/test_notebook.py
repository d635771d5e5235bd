"""What a notebook shows, and dataframes in the caller's library; nothing of a record is in any of it."""

import re
from xml.etree import ElementTree

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keyhole
from keyhole.commands.screen import print_summary
from keyhole.report import make_content
from keyhole.report.notebook import CLASS, render_verdict
from keyhole.risk.advice import describe_fit
from tests.unit.report_results import make_result

FRAME = pl.DataFrame(
    {"AGE": [str(70 + x % 13) for x in range(60)], "SEX": ["zzcanaryzz", "b", "c"] * 20, "W": range(60)}
)
SHORT = {"population": 900, "max_sweeps": 40, "chains": 2}


@pytest.fixture(scope="module")
def small() -> keyhole.Assessment:
    return keyhole.assess(FRAME, "AGE,SEX", **SHORT)


def test_a_notebook_shows_the_safe_verdict_and_its_pictures(small):
    page = small._repr_html_()
    content = make_content(small)
    assert f'<p class="verdict">{content.verdict.sentence}</p>' in page
    assert "NOT CONVERGED" in page
    assert page.count("<svg") == 1 + len(content.distributions)
    assert "zzcanaryzz" not in page
    assert "<script" not in page


def test_the_verdict_of_the_model_check_is_in_every_first_sentence(small, capsys):
    fit = small.summary.fit
    assert fit.sentence == describe_fit(fit.verdict, fit.exceptions)
    assert f"; {fit.sentence}; model hdp" in repr(small)
    assert fit.sentence in small._repr_html_()
    print_summary(small.summary)
    assert fit.sentence in " ".join(capsys.readouterr().out.split(".")[0].split())


def test_a_notebook_keeps_its_own_style():
    """Every rule of ours applies below our class only, and every variable that is used is set."""
    page = render_verdict(make_content(make_result()))
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    for selectors in re.findall(r"([^{}]+)\{", style):
        assert all(selector.strip().startswith(f".{CLASS}") for selector in selectors.split(",")), selectors
    assert f".{CLASS} .part, .{CLASS} .inside" in style
    assert set(re.findall(r"var\((--\w+(?:-\w+)?)\)", style)) <= set(re.findall(r"(--[\w-]+):", style))


def test_counts_of_records_are_rounded(small):
    assert small.summary.input.sample_uniques == 18
    page = small._repr_html_()
    assert "of 20 records that are alone" in page
    words = re.sub("<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert not re.search(r"\b18\b", words)


@pytest.mark.parametrize("what", ["tau1", "tau2", "chains"])
def test_pictures_are_complete_in_themselves(small, tmp_path, what):
    picture = small.plot(what)
    assert repr(picture) == f"Picture of {what}: a notebook shows it, .save(path) writes it as SVG"
    assert picture.svg in picture._repr_html_()
    picture.save(tmp_path / "x.svg")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "<style>" in picture.svg
    assert (tmp_path / "x.svg").stat().st_mode & 0o777 == 0o600
    with pytest.raises(keyhole.OutputError, match="exists: "):
        picture.save(tmp_path / "x.svg")
    picture.save(tmp_path / "x.svg", overwrite=True)


def test_what_cannot_be_drawn_is_one_line(small):
    with pytest.raises(keyhole.SettingsError, match="`what` must be one of tau1, tau2, chains"):
        small.plot("records")
    certain = keyhole.assess(pl.DataFrame({"A": [1, 1, 2, 3]}), "A", population=4)
    with pytest.raises(keyhole.SettingsError, match="no picture of tau1: nothing had to be estimated"):
        certain.plot()


@pytest.mark.parametrize(("convert", "kind"), [
    (lambda frame: frame, pl.DataFrame),
    (lambda frame: frame.lazy(), pl.DataFrame),
    (lambda frame: frame.to_pandas(), pd.DataFrame),
    (lambda frame: frame.to_arrow(), pa.Table),
])  # fmt: skip
def test_records_come_in_the_library_of_the_caller(convert, kind):
    found = keyhole.assess(convert(FRAME), "AGE,SEX", with_keys=True, **SHORT)
    frame = found.to_frame()
    assert isinstance(frame, kind)
    again = frame if kind is pl.DataFrame else pl.from_pandas(frame) if kind is pd.DataFrame else pl.from_arrow(frame)
    assert again.columns == found.records.columns
    assert again["SEX"].to_list() == FRAME["SEX"].to_list()
    assert again["r1"].fill_nan(None).equals(found.records["r1"])
    assert again["cell_count"].cast(pl.Int64).equals(found.records["cell_count"])


def test_a_library_can_be_asked_for(small, monkeypatch):
    assert isinstance(small.to_frame("pandas"), pd.DataFrame)
    with pytest.raises(keyhole.SettingsError, match="`library` must be one of pandas, polars, pyarrow"):
        small.to_frame("excel")
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(keyhole.KeyholeError, match="pandas is not installed"):
        small.to_frame("pandas")
