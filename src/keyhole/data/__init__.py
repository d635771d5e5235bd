"""Read files, databases and dataframes into Microdata, and encode Microdata as integers for the sampler."""

from keyhole.data.cells import CellCounts, count_cells, count_records, encode, find_cells
from keyhole.data.codebook import read_codebook, settle_missing
from keyhole.data.columns import SourceOptions
from keyhole.data.inspection import Inspected, Inspection, inspect
from keyhole.data.microdata import read_microdata
from keyhole.data.variables import BLANK, Microdata, Variable

__all__ = [
    "BLANK",
    "CellCounts",
    "Inspected",
    "Inspection",
    "Microdata",
    "SourceOptions",
    "Variable",
    "count_cells",
    "count_records",
    "encode",
    "find_cells",
    "inspect",
    "read_codebook",
    "read_microdata",
    "settle_missing",
]
