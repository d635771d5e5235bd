"""Gzip, unpacked into memory with two limits, so that a small file cannot fill the machine."""

import gzip
import zlib
from pathlib import Path

from keyhole.errors import InputError

GZIP = b"\x1f\x8b"
BLOCK = 1 << 20
RATIO = 200  # tables shrink to a tenth or so; what shrinks this much is made to burst
GRACE = 8 * BLOCK  # tiny files may shrink more: a table of equal lines
LARGEST = 4 << 30


def unpack_gzip(path: Path, largest: int = LARGEST) -> bytes:
    """Return the content of a gzip file; nothing is written to disk."""
    pieces: list[bytes] = []
    size = 0
    try:
        with path.open("rb") as packed, gzip.GzipFile(fileobj=packed) as file:
            while block := file.read(BLOCK):
                pieces.append(block)
                size += len(block)
                if size > GRACE and size > RATIO * packed.tell():
                    raise InputError(
                        f"{path} unpacks to more than {RATIO} times its size, as no table does: "
                        "unpack it yourself if you trust it."
                    )
                if size > largest:
                    raise InputError(
                        f"{path} unpacks to more than {largest / 2**30:.3g} GB: "
                        "save the keys alone, or the table as Parquet."
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(f"{path} is not a readable gzip file: it may be cut off or damaged.") from None
    content = b"".join(pieces)
    if content.startswith(GZIP):
        raise InputError(f"{path} is gzip inside gzip: unpack it yourself.")
    return content
