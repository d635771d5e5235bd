"""Impossible combinations by listing every cell of the table. Imports nothing from keyhole.

A condition is a nested tuple: ("is", variable, categories), ("not", condition), ("and", conditions) or
("or", conditions).
"""

import itertools


def all_cells(levels):
    """Every cell of the table, as tuples of categories."""
    return list(itertools.product(*(range(size) for size in levels)))


def holds(condition, cell):
    """Whether a cell meets a condition."""
    kind = condition[0]
    if kind == "is":
        _, variable, categories = condition
        return cell[variable] in categories
    if kind == "not":
        return not holds(condition[1], cell)
    if kind == "and":
        return all(holds(part, cell) for part in condition[1])
    assert kind == "or"
    return any(holds(part, cell) for part in condition[1])


def impossible_cells(levels, conditions):
    """The cells that meet at least one condition."""
    return {cell for cell in all_cells(levels) if any(holds(condition, cell) for condition in conditions)}


def cells_of_rows(levels, rows):
    """The cells of boxes given as rows of 0 and 1 over all levels; a cell in two boxes is listed twice."""
    found = []
    for row in rows:
        sets = []
        start = 0
        for size in levels:
            sets.append([x for x in range(size) if row[start + x] == 1])
            start += size
        found += itertools.product(*sets)
    return found


def fillings(levels, record):
    """The cells that a record with blanks (-1) may be."""
    return [
        cell for cell in all_cells(levels) if all(answer in (-1, x) for answer, x in zip(record, cell, strict=True))
    ]


def redundant_rules(levels, conditions):
    """The rules that can go, looking from the last to the first, so that the same cells stay impossible."""
    kept = list(range(len(conditions)))
    gone = []
    for i in reversed(range(len(conditions))):
        rest = [k for k in kept if k != i]
        own = impossible_cells(levels, [conditions[i]])
        if own <= impossible_cells(levels, [conditions[k] for k in rest]):
            kept = rest
            gone.append(i)
    return set(gone)
