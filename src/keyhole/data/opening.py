"""Open a file: check that it exists, detect its format by its first bytes, and find the encoding of text.

Gzip is unpacked into memory within limits, so that a small file cannot exhaust it.
"""

import codecs
import gzip
import hashlib
import shlex
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from keyhole.errors import InputError
from keyhole.files import sha256

PARQUET_ENDINGS = frozenset({".parquet", ".pq"})
TEXT_ENDINGS = frozenset({".csv", ".tsv", ".txt", ".tab"})
SPREADSHEET_ENDINGS = frozenset({".xlsx", ".xls", ".ods"})
PROGRAMS = {".sav": "SPSS", ".zsav": "SPSS", ".por": "SPSS", ".dta": "Stata", ".sas7bdat": "SAS", ".xpt": "SAS"}
SIGNATURES = {
    b"PAR1": "Parquet",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\x1f\x8b": "gzip",
    b"$FL": "SPSS",
    b"<stata_dta>": "Stata",
    b"HEADER RECORD*******": "SAS",
    b"\0" * 12 + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c\x18\x1f\x10\x11": "SAS",
    b"SQLite format 3\0": "an SQLite database",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF document",
}
GZIP = b"\x1f\x8b"
START = 32
# Stata files before version 13 begin with the number of their format, SPSS .por files with a banner.
OLD_STATA = frozenset({105, 108, 110, 111, 112, 113, 114, 115})
XPT_CARD = 80  # a transport file is made of cards of 80 bytes, as on tape
BLOCK = 1 << 20
RATIO = 200  # far above the compression of any ordinary table, so the file may be a decompression bomb
GRACE = 8 * BLOCK  # small files of repeated lines may exceed the ratio
LARGEST = 4 << 30
# Bytes absent from text in UTF-8, Latin-1 and Windows-1252: all control characters but TAB, LF, VT, FF, CR.
CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r"))


@dataclass(frozen=True)
class OpenedFile:
    """A file and its format.

    kind: "text", "parquet", or the file extension of a statistical package; encoding: of text, else empty.
    parts: the Parquet files of a folder, by name.
    content: the uncompressed text of a gzip file; lone_returns: some lines may end with CR alone.
    """

    path: Path
    kind: str
    encoding: str
    fingerprint: str
    content: bytes | None = field(default=None, repr=False)
    lone_returns: bool = False
    parts: tuple[Path, ...] = ()


def open_file(path: Path) -> OpenedFile:
    """Refuse files that cannot be a table; return the format, the encoding and the hash of others."""
    if path.is_dir():
        return _open_folder(path)
    start = _read_start(path)
    if not start:
        raise InputError(f"{path} is empty: a header line and records are needed.")
    found = next((name for signature, name in SIGNATURES.items() if start.startswith(signature)), None)
    ending = path.suffix.lower()
    if ending in PROGRAMS:
        _refuse_other_program(path, ending, start, found)
        return OpenedFile(path, ending, "", sha256(path))
    _refuse_false_name(path, ending, found)
    if found == "Parquet":
        return OpenedFile(path, "parquet", "", sha256(path))
    content = unpack_gzip(path) if start.startswith(GZIP) else None
    encoding, lone_returns = _read_through(path, start if content is None else content[:START], content)
    return OpenedFile(path, "text", encoding, sha256(path), content, lone_returns)


def refuse_unreadable(path: Path) -> None:
    """Refuse a path that cannot be opened, without a look at what it holds."""
    if not path.is_dir():
        _read_start(path)


def _open_folder(folder: Path) -> OpenedFile:
    """Return the Parquet files of a folder; names that start with a point or underscore are a writer's notes."""
    try:
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}): check its permissions.") from None
    parts = tuple(path for path in inside if path.suffix.lower() in PARQUET_ENDINGS)
    if not parts:
        raise InputError(f"{folder} is a folder without Parquet files: name the file in it.")
    if len(parts) < len(inside):
        other = next(path for path in inside if path not in parts)
        raise InputError(
            f"{folder} holds '{other.name}', which is not Parquet: keep only the parts of one table in it."
        )
    digest = hashlib.sha256()
    for part in parts:
        digest.update(open_file(part).fingerprint.encode())
    return OpenedFile(folder, "parquet", "", digest.hexdigest(), parts=parts)


