"""From a condition to the boxes of cells that meet it.

Negation is pushed down to the comparisons (De Morgan), so every step is a union or an intersection of boxes.
"""

from keyhole.errors import RulesError
from keyhole.zeros.boxes import Box, meets
from keyhole.zeros.cover import BOX_LIMIT, simplify
from keyhole.zeros.expression import And, Comparison, Condition, Not, Or, Value
from keyhole.zeros.vocabulary import EMPTY, Vocabulary

_OPPOSITE = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "in": "not in",
    "not in": "in",
}
_MIRROR = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def to_boxes(condition: Condition, vocabulary: Vocabulary, where: str, negated: bool = False) -> list[Box]:
    """Return boxes, possibly overlapping, of the cells that meet the condition (do not, when negated)."""
    if isinstance(condition, Not):
        return to_boxes(condition.operand, vocabulary, where, not negated)
    if isinstance(condition, Comparison):
        return _compare(condition, vocabulary, where, negated)
    parts = [to_boxes(operand, vocabulary, where, negated) for operand in condition.operands]
    if isinstance(condition, Or) != negated:
        return _checked(simplify(vocabulary.grid, [box for part in parts for box in part]), where)
    assert isinstance(condition, And | Or)
    return _intersect(parts, vocabulary, where)


def _compare(comparison: Comparison, vocabulary: Vocabulary, where: str, negated: bool) -> list[Box]:
    name, operator, values = comparison.name, comparison.operator, comparison.values
    mirrored = operator in _MIRROR and not vocabulary.knows(name) and vocabulary.knows(values[0].text)
    if mirrored:
        name, operator, values = values[0].text, _MIRROR[operator], (Value(name, None, comparison.position),)
    if negated:
        operator = _OPPOSITE[operator]
    place = where if vocabulary.knows(name) else f"{where}, position {comparison.position}"
    box = vocabulary.select(name, operator, values, place)
    return [] if box == EMPTY else [box]


def _intersect(parts: list[list[Box]], vocabulary: Vocabulary, where: str) -> list[Box]:
    """Multiply unions out, the short ones first, simplifying after each."""
    grid = vocabulary.grid
    product = [grid.full]
    for part in sorted(parts, key=len):
        if len(product) * len(part) > 20 * BOX_LIMIT:
            raise _too_many(where)
        both = {a & b: None for a in product for b in part if meets(grid, a, b)}
        product = _checked(simplify(grid, list(_checked(list(both), where))), where)
    return product


def _checked(boxes: list[Box], where: str) -> list[Box]:
    if len(boxes) > BOX_LIMIT:
        raise _too_many(where)
    return boxes


def _too_many(where: str) -> RulesError:
    return RulesError(
        f"{where}: the expression describes more than {BOX_LIMIT:,} separate boxes of cells; "
        "split it into simpler rules, or use fewer 'or' inside 'and'."
    )
