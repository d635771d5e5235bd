"""Structural zeros: rules as disjoint boxes of impossible cells, checks against the data, and suggested rules."""

from keyhole.zeros.contradictions import check_zeros, describe_contradictions, find_contradictions
from keyhole.zeros.public import Boxes, Check, boxes, check, suggest
from keyhole.zeros.rule_files import RuleSource, rule_text
from keyhole.zeros.suggest import format_suggestions, suggest_zeros
from keyhole.zeros.zeros import Zeros, add_levels, list_boxes, read_zeros, tabulate_boxes

__all__ = [
    "Boxes",
    "Check",
    "RuleSource",
    "Zeros",
    "add_levels",
    "boxes",
    "check",
    "check_zeros",
    "describe_contradictions",
    "find_contradictions",
    "format_suggestions",
    "list_boxes",
    "read_zeros",
    "rule_text",
    "suggest",
    "suggest_zeros",
    "tabulate_boxes",
]
