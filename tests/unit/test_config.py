"""`--config`: any option in a file, the command line wins, all mistakes at once; and the gates of `--fail-above`."""

import json
from types import SimpleNamespace

import pytest

import keyhole
from keyhole.cli import group, main
from keyhole.errors import SettingsError
from keyhole.risk.limits import exceeded, parse_limits

GOOD = "AGE,SEX,W,HH\n" + "".join(f"{i % 4 + 1},{'mf'[i % 2]},2,{i // 2}\n" for i in range(100)) + "9,m,2,0\n"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command in a folder with data; return status and output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data.csv").write_text(GOOD)
    (tmp_path / "sub" / "book.json").write_text('{"AGE": {"1": "a", "2": "b", "3": "c", "4": "d", "9": "e"}}')
    (tmp_path / "sub" / "rules.yaml").write_text("impossible:\n  - {AGE: [9], SEX: [f]}\n")

    def call(*arguments: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        captured = capsys.readouterr()
        return SimpleNamespace(status=stopped.value.code, out=captured.out, err=captured.err)

    return call


YAML = """\
file: data.csv
keyVars: [AGE, SEX]
weightVar: W
hhId: HH
population: 101
codebook: book.json
zeros: rules.yaml
out: result
seed: 7
time-limit: 2m
json: yes
drop_contradictions: false
fail-above: {tau1: 0.5, tau2.upper: 90}
"""


def test_a_whole_run_in_a_file(run, tmp_path):
    (tmp_path / "sub" / "run.yaml").write_text(YAML)
    found = run("assess", "--config", "sub/run.yaml")
    assert found.status == 4, found.err
    summary = json.loads(found.out)
    assert summary["input"]["population"] == 101
    assert summary["settings"]["seed"] == 7
    assert summary["settings"]["time_limit"] == 120
    assert summary["weights"]["column"] == "W"
    assert summary["households"]["households"] == 50
    assert summary["zeros"]["rules"] == 1
    # Paths start from the folder of the file, results included.
    assert keyhole.load(tmp_path / "sub" / "result").tau1.mean == 1
    assert found.err == "keyhole: --fail-above: tau1 is 1 (the mean), 0.5 above 0.5.\n"


def test_the_command_line_wins(run, tmp_path):
    (tmp_path / "sub" / "run.yaml").write_text(
        YAML.replace("fail-above", "allow-identifier").replace("{tau1: 0.5, tau2.upper: 90}", "[AGE]")
    )
    found = run("assess", "--config", "sub/run.yaml", "--fraction", "1", "--seed", "3", "--out", "here")
    assert found.status == 0, found.err
    summary = json.loads(found.out)
    assert summary["settings"]["seed"] == 3
    assert summary["input"]["population"] == 101  # the fraction of the command line, not the file's population
    assert (tmp_path / "here" / "summary.json").exists()
    assert not (tmp_path / "sub" / "result").exists()


def test_options_that_belong_together_may_come_from_both(run, tmp_path):
    (tmp_path / "run.yaml").write_text("profiles: 7\nkeys: AGE\npopulation: 101\n")
    found = run("assess", "sub/data.csv", "--config", "run.yaml", "--model", "mixed", "--json")
    assert json.loads(found.out)["settings"]["profiles"] == 7


def test_all_mistakes_are_reported_at_once(run, tmp_path):
    (tmp_path / "run.yaml").write_text(
        "kyes: AGE\nseed: -1\nchains: many\npopulation: all\njson: perhaps\nkeyVars: AGE\nkeys: SEX\nout:\nweigth: W\n"
    )
    found = run("assess", "sub/data.csv", "--config", "run.yaml")
    assert (found.status, found.out) == (2, "")
    assert found.err.count("\n") == 1
    for phrase in (
        "keyhole: run.yaml: ",
        "unknown option 'kyes' (did you mean 'keys'?)",
        "unknown option 'weigth' (did you mean 'weight'?)",
        "seed should be greater than or equal to 0",
        "chains should be a valid integer",
        "population: 'all' is not a whole number",
        "json: is true or false",
        "'keys' is given twice",
        "out: has no value",
    ):
        assert phrase in found.err, phrase


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.yaml", "a: [", "line 1 is not YAML"),
        ("run.yaml", "- a\n- b\n", "is not a list of options"),
        ("run.yaml", "", "is not a list of options"),
        ("run.yaml", "seed: 1\nseed: 2\n", "line 2: a name is given twice"),
        ("run.yaml", "? [a]\n: 1\n", "line 1: a name is needed"),
        ("run.yaml", "keys: [[[[a]]]]\n", "nests lists too deeply"),
        ("run.yaml", "keys: [a, [b]]\n", "keys: is a list of names without commas"),
        ("run.yaml", "seed: [1, 2]\n", "seed: takes one value"),
        ("run.yaml", "fail-above: {tau1: {a: 1}}\n", "fail-above: takes one value for each name"),
        ("run.yaml", "fail-above: tau3=5\nkeys: AGE\npopulation: 101\n", "fail-above tau3=5: write tau1=5"),
        ("run.yaml", "config: other.yaml\n", "unknown option 'config'"),
        ("run.yaml", '"a\\nb": 1\n', "unknown option 'a b'"),
        ("run.yaml", "x: &a [*a]\n", "nests lists too deeply"),
        ("run.toml", "seed = 1\n", "is not a list of options in YAML"),
        ("run.yaml", b"\xff\xfe\x00", "is not text in UTF-8"),
        ("run.yaml", "a: \x07\n", "is not YAML"),
        ("run.yaml", 'out: "\\ud800"\n', "out: is not a valid file name"),
        ("run.yaml", 'out: "\\0"\n', "out: is not a valid file name"),
        ("none.yaml", None, "none.yaml cannot be read"),
    ],
)
def test_bad_files_are_one_line(run, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = run("assess", "sub/data.csv", "--config", name)
    assert (found.status, found.out) == (2, "")
    assert found.err.count("\n") == 1
    assert message in found.err
    assert not list(tmp_path.glob("*.keyhole"))


def test_a_file_may_set_every_option_of_the_command():
    command = group.get_command(None, "assess")
    assert {"weight", "household", "fail_above", "keys", "file"} <= {parameter.name for parameter in command.params}


SUMMARY = {
    "tau1": {"mean": 4.5, "interval": [1, 9]},
    "tau2": {"mean": 20.0, "interval": [15, 26]},
}


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ([], []),
        (["tau1=4.5"], []),
        (["tau1=4"], ["tau1 is 4.5 (the mean), 0.5 above 4"]),
        (["tau1.mean=4"], ["tau1 is 4.5 (the mean), 0.5 above 4"]),
        (["tau1.upper=9"], []),
        (["tau1.upper=8.5"], ["tau1 is 9 (the upper end of the interval), 0.5 above 8.5"]),
        ([" tau2 = 1e1 ", "tau1=100"], ["tau2 is 20 (the mean), 10 above 10"]),
        (
            ["tau2=19", "tau1.upper=0"],
            ["tau2 is 20 (the mean), 1 above 19", "tau1 is 9 (the upper end of the interval), 9 above 0"],
        ),
    ],
)
def test_gates(gates, expected):
    assert exceeded(parse_limits(gates), SUMMARY) == expected


