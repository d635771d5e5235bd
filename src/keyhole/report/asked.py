"""The commands of a report, made from what the run was asked: complete, so that they can be pasted and run.

A safe report names files without their folders, so its commands run in the folder of the file. It leaves out the
population, from which the exact number of records could follow, and so cannot say how to repeat the whole run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keyhole.settings import Settings
from keyhole.words import clean_name, command_line, write_groups

LONGER = "30m"
DESIGN = ("weight", "household")
BARE = ("drop_contradictions", "self_check", "quick", "with_keys", "keep_data")


class Asked:
    """What a run was asked. internal: whether folders and the population may be shown."""

    def __init__(self, manifest: Mapping[str, Any], internal: bool) -> None:
        self._manifest = manifest
        self._asked: Mapping[str, Any] = manifest.get("asked") or {}
        self._internal = internal

    @property
    def name(self) -> str:
        """The name of the file, without its folder; empty if it was not a file."""
        file = self._asked.get("file")
        return "" if file is None or self._asked.get("query") else clean_name(Path(file).name)

    def suggest(self) -> str | None:
        """Return the command that suggests rules; None without a file, or if a safe report would name categories."""
        if not self._asked.get("file"):
            return None
        if self._manifest["input"].get("merge") and not self._internal:
            return None
        words = ["keyhole", "zeros", "suggest", *self._source()]
        if self._internal:
            words += ["--population", str(self._manifest["population"])]
        stem = Path(self.name or "query").stem
        return clean_name(command_line([*words, "--out", f"{stem}-rules.yaml"]))

    def resume(self) -> str | None:
        """Return the command that continues the run; None if it was not started by one, or the report is safe."""
        asked, settings = self._asked, self._manifest.get("settings", {})
        if not asked.get("file") or not asked.get("out") or not self._internal:
            return None
        words = ["keyhole", "assess", *self._source()]
        for name in ("population", "fraction", "zeros", "out"):
            words += _flag(name, asked.get(name))
        for name in DESIGN:
            words += _flag(name, self._manifest.get("design", {}).get(name))
        for column in asked.get("strata") or ():
            words += _flag("strata", column)
        for text in asked.get("policy") or ():
            words += _flag("policy", text)
        for name in ("strata_sizes", "weight_classes"):
            words += _flag(name, asked.get(name))
        words += [f"--{name.replace('_', '-')}" for name in BARE if asked.get(name)]
        for name, field in Settings.model_fields.items():
            if name != "time_limit" and settings.get(name, field.default) != field.default:
                words += _flag(name, settings[name])
        return clean_name(command_line([*words, "--resume", "--time-limit", LONGER]))

    def _source(self) -> list[str]:
        """Return the file and how it is read, as words of a command."""
        asked, reading = self._asked, self._manifest["input"]
        file = str(self._place(asked["file"]))
        words = ["--url", file, "--query", asked["query"]] if asked.get("query") else [file]
        words += ["--keys", asked["keys"], *_flag("codebook", self._place(asked.get("codebook")))]
        words += _flag("count", reading.get("count"))
        if reading.get("user_missing", "keep") != "keep":
            words += _flag("user_missing", reading["user_missing"])
        for key, bands in reading.get("bands", {}).items():
            words += ["--band", f"{key}={bands}"]
        for key, merged in reading.get("merge", {}).items():
            words += ["--merge", f"{key}={write_groups(merged.values())}"]
        for name in ("allow_identifier", "na"):
            for value in asked.get(name) or ():
                words += _flag(name, value)
        return words

    def _place(self, path: str | None) -> str | None:
        """Return a path as it was given, or only its name in a safe report."""
        return path if path is None or self._internal or "://" in path else Path(path).name


def _flag(name: str, value: Any) -> list[str]:
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
