"""Reading a file of rules, whatever its form."""

from pathlib import Path

from keyhole.errors import RulesError
from keyhole.zeros.document import read_document
from keyhole.zeros.rule import Rule
from keyhole.zeros.table import read_table
from keyhole.zeros.vocabulary import Vocabulary, show

SIZE_LIMIT = 20_000_000
RULE_LIMIT = 50_000
TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
DOCUMENT_ENDINGS = (".yaml", ".yml", ".json")


def read_rules(path: str | Path, vocabulary: Vocabulary) -> tuple[Rule, ...]:
    """Read the rules of a table or YAML file, in the order of the file."""
    path = Path(path)
    name = show(path.name)
    ending = path.suffix.lower()
    if ending not in TABLE_ENDINGS + DOCUMENT_ENDINGS:
        raise RulesError(f"{name}: expected a table (.csv, .tsv) or YAML (.yaml, .yml) of rules; rename the file.")
    text = _read_text(path, name)
    read = read_table if ending in TABLE_ENDINGS else read_document
    rules = tuple(read(text, name, vocabulary))
    if len(rules) > RULE_LIMIT:
        raise RulesError(
            f"{name}: more than {RULE_LIMIT:,} rules; join those that differ in one variable (1;2 or 1-3)."
        )
    return rules


def _read_text(path: Path, name: str) -> str:
    """Read a text file in UTF-8, in UTF-16 when it says so, or else in the encoding of old spreadsheets."""
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise RulesError(f"{name}: larger than {SIZE_LIMIT // 1_000_000} MB; is this a file of rules?")
        raw = path.read_bytes()
    except OSError as error:
        raise RulesError(f"{name}: cannot be read ({error.strerror}); check the path and its permissions.") from None
    encodings = ["utf-16"] if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise RulesError(f"{name}: this is not a text file; save the rules as CSV or YAML in UTF-8.")
