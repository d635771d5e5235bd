"""Every command that a report prints is complete: it runs as it stands, in the folder where it says."""

import html
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

KEYHOLE = str(Path(sys.executable).with_name("keyhole"))


def run(words, folder):
    return subprocess.run([KEYHOLE, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=170)


def commands(page):
    """The commands of a page, as a person would copy them; none may stand anywhere else."""
    text = page.read_text(encoding="utf-8")
    found = [html.unescape(item) for item in re.findall(r'<code class="command">(.*?)</code>', text)]
    assert len(re.findall(r"keyhole (?:assess|zeros|report|what-if|validate|compare) ", text)) == len(found)
    return found


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """A file whose name and keys need quotes, with bands, a codebook, and text that means missing."""
    folder = tmp_path_factory.mktemp("survey") / "the survey"
    folder.mkdir()
    size = ["--levels", "5,4,3,4", "--population", "4000", "--sample", "250"]
    done = run(["simulate", *size, "--seed", "3", "--out", "drawn"], folder)
    assert done.returncode == 0, done.stderr
    frame = pl.read_csv(folder / "drawn" / "sample.csv", infer_schema=False)
    age = pl.col("K1").cast(pl.Int64) * 10 + pl.int_range(pl.len()) % 7
    frame = frame.with_columns(K1=age, K2=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("-9")).otherwise("K2"))
    (folder / "my data").mkdir()
    frame.rename({"K1": "age in years", "K2": "O'Key"}).write_csv(folder / "my data" / "it's.csv")
    (folder / "my data" / "book.yaml").write_text("K3: [1, 2, 3]\n")
    return folder


ASSESS = [
    "assess", "my data/it's.csv", "--keys", "age in years,O'Key,K3,K4", "--population", "4,000", "--na", "-9",
    "--band", "age in years=0,15,25,35,45", "--codebook", "my data/book.yaml", "--seed", "2", "--chains", "3",
]  # fmt: skip


# The model `mixed` gives no quick answer first, which may converge in any time.
UNFINISHED = ["--model", "mixed", "--target-ess", "1000", "--time-limit", "0.2s"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (UNFINISHED, [("the survey", "assess")]),
        (["--time-limit", "60s"], [("my data", "zeros"), ("the survey", "zeros")]),
    ],
    ids=["unfinished", "finished"],
)
def test_every_command_of_a_report_runs(survey, limit, expected, tmp_path):
    folder = survey / f"risk {limit[-1]}"
    done = run([*ASSESS, *limit, "--out", str(folder), "--quiet"], survey)
    assert done.returncode in (0, 3), done.stderr
    internal = tmp_path / "internal.html"
    assert run(["report", str(folder), "--internal", "--out", str(internal)], survey).returncode == 0
    seen = []
    # A safe report names no folder, so its commands are for the folder of the file.
    for page, place in ((folder / "report.html", survey / "my data"), (internal, survey)):
        assert "it&#39;s.csv" in page.read_text(encoding="utf-8")
        for command in commands(page):
            words = shlex.split(command)
            assert words[0] == "keyhole"
            seen.append((place.name, words[1]))
            done = run(words[1:], place)
            assert done.returncode == 0, (command, done.stderr)
            if words[1] == "assess":
                assert "converged" in (folder / "summary.json").read_text()
            else:
                written = place / words[words.index("--out") + 1]
                assert "SUGGESTIONS, not rules" in written.read_text(encoding="utf-8")
                written.unlink()
    assert seen == expected


def test_a_safe_report_shows_neither_folders_nor_the_population(survey):
    folder = survey / "safe"
    run([*ASSESS, "--time-limit", "0.2s", "--out", str(folder), "--quiet"], survey)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "my data" not in page
    assert "4,000" not in page.replace("about 4,000", "")
    assert not any("--population" in command for command in commands(folder / "report.html"))