@pytest.mark.parametrize(
    "text", ["tau1", "tau1=", "tau3=5", "tau1.lower=5", "tau1=-1", "tau1=nan", "tau1=inf", "tau1=1e", "=5"]
)
def test_gates_that_make_no_sense(text):
    with pytest.raises(SettingsError, match="write tau1=5"):
        parse_limits(["tau2=3", text])


def test_a_gate_is_reported_before_missing_convergence(run, monkeypatch, tmp_path):
    from dataclasses import replace

    from keyhole.risk.advice import Verdict

    real = keyhole.assess

    def unsure(*arguments, **options):
        found = real(*arguments, **options)
        verdict = Verdict("not converged", "certain", "none", {"why": "2 of 4 chains disagree.", "tau1_upper": 1.0})
        return replace(found, diagnosis=replace(found.diagnosis, verdict=verdict))

    monkeypatch.setattr(keyhole, "assess", unsure)
    wanted = ("assess", "sub/data.csv", "--keys", "AGE,SEX", "--population", "101", "--quiet")
    wanted += ("--codebook", "sub/book.json")
    found = run(*wanted, "--fail-above", "tau1=0", "--fail-above", "tau2.upper=0.25")
    assert found.status == 4
    assert found.err.splitlines() == [
        "keyhole: --fail-above: tau1 is 1 (the mean), 1 above 0; "
        "tau2 is 1 (the upper end of the interval), 0.75 above 0.25.",
        "keyhole: 2 of 4 chains disagree. Until then use 1 as the upper limit of tau1, the largest of any chain; "
        "it may still rise.",
    ]
    assert (tmp_path / "data.keyhole" / "summary.json").exists()
    assert run(*wanted, "--fail-above", "tau1=1", "--overwrite").status == 3
    refused = run(*wanted, "--fail-above", "tau1:5", "--out", "other")
    assert (refused.status, (tmp_path / "other").exists()) == (2, False)


