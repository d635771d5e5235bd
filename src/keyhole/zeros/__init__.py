"""Structural zeros: rules as disjoint boxes of impossible cells, checks against the data, and suggested rules."""

from keyhole.zeros.contradictions import (
    Contradictions,
    RuleCheck,
    RuleContradiction,
    ZerosCheck,
    check_zeros,
    describe_contradictions,
    find_contradictions,
)
from keyhole.zeros.rule_files import Rule, RuleSource, rule_text
from keyhole.zeros.suggest import Suggestion, Suggestions, format_suggestions, suggest_zeros
from keyhole.zeros.zeros import BoxLine, Zeros, list_boxes, list_possible_boxes, read_zeros, tabulate_boxes

__all__ = [
    "BoxLine",
    "Contradictions",
    "Rule",
    "RuleCheck",
    "RuleContradiction",
    "RuleSource",
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
    "rule_text",
    "suggest_zeros",
    "tabulate_boxes",
]
