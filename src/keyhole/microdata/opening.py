"""Look at a file before reading it: does it exist, what is it really, how is its text encoded."""

import codecs
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from keyhole.errors import InputError

PARQUET_ENDINGS = frozenset({".parquet", ".pq"})
LATER_ENDINGS = frozenset({".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt", ".xlsx", ".xls", ".ods"})
SIGNATURES = {
    b"PAR1": "Parquet",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\x1f\x8b": "gzip",
    b"$FL": "SPSS",
    b"<stata_dta>": "Stata",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF document",
}
BLOCK = 1 << 20
# Bytes that no text in UTF-8, Latin-1 or Windows-1252 holds: all control characters but TAB, LF, VT, FF, CR.
CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r"))


@dataclass(frozen=True)
class OpenedFile:
    """A file that was read through once. `encoding` is empty for Parquet."""

    path: Path
    kind: Literal["parquet", "text"]
    encoding: str
    fingerprint: str


def open_file(path: Path) -> OpenedFile:
    """Read the file through once: refuse what cannot be a table, find its encoding, hash its bytes."""
    start = _read_start(path)
    if not start:
        raise InputError(f"{path} is empty: a header line and records are needed.")
    content = next((name for sign, name in SIGNATURES.items() if start.startswith(sign)), None)
    ending = path.suffix.lower()
    if ending in PARQUET_ENDINGS and content != "Parquet":
        raise InputError(f"{path} is not Parquet, although its name ends in {ending}: for text, rename it to .csv.")
    if ending in LATER_ENDINGS:
        raise InputError(f"{path}: files that end in {ending} cannot be read yet; save the table as CSV or Parquet.")
    if content == "Parquet" and ending in {".csv", ".tsv", ".txt", ".tab"}:
        raise InputError(f"{path} is Parquet, although its name ends in {ending}: rename it to .parquet.")
    if content not in (None, "Parquet"):
        raise InputError(f"{path} is {content}, not a table in CSV or Parquet: save it as one of those.")
    kind: Literal["parquet", "text"] = "parquet" if content else "text"
    encoding, fingerprint = _read_through(path, kind, start)
    return OpenedFile(path, kind, encoding, fingerprint)


def _read_start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check the name and the folder.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name the file in it.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid name"
        raise InputError(f"{path} cannot be read: {reason}.") from None


def _read_through(path: Path, kind: str, start: bytes) -> tuple[str, str]:
    """Return the encoding and the SHA-256, holding one block at a time."""
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    utf8, control = True, False
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            if kind == "text" and not wide:
                control = control or len(block.translate(None, CONTROL)) != len(block)
                utf8 = utf8 and _decodes(decoder, block)
    if kind == "parquet":
        return "", digest.hexdigest()
    if control:
        raise InputError(f"{path} is not text, although it should be a table in CSV: save the table as CSV or Parquet.")
    if wide:
        return "utf-16", digest.hexdigest()
    utf8 = utf8 and _decodes(decoder, b"", final=True)
    return "utf-8-sig" if utf8 else "windows-1252", digest.hexdigest()


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True