def test_what_matters_most_is_on_the_screen_in_eighty_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = run(
        "assess", "sub/data.csv", "--keys", "AGE,SEX", "--weight", "W", "--household", "HH", "--population", "101"
    )
    assert found.status == 0, found.err
    text = " ".join(found.out.split())
    assert "Contribution to tau1 without it tau1 falls by: AGE 100 %, SEX 0 %" in text
    assert "Riskiest records 1 record has r1 above 0.5 (without it, tau1 would be 0)" in text
    assert "Households 50 by HH, 1 with a member alone in the sample" in text
    assert "Weights W, sum 202. All are equal." in text
    assert max(map(len, found.out.splitlines())) <= 80


def test_weights_are_enough_and_too_much_is_refused(run):
    found = run("assess", "sub/data.csv", "--keys", "SEX", "--weight", "W", "--json")
    assert json.loads(found.out)["input"]["population"] == 202
    both = run("assess", "sub/data.csv", "--keys", "SEX", "--weight", "W", "--population", "101", "--fraction", "1")
    assert both.status == 2


def test_boxes_as_a_table_that_zeros_reads(run, tmp_path):
    rules = "impossible:\n  - {AGE: [9], SEX: [f]}\n  - {AGE: [1, 2]}\n"
    (tmp_path / "r.yaml").write_text(rules)
    wanted = ("zeros", "boxes", "r.yaml", "sub/data.csv", "--keys", "AGE,SEX")
    found = run(*wanted, "--out", "boxes.csv")
    assert found.status == 0, found.err
    assert (tmp_path / "boxes.csv").stat().st_mode & 0o777 == 0o600
    again = run("zeros", "check", "boxes.csv", "sub/data.csv", "--keys", "AGE,SEX", "--json")
    first = run("zeros", "check", "r.yaml", "sub/data.csv", "--keys", "AGE,SEX", "--json")
    for name in ("impossible_cells", "contradicting_rows"):
        assert json.loads(again.out)[name] == json.loads(first.out)[name]
    assert run(*wanted, "--out", "boxes.csv").status == 1
    assert run(*wanted, "--raw-labels").status == 2


def test_formulas_in_codes_are_disarmed_in_tables(run, tmp_path):
    (tmp_path / "x.csv").write_text("A,=B\n=1+1,x\n@y,x\nz,w\n")
    (tmp_path / "r.yaml").write_text('impossible:\n  - {A: ["@y"], "=B": [w]}\n')
    wanted = ("zeros", "boxes", "r.yaml", "x.csv", "--keys", "A,=B")
    assert run(*wanted, "--out", "safe.csv").status == 0
    assert (tmp_path / "safe.csv").read_text() == "A,'=B\n'@y,w\n"
    assert run(*wanted, "--out", "raw.csv", "--raw-labels").status == 0
    assert (tmp_path / "raw.csv").read_text() == "A,=B\n@y,w\n"
    assert run("zeros", "check", "raw.csv", "x.csv", "--keys", "A,=B").status == 0
