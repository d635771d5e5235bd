"""Reading data: files and dataframes into Microdata, Microdata into integers for the sampler."""

from keyhole.microdata.codebook import read_codebook
from keyhole.microdata.encoding import CellCounts, count_cells, encode
from keyhole.microdata.inspection import Inspected, Inspection, inspect_source
from keyhole.microdata.options import SourceOptions
from keyhole.microdata.reading import read_microdata
from keyhole.microdata.variables import BLANK, Microdata, Variable

__all__ = [
    "BLANK",
    "CellCounts",
    "Inspected",
    "Inspection",
    "Microdata",
    "SourceOptions",
    "Variable",
    "count_cells",
    "encode",
    "inspect_source",
    "read_codebook",
    "read_microdata",
]
