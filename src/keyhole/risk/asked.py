"""Steps of a release as they are asked for: lists and mappings, or the words of the command line."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keyhole.errors import SettingsError
from keyhole.words import read_groups, read_share, split_pair

FORMS = {
    "recode": "AGE=1,2|3,4 or {'AGE': [[1, 2], [3, 4]]}",
    "bands": "AGE=10y or {'AGE': '10y'}",
    "top": "EDUC=7 or {'EDUC': 7}",
    "bottom": "AGE=18 or {'AGE': 18}",
    "blank": "EDUC=r1>0.2 or {'EDUC': 'r1>0.2'}",
    "importance": "EDUC=3 or {'EDUC': 3}",
}
"""How the options that map keys to something are written."""


def read_names(given: Any, option: str) -> list[str]:
    """Return names, given as a list or separated by commas."""
    if isinstance(given, str):
        return [name.strip() for name in given.split(",") if name.strip()]
    if isinstance(given, Iterable) and not isinstance(given, Mapping):
        names = list(given)
        if all(isinstance(name, str) for name in names):
            return names
    raise SettingsError(f"`{option}`: give names of keys, as a list or separated by commas")


def read_texts(given: Any, option: str) -> list[Any]:
    """Return what may be given once or in a list."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return [given]
    if isinstance(given, Mapping):
        raise SettingsError(f"`{option}`: give a text, or a list of texts")
    return list(given)


def read_mapping(option: str, *given: Any) -> dict[str, Any] | None:
    """Return what is said of each key, in mappings, KEY=text, or lists of these; a key may be named once."""
    found: dict[str, Any] = {}
    for entries in given:
        for item in [entries] if isinstance(entries, str | Mapping) else _list(entries, option):
            for name, entry in _pairs(item, option):
                if name in found:
                    raise SettingsError(f"`{option}` names {name} twice: give one")
                found[name] = entry
    return found or None


def _list(entries: Any, option: str) -> list[Any]:
    if entries is None:
        return []
    if not isinstance(entries, Iterable):
        raise SettingsError(f"`{option}`: write {FORMS[option]}")
    return list(entries)


def _pairs(item: Any, option: str) -> list[tuple[str, Any]]:
    if isinstance(item, Mapping):
        return [(str(name), _read_entry(entry, option)) for name, entry in item.items()]
    pair = split_pair(item) if isinstance(item, str) else None
    if pair is None:
        raise SettingsError(f"`{option}`: write {FORMS[option]}")
    return [(pair[0], _read_entry(pair[1], option))]


def _read_entry(entry: Any, option: str) -> Any:
    """Turn 1,2|3,4 into lists of categories, and weights into numbers; the rest is read where it is used."""
    if option == "importance" and isinstance(entry, str):
        try:
            return float(entry)
        except ValueError:
            raise SettingsError(f"`importance`: write {FORMS[option]}") from None
    if option != "recode" or not isinstance(entry, str):
        return entry
    groups = read_groups(entry)
    if not groups:
        raise SettingsError(f"`recode`: write {FORMS[option]}; '' is the blank category")
    return groups


def read_part(given: Any, option: str) -> float | None:
    """Return a share, given as a number or as text, also in percent."""
    return None if given is None else _number(lambda: read_share(given) if isinstance(given, str) else given, option)


def _number(read: Callable[[], Any], option: str) -> float:
    try:
        value = read()
        if not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError, SettingsError):
        pass
    raise SettingsError(f"`{option}` must be a share, such as 0.5 or 50%")
