"""What answers questions about one file, as a process of its own: one question on each line, one answer on each line.

    python -P -m keyhole.app.desk

A question is {"id", "do", "with"}, an answer {"id", "answer"} or {"id", "error"}. The process ends with the server.
"""

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from keyhole.app.child import explain, write_quickly
from keyhole.app.columns import Columns, Missing, describe_variables, open_columns
from keyhole.app.home import show_name, stamp
from keyhole.errors import KeyholeError, RulesError, SettingsError
from keyhole.words import number, percent, plural, read_groups, write_groups

SHOWN_ROWS = 20
MOST_SUGGESTIONS = 100

Answer = dict[str, Any]
Texts = dict[str, str]
Merges = dict[str, list[list[str]]]


class Desk:
    """What is kept in memory: the columns of the file, and the result that was opened last."""

    def __init__(self) -> None:
        self.source: tuple[str, str | None, str] | None = None
        self.columns: Columns | None = None
        self.opened: tuple[str, Any] | None = None

    def read(self, path: str, codebook: str | None, out: str) -> Answer:
        """Read a file, and write what was found where the server looks for it."""
        before = stamp(path) + stamp(codebook or "")
        seen, self.columns = open_columns(path, codebook)
        self.source = path, codebook, before
        write_quickly({"stamp": before, **describe_variables(seen, self.columns)}, Path(out))
        return {}

    def find_columns(self, path: str, codebook: str | None) -> Columns:
        """Return the columns, read again if this process is new or the file has changed."""
        source = path, codebook, stamp(path) + stamp(codebook or "")
        if self.columns is None or self.source != source:
            _, self.columns = open_columns(path, codebook)
            self.source = source
        return self.columns

    def alone(
        self, path: str, codebook: str | None, keys: list[str], bands: Texts, merge: Merges, missing: Missing
    ) -> Answer:
        """Count the records that are alone in the sample; keys that cannot be keys are named with the reason."""
        columns = self.find_columns(path, codebook)
        refused = {}
        for name in keys:
            try:
                columns.encode(name, bands.get(name, ""), missing, merge.get(name))
            except KeyholeError as error:
                refused[name] = explain_key(error, name)
        kept = [name for name in keys if name not in refused]
        alone, records = columns.count_alone(kept, bands, missing, merge)
        return {"alone": alone if kept else 0, "records": records, "refused": refused}

    def categories(
        self, path: str, codebook: str | None, name: str, bands: str, merge: list[list[str]] | str, missing: Missing
    ) -> Answer:
        """Return the categories of a key as they are merged, and its numbers; merge: also as typed."""
        groups = merge if isinstance(merge, list) else read_groups(merge) if merge.strip() else []
        if merge and not groups:
            raise SettingsError("Write the categories to merge, as in 1,2|3,4.")
        columns = self.find_columns(path, codebook)
        found: Answer = {
            "groups": groups,
            "text": write_groups(groups),
            "refused": "",
            "categories": [],
            "more": 0,
            "ordered": [],
        }
        try:
            found |= columns.describe_categories(name, bands, missing, groups)
        except KeyholeError as error:
            found["refused"] = explain_key(error, name)
            with contextlib.suppress(KeyholeError):  # then the merge does not fit, but there are categories
                found |= columns.describe_categories(name, bands, missing, [])
        return {**found, "numbers": columns.describe_numbers(name, bands)}

    def sizes(
        self,
        path: str,
        codebook: str | None,
        keys: list[str],
        bands: Texts,
        merge: Merges,
        missing: Missing,
        strata: list[str],
        sizes: str,
    ) -> Answer:
        """Compare a file of stratum sizes with the strata of the records, which have the categories of keys."""
        from keyhole.data.strata import number_strata, read_sizes

        columns = self.find_columns(path, codebook)
        # Sizes count the people behind the whole file, also behind records that a run leaves out.
        kept: Missing = "category" if missing == "drop" else missing
        data = columns.make_microdata(list(dict.fromkeys([*keys, *strata])), bands, kept, merge)
        found, texts = number_strata(data, strata, "strata")
        people, _ = read_sizes(sizes, found, texts, data)
        return {"text": f"Strata of the file: {len(people):,}, with {int(people.sum()):,} people in all."}

    def rules(
        self,
        path: str,
        codebook: str | None,
        keys: list[str],
        bands: Texts,
        merge: Merges,
        missing: Missing,
        rules: list[Any],
    ) -> Answer:
        """Say of each rule what it removes and which rows contradict it; of one that cannot be read, why."""
        from keyhole.zeros import check_zeros, read_zeros

        data = self.find_columns(path, codebook).make_microdata(keys, bands, missing, merge)
        found: list[Answer] = []
        readable: list[tuple[int, Any]] = []
        for place, rule in enumerate(rules):
            try:
                read_zeros([rule], data.variables, data.ignored_variables)
            except RulesError as error:
                found.append({"error": str(error).replace("`zeros`, line 1", "Rule").replace("`zeros`", "Rule")})
            else:
                found.append({})
                readable.append((place, rule))
        whole: Answer = {"share": 0.0, "text": "No combination is excluded."}
        if readable:
            zeros = read_zeros([rule for _, rule in readable], data.variables, data.ignored_variables)
            checks, rows = check_zeros(zeros, data)
            for (place, _), check in zip(readable, checks, strict=True):
                found[place] = {
                    "words": check.words,
                    "removes": f"{plural(check.cells, 'combination')} of {zeros.cells:,} ({percent(check.share)})",
                    "covered": list(check.covered_by) if check.redundant else [],
                    "redundant": check.redundant,
                    "contradicted": len(check.rows),
                    "rows": check.rows[:SHOWN_ROWS].tolist(),
                }
            whole = {
                "share": zeros.share,
                "text": f"Together the rules exclude {percent(zeros.share)} of all {zeros.cells:,} combinations.",
                "contradicted": len(rows),
            }
        return {"rules": found, "whole": whole}

    def suggest(
        self,
        path: str,
        codebook: str | None,
        keys: list[str],
        bands: Texts,
        merge: Merges,
        missing: Missing,
        population: int | None,
    ) -> Answer:
        """Suggest rules, with what speaks for each."""
        from keyhole.data import BLANK
        from keyhole.zeros import suggest_zeros
        from keyhole.zeros.vocabulary import BLANK_WORD

        data = self.find_columns(path, codebook).make_microdata(keys, bands, missing, merge)
        found = suggest_zeros(data, population=population)
        return {
            "tested": found.tested,
            "more": max(len(found.items) - MOST_SUGGESTIONS, 0),
            "items": [
                {
                    "words": item.words,
                    "rule": {
                        name: [code if code != BLANK else BLANK_WORD for code in codes]
                        for name, codes in zip(item.variables, item.categories, strict=True)
                    },
                    "expected": number(item.expected),
                    "wrong": percent(item.share),
                    "blanks": list(item.blanks),
                }
                for item in found.items[:MOST_SUGGESTIONS]
            ],
        }

    def answer(self, folder: str, name: str, internal: bool) -> Answer:
        """Return the sections of the report."""
        from keyhole.report import make_content
        from keyhole.report.render import render_sections

        content = make_content(self.find_result(folder), internal, f"Disclosure risk of {show_name(name)}")
        return {"html": render_sections(content), "about": [list(pair) for pair in content.about]}

    def find_result(self, folder: str) -> Any:
        """Return the result in a folder, which is kept until another one is opened."""
        from keyhole.results.folder import load

        changed = f"{folder} {stamp(str(Path(folder) / 'manifest.json'))}"
        if self.opened is None or self.opened[0] != changed:
            self.opened = (changed, load(folder))
        return self.opened[1]

    def prepare(self, folder: str, path: str) -> Answer:
        """Return the keys of a result with their categories; from now on a what-if needs no reading."""
        found = self.find_result(folder)
        if found._posterior is None:
            found = replace(found, _posterior=found._records("what_if", path))
            self.opened = (self.opened[0] if self.opened else "", found)
        summary = found.summary
        variables = found._posterior.microdata.variables
        return {
            "keys": [
                {
                    "name": variable.name,
                    "categories": list(variable.categories),
                    "labels": [text or "(blank)" for text in variable.labels or variable.categories],
                    "ordered": list(variable.orderable),
                }
                for variable in variables
            ],
            "helps": [describe_help(one) for one in summary.helps],
            "policies": [{"met": one.met, "words": one.words} for one in summary.policies],
            "before": describe_risk(summary.input.sample_uniques, found.tau1, found.tau2, found.grade),
        }

    def what_if(self, folder: str, path: str, release: dict[str, Any]) -> Answer:
        """Return the risk before and after; nothing is fitted again."""
        before = self.prepare(folder, path)["before"]
        found = self.find_result(folder).what_if(**release)
        after = describe_risk(found.sample_uniques, found.tau1, found.tau2, found.grade)
        verdicts = [{"met": one.met, "words": one.words} for one in found.policies]
        return {"before": before, "after": after, "policies": verdicts}

    def plan(self, folder: str, path: str, limits: list[str], out: str, **options: Any) -> Answer:
        """Find the release that meets limits with the least loss, and write the plan."""
        self.prepare(folder, path)
        found = self.find_result(folder).plan(limits, **options)
        found.save(out, overwrite=True)
        return {}

    def hierarchy(self, folder: str, path: str, hierarchy: list[str]) -> Answer:
        """Read hierarchies, so that what is wrong with them is said when they are given."""
        from keyhole.plan.hierarchies import read_hierarchies

        self.prepare(folder, path)
        found = read_hierarchies(hierarchy, self.find_result(folder)._posterior.microdata.variables)
        return {"levels": {name: len(levels) for name, levels in found.items()}}

    def protect(self, path: str, plan: str, out: str, drop_columns: list[str]) -> Answer:
        """Apply a plan to the file; return the keys that are left, and the columns that may undo the plan."""
        from keyhole.plan.protect import apply_plan, check_path, write_protected
        from keyhole.plan.recipe import load_plan

        recipe = load_plan(plan)
        target = check_path(Path(out), overwrite=True)
        found = apply_plan(path, recipe, path=target, drop_columns=drop_columns)
        write_protected(found, target)
        return {
            "keys": [key.name for key in recipe.keys if key.groups is not None],
            "missing": found.missing,
            "caution": found.telltale.caution,
            "columns": list(found.telltale.names),
        }

    def internal_report(self, folder: str, name: str) -> Answer:
        """Write the report for the owner into the result folder."""
        from keyhole.results.folder import INTERNAL_REPORT

        found = self.find_result(folder)
        found.report(Path(folder) / INTERNAL_REPORT, internal=True, title=f"Disclosure risk of {show_name(name)}")
        self.opened = None
        return {}