def _refuse_other_program(path: Path, ending: str, start: bytes, found: str | None) -> None:
    program = PROGRAMS[ending]
    old = (ending == ".dta" and start[0] in OLD_STATA) or ending == ".por"
    if found != program and not (old and found is None):
        raise InputError(
            f"{path} is not {program}, although its name ends in {ending}: give it the extension of its format."
        )
    if ending == ".xpt" and path.stat().st_size % XPT_CARD:
        raise InputError(f"{path} is not a readable SAS file: it is truncated; export it again.")


def _refuse_false_name(path: Path, ending: str, found: str | None) -> None:
    if ending in PARQUET_ENDINGS and found != "Parquet":
        raise InputError(f"{path} is not Parquet, although its name ends in {ending}: for text, rename it to .csv.")
    if ending in SPREADSHEET_ENDINGS:
        raise InputError(f"{path}: spreadsheets ({ending}) cannot be read: save it as CSV.")
    if found == "an SQLite database":
        url = shlex.quote(f"sqlite:///{path.name}")
        raise InputError(f"{path} is {found}: name it with `url` {url} and select its rows with `query`.")
    if found == "Parquet" and ending in TEXT_ENDINGS:
        raise InputError(f"{path} is Parquet, although its name ends in {ending}: rename it to .parquet.")
    if found in PROGRAMS.values():
        endings = " or ".join(name for name, program in PROGRAMS.items() if program == found)
        raise InputError(f"{path} is a file of {found}, although its name ends otherwise: rename it to {endings}.")
    if found not in (None, "Parquet", "gzip"):
        raise InputError(f"{path} is {found}, not a table in CSV or Parquet: save it as CSV.")


def _read_start(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path} is not a regular file: save its content as one.")
        with path.open("rb") as file:
            return file.read(START)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check the name and the folder.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name the file in it.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid name"
        raise InputError(f"{path} cannot be read ({reason}): check its name and permissions.") from None


def _blocks(path: Path, content: bytes | None) -> Iterator[bytes]:
    if content is not None:
        yield from (content[place : place + BLOCK] for place in range(0, len(content), BLOCK))
        return
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block


def _read_through(path: Path, start: bytes, content: bytes | None) -> tuple[str, bool]:
    """Return the encoding, and whether some lines end with CR alone, reading block by block."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", True
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    utf8, lone_returns = True, False
    for block in _blocks(path, content):
        if len(block.translate(None, CONTROL)) != len(block):
            raise InputError(
                f"{path} is not text, although it should be a table in CSV: save the table as CSV or Parquet."
            )
        utf8 = utf8 and _decodes(decoder, block)
        lone_returns = lone_returns or block.count(b"\r") != block.count(b"\r\n")
    utf8 = utf8 and _decodes(decoder, b"", final=True)
    return "utf-8-sig" if utf8 else "windows-1252", lone_returns


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


def unpack_gzip(path: Path, largest: int = LARGEST) -> bytes:
    """Return the content of a gzip file."""
    pieces: list[bytes] = []
    size = 0
    try:
        with path.open("rb") as packed, gzip.GzipFile(fileobj=packed) as file:
            while block := file.read(BLOCK):
                pieces.append(block)
                size += len(block)
                if size > GRACE and size > RATIO * packed.tell():
                    raise InputError(
                        f"{path} unpacks to more than {RATIO} times its size, unlike any table: "
                        "unpack it yourself if you trust it."
                    )
                if size > largest:
                    raise InputError(
                        f"{path} unpacks to more than {largest / 2**30:.3g} GB: "
                        "save only the keys, or the table as Parquet."
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(f"{path} is not a readable gzip file: it may be cut off or damaged.") from None
    content = b"".join(pieces)
    if content.startswith(GZIP):
        raise InputError(f"{path} is gzip inside gzip: unpack it yourself.")
    return content
