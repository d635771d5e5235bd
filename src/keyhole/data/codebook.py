"""Codebooks: all categories of each variable, observed or not, in order.

YAML or JSON, `{AGE: [1, 2]}` or `{AGE: {1: "0-13", 2: "14-15"}}`; with codes that mean missing, and whether the
categories are ordered, `{AGE: {categories: [1, 2], missing: [-9], ordered: true}}`. Codes are read as text: `no` is
"no", not a boolean. Or XML: the value labels of a DDI Codebook, which are used as those of an SPSS file.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml

from keyhole.data.ddi import MOST_BYTES, looks_like_xml, read_ddi
from keyhole.data.variables import Variable
from keyhole.errors import CodebookError
from keyhole.files import NUMBER
from keyhole.words import clean_name, first_few

NEAR, SLIP = 0.75, 0.75
"""Likeness of two names from which one may be meant, or is misspelt, for the other: EDCU and EDUC have 0.75."""

NAMED_STRANGERS = 5
WHOLE = re.compile(r"([+-]?\d+)\.0*")


class TextLoader(yaml.BaseLoader):
    """Reads every scalar as text and refuses duplicate names in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        return _mapping([(self.construct_object(key, deep=True), self.construct_object(value, deep=True))
                         for key, value in node.value])  # fmt: skip


def _mapping(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for name, value in pairs:
        if not isinstance(name, str):
            raise CodebookError("a name or code is a list or a mapping: use plain names and codes.")
        if name in found:
            raise CodebookError(f"'{clean_name(name)}' occurs twice: keep one of them.")
        found[name] = value
    return found


def read_codebook(source: str | Path | Mapping[str, Any] | None) -> dict[str, Variable]:
    """Return the variables of the codebook by name; a mapping is used as the content of a codebook."""
    if source is None:
        return {}
    if isinstance(source, Mapping):
        return _variables(source, "codebook")
    path = Path(source)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if looks_like_xml(content) or path.suffix.lower() == ".xml":
            return _read_labels(content, str(path))
        text = content.decode("utf-8-sig")
        if path.suffix.lower() == ".json":
            book = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=_mapping)
        else:
            book = TextLoader(text).get_single_data()
        return _variables(book, str(path))
    except CodebookError as error:
        message = str(error)
        raise CodebookError(message if message.startswith(str(path)) else f"{path}: {message}") from None
    except FileNotFoundError:
        raise CodebookError(f"{path} does not exist: check the name of the codebook.") from None
    except OSError as error:
        raise CodebookError(f"{path} cannot be read ({error.strerror}): check its permissions.") from None
    except json.JSONDecodeError as error:
        raise CodebookError(f"{path} line {error.lineno} is not JSON ({error.msg}): correct it.") from None
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise CodebookError(f"{path}{line} is not YAML ({error.problem}): correct it.") from None
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        raise CodebookError(f"{path} is not YAML or JSON in UTF-8: save it as UTF-8 text.") from None


def settle_missing(book: Mapping[str, Variable], user_missing: Literal["keep", "blank"]) -> dict[str, Variable]:
    """Return the codebook with codes declared missing as categories, or as texts that mean missing."""
    return dict(book) if user_missing == "keep" else {name: _blank_missing(found) for name, found in book.items()}


def _blank_missing(variable: Variable) -> Variable:
    """Move codes declared missing from the categories to the texts that mean missing."""
    gone = set(variable.user_missing)
    labels = variable.labels or variable.categories
    kept = [(code, label) for code, label in zip(variable.categories, labels, strict=True) if code not in gone]
    return replace(
        variable,
        categories=tuple(code for code, _ in kept),
        labels=None if variable.labels is None else tuple(label for _, label in kept),
        missing=(*variable.missing, *variable.user_missing),
        user_missing=(),
    )


def _read_labels(content: bytes, where: str) -> dict[str, Variable]:
    """Return the variables of a DDI Codebook: like value labels of a file, they may leave out codes that occur."""
    book = {}
    for found in read_ddi(content, where):
        codes = _codes(found.name, [code for code, _ in found.categories], where)
        renamed = dict(zip((code for code, _ in found.categories), codes, strict=True))
        book[found.name] = Variable(
            found.name,
            codes,
            tuple(label for _, label in found.categories),
            marked=True if found.ordinal else None,
            partial=True,
            user_missing=tuple(renamed[code] for code in found.missing),
        )
    return book


def _variables(book: Any, where: str) -> dict[str, Variable]:
    if not isinstance(book, Mapping) or not book:
        raise CodebookError(f"{where} is not a codebook: write a line 'AGE: [1, 2, 3]' for each variable.")
    return {str(name): _variable(str(name), entry, where) for name, entry in book.items()}


