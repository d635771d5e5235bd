"""`keyhole report`: which file, what it says of itself, and what it refuses."""

import hashlib
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import keyhole
from keyhole.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command beside a result folder `r`."""
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({"A": range(1, 14), "B": ["x", "y"] * 6 + ["zzcanaryzz"]})
    keyhole.assess(frame, "A,B", population=13, allow_identifier=["A"]).save("r")

    def call(*arguments: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as stopped:
            main(["report", *arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(status=stopped.value.code, out=captured.out, err=captured.err)

    return call


def test_the_safe_report_again(run):
    before = Path("r/report.html").read_bytes()
    found = run("r")
    assert (found.status, found.out, found.err) == (0, "r/report.html (safe: no records, no small counts)\n", "")
    assert Path("r/report.html").read_bytes() == before
    run("r", "--title", "Survey of 2026")
    page = Path("r/report.html").read_text(encoding="utf-8")
    assert "<title>Survey of 2026</title>" in page
    assert "all 15 records" in page
    manifest = json.loads(Path("r/manifest.json").read_text(encoding="utf-8"))
    assert manifest["outputs"]["report.html"] == hashlib.sha256(page.encode()).hexdigest()
    assert keyhole.load("r").tau1.mean == 13


def test_the_internal_report(run):
    before = Path("r/report.html").read_bytes()
    assert run("r", "--internal").out == "r/report-internal.html (INTERNAL, for the owner only)\n"
    assert "all 13 records" in Path("r/report-internal.html").read_text(encoding="utf-8")
    assert Path("r/report.html").read_bytes() == before
    assert keyhole.load("r").tau1.mean == 13


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("arguments", [(), ("--internal",), ("--json", "--out", "x"), ("--internal", "--out", "x")])
def test_only_the_owner_can_read_it(run, umask, arguments):
    before = os.umask(umask)
    try:
        assert run("r", *arguments).status == 0
    finally:
        os.umask(before)
    for path in (*Path("r").iterdir(), *Path().glob("x")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_json(run):
    content = json.loads(run("r", "--json").out)
    assert content["kind"] == "safe"
    assert content["source"]["sample_uniques"]["text"] == "15"
    content = json.loads(run("r", "--json", "--internal").out)
    assert content["source"]["sample_uniques"]["text"] == "13"
    assert run("r", "--json", "--out", "x.json").out.startswith("x.json")
    assert json.loads(Path("x.json").read_text(encoding="utf-8"))["kind"] == "safe"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nowhere",), 1, "not a result folder"),
        (("r", "--out", "nowhere/x.html"), 1, "cannot be written"),
        (("r", "--out", "r"), 1, "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, arguments, status, message):
    names = sorted(Path("r").iterdir())
    found = run(*arguments)
    assert found.status == status
    assert message in found.err
    assert found.err.count("\n") == 1
    assert "zzcanaryzz" not in found.err
    assert sorted(Path("r").iterdir()) == names


def test_a_file_that_exists_is_replaced_only_if_that_is_asked_for(run):
    Path("x.html").write_text("years of work")
    for arguments in (("--out", "x.html"), ("--out", "x.html", "--json")):
        found = run("r", *arguments)
        assert (found.status, found.out) == (1, "")
        assert found.err == "keyhole: x.html exists: choose another with --out, or replace it with --overwrite.\n"
    assert Path("x.html").read_text() == "years of work"
    assert run("r", "--out", "x.html", "--overwrite").status == 0
    assert Path("x.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_internal_reports_are_listed_and_renewed(run):
    assert run("r", "--internal").status == 0
    assert run("r", "--internal", "--title", "Again").status == 0
    listed = json.loads(Path("r/manifest.json").read_text())["outputs"]
    assert listed["report-internal.html"] == hashlib.sha256(Path("r/report-internal.html").read_bytes()).hexdigest()
    Path("r/report-internal.html").write_text("notes of the owner")
    assert run("r", "--internal").status == 1
    assert run("r", "--internal", "--overwrite").status == 0
