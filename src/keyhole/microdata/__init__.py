"""Reading data: files and dataframes into Microdata, Microdata into integers for the sampler."""

from keyhole.microdata.codebook import read_codebook
from keyhole.microdata.encoding import CellCounts, count_cells, encode
from keyhole.microdata.reading import read_microdata
from keyhole.microdata.variables import BLANK, Microdata, Variable

__all__ = [
    "BLANK",
    "CellCounts",
    "Microdata",
    "Variable",
    "count_cells",
    "encode",
    "read_codebook",
    "read_microdata",
]
