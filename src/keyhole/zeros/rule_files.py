"""Read rules from a table or from YAML.

A table has one column for each key variable and one rule on each line; blank or * means any category. An entry is a
category by code or label or, if it is not one itself, a list `1;2` or a range `1-3`.

YAML has mappings and expressions under `impossible:`, and requirements in the layout of R's validate under `rules:`.
It is only parsed into nodes (yaml.compose with the safe loader), so that no value is constructed from it, every entry
keeps its line number, and `no` and `01` remain text.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from keyhole.errors import RulesError
from keyhole.zeros.boxes import Box, is_empty
from keyhole.zeros.expression import Value, parse_expression
from keyhole.zeros.vocabulary import Vocabulary, describe_union, show, to_boxes

ANY = ("", "*")
TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
DOCUMENT_ENDINGS = (".yaml", ".yml", ".json")
SIZE_LIMIT = 20_000_000
LENGTH_LIMIT = 1_000_000
RULE_LIMIT = 50_000
_DELIMITERS = (",", "\t", ";", "|")
_VALIDATE_FIELDS = ["expr", "name", "label", "description", "created", "origin", "meta", "severity", "language"]
_REMEDY = "see 'keyhole zeros check --help' for an example"


@dataclass(frozen=True)
class Rule:
    """A set of impossible combinations.

    name: as given, or "rule 1", "rule 2", ... in the order of the file; source: file and line.
    words: the impossible combinations in words; label: the author's explanation, or empty.
    boxes: the impossible cells; boxes may overlap, and there are none if no cell meets the rule.
    """

    name: str
    source: str
    words: str
    label: str
    boxes: tuple[Box, ...]


def make_rule(vocabulary: Vocabulary, name: str, source: str, boxes: Sequence[Box], label: str = "") -> Rule:
    words = describe_union(vocabulary.variables, vocabulary.grid, boxes)
    return Rule(name, source, words, label, tuple(boxes))


def read_table(text: str, file_name: str, vocabulary: Vocabulary) -> list[Rule]:
    rules: list[Rule] = []
    # The delimiter is looked for in the header only, since entries may be lists.
    first = next((line for line in text.splitlines() if line.strip()), "")
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(_DELIMITERS, key=first.count), strict=True)
        header: list[str] | None = None
        for row in reader:
            where = f"{file_name}, line {reader.line_num}"
            if all(not entry.strip() for entry in row):
                continue
            if header is None:
                header = _read_header(row, where, vocabulary)
            else:
                rules.append(_read_row(row, header, where, f"rule {len(rules) + 1}", vocabulary))
    except csv.Error:
        raise RulesError(
            f"{file_name}: the table cannot be read as delimited text near line {reader.line_num}; "
            "check its quotes, or save it again as CSV."
        ) from None
    if header is None:
        raise RulesError(f"{file_name}: the table is empty; its first line names key variables.")
    return rules


def _read_header(row: list[str], where: str, vocabulary: Vocabulary) -> list[str]:
    names = [entry.strip() for entry in row]
    for column, name in enumerate(names, start=1):
        vocabulary.require(name, f"{where}, column {column}")
        if name in names[: column - 1]:
            raise RulesError(f"{where}, column {column}: '{show(name)}' heads two columns; leave one out.")
    return names


def _read_row(row: list[str], header: list[str], where: str, name: str, vocabulary: Vocabulary) -> Rule:
    if len(row) != len(header):
        raise RulesError(
            f"{where}: expected {len(header)} entries, found {len(row)}; leave an entry blank for any category."
        )
    box: Box = vocabulary.grid.full
    for variable, entry in zip(header, row, strict=True):
        if entry.strip() not in ANY or (entry.strip() and vocabulary.is_category(variable, entry.strip())):
            values = split_entry(entry, variable, vocabulary)
            box &= vocabulary.select(variable, "in", values, f"{where}, column '{show(variable)}'")
    boxes = [] if is_empty(vocabulary.grid, box) else [box]
    return make_rule(vocabulary, name, where, boxes)


def split_entry(entry: str, variable: str, vocabulary: Vocabulary) -> list[Value]:
    """Read an entry as one category if it is one, else as a list separated by semicolons."""
    if vocabulary.is_category(variable, entry.strip()):
        return [Value(entry.strip())]
    return [Value(part.strip()) for part in entry.split(";")]


def read_document(text: str, file_name: str, vocabulary: Vocabulary) -> list[Rule]:
    rules: list[Rule] = []
    for key, node in _pairs(_compose(text, file_name), file_name):
        if key not in ("impossible", "rules", "options"):
            raise RulesError(
                f"{_at(node, file_name)}: expected 'impossible:' or 'rules:', not '{show(key)}'; {_REMEDY}."
            )
        if key == "options":  # settings for validate
            continue
        for item in _items(node, file_name):
            read = _read_impossible if key == "impossible" else _read_requirement
            rules.append(read(item, file_name, f"rule {len(rules) + 1}", vocabulary))
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.name, rule)
        if other is not rule:
            raise RulesError(f"{rule.source}: the name '{show(rule.name)}' is taken by {other.source}; change one.")
    return rules


def _compose(text: str, file_name: str) -> yaml.Node:
    if len(text) > LENGTH_LIMIT:
        raise RulesError(f"{file_name}: more than {LENGTH_LIMIT:,} characters of rules; write a table (CSV).")
    node: yaml.Node | None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, position {mark.column + 1}" if mark else ""
        raise RulesError(f"{file_name}{place}: this is not YAML; check indents, quotes and brackets.") from None
    except (yaml.YAMLError, ValueError):
        raise RulesError(f"{file_name}: this is not YAML; save it as plain text in UTF-8.") from None
    except RecursionError:
        raise RulesError(f"{file_name}: the YAML is nested too deep; {_REMEDY}.") from None
    if node is None:
        raise RulesError(f"{file_name}: expected 'impossible:' or 'rules:', found nothing; {_REMEDY}.")
    return node


def _read_impossible(node: yaml.Node, file_name: str, name: str, vocabulary: Vocabulary) -> Rule:
    """Read a mapping from variables to categories, or an expression that no record can meet."""
    where = _at(node, file_name)
    if isinstance(node, yaml.ScalarNode):
        return make_rule(vocabulary, name, where, to_boxes(parse_expression(node.value, where), vocabulary, where))
    box: Box = vocabulary.grid.full
    pairs = list(_pairs(node, file_name))
    if not pairs:
        raise RulesError(f"{where}: the rule is empty, which would make every combination impossible; remove it.")
    for variable, values in pairs:
        chosen = list(_categories(values, variable, file_name, vocabulary))
        place = f"{_at(values, file_name)}, '{show(variable)}'"
        if not chosen:
            raise RulesError(f"{place}: expected at least one category; omit the variable if it may have any.")
        box &= vocabulary.select(variable, "in", chosen, place)
    return make_rule(vocabulary, name, where, [] if is_empty(vocabulary.grid, box) else [box])


def _categories(node: yaml.Node, variable: str, file_name: str, vocabulary: Vocabulary) -> Iterator[Value]:
    """Yield the categories of a scalar (one, or a range) or of a list of scalars."""
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for item in items:
        if not isinstance(item, yaml.ScalarNode):
            raise RulesError(
                f"{_at(item, file_name)}: expected a category or a list of categories of '{show(variable)}'."
            )
        yield from split_entry(item.value, variable, vocabulary)


def _read_requirement(node: yaml.Node, file_name: str, name: str, vocabulary: Vocabulary) -> Rule:
    """Read an expression that every record must meet; all other combinations are impossible."""
    where = _at(node, file_name)
    fields: dict[str, str] = {}
    if isinstance(node, yaml.ScalarNode):
        fields["expr"] = node.value
    else:
        for key, value in _pairs(node, file_name):
            if key not in _VALIDATE_FIELDS:
                known = "expr, name, label or description"
                raise RulesError(f"{_at(value, file_name)}: expected {known}, not '{show(key)}'; correct the field.")
            if key in ("expr", "name", "label", "description"):
                if not isinstance(value, yaml.ScalarNode):
                    raise RulesError(f"{_at(value, file_name)}: expected text after '{key}:'; put it between quotes.")
                fields[key] = value.value
                where = _at(value, file_name) if key == "expr" else where
    if "expr" not in fields:
        raise RulesError(f"{where}: expected 'expr:' with what must hold; {_REMEDY}.")
    boxes = to_boxes(parse_expression(fields["expr"], where), vocabulary, where, negated=True)
    label = fields.get("label") or fields.get("description") or ""
    return make_rule(vocabulary, fields.get("name") or name, where, boxes, label)


def _pairs(node: yaml.Node, file_name: str) -> Iterator[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        raise RulesError(f"{_at(node, file_name)}: expected 'name: value' entries; {_REMEDY}.")
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise RulesError(f"{_at(key, file_name)}: expected a name before the colon; {_REMEDY}.")
        if key.value in seen:
            raise RulesError(f"{_at(key, file_name)}: '{show(key.value)}' is there twice; merge the two entries.")
        seen.add(key.value)
        yield key.value, value


def _items(node: yaml.Node, file_name: str) -> list[yaml.Node]:
    if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise RulesError(f"{_at(node, file_name)}: expected a list, each rule on a line that begins with '- '.")
    return list(node.value)


def _at(node: yaml.Node, file_name: str) -> str:
    return f"{file_name}, line {node.start_mark.line + 1}"


RuleSource = str | Path | Mapping[str, Any] | Sequence[Any]
"""A file of rules, the content of a YAML file, or a list of what is impossible: expressions and mappings."""


def rule_text(source: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return rules that are given as values as the text of a YAML document: JSON is YAML."""

    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, default=lambda found: found.item())

    try:
        if isinstance(source, Mapping):
            return dump(source)
        # A rule of a list stands on the line of its number, which messages name.
        return '{"impossible": [' + ",\n".join(map(dump, source)) + "]}"
    except (TypeError, ValueError, AttributeError):
        raise RulesError("`zeros`: rules must be text, numbers, lists and mappings, as in a YAML file.") from None


