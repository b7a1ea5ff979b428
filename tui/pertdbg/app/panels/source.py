"""Source panel: the update method with the current line marked."""

from __future__ import annotations

import ast
import functools
import io
import keyword
import textwrap
import tokenize

from pertdbg.app.lines import Line, clip
from pertdbg.output.safe import printable
from pertdbg.recording.parts import LayerSource

_STYLES = {tokenize.STRING: "string", tokenize.COMMENT: "comment", tokenize.NUMBER: "number"}


def source(layer: LayerSource | None, current: int | None, width: int) -> tuple[list[Line], int]:
    """Draw the panel; gives its lines and the index of the current one.

    Args:
        layer: The layer of the call under the cursor.
        current: Line of the file to mark.
        width: Cells across.
    """
    if layer is None:
        return [[("no source was recorded for this layer", "dim")]], 0
    place = printable(f"{layer.cls}  {layer.file}:{current or layer.first_line}")
    title: Line = clip([(place, "dim")], width)
    if layer.source is None:
        return [title, [("the source could not be read", "dim")]], 0
    first = layer.first_line or 1
    folded = {first + row for row in docstring_rows(layer.source)} - {current}
    lines, index = [title], 0
    for number, code in enumerate(coloured(layer.source), first):
        if number in folded:
            continue
        here = number == current
        index = len(lines) if here else index
        gutter = f"{'>' if here else ' '}{number:4} "
        lines.append(clip([(gutter, "mark" if here else "dim"), *code], width))
    return lines, index


@functools.lru_cache(maxsize=8)
def docstring_rows(code: str) -> range:
    """Give the rows of a function's docstring after its first, which the panel leaves out.

    The line numbers beside the code tell that something is not shown.
    """
    try:
        function = ast.parse(textwrap.dedent(code)).body[0]
    except (SyntaxError, IndexError, ValueError):
        return range(0)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return range(0)
    first = function.body[0]
    if ast.get_docstring(function) is None:
        return range(0)
    return range(first.lineno, first.end_lineno or first.lineno)


@functools.lru_cache(maxsize=8)
def coloured(code: str) -> list[Line]:
    """Break Python code into lines with keywords, strings, numbers and comments told apart."""
    texts = code.splitlines()
    styles = [[""] * len(text) for text in texts]
    for style, (row, start), (last, stop) in _tokens(code):
        for line in range(row, last + 1):
            first = start if line == row else 0
            end = stop if line == last else len(styles[line - 1])
            styles[line - 1][first:end] = [style] * (end - first)
    return [_pieces(text, marks) for text, marks in zip(texts, styles, strict=True)]


def _tokens(code: str) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            style = _STYLES.get(token.type, "")
            if token.type == tokenize.NAME and keyword.iskeyword(token.string):
                style = "keyword"
            if style:
                found.append((style, token.start, token.end))
    except (tokenize.TokenError, SyntaxError):
        pass  # a method's source need not be whole Python: what was read so far is coloured
    return found


def _pieces(text: str, styles: list[str]) -> Line:
    line: Line = []
    for character, style in zip(text.replace("\t", " "), styles, strict=True):
        if line and line[-1][1] == style:
            line[-1] = (line[-1][0] + character, style)
        else:
            line.append((character, style))
    return [(printable(part), style) for part, style in line]
