"""DDI Codebook (DDI-C 2.x, with or without its namespace): the categories of each variable with their labels.

    <var name="SEX" nature="nominal"><catgry><catValu>1</catValu><labl>Male</labl></catgry>
                                     <catgry missing="Y"><catValu>9</catValu><labl>Not stated</labl></catgry></var>

The parser is the standard library's behind defusedxml: a file that declares entities, or refers to others, is refused.
"""

import io
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from keyhole.errors import CodebookError
from keyhole.words import clean_name

MOST_BYTES = 256 << 20
MOST_DEPTH = 100
"""Deepest nesting of elements; that of a codebook is below 20."""

YES = frozenset({"y", "yes", "true", "1"})


class Described(NamedTuple):
    """A variable: codes and labels of its categories, in order, those that mean missing, and whether it is ordinal."""

    name: str
    categories: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]
    ordinal: bool


def looks_like_xml(content: bytes) -> bool:
    """Whether this is XML: no codebook in YAML or JSON begins with an angle bracket."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def read_ddi(content: bytes, where: str) -> list[Described]:
    """Return the variables that have categories, in the order of the file."""
    if len(content) > MOST_BYTES:
        raise CodebookError(f"{where} is larger than {MOST_BYTES >> 20} MB: keep the <var> elements of the keys only.")
    found: dict[str, Described] = {}
    depth, within = 0, 0
    try:
        for event, element in iterparse(io.BytesIO(content), events=("start", "end")):
            is_variable = _tag(element) == "var"
            if event == "start":
                depth, within = depth + 1, within + is_variable
                if depth > MOST_DEPTH:
                    raise CodebookError(f"{where} is nested too deeply to be a DDI Codebook: export it again.")
                continue
            depth -= 1
            if is_variable:
                within -= 1
                _add(found, _describe(element, where), where)
            if not within:
                element.clear()
    except DefusedXmlException:
        raise CodebookError(
            f"{where} declares entities or refers to other files, which is refused: export it without them."
        ) from None
    except ParseError as error:
        raise CodebookError(f"{where} line {error.position[0]} is not XML: export the codebook again.") from None
    except (ValueError, LookupError):
        raise CodebookError(f"{where} is not XML in an encoding that can be read: save it as UTF-8.") from None
    if not found:
        raise CodebookError(
            f"{where} describes no variable with categories: a DDI Codebook of version 2 has <var> with <catgry>."
        )
    return list(found.values())


def _add(found: dict[str, Described], variable: Described, where: str) -> None:
    """Add a variable with categories; files of one study may share it."""
    if not variable.categories:
        return
    if not variable.name:
        raise CodebookError(f"{where} has a <var> without a name: add it.")
    if found.setdefault(variable.name, variable) != variable:
        raise CodebookError(
            f"{where} describes '{clean_name(variable.name)}' twice with different categories: keep one of them."
        )


def _describe(element: Element, where: str) -> Described:
    pairs, missing = [], []
    for category in element:
        if _tag(category) != "catgry":
            continue
        code = _text(category, "catValu")
        if not code:
            continue
        pairs.append((code, _text(category, "labl") or code))
        if category.get("missing", "").strip().lower() in YES:
            missing.append(code)
    name = element.get("name", "").strip()
    return Described(name, tuple(pairs), tuple(missing), element.get("nature", "").strip().lower() == "ordinal")


def _text(category: Element, tag: str) -> str:
    """Return the text of the first child with this tag, also of what is marked up in it; spaces count as one."""
    for child in category:
        if _tag(child) == tag:
            return " ".join("".join(child.itertext()).split())
    return ""


def _tag(element: Any) -> str:
    """Return the name of an element without its namespace; of a comment, nothing."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