def _variable(name: str, entry: Any, where: str) -> Variable:
    # A label is one text, so a list or a mapping below this name is no label.
    if isinstance(entry, Mapping) and isinstance(entry.get("categories"), list | tuple | Mapping):
        return _with_details(name, entry, where)
    if isinstance(entry, Mapping):
        labels = tuple(str(label) for label in entry.values())
        return Variable(name, _codes(name, entry, where), labels, declared=True)
    if isinstance(entry, str) or not isinstance(entry, Iterable):
        raise CodebookError(
            f"{where}: '{clean_name(name)}' must be a list of categories or a mapping from category to label."
        )
    return Variable(name, _codes(name, entry, where), declared=True)


def _with_details(name: str, entry: Mapping[str, Any], where: str) -> Variable:
    variable = _variable(name, entry["categories"], where)
    missing = entry.get("missing", ())
    if not isinstance(missing, list | tuple) or set(entry) - {"categories", "missing", "ordered"}:
        raise CodebookError(
            f"{where}: '{clean_name(name)}' may have 'categories', 'missing' with a list of codes, and 'ordered'."
        )
    ordered = code_text(entry["ordered"]).lower() if "ordered" in entry else None
    if ordered not in (None, "true", "false"):
        raise CodebookError(f"{where}: 'ordered' of '{clean_name(name)}' must be true or false.")
    texts = tuple(whole_number(code_text(code)) for code in missing)
    both = next((text for text in texts if text in variable.categories), None)
    if both is not None:
        raise CodebookError(
            f"{where}: '{clean_name(name)}' lists '{clean_name(both)}' both as a category and as missing: remove one."
        )
    return replace(variable, missing=texts, marked=None if ordered is None else ordered == "true")


def _codes(name: str, codes: Iterable[Any], where: str) -> tuple[str, ...]:
    found = tuple(whole_numbers([code_text(code) for code in codes]))
    name = clean_name(name)
    if not found:
        raise CodebookError(f"{where}: '{name}' has no category: list them, or leave the variable out.")
    if len(set(found)) < len(found):
        twice = next(code for place, code in enumerate(found) if code in found[:place])
        raise CodebookError(f"{where}: '{name}' lists the category '{clean_name(twice)}' twice: remove one.")
    return found


def whole_numbers(texts: list[str]) -> list[str]:
    """Write 1.0 as 1 if all texts are numbers, blanks aside."""
    if all(NUMBER.fullmatch(text) for text in texts if text):
        return [WHOLE.sub(r"\1", text) if WHOLE.fullmatch(text) else text for text in texts]
    return texts


def whole_number(text: str) -> str:
    """Write 1.0 as 1."""
    return whole_numbers([text])[0]


def code_text(code: Any) -> str:
    """Format a code as text: 1 and 1.0 as "1", True as "true"."""
    if isinstance(code, bool):
        return "true" if code else "false"
    if isinstance(code, float) and code.is_integer():
        return str(int(code))
    return str(code).strip()


def find_strangers(book: Mapping[str, Variable], header: Sequence[str], keys: Sequence[str] = ()) -> dict[str, str]:
    """Return the entries that are no column, each with the nearest column that has no entry, or "".

    A codebook may describe more than a file has; that of a study usually does, and its entries are not listed. But if
    an entry is a key without one but for a slip of the pen, the categories of that key would come from the records, and
    it is refused.
    """
    columns = {name.casefold(): name for name in header if name and name not in book}
    found = {}
    for entry, variable in book.items():
        if entry in header or variable.partial:
            continue
        key = next((name for name in keys if name not in book and _is_slip(entry, name)), None)
        if key is not None:
            raise CodebookError(
                f"the codebook describes '{clean_name(entry)}', which is no column, and nothing describes the key "
                f"'{key}': rename the entry, or remove it."
            )
        near = difflib.get_close_matches(entry.casefold(), columns, n=1, cutoff=NEAR)
        found[clean_name(entry)] = columns[near[0]] if near else ""
    return found


def describe_strangers(found: Mapping[str, str]) -> str:
    """Say which entries are no column; those with a near column first. Empty if there are none."""
    if not found:
        return ""
    ordered = sorted(found, key=lambda entry: not found[entry])
    words = [f"'{entry}'" + (f" (did you mean '{found[entry]}'?)" if found[entry] else "") for entry in ordered]
    verb = "is no column" if len(words) == 1 else "are no columns"
    return f"{first_few(words, NAMED_STRANGERS)} of the codebook {verb} of the file, and ignored"


def _is_slip(entry: str, name: str) -> bool:
    """Whether two names differ in capitals, spaces and the like only, or in a few letters, in no digit or ending."""
    one, other = (re.sub(r"[\W_]", "", text).casefold() for text in (entry, name))
    if one == other:
        return True
    if one.startswith(other) or other.startswith(one) or re.sub(r"\D", "", one) != re.sub(r"\D", "", other):
        return False
    return difflib.SequenceMatcher(None, one, other).ratio() >= SLIP
