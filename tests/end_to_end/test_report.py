"""From a file to its report, by sampling."""

import numpy as np
import polars as pl
import pytest

import keyhole
from tests.unit.test_report_page import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({name: rng.integers(1, 6, 150) for name in ("AGE", "SEX", "MARST", "EDUC")})
    place = tmp_path_factory.mktemp("run") / "r"
    keyhole.assess(frame, list(frame.columns), population=5000, chains=2, max_sweeps=80).save(place)
    return place


def test_a_sampled_result_has_a_report_with_pictures(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert len(page) < 500_000
    parsed = Page(page)
    assert "Of " in "".join(parsed.text)
    pictures = [tag for tag, _ in parsed.elements].count("svg")
    # The verdict, two posteriors, and for tau1 and tau2 agreement, traces and ranks.
    assert pictures >= 9
    assert not keyhole.load(folder).diagnosis.converged
    assert "NOT CONVERGED" in page


def test_a_loaded_result_gives_the_same_report(folder, tmp_path):
    keyhole.load(folder).report(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (folder / "report.html").read_bytes()
