"""Hierarchies of categories: nested lists or mappings of YAML or Python, or the CSV tables of ARX.

    MARST: [[1, 2], [[3, 4, 5], 6]]
    EDUC: {school: [1, 2, 3], college: {some: [4, 5], degree: [6, 7]}}

The first level merges the innermost groups, each further one the groups around them; the names of a mapping become
those of the merged categories. In a table of ARX each line is a category followed by what it is called on each level.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from keyhole.data.codebook import TextLoader, code_text, whole_numbers
from keyhole.data.recoding import Groups, is_coarser, name_group
from keyhole.data.variables import BLANK, Variable
from keyhole.errors import CodebookError, OptionError, SettingsError
from keyhole.plan.lattice import Level

SEPARATORS = ";,\t|"
EVERYTHING = ("*", "")
"""What ARX calls the level at which nothing is left."""


def read_hierarchies(source: Any, variables: Sequence[Variable]) -> dict[str, list[Level]]:
    """Return the levels of each key of a hierarchy: a mapping, or paths of YAML files and of tables (KEY=FILE)."""
    by_name = {variable.name: variable for variable in variables}
    found: dict[str, list[Level]] = {}
    for name, entry, where in _list_entries(source):
        if name not in by_name:
            raise OptionError(f"`hierarchy` {where}: '{name}' is not one of the keys")
        if name in found:
            raise SettingsError(f"`hierarchy` {where}: '{name}' has two hierarchies: give one")
        variable = by_name[name]
        if isinstance(entry, str | Path):
            found[name] = _levels_of_table(variable, Path(entry))
        else:
            found[name] = _levels_of_tree(variable, entry, where)
    return found


def _list_entries(source: Any) -> list[tuple[str, Any, str]]:
    if source is None:
        return []
    if isinstance(source, Mapping):
        return [(str(name), entry, str(name)) for name, entry in source.items()]
    if isinstance(source, str | Path):
        source = [source]
    if not isinstance(source, Iterable):
        raise SettingsError("`hierarchy`: give nested lists by key, or the path of a file")
    found = []
    for item in source:
        text = str(item)
        name, equals, path = text.partition("=")
        if equals and not Path(text).exists():
            found.append((name.strip(), Path(path), path))
        else:
            found += [(str(name), entry, text) for name, entry in _read_yaml(Path(item)).items()]
    return found


def _read_yaml(path: Path) -> Mapping[str, Any]:
    """Return the content of a YAML file, with every code as text."""
    try:
        content = TextLoader(path.read_text(encoding="utf-8-sig")).get_single_data()
    except OSError as error:
        raise OptionError(f"`hierarchy` {path} cannot be read ({error.strerror}): check its name") from None
    except (yaml.YAMLError, UnicodeDecodeError, CodebookError):
        raise OptionError(
            f"`hierarchy` {path} is not YAML: write KEY: [[1, 2], [3, 4]], or KEY=FILE for a table"
        ) from None
    if not isinstance(content, Mapping):
        raise OptionError(f"`hierarchy` {path}: write KEY: [[1, 2], [3, 4]] for each key")
    return {str(name): entry for name, entry in content.items()}


Tree = tuple[str, int, list[Any], tuple[int, ...]]
"""A group: its name if it has one, its height, the groups in it, and its categories."""


def _levels_of_tree(variable: Variable, entry: Any, where: str) -> list[Level]:
    """Return a level for each height of the tree: all groups of at most this height are merged."""
    place = {code: x for x, code in enumerate(variable.categories)}
    taken: set[int] = set()

    def build(item: Any, name: str) -> Tree:
        if isinstance(item, Mapping):
            parts = [build(part, str(key)) for key, part in item.items()]
        elif isinstance(item, list | tuple):
            parts = [build(part, "") for part in item]
        else:
            code = whole_numbers([code_text(item)])[0]
            if code not in place:
                raise OptionError(
                    f"`hierarchy` {where}: '{code}' is not a category of '{variable.name}'{variable.hint(code)}"
                )
            if place[code] in taken:
                raise OptionError(f"`hierarchy` {where}: '{code}' of '{variable.name}' occurs twice")
            taken.add(place[code])
            return "", 0, [], (place[code],)
        members = tuple(sorted(x for part in parts for x in part[3]))
        if not members:
            raise OptionError(f"`hierarchy` {where}: '{variable.name}' has an empty group")
        return name, 1 + max(part[1] for part in parts), parts, members

    root = build(entry, "")
    levels = []
    for height in range(1, root[1] + 1):
        merged: list[Tree] = []

        def collect(tree: Tree, height: int = height, merged: list[Tree] = merged) -> None:
            if tree[1] <= height and tree is not root:
                merged.append(tree)
                return
            for part in tree[2]:
                collect(part)

        collect(root)
        levels.append(_make(variable, [(tree[3], tree[0]) for tree in merged], f"at level {height} of its hierarchy"))
    return _distinct(variable, levels)


def _levels_of_table(variable: Variable, path: Path) -> list[Level]:
    """Return the levels of a table of ARX."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise OptionError(f"`hierarchy` {path} cannot be read as UTF-8 text: check its name") from None
    first = text.partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if any(cell.strip() for cell in row)]
    width = len(rows[0]) if rows else 0
    if width < 2 or any(len(row) != width for row in rows):
        raise OptionError(f"`hierarchy` {path}: write a category and its groups in each line, as many in all lines")
    codes = whole_numbers([row[0].strip() for row in rows])
    unknown = next((code for code in codes if code not in variable.categories), None)
    if unknown is not None:
        raise OptionError(f"`hierarchy` {path}: line {codes.index(unknown) + 1} is not a category of '{variable.name}'")
    missing = [code for code in variable.categories if code not in codes and code != BLANK]
    if len(set(codes)) < len(codes) or missing:
        problem = "has a category twice" if not missing else f"lacks {len(missing)} categories of '{variable.name}'"
        raise OptionError(f"`hierarchy` {path} {problem}")
    levels, last = [], None
    for column in range(1, width):
        groups: dict[str, list[int]] = {}
        for code, row in zip(codes, rows, strict=True):
            groups.setdefault(row[column].strip(), []).append(variable.categories.index(code))
        if len(groups) == 1:
            continue
        level = _make(
            variable, [(tuple(sorted(x)), name) for name, x in groups.items()], f"at level {column} of its hierarchy"
        )
        if last is not None and level.groups is not None and not is_coarser(level.groups, last):
            raise OptionError(f"`hierarchy` {path}: level {column} divides a group of level {column - 1}")
        last = level.groups
        levels.append(level)
    return _distinct(variable, levels)


def _make(variable: Variable, groups: Sequence[tuple[tuple[int, ...], str]], words: str) -> Level:
    """Return a level in which categories outside these groups stay as they are."""
    taken = {x for members, _ in groups for x in members}
    whole = [*groups, *(((x,), "") for x in range(len(variable.categories)) if x not in taken)]
    whole.sort()
    merged: Groups = tuple(members for members, _ in whole)
    names = tuple(name if name and len(members) > 1 else name_group(variable, members) for members, name in whole)
    if len(set(names)) < len(names):
        names = tuple(name_group(variable, members) for members in merged)
    return Level(merged, names, words)


def _distinct(variable: Variable, levels: Sequence[Level]) -> list[Level]:
    """Keep levels that merge something, and leave something to tell."""
    unique: dict[Groups | None, Level] = {}
    for level in levels:
        if level.groups is not None and 1 < len(level.groups) < len(variable.categories):
            unique.setdefault(level.groups, level)
    return list(unique.values())
