"""Rules in YAML: `impossible:`, mappings and expressions, and `rules:`, in the layout of R's validate.

The text is only parsed into nodes (yaml.compose with the safe loader); no value is ever constructed from it.
So every entry keeps its line, and `no` or `01` stay the text that the user wrote.
"""

from collections.abc import Iterator

import yaml

from keyhole.errors import RulesError
from keyhole.zeros.boxes import Box, is_empty
from keyhole.zeros.expression import Value, parse_expression
from keyhole.zeros.rule import Rule, make_rule
from keyhole.zeros.table import split_entry
from keyhole.zeros.translate import to_boxes
from keyhole.zeros.vocabulary import Vocabulary, show

LENGTH_LIMIT = 1_000_000
_VALIDATE_FIELDS = (
    "expr",
    "name",
    "label",
    "description",
    "created",
    "origin",
    "meta",
    "severity",
    "language",
)
_REMEDY = "see 'keyhole zeros check --help' for an example"


def read_document(text: str, file_name: str, vocabulary: Vocabulary) -> list[Rule]:
    """Read the rules of a YAML document."""
    rules: list[Rule] = []
    for key, node in _pairs(_compose(text, file_name), file_name):
        if key not in ("impossible", "rules", "options"):
            raise RulesError(
                f"{_at(node, file_name)}: expected 'impossible:' or 'rules:', not '{show(key)}'; {_REMEDY}."
            )
        if key == "options":  # settings of validate itself
            continue
        for item in _items(node, file_name):
            read = _read_impossible if key == "impossible" else _read_requirement
            rules.append(read(item, file_name, f"rule {len(rules) + 1}", vocabulary))
    _refuse_equal_names(rules)
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
    """Read a mapping of variables to categories, or an expression that no record can meet."""
    where = _at(node, file_name)
    if isinstance(node, yaml.ScalarNode):
        return make_rule(vocabulary, name, where, to_boxes(parse_expression(node.value, where), vocabulary, where))
    box: Box = vocabulary.grid.full
    pairs = list(_pairs(node, file_name))
    if not pairs:
        raise RulesError(f"{where}: the rule is empty, which would make every combination impossible; take it out.")
    for variable, values in pairs:
        chosen = list(_categories(values, variable, file_name, vocabulary))
        place = f"{_at(values, file_name)}, '{show(variable)}'"
        if not chosen:
            raise RulesError(
                f"{place}: expected at least one category; leave the variable out where it may be anything."
            )
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
    """Read an expression that every record must meet: what does not meet it is impossible."""
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
    """Yield the entries of a mapping, each key once."""
    if not isinstance(node, yaml.MappingNode):
        raise RulesError(f"{_at(node, file_name)}: expected 'name: value' entries; {_REMEDY}.")
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise RulesError(f"{_at(key, file_name)}: expected a name before the colon; {_REMEDY}.")
        if key.value in seen:
            raise RulesError(f"{_at(key, file_name)}: '{show(key.value)}' is there twice; join the two entries.")
        seen.add(key.value)
        yield key.value, value


def _items(node: yaml.Node, file_name: str) -> list[yaml.Node]:
    """List the entries of a sequence; nothing at all counts as an empty one."""
    if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise RulesError(f"{_at(node, file_name)}: expected a list, each rule on a line that begins with '- '.")
    return list(node.value)


def _refuse_equal_names(rules: list[Rule]) -> None:
    first: dict[str, Rule] = {}
    for rule in rules:
        other = first.setdefault(rule.name, rule)
        if other is not rule:
            raise RulesError(f"{rule.source}: the name '{show(rule.name)}' is taken by {other.source}; change one.")


def _at(node: yaml.Node, file_name: str) -> str:
    return f"{file_name}, line {node.start_mark.line + 1}"
