"""A coarser release as a user asks for it: variables left out, categories merged."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keyhole.errors import SettingsError
from keyhole.microdata import Variable
from keyhole.microdata.codebook import code_text, whole_numbers
from keyhole.sampling.events import Coarsening, Groups


def make_coarsening(
    variables: Sequence[Variable],
    drop: Iterable[str] = (),
    recode: Mapping[str, Iterable[Iterable[Any]]] | None = None,
) -> Coarsening:
    """Leave out the variables in `drop`; merge each list of categories in `recode`, others stay as they are."""
    names = [variable.name for variable in variables]
    recode = {} if recode is None else recode
    dropped = {_find(name, names) for name in ([drop] if isinstance(drop, str) else drop)}
    merged = {_find(name, names): groups for name, groups in recode.items()}
    for j in sorted(dropped & merged.keys()):
        raise SettingsError(f"'{names[j]}' is dropped and recoded: do one of both")
    kept = tuple(j for j in range(len(names)) if j not in dropped)
    return Coarsening(kept, tuple(_merge(variables[j], merged.get(j, ())) for j in kept))


def _find(name: str, names: Sequence[str]) -> int:
    if name in names:
        return names.index(name)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    raise SettingsError(f"'{name}' is not one of the keys{hint}: they are {', '.join(names)}")


def _merge(variable: Variable, lists: Iterable[Iterable[Any]]) -> Groups:
    """Return all categories in groups, in the order of their first category."""
    place = {category: index for index, category in enumerate(variable.categories)}
    groups: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for number, members in enumerate(lists, start=1):
        where = f"recode of '{variable.name}', group {number}"
        if isinstance(members, str) or not isinstance(members, Iterable):
            raise SettingsError(f"{where} is not a list: write lists of categories, for instance [[1, 2], [3, 4]]")
        codes = whole_numbers([code_text(member) for member in members])
        if any(code not in place for code in codes):
            raise SettingsError(f"{where} names a category that '{variable.name}' does not have: see its codebook")
        chosen = {place[code] for code in codes}
        if len(chosen) < len(codes) or chosen & taken:
            raise SettingsError(f"{where} names a category twice: a category belongs to one group")
        taken |= chosen
        if chosen:
            groups.append(tuple(sorted(chosen)))
    groups += [(x,) for x in range(len(variable.categories)) if x not in taken]
    return tuple(sorted(groups))
