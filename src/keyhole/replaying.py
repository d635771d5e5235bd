"""A result made again from its manifest, and whether it is the same to the bit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from keyhole.api import assess, fingerprint_codebook, fingerprint_rules
from keyhole.data.database import is_url
from keyhole.data.microdata import COUNT_CELLS
from keyhole.data.opening import open_file
from keyhole.errors import InputError, KeyholeError, OutputError, SettingsError, silenced
from keyhole.files import sha256
from keyhole.results import Assessment, load
from keyhole.results.folder import DATA, MANIFEST, check_files, describe_machine, read_manifest, reserve
from keyhole.risk.policies import find_policies
from keyhole.risk.quick import ASKED
from keyhole.sampling import Event, OnProgress
from keyhole.sampling.trace import Forecast
from keyhole.settings import Settings, make_settings
from keyhole.words import clean_name, enumerate_words
from keyhole.zeros import RuleSource

PARTS = ("tau1", "tau2", "records", "draws")
LONGEST = 30 * 86400.0
"""The time limit of a repetition, in seconds: the clock must not end what it did not end before."""


@dataclass(frozen=True, repr=False)
class Replay:
    """A result made again.

    Attributes
    ----------
    assessment : Assessment
        The new result.
    folder : pathlib.Path
        Where it was written.
    differs : tuple of str
        Which of tau1, tau2, records and draws differ from the first result in any bit.
    reasons : tuple of str
        What differs between the two runs and is the likely reason, such as the version of a library.
    clock : bool
        Whether the clock ended the first run. The repetition then ended after as many sweeps.
    """

    assessment: Assessment
    folder: Path
    differs: tuple[str, ...]
    reasons: tuple[str, ...]
    clock: bool

    def __repr__(self) -> str:
        return f"Replay: {self.message}"

    @property
    def same(self) -> bool:
        """Whether the result is the same to the bit."""
        return not self.differs

    @property
    def message(self) -> str:
        """The outcome in words."""
        clock = ""
        if self.clock:
            sweeps = self.assessment.summary.convergence.sweeps
            clock = f" The clock ended the first run, so this one ended after as many sweeps ({sweeps:,})."
        if self.same:
            return f"The same to the bit: {enumerate_words(PARTS)}.{clock}"
        likely = enumerate_words(self.reasons) or (
            "none of versions, libraries and kind of machine; another processor rounds differently"
            + (", and what the clock ends may not be repeated to the bit" if self.clock else "")
        )
        return f"Not the same: {enumerate_words(self.differs)} differ.{clock} What is different: {likely}."

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome for JSON."""
        found = self.assessment
        return {
            "same": self.same,
            "differs": list(self.differs),
            "reasons": list(self.reasons),
            "clock": self.clock,
            "sweeps": found.summary.convergence.sweeps,
            "tau1": {"mean": found.tau1.mean, "interval": list(found.tau1.interval)},
            "tau2": {"mean": found.tau2.mean, "interval": list(found.tau2.interval)},
            "folder": str(self.folder),
            "message": self.message,
        }


def replay(
    manifest: str | Path,
    data: Any,
    out: str | Path | None = None,
    *,
    codebook: str | Path | Mapping[str, Any] | None = None,
    zeros: RuleSource | None = None,
    strata_sizes: Any = None,
    on_progress: OnProgress | None = None,
) -> Replay:
    """Make a result again, with the settings of its manifest, and compare it with the first.

    Parameters
    ----------
    manifest
        The manifest.json of a result, or its folder. Files of the result that are beside it must be as they were
        written.
    data
        The file or dataframe that was assessed, or the address of the database; checked by its hash.
    out
        A new folder for the result; by default one beside the first.
    codebook, zeros, strata_sizes
        What the run had, if it is not where it was, or was given as values. Checked by their hashes.
    on_progress
        As of `assess`.

    Returns
    -------
    Replay

    Raises
    ------
    KeyholeError
        If the manifest or a file is not as it was, or a file is not found.
    """
    path = Path(manifest)
    path = path / MANIFEST if path.is_dir() else path
    about = read_manifest(path)
    check_files(path.parent, about)
    folder = choose_folder(path.parent, out)
    try:
        first = describe_first(path.parent, about)
        clock = first["stopped"] == "time"
        arguments = read_arguments(about, path.parent, data, codebook, zeros, strata_sizes)
        settings = repeat_settings(about["settings"], first["sweeps"] if clock else None)
    except (KeyError, TypeError, ValueError, AttributeError, SettingsError):
        raise OutputError(f"{path} is damaged: it does not say how the run was made.") from None
    check_data(data, about)
    arguments["quick"] = arguments["quick"] or first["quick"]
    with reserve(folder, overwrite=False, resume=False), silenced():
        found = assess(data, **arguments, settings=settings, on_progress=without_forecast(on_progress))
        if found.manifest["input"]["sha256"] != about["input"]["sha256"]:
            raise other_data(data)
        found.manifest["asked"]["out"] = str(folder)
        found.save(folder, overwrite=True)
    return Replay(found, folder, compare(path.parent, about, first, folder, found), find_reasons(about), clock)


