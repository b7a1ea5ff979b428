"""Helpers for reading syntax trees: parents, names, places."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pertdbg.guards.model import Span

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Placed = ast.expr | ast.stmt | ast.keyword


class Tree:
    """A function's syntax tree, with the parent and the number of each node."""

    def __init__(self, node: FunctionNode, lines: list[str], *, of_class: bool) -> None:
        """Number the nodes of a function.

        Args:
            node: The function.
            lines: All lines of its file.
            of_class: Whether it is a method, so that its first argument is no tensor.
        """
        self.node = node
        first = next(iter(node.args.posonlyargs + node.args.args), None)
        self.owner = first.arg if of_class and first is not None else None
        """What the function calls the object that it belongs to."""
        self.lines = lines
        self.nodes = list(ast.walk(node))
        self.number = {id(found): number for number, found in enumerate(self.nodes)}
        self._parent = {
            id(child): found for found in self.nodes for child in ast.iter_child_nodes(found)
        }
        self.divisors = {name for found in self.nodes for name in _divisor_names(found)}
        """Names that something is divided by."""

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """Give the nodes around a node, the nearest first."""
        while id(node) in self._parent:
            node = self._parent[id(node)]
            yield node

    def span(self, node: Placed) -> Span:
        """Give the place of a node."""
        return (*self.start(node), *self.end(node))

    def start(self, node: Placed) -> tuple[int, int]:
        """Give the place of a node's first character."""
        return self._place(node.lineno, node.col_offset)

    def end(self, node: Placed) -> tuple[int, int]:
        """Give the place behind a node's last character."""
        return self._place(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def text(self, span: Span) -> str:
        """Give the source at a place, in one line."""
        first, left, last, right = span
        lines = [line.rstrip("\n") for line in self.lines[first - 1 : last]]
        lines[-1] = lines[-1][: right - 1]
        lines[0] = lines[0][left - 1 :]
        return " ".join(line.strip() for line in lines)

    def dot(self, value: ast.expr) -> tuple[int, int]:
        """Give the place of the dot behind a value, which may be in parentheses."""
        line, column = self.end(value)
        while True:
            text = self.lines[line - 1]
            for offset in range(column - 1, len(text)):
                if text[offset] == ".":
                    return line, offset + 1
                if text[offset] == "#":
                    break
            line, column = line + 1, 1

    def _place(self, line: int, offset: int) -> tuple[int, int]:
        """Turn an offset, which ast counts in bytes, into a column."""
        return line, len(self.lines[line - 1].encode()[:offset].decode(errors="replace")) + 1


def dotted(node: ast.AST) -> str:
    """Give a name such as ``torch.no_grad``; nothing where the node is no dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        home = dotted(node.value)
        return f"{home}.{node.attr}" if home else ""
    return ""


def is_torch(node: ast.AST) -> bool:
    """Whether a node is torch or a part of it, such as ``torch.Tensor`` or ``F``."""
    root = dotted(node).partition(".")[0]
    return root in ("torch", "nn", "F", "functional")


def method_called(node: ast.AST) -> tuple[ast.expr, str] | None:
    """Give the receiver and the name where a node calls a method of a value."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    home = node.func.value
    of_module = is_torch(home) or dotted(home) in ("math", "np", "numpy")
    return None if of_module else (home, node.func.attr)


def function_called(node: ast.AST) -> str:
    """Give the last part of the name where a node calls a function of a module, or a bare one."""
    if isinstance(node, ast.Call) and method_called(node) is None:
        return dotted(node.func).rpartition(".")[2]
    return ""


def denominators(node: ast.AST) -> Iterator[ast.expr]:
    """Give what a node divides by, and what it takes a root or a logarithm of."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.right
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        yield node.value
    elif isinstance(node, ast.Call):
        yield from _divided_by_call(node)


_DIVIDES = {"div", "div_", "divide", "divide_", "true_divide"}
_ROOTS = {"sqrt", "rsqrt", "log", "reciprocal", "sqrt_", "log_"}


def _divided_by_call(node: ast.Call) -> Iterator[ast.expr]:
    called = method_called(node)
    if called is not None:
        if called[1] in _DIVIDES:
            yield from node.args[:1]
        if called[1] in _ROOTS:
            yield called[0]
    elif function_called(node) in _DIVIDES:
        yield from node.args[1:2]
    elif function_called(node) in _ROOTS:
        yield from node.args[:1]


def _divisor_names(node: ast.AST) -> Iterator[str]:
    for denominator in denominators(node):
        for part in ast.walk(denominator):
            if isinstance(part, ast.Name):
                yield part.id