def explain_key(error: KeyholeError, name: str) -> str:
    """Return what is wrong with a key, without the option and the name: the field that it is about stands beside it."""
    text = explain(error)
    for option in ("--band", "--merge"):
        text = text.removeprefix(f"{option} {name}: ")
    return text


def describe_help(found: Any) -> Answer:
    """Return the best single step for a key, as its card offers it."""
    return {
        "name": found.name,
        "step": found.step,
        "merged": [list(group) for group in found.merged],
        "remains": number(found.tau1.mean),
        "range": f"{number(found.tau1.interval[0])} to {number(found.tau1.interval[1])}",
        "lost": percent(found.share_lost),
    }


def describe_risk(uniques: int, tau1: Any, tau2: Any, grade: str) -> Answer:
    """Return a risk as the page shows it."""
    return {
        "sample_uniques": uniques,
        "grade": grade,
        **{
            name: {
                "mean": found.mean,
                "interval": list(found.interval),
                "pooled": found.pooled,
                "about": number(found.mean) if found.pooled else "",
                "range": f"{number(found.interval[0])} to {number(found.interval[1])}",
            }
            for name, found in (("tau1", tau1), ("tau2", tau2))
        },
    }


QUESTIONS = (
    "read", "alone", "categories", "sizes", "rules", "suggest", "answer", "prepare", "what_if", "hierarchy", "plan",
    "protect", "internal_report",
)  # fmt: skip


def reply(desk: Desk, question: Mapping[str, Any]) -> Answer:
    """Answer one question."""
    try:
        if question["do"] not in QUESTIONS:
            raise KeyholeError("no such question")
        return {"id": question["id"], "answer": getattr(desk, question["do"])(**question["with"])}
    except Exception as error:
        return {"id": question["id"], "error": explain(error)}


def main() -> None:
    """Answer until the server is gone. Whatever else is printed goes nowhere: it could quote the data."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    os.dup2(sys.stdout.fileno(), 1)
    desk, waiting = Desk(), queue.SimpleQueue[str]()

    def listen() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        json.dump(reply(desk, json.loads(waiting.get())), answers, allow_nan=False)
        answers.write("\n")
        answers.flush()


if __name__ == "__main__":
    main()
