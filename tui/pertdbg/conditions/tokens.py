"""Looks at the letters of an expression before Python's parser sees it.

What passes is plain: names of ASCII letters, decimal numbers, texts without backslashes, and the
operators of the language. So nothing that a parser might do more with (prefixes of strings,
escapes, look-alike letters, comments, several lines) ever reaches it, nor a deep nest of brackets.
"""

from __future__ import annotations

import re

from pertdbg.conditions.errors import ConditionError
from pertdbg.output.safe import printable

LONGEST = 1000
"""Most characters of an expression."""

MOST = 300
"""Most words, numbers and signs of an expression."""

DEEPEST = 30
"""Most brackets inside each other, and most signs or `not` in a row."""

_TOKEN = re.compile(
    r"(?P<space> +)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?![\w\"']))"
    r"|(?P<text>\"[^\"\\\x00-\x1f\x7f\ud800-\udfff]*\"|'[^'\\\x00-\x1f\x7f\ud800-\udfff]*')"
    r"|(?P<sign>\*\*|//|<=|>=|==|!=|[-+*/%<>()\[\],.])",
)
_SIGNS = "+ - * / // % ** < <= > >= == != ( ) [ ] , ."


def check(text: str) -> None:
    """Refuse what can't be an expression of the language.

    Raises:
        ConditionError: It is too long, or has a letter or a number that has no place in it.
    """
    if len(text) > LONGEST:
        raise ConditionError(text, LONGEST, f"an expression has at most {LONGEST} characters")
    place = count = depth = row = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ConditionError(text, place + 1, _strange(text[place:]))
        word = found[0]
        if found.lastgroup != "space":
            count += 1
            depth += (word in ("(", "[")) - (word in (")", "]"))
            row = row + 1 if word in ("-", "+", "not") else 0
        if count > MOST or max(depth, row) > DEEPEST:
            raise ConditionError(text, place + 1, "it is too long or too deeply nested")
        place = found.end()
    if not count:
        raise ConditionError(text, 1, "it is empty; write a condition such as gradient.norm > 1e3")


def _strange(rest: str) -> str:
    if rest[0] in "\"'":
        return "a text ends with the quote that it begins with, and has no backslash in it"
    if rest[0].isdigit():
        return "a number is written like 12, 0.5 or 1e-3"
    if rest[0].isascii() and (rest[0].isalpha() or rest[0] == "_"):
        return "a name has ASCII letters, digits and _ only, and no quote behind it"
    if rest[0] == "=":
        return "to compare write =="
    if rest[0] in "&|~!^":
        return "write and, or, not"
    return f"`{printable(rest[0])}` has no place here; signs are {_SIGNS}"
