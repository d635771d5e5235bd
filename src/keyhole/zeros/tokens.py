"""Cut the text of an expression into tokens.

Words may hold letters of any language, digits, points, underscores and inner hyphens, and may begin with a
sign (`married`, `1.5`, `-1`, `0-13`); anything else goes between quotes, and a name that looks like something
else between backquotes, as in R.
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

from keyhole.errors import RulesError

LENGTH_LIMIT = 100_000

Kind = Literal["word", "text", "name", "operator", "end"]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<operator>%in%|&&|\|\||==|!=|<=|>=|[&|!<>()\[\],:])
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>`(?:[^`\\]|\\.)*`)
      | (?P<word>[-+]?[\w.]+(?:-[\w.]+)*)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPACE = re.compile(r"\s*")
_ONE_SIGN = {"=": "'==' (a comparison has two equal signs)", "%": "'%in%'", "{": "'('", "}": "')'"}


@dataclass(frozen=True)
class Token:
    """A piece of an expression; `position` counts characters from 1."""

    kind: Kind
    text: str
    position: int


def split_tokens(text: str, where: str) -> list[Token]:
    """Return the tokens of an expression, the last of kind "end"."""
    if len(text) > LENGTH_LIMIT:
        raise RulesError(f"{where}: the expression has more than {LENGTH_LIMIT:,} characters; split it into several.")
    tokens: list[Token] = []
    place = 0
    while found := _TOKEN.match(text, place):
        kind = cast(Kind, found.lastgroup)  # the groups of the pattern are named by kind
        piece = found.group(kind)
        if kind in ("text", "name"):
            piece = _ESCAPE.sub(r"\1", piece[1:-1])
        tokens.append(Token(kind, piece, found.start(kind) + 1))
        place = found.end()
    rest = _SPACE.match(text, place)
    assert rest is not None
    place = rest.end()
    if place < len(text):
        raise RulesError(f"{where}, position {place + 1}: expected {_expected_at(text[place])}.")
    return [*tokens, Token("end", "", len(text) + 1)]


def _expected_at(character: str) -> str:
    """Say what could stand where an unknown character stands."""
    if character in "\"'`":
        return f"a closing {character} for the one that opens here"
    return _ONE_SIGN.get(character, "a name, a value or an operator (put unusual values between quotes)")
