"""Parse conditions on variables by recursive descent; nothing in an expression is executed.

    condition   = all-of { ("or" | "|" | "||") all-of }
    all-of      = negation { ("and" | "&" | "&&") negation }
    negation    = { "not" | "!" } single
    single      = "(" condition ")" | "if" "(" condition ")" condition | comparison
    comparison  = operand ("==" | "!=" | "<" | "<=" | ">" | ">=") operand
                | operand ["not"] ("in" | "%in%") (list | value)
    list        = ["c"] ( "(" value {"," value} ")" | "[" value {"," value} "]" )
    value       = operand [ ":" operand ]

`if (A) B` is R's implication, not A or B. Words such as `and` are operators only where an operator is expected, so a
category may be called OR or IN. Words consist of letters of any language, digits, points, underscores and inner
hyphens, and may begin with a sign (`married`, `1.5`, `-1`, `0-13`); other values are quoted, and names that look like
something else are put between backquotes, as in R.
"""

import re
from dataclasses import dataclass, field
from typing import Literal, cast

from keyhole.errors import RulesError

LENGTH_LIMIT = 100_000
DEPTH_LIMIT = 40
ORDER_OPERATORS = ("==", "!=", "<", "<=", ">", ">=")

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
_ONE_SIGN = {"=": "'==' (a comparison has two equal signs)", "%": "'%in%'", "{": "'('", "}": "')'"}


@dataclass(frozen=True)
class Token:
    """A token of an expression; position: of its first character, from 1."""

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
        kind = cast(Kind, found.lastgroup)  # the groups of the pattern are named after the kinds
        piece = found.group(kind)
        if kind in ("text", "name"):
            piece = _ESCAPE.sub(r"\1", piece[1:-1])
        tokens.append(Token(kind, piece, found.start(kind) + 1))
        place = found.end()
    place = len(text) - len(text[place:].lstrip())
    if place < len(text):
        raise RulesError(f"{where}, position {place + 1}: expected {_expected(text[place])}.")
    return [*tokens, Token("end", "", len(text) + 1)]


def _expected(character: str) -> str:
    if character in "\"'`":
        return f"a closing {character} for the one that opens here"
    return _ONE_SIGN.get(character, "a name, a value or an operator (put unusual values between quotes)")


@dataclass(frozen=True)
class Value:
    """A category as written, or a range of categories if `last` is given."""

    text: str
    last: str | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Comparison:
    """A comparison of a variable with values; operator: one of == != < <= > >= in, not in."""

    name: str
    operator: str
    values: tuple[Value, ...]
    position: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Not:
    operand: "Condition"


@dataclass(frozen=True)
class And:
    operands: tuple["Condition", ...]


@dataclass(frozen=True)
class Or:
    operands: tuple["Condition", ...]


Condition = Comparison | Not | And | Or


def parse_expression(text: str, where: str) -> Condition:
    """Parse an expression; where: file and line, for error messages."""
    parser = _Parser(split_tokens(text, where), where)
    condition = parser.condition(0)
    if parser.token.kind != "end":
        raise parser.expected("'and', 'or' or the end of the expression")
    return condition


class _Parser:
    def __init__(self, tokens: list[Token], where: str) -> None:
        self.tokens = tokens
        self.where = where
        self.place = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def expected(self, what: str) -> RulesError:
        return RulesError(f"{self.where}, position {self.token.position}: expected {what}.")

    def next_is(self, *signs: str) -> bool:
        """Whether the current token is one of these operators, as a sign or as a word in any case."""
        token = self.token
        if token.kind == "operator":
            return token.text in signs
        return token.kind == "word" and token.text.lower() in signs

    def sign_follows(self, *signs: str) -> bool:
        following = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        return following.kind == "operator" and following.text in signs

    def take(self, *signs: str) -> bool:
        found = self.next_is(*signs)
        self.place += found
        return found

    def require(self, sign: str) -> None:
        if not self.take(sign):
            raise self.expected(f"'{sign}'")

    def condition(self, depth: int) -> Condition:
        if depth > DEPTH_LIMIT:
            raise RulesError(
                f"{self.where}, position {self.token.position}: expected at most {DEPTH_LIMIT} nested "
                "brackets; split the expression into several rules."
            )
        operands = [self.all_of(depth)]
        while self.take("or", "|", "||"):
            operands.append(self.all_of(depth))
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def all_of(self, depth: int) -> Condition:
        operands = [self.negation(depth)]
        while self.take("and", "&", "&&"):
            operands.append(self.negation(depth))
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def negation(self, depth: int) -> Condition:
        # A loop rather than a recursion, so that many exclamation marks cannot exhaust the stack.
        negated = False
        while self.next_is("!") or (self.next_is("not") and not self.starts_comparison()):
            self.place += 1
            negated = not negated
        condition = self.single(depth)
        return Not(condition) if negated else condition

    def starts_comparison(self) -> bool:
        """Whether the current word is a variable, judging by the next token."""
        following = self.tokens[self.place + 1]
        return self.sign_follows(*ORDER_OPERATORS, "%in%") or (
            following.kind == "word" and following.text.lower() == "in"
        )

    def single(self, depth: int) -> Condition:
        if self.take("("):
            inner = self.condition(depth + 1)
            self.require(")")
            return inner
        if self.next_is("if") and self.sign_follows("("):
            self.place += 2
            premise = self.condition(depth + 1)
            self.require(")")
            return Or((Not(premise), self.condition(depth + 1)))
        return self.comparison()

    def comparison(self) -> Comparison:
        name = self.operand("a variable, 'not' or '('")
        for operator in ORDER_OPERATORS:
            if self.token.kind == "operator" and self.take(operator):
                value = self.operand("a category")
                if self.next_is("(") or (self.token.kind == "operator" and self.next_is(":")):
                    raise self.expected("one category (a list or range of categories goes with 'in')")
                return Comparison(name.text, operator, (Value(value.text, None, value.position),), name.position)
        operator = "not in" if self.take("not") else "in"
        if not self.take("in", "%in%"):
            expected = "'in'" if operator == "not in" else "one of == != < <= > >= in"
            # Two words in a row are probably one name.
            spaced = name.kind == "word" and self.token.kind == "word" and operator == "in"
            hint = f" (write names with spaces in backticks: `{name.text} {self.token.text}`)" if spaced else ""
            raise self.expected(f"{expected}{hint}")
        return Comparison(name.text, operator, self.values(), name.position)

    def values(self) -> tuple[Value, ...]:
        if self.next_is("c") and self.sign_follows("(", "["):
            self.place += 1
        for opening, closing in (("(", ")"), ("[", "]")):
            if self.token.kind == "operator" and self.take(opening):
                values = [self.value()]
                while self.take(","):
                    values.append(self.value())
                if not self.take(closing):
                    raise self.expected(f"',' or '{closing}'")
                return tuple(values)
        return (self.value(),)

    def value(self) -> Value:
        first = self.operand("a category")
        last = self.operand("a category").text if self.take(":") else None
        return Value(first.text, last, first.position)

    def operand(self, what: str) -> Token:
        token = self.token
        if token.kind not in ("word", "text", "name"):
            raise self.expected(what)
        self.place += 1
        return token
