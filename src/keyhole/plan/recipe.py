"""What a plan does to a file, and plan.yaml, in which a person reads, changes and keeps it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from keyhole._version import __version__
from keyhole.data.codebook import TextLoader
from keyhole.data.reading import Reading
from keyhole.data.variables import Variable
from keyhole.errors import CodebookError, InputError
from keyhole.plan.lattice import Level

FILE = "plan.yaml"
HEADER = """\
# A plan of keyhole: how a file is coarsened before it is released. Apply it with
#     keyhole protect FILE --plan plan.yaml --out protected.csv
# It may be changed by hand; the figures of plan.json and plan.html then no longer describe it, so assess the result.
# It names categories and rows of the data: treat it like the data.
"""
LEFT_OUT, AS_IS = "left out", "as it is"


@dataclass(frozen=True)
class Recoded:
    """What becomes of a key. groups: the name of each published category and its codes; None if it is left out."""

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...] | None

    @property
    def unchanged(self) -> bool:
        return self.groups is not None and all(len(codes) == 1 and name == codes[0] for name, codes in self.groups)

    @property
    def published(self) -> dict[str, str]:
        """The published category of each code."""
        return {code: name for name, codes in self.groups or () for code in codes}


@dataclass(frozen=True, repr=False)
class Recipe:
    """What a plan does to a file, as plan.yaml holds it.

    Attributes
    ----------
    reading : Reading
        How the file was read, and the hash of its codes.
    keys : tuple of Recoded
        What becomes of every key.
    blank : dict of str to tuple of int
        For some keys, the rows whose value becomes blank, from 1.
    remove : tuple of int
        Rows that are removed, from 1.
    limits : tuple of str
        The limits that it was made to meet.
    population : int
        Number of people in the population.
    design : dict
        How the sample was drawn, as options of the assessment: `strata`, `strata_sizes`, `weight`, `weight_classes`.
    """

    reading: Reading
    keys: tuple[Recoded, ...]
    blank: Mapping[str, tuple[int, ...]]
    remove: tuple[int, ...]
    limits: tuple[str, ...]
    population: int
    design: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line that holds nothing of a record."""
        changed = [key.name for key in self.keys if not key.unchanged]
        return f"Recipe: changes {', '.join(changed) or 'no key'}, for {', '.join(self.limits)}"

    def to_yaml(self) -> str:
        """Return the text of plan.yaml."""
        reading = self.reading
        content: dict[str, Any] = {
            "keyhole": __version__,
            "limits": list(self.limits),
            "keys": {key.name: _describe(key) for key in self.keys},
        }
        if self.blank:
            content["blank"] = {name: list(rows) for name, rows in self.blank.items()}
        if self.remove:
            content["remove"] = list(self.remove)
        content["population"] = self.population
        if self.design:
            content["design"] = dict(self.design)
        content["file"] = {
            "codes": reading.codes,
            "rows": reading.rows,
            "unused": list(reading.unused),
            "categories": {variable.name: list(variable.categories) for variable in reading.variables},
            "ordered": {variable.name: list(variable.orderable) for variable in reading.variables if variable.ordered},
            "ignored_keys": list(reading.ignored),
            "missing": reading.missing,
            "missing_codes": {name: list(codes) for name, codes in reading.met.items()},
            "na": None if reading.na is None else list(reading.na),
            "user_missing": reading.user_missing,
            "bands": dict(reading.bands),
            "merge": {
                name: {one: list(codes) for one, codes in found.items()} for name, found in reading.merge.items()
            },
            "count": reading.count,
        }
        return HEADER + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=118)


def make_recoded(variable: Variable, level: Level) -> Recoded:
    """Return what a level makes of a key."""
    if level.groups is None:
        return Recoded(variable.name, None)
    codes = tuple(tuple(variable.categories[x] for x in group) for group in level.groups)
    return Recoded(variable.name, tuple(zip(level.names, codes, strict=True)))


def _describe(key: Recoded) -> Any:
    if key.groups is None:
        return LEFT_OUT
    if key.unchanged:
        return AS_IS
    return {name: list(codes) for name, codes in key.groups if (name,) != codes}


