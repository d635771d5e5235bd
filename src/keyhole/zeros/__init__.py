"""Impossible combinations: rules -> boxes -> disjoint boxes; checks against the data; suggestions."""

from keyhole.zeros.check import RuleCheck, ZerosCheck, check_zeros
from keyhole.zeros.contradictions import (
    Contradictions,
    RuleContradiction,
    describe_contradictions,
    find_contradictions,
)
from keyhole.zeros.rule import Rule
from keyhole.zeros.suggest import Suggestion, Suggestions, suggest_zeros
from keyhole.zeros.suggestion_file import format_suggestions
from keyhole.zeros.zeros import BoxLine, Zeros, list_boxes, list_possible_boxes, read_zeros, tabulate_boxes

__all__ = [
    "BoxLine",
    "Contradictions",
    "Rule",
    "RuleCheck",
    "RuleContradiction",
    "Suggestion",
    "Suggestions",
    "Zeros",
    "ZerosCheck",
    "check_zeros",
    "describe_contradictions",
    "find_contradictions",
    "format_suggestions",
    "list_boxes",
    "list_possible_boxes",
    "read_zeros",
    "suggest_zeros",
    "tabulate_boxes",
]