def read_rules(source: RuleSource, vocabulary: Vocabulary) -> tuple[Rule, ...]:
    if not isinstance(source, str | Path):
        return _check_number("`zeros`", read_document(rule_text(source), "`zeros`", vocabulary))
    path = Path(source)
    name = show(path.name)
    ending = path.suffix.lower()
    if ending not in TABLE_ENDINGS + DOCUMENT_ENDINGS:
        raise RulesError(f"{name}: expected a table (.csv, .tsv) or YAML (.yaml, .yml) of rules; rename the file.")
    text = _read_text(path, name)
    read = read_table if ending in TABLE_ENDINGS else read_document
    return _check_number(name, read(text, name, vocabulary))


_COMMENTED = re.compile(r"""^\s*#\s*- ["'{\[]""", re.MULTILINE)


def count_commented(path: Path) -> int:
    """Return how many entries of a YAML file are comments, as suggestions are until a person accepts them."""
    return 0 if path.suffix.lower() in TABLE_ENDINGS else len(_COMMENTED.findall(_read_text(path, show(path.name))))


def _check_number(name: str, rules: Iterable[Rule]) -> tuple[Rule, ...]:
    rules = tuple(rules)
    if len(rules) > RULE_LIMIT:
        raise RulesError(
            f"{name}: more than {RULE_LIMIT:,} rules; join those that differ in one variable (1;2 or 1-3)."
        )
    return rules


def _read_text(path: Path, name: str) -> str:
    """Read text in UTF-8, in UTF-16 if it has a byte order mark, or else in Windows-1252."""
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise RulesError(f"{name}: larger than {SIZE_LIMIT // 1_000_000} MB; check that it is a file of rules.")
        raw = path.read_bytes()
    except OSError as error:
        raise RulesError(f"{name}: cannot be read ({error.strerror}); check the path and its permissions.") from None
    encodings = ["utf-16"] if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise RulesError(f"{name}: this is not a text file; save the rules as CSV or YAML in UTF-8.")