def load_plan(path: str | Path) -> Recipe:
    """Read a plan.

    Parameters
    ----------
    path
        A plan.yaml, or the folder that holds it.

    Returns
    -------
    Recipe
        What `protect` applies.

    Raises
    ------
    InputError
        If it is no plan, or names a category twice or one that the file does not have.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    try:
        content = TextLoader(path.read_text(encoding="utf-8-sig")).get_single_data()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give the plan.yaml of `keyhole plan`.") from None
    except (yaml.YAMLError, UnicodeDecodeError, CodebookError):
        raise InputError(f"{path} is not YAML: correct it, or make the plan again.") from None
    try:
        return _make_recipe(content, path)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{path} is not a plan of keyhole: a part of it is missing or not as it was written."
        ) from None


def _make_recipe(content: Mapping[str, Any], path: Path) -> Recipe:
    file = content["file"]
    order = {name: (int(low), int(high)) for name, (low, high) in file["ordered"].items()}
    variables = tuple(
        Variable(name, tuple(codes), orderable=order.get(name, (0, 0)), ordered=name in order)
        for name, codes in file["categories"].items()
    )
    reading = Reading(
        codes=file["codes"],
        rows=int(file["rows"]),
        unused=_numbers(file["unused"]),
        variables=variables,
        ignored=tuple(file["ignored_keys"]),
        met={name: list(codes) for name, codes in file["missing_codes"].items()},
        count=_text(file["count"]),
        bands=dict(file["bands"]),
        user_missing=file["user_missing"],
        na=None if _text(file["na"]) is None else list(file["na"]),
        missing=file["missing"],
        merge=dict(file.get("merge", {})),
    )
    given = content["keys"]
    unknown = next((name for name in given if name not in file["categories"]), None)
    if unknown is not None or len(given) < len(variables):
        raise InputError(f"{path}: `keys` must say what becomes of each of {', '.join(file['categories'])}.")
    blank = {str(name): _numbers(rows) for name, rows in content.get("blank", {}).items()}
    wrong = next((name for name in blank if name not in given), None)
    if wrong is not None:
        raise InputError(f"{path}: `blank` names {wrong}, which is not one of the keys.")
    return Recipe(
        reading=reading,
        keys=tuple(_read_key(variable, given[variable.name], path) for variable in variables),
        blank=blank,
        remove=_numbers(content.get("remove", [])),
        limits=tuple(content["limits"]),
        population=int(content["population"]),
        design=_read_design(content.get("design", {})),
    )


def _read_key(variable: Variable, entry: Any, path: Path) -> Recoded:
    if entry == LEFT_OUT:
        return Recoded(variable.name, None)
    if entry == AS_IS:
        return Recoded(variable.name, tuple((code, (code,)) for code in variable.categories))
    if not isinstance(entry, Mapping):
        raise InputError(f"{path}: write '{AS_IS}', '{LEFT_OUT}' or groups of categories for {variable.name}.")
    groups = [(str(name), tuple(codes)) for name, codes in entry.items()]
    named = [code for _, codes in groups for code in codes]
    if len(set(named)) < len(named) or not set(named) <= set(variable.categories):
        raise InputError(
            f"{path}: a group of {variable.name} names a category twice, or one that the file does not have."
        )
    groups += [(code, (code,)) for code in variable.categories if code not in named]
    place = {code: x for x, code in enumerate(variable.categories)}
    groups.sort(key=lambda group: min(place[code] for code in group[1]))
    if len({name for name, _ in groups}) < len(groups):
        raise InputError(f"{path}: two categories of {variable.name} would have one name.")
    return Recoded(variable.name, tuple(groups))


def _read_design(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the sample was drawn; YAML is read as text."""
    found = dict(entries)
    if "strata" in found:
        found["strata"] = list(found["strata"])
    if "weight_classes" in found:
        found["weight_classes"] = int(found["weight_classes"])
    return found


def _numbers(rows: Sequence[Any]) -> tuple[int, ...]:
    return tuple(sorted({int(row) for row in rows}))


def _text(value: Any) -> Any:
    """Return None for what YAML writes for it."""
    return None if value in ("null", "") else value