def without_forecast(report: OnProgress | None) -> OnProgress | None:
    """Leave out what the run would need to the time limit, which here is none."""
    if report is None:
        return None

    def pass_on(event: Event) -> None:
        if not isinstance(event, Forecast):
            report(event)

    return pass_on


def choose_folder(place: Path, out: str | Path | None) -> Path:
    """Return a folder that does not exist yet."""
    if out is not None:
        if Path(out).exists():
            raise OutputError(f"{out} exists: choose a new folder with `out`.")
        return Path(out)
    place = place.absolute()
    names = (f"{place.name}-replay{f'-{number}' if number > 1 else ''}" for number in range(1, 1000))
    return next(place.with_name(name) for name in names if not place.with_name(name).exists())


def describe_first(place: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of the first result: from the manifest, or in one of an early version from its folder."""
    if "result" in about:
        first = dict(about["result"])
        return {name: first[name] for name in ("tau1", "tau2", "stopped", "sweeps")} | {"quick": False}
    summary = load(place).summary
    taus = {
        name: {"mean": summary[name].mean, "sd": summary[name].sd, "interval": list(summary[name].interval)}
        for name in ("tau1", "tau2")
    }
    ended = {"stopped": summary.convergence.stopped, "sweeps": summary.convergence.sweeps}
    return {**taus, **ended, "quick": summary.model.why == ASKED}


def read_arguments(
    about: Mapping[str, Any],
    place: Path,
    data: Any,
    codebook: str | Path | Mapping[str, Any] | None,
    zeros: RuleSource | None,
    strata_sizes: Any,
) -> dict[str, Any]:
    """Return what `assess` was asked; files are found again, and are as they were."""
    asked, reading, design = about["asked"], about["input"], about["design"]
    beside = [place, *([Path(data).parent] if isinstance(data, str | Path) and not is_url(data) else [])]
    sized = "strata" in design and asked.get("strata") and asked.get("strata_sizes") is not None
    population, fraction = asked.get("population"), asked.get("fraction")
    if population is None and fraction is None and design.get("weight") is None and not asked.get("strata"):
        population = about["population"]
    rules = find_given("zeros", zeros, asked.get("zeros"), about.get("rules"), fingerprint_rules, beside)
    book = find_given("codebook", codebook, asked.get("codebook"), about.get("codebook"), fingerprint_codebook, beside)
    sizes = strata_sizes
    if sized or isinstance(sizes, str | Path):
        sizes = find_given(
            "strata_sizes", sizes, asked.get("strata_sizes"), about.get("strata_sizes"), hash_path, beside
        )
    return {
        "keys": asked["keys"],
        "population": population,
        "fraction": fraction,
        "codebook": book,
        "zeros": rules,
        "weight": design.get("weight"),
        "household": design.get("household"),
        "strata": asked.get("strata") or (),
        "strata_sizes": sizes,
        "weight_classes": asked.get("weight_classes"),
        "drop_contradictions": bool(asked.get("drop_contradictions")),
        "self_check": bool(asked.get("self_check")),
        "quick": bool(asked.get("quick")),
        "allow_identifier": asked.get("allow_identifier") or (),
        "query": asked.get("query"),
        "count": None if reading["count"] == COUNT_CELLS else reading["count"],
        "count_cells": reading["count"] == COUNT_CELLS,
        "bands": reading["bands"] or None,
        "user_missing": reading["user_missing"],
        "na": asked.get("na"),
        "with_keys": bool(asked.get("with_keys")),
        "keep_data": bool(asked.get("keep_data")),
        "policy": keep_found(asked.get("policy") or ()),
    }


def find_given(
    name: str, given: Any, recorded: str | None, digest: str | None, fingerprint: Any, beside: Sequence[Path]
) -> Any:
    """Return what was given, or the file that the run used, where it was or beside manifest or data; check its hash."""
    if digest is None and recorded is None:
        if given is not None:
            raise InputError(f"the run had no `{name}`: omit it.")
        return None
    if given is None and recorded is None:
        raise InputError(f"the run was given its `{name}` as values: give the same as `{name}`.")
    places = (
        [given] if given is not None else [Path(recorded or ""), *(at / Path(recorded or "").name for at in beside)]
    )
    existing = [found for found in places if not isinstance(found, str | Path) or Path(found).is_file()]
    if not existing:
        raise InputError(f"{clean_name(places[0])} does not exist: give the file that the run used as `{name}`.")
    # Manifests of early versions have no hash of a codebook; what was read is then checked by the hash of its codes.
    for found in existing:
        if digest is None or fingerprint(found) == digest:
            return found
    raise InputError(f"{_name(existing[0])} is not the one that the run used: give that one as `{name}`.")


def _name(found: Any) -> str:
    return clean_name(found) if isinstance(found, str | Path) else "what was given"


def hash_path(found: Any) -> str | None:
    """Return the SHA-256 of a file; the sizes in a dataframe follow from the manifest."""
    return sha256(Path(found)) if isinstance(found, str | Path) else None


def keep_found(policies: Sequence[str]) -> list[str]:
    """Return the policies that are still found: they judge a result and change none of it."""
    kept = []
    for text in policies:
        try:
            find_policies((text,))
        except KeyholeError:
            continue
        kept.append(text)
    return kept


def repeat_settings(recorded: Mapping[str, Any], sweeps: int | None) -> Settings:
    """Return the settings of the run, here; sweeps: where the clock ended it."""
    known = {name: recorded[name] for name in Settings.model_fields if name in recorded}
    here = {"workers": None, "scheduler": "threads", "time_limit": LONGEST}
    return make_settings(**{**known, **here, **({} if sweeps is None else {"max_sweeps": sweeps})})


def check_data(data: Any, about: Mapping[str, Any]) -> None:
    """Refuse another file before the run; a dataframe or a query is known by its hash when it has been read."""
    if not isinstance(data, str | Path) or is_url(data) or about["asked"].get("query"):
        return
    if open_file(Path(data)).fingerprint != about["input"]["sha256"]:
        raise other_data(data)


def other_data(data: Any) -> InputError:
    where = clean_name(data) if isinstance(data, str | Path) and not is_url(data) else "what was given as `data`"
    return InputError(f"{where} is not what the run read (its hash differs): give the data as they were.")


def compare(
    place: Path, about: Mapping[str, Any], first: Mapping[str, Any], folder: Path, found: Assessment
) -> tuple[str, ...]:
    """Return which parts differ in any bit."""
    again = found.manifest["result"]
    old, new = about["outputs"], read_manifest(folder / MANIFEST)["outputs"]
    same = {name: first[name] == {part: again[name][part] for part in first[name]} for name in ("tau1", "tau2")}
    # Another version of a library may write the same numbers as other bytes; a folder that is there tells them apart.
    same["records"] = old.get("records.parquet") == new["records.parquet"]
    same["draws"] = old.get("draws.nc") == new["draws.nc"]
    if not (same["records"] and same["draws"]) and all((place / name).is_file() for name in DATA):
        earlier = load(place)
        same["records"] |= _same_records(earlier.records, found.records)
        same["draws"] |= _same_arrays(earlier.draws, found.draws) and _same_arrays(earlier.profiles, found.profiles)
    return tuple(name for name in PARTS if not same[name])


def _same_records(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    shared = [name for name in one.columns if name in other.columns]
    return one.height == other.height and one.select(shared).equals(other.select(shared))


def _same_arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(name in other and np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def find_reasons(about: Mapping[str, Any]) -> tuple[str, ...]:
    """Return in words which versions, and which kind of machine, differ from those of the manifest."""
    here = describe_machine()
    reasons = [
        f"{word} {clean_name(about.get(name))} then, {here[name]} now"
        for name, word in {"version": "keyhole", "python": "Python", "machine": "machine"}.items()
        if about.get(name) != here[name]
    ]
    libraries = about.get("libraries") or {}
    reasons += [
        f"{name} {clean_name(libraries[name])} then, {version} now"
        for name, version in here["libraries"].items()
        if name in libraries and libraries[name] != version
    ]
    if about.get("kernels") != here["kernels"]:
        reasons.append("the compiled code (hash of the kernels)")
    return tuple(reasons)
