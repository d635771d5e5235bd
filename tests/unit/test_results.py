"""The result folder: whole, private, and refused when it is not as it was written."""

import getpass
import hashlib
import json
import os
import re
import socket
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.errors import OutputError
from keyhole.results.draws_file import read_draws, write_draws
from keyhole.results.folder import (
    DATA,
    INTERNAL_REPORT,
    MANIFEST,
    OUTPUTS,
    REPORT,
    check_output,
    reserve,
    sweep_staging,
)

FRAME = pl.DataFrame({"A": [1, 1, 2, 3], "B": ["x", "x", "y", "zzcanaryzz"]})


@pytest.fixture
def assessment():
    """An assessment that needs no sampling: the sample is the whole population."""
    return keyhole.assess(FRAME, "A,B", population=4)


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_loaded_is_what_was_saved(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    loaded = keyhole.load(tmp_path / "r")
    assert sorted(listing(tmp_path / "r")) == sorted([*OUTPUTS, MANIFEST])
    assert loaded.tau1 == assessment.tau1
    assert loaded.tau2 == assessment.tau2
    assert loaded.records.equals(assessment.records)
    assert loaded.diagnosis.message == assessment.diagnosis.message
    assert {name: value.tolist() for name, value in loaded.draws.items()} == {
        "tau1": [[2.0]],
        "tau2": [[2.0]],
    }
    assert loaded.manifest["input"] == assessment.manifest["input"]
    loaded.save(tmp_path / "again")
    assert listing(tmp_path / "again") == listing(tmp_path / "r")


def test_summary_has_the_fields_of_the_interface(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert {"version", "input", "zeros", "model", "tau1", "tau2", "convergence", "seconds"} <= set(summary)
    wanted = {"rows", "used", "keys", "levels", "cells", "population", "sample_uniques", "missing"}
    assert wanted <= set(summary["input"])
    assert {"mean", "median", "sd", "interval", "level", "expected", "pooled", "mcse", "bins"} == set(summary["tau1"])
    assert {"mean", "sd", "interval"} == set(summary["tau1"]["expected"])
    wanted = {"converged", "grade", "verdict", "rhat", "ess_bulk", "ess_tail", "modes", "chains", "sweeps", "message",
              "gates"}  # fmt: skip
    assert wanted <= set(summary["convergence"])
    assert {"grade", "reason", "remedy", "numbers"} == set(summary["convergence"]["verdict"])
    assert {"total", "sampling", "risk", "compile"} <= set(summary["seconds"])
    assert summary["convergence"]["rhat"] is None


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("existing", [False, True])
def test_only_the_owner_can_read(assessment, tmp_path, umask, existing):
    folder = tmp_path / "r"
    if existing:
        folder.mkdir()
        folder.chmod(0o777)
    before = os.umask(umask)
    try:
        assessment.save(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_result_is_replaced_only_if_that_is_asked_for(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    before = listing(tmp_path / "r")
    with pytest.raises(OutputError, match=r"holds the results of a run: .*`out`.*`overwrite`") as caught:
        keyhole.assess(FRAME, "A", population=4).save(tmp_path / "r")
    assert "\n" not in str(caught.value)
    assert listing(tmp_path / "r") == before
    keyhole.assess(FRAME, "A", population=4).save(tmp_path / "r", overwrite=True)
    assert keyhole.load(tmp_path / "r").summary["input"]["keys"] == ["A"]
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert sorted(listing(tmp_path / "r")) == sorted([*OUTPUTS, MANIFEST])


def make_checkpoint(folder: Path) -> None:
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "head.json").touch()


def test_its_own_checkpoint_goes_away_when_the_chains_agree_and_stays_when_they_do_not(assessment, tmp_path):
    make_checkpoint(tmp_path / "r" / "checkpoint")
    assessment = replace(assessment, _checkpoint=tmp_path / "r" / "checkpoint")
    for grade in ("usable", "not converged"):
        verdict = replace(assessment.diagnosis.verdict, grade=grade)
        unsure = replace(assessment, diagnosis=replace(assessment.diagnosis, verdict=verdict))
        unsure.save(tmp_path / "r")
        assert (tmp_path / "r" / "checkpoint" / "a" / "head.json").exists()
    assessment.save(tmp_path / "r")
    assert sorted(listing(tmp_path / "r")) == sorted([*OUTPUTS, MANIFEST])


def test_the_unfinished_run_of_others_is_replaced_only_if_that_is_asked_for(assessment, tmp_path):
    make_checkpoint(tmp_path / "r" / "checkpoint")
    with pytest.raises(OutputError, match=r"holds a run that can be continued: use `resume`, .*`overwrite`"):
        assessment.save(tmp_path / "r")
    assert (tmp_path / "r" / "checkpoint" / "a" / "head.json").exists()
    assessment.save(tmp_path / "r", overwrite=True)
    assert sorted(listing(tmp_path / "r")) == sorted([*OUTPUTS, MANIFEST])


def test_files_that_are_not_ours_are_never_deleted(assessment, tmp_path):
    folder = tmp_path / "r"
    assessment.save(folder)
    make_checkpoint(folder / "checkpoint")
    foreign = [".r-snapshot/records.csv", ".keyhole-results-abcdefgh/mine.txt", "checkpoint/a/mine.npz", "notes.txt"]
    for name in foreign:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("years of work")
    with reserve(folder, overwrite=True, resume=False):
        assessment.save(folder, overwrite=True)
    for name in foreign:
        assert (folder / name).read_text() == "years of work", name
    assert not (folder / "checkpoint" / "a" / "head.json").exists()


def test_a_name_of_ours_that_the_manifest_does_not_list_is_not_ours(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    (tmp_path / "r" / "keys.parquet").write_text("years of work")
    with pytest.raises(OutputError, match=r"keys.parquet does not belong to the results there: move it"):
        assessment.save(tmp_path / "r", overwrite=True)
    assert (tmp_path / "r" / "keys.parquet").read_text() == "years of work"


def test_what_a_killed_run_left_is_ours(assessment, tmp_path):
    folder = tmp_path / "r"
    (folder / ".keyhole-results-abcdefgh").mkdir(parents=True)
    (folder / ".keyhole-results-abcdefgh" / "records.csv").touch()
    (folder / ".lock").touch()
    (folder / "summary.json").touch()
    check_output(folder)
    sweep_staging(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "summary.json"]
    (folder / ".lock").unlink()
    with pytest.raises(OutputError, match="holds other files"):
        check_output(folder)


def test_saving_never_makes_the_whole_table(assessment, tmp_path, monkeypatch):
    """It may have more rows than fit in memory: it is written in a stream, and the report needs the uniques only."""
    expected = assessment.record_table.collect()
    whole = property(lambda _: pytest.fail("the table was made"))
    monkeypatch.setattr(keyhole.Assessment, "records", whole)
    assessment.save(tmp_path / "risk")
    assert pl.read_parquet(tmp_path / "risk" / "records.parquet").equals(expected)
    assert (tmp_path / "risk" / "records.csv").read_text() == expected.write_csv()
    assert assessment.uniques.equals(expected.filter(pl.col("sample_unique") == 1))


def test_folders_above_are_made(assessment, tmp_path):
    assessment.save(tmp_path / "a" / "b" / "r")
    assert keyhole.load(tmp_path / "a" / "b" / "r").tau1.mean == 2


def test_a_folder_with_other_files_is_left_alone(assessment, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="holds other files"):
        assessment.save(tmp_path)
    assert listing(tmp_path) == {"thesis.txt": b"years of work"}


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/keyhole/r", "/dev/null/r", "link"])
def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path, place):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="`out`") as caught:
        check_output(tmp_path / place)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_checking_leaves_nothing_behind(tmp_path):
    check_output(tmp_path / "a" / "b")
    check_output(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", DATA)
def test_a_changed_file_is_found_out(assessment, tmp_path, name):
    assessment.save(tmp_path / "r")
    path = tmp_path / "r" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(OutputError, match="not as it was written"):
        keyhole.load(tmp_path / "r")


def test_the_report_is_a_view_and_not_read_again(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    (tmp_path / "r" / REPORT).unlink()
    assert keyhole.load(tmp_path / "r").tau1.mean == 2


def test_a_new_result_takes_the_old_internal_report_away(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    assessment.report(tmp_path / "r" / INTERNAL_REPORT, internal=True)
    assessment.save(tmp_path / "r", overwrite=True)
    assert sorted(listing(tmp_path / "r")) == sorted([*OUTPUTS, MANIFEST])


@pytest.mark.parametrize("name", [REPORT, "elsewhere.html"])
def test_a_report_is_replaced_if_keyhole_wrote_it_there_or_if_that_is_asked_for(assessment, tmp_path, name):
    assessment.save(tmp_path / "r")
    path = tmp_path / "r" / REPORT if name == REPORT else tmp_path / name
    assessment.report(path)
    if name == REPORT:
        assessment.report(path, title="Another")
        path.write_text("edited by somebody")
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"exists: .*`overwrite`"):
        assessment.report(path)
    assert path.read_bytes() == before
    assessment.report(path, overwrite=True)
    assert path.read_bytes() != b"edited by somebody"


def test_records_have_six_digits_in_the_table_and_all_in_parquet(assessment, tmp_path):
    risks = pl.Series([1 / 3, 1234567.0, 1e-9 / 7, None])
    exact = replace(assessment, record_table=assessment.records.with_columns(r1=risks).lazy())
    exact.save(tmp_path / "r")
    with (tmp_path / "r" / "records.csv").open() as file:
        header, *rows = (line.rstrip("\n").split(",") for line in file)
    assert [row[header.index("r1")] for row in rows] == ["0.333333", "1234570.0", "1.42857e-10", ""]
    assert keyhole.load(tmp_path / "r").records["r1"].equals(risks)


def test_a_failed_write_leaves_the_old_result(assessment, tmp_path, monkeypatch):
    assessment.save(tmp_path / "r")
    before = listing(tmp_path / "r")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keyhole.results.folder.write_draws", full_disk)
    with pytest.raises(OutputError, match="No space left"):
        keyhole.assess(FRAME, "A", population=4).save(tmp_path / "r", overwrite=True)
    with pytest.raises(OutputError, match="No space left"):
        assessment.save(tmp_path / "new")
    assert listing(tmp_path / "r") == before
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"program": "other"}'])
def test_what_is_no_result_folder_is_said_to_be_none(tmp_path, content):
    if content is not None:
        (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(OutputError, match="not a result folder"):
        keyhole.load(tmp_path)


def test_a_damaged_result_is_refused(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    (tmp_path / "r" / MANIFEST).write_text('{"program": "keyhole"}')
    with pytest.raises(OutputError, match="damaged"):
        keyhole.load(tmp_path / "r")
    assessment.save(tmp_path / "s")
    (tmp_path / "s" / "draws.nc").unlink()
    with pytest.raises(OutputError, match="cannot be read"):
        keyhole.load(tmp_path / "s")


def test_manifest_tells_the_run_but_no_values_and_no_names(assessment, tmp_path):
    assessment.save(tmp_path / "r")
    text = (tmp_path / "r" / MANIFEST).read_text()
    manifest = json.loads(text)
    for name in (
        "version",
        "settings",
        "seed",
        "input",
        "kernels",
        "libraries",
        "outputs",
        "started",
        "finished",
    ):
        assert manifest[name]
    digest = hashlib.sha256((tmp_path / "r" / "records.csv").read_bytes()).hexdigest()
    assert manifest["outputs"]["records.csv"] == digest
    for forbidden in ("zzcanaryzz", socket.gethostname(), getpass.getuser(), str(tmp_path)):
        assert not re.search(rf"\b{re.escape(forbidden)}\b", text)
    # Categories stand in one place, the attribution of the summary, which is for the owner.
    files = listing(tmp_path / "r")
    assert files.pop("summary.json").count(b"zzcanaryzz") == 1
    assert b"zzcanaryzz" not in b"".join(files.values())


def test_draws_give_the_same_bytes_and_come_back(tmp_path, rng):
    draws = {"tau1": rng.normal(size=(4, 30)), "log_likelihood": rng.normal(size=(4, 30))}
    profiles = {"weight": rng.random((4, 10, 300)).astype(np.float32), "total": np.arange(40).reshape(4, 10)}
    boxes = {"impossible": np.eye(5, dtype=np.uint8)}
    for name in ("one", "two"):
        write_draws(draws, profiles, tmp_path / name, boxes)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for written, read in zip((draws, profiles, boxes), read_draws(tmp_path / "one"), strict=True):
        assert written.keys() == read.keys()
        for name, array in written.items():
            assert array.dtype == read[name].dtype
            assert np.array_equal(array, read[name])


def test_draws_with_differing_axes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="draw"):
        write_draws({"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}, {}, tmp_path / "x")


@pytest.mark.filterwarnings("ignore")
def test_draws_open_in_arviz(tmp_path, rng):
    arviz = pytest.importorskip("arviz")
    write_draws({"tau1": rng.normal(size=(4, 50)), "log_likelihood": rng.normal(size=(4, 50))}, {}, tmp_path / "d.nc")
    opened = arviz.from_netcdf(tmp_path / "d.nc")
    assert opened["posterior"]["tau1"].shape == (4, 50)
    assert "tau1" in arviz.summary(opened).index
