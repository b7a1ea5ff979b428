"""From a running code object to its place in the source."""

from __future__ import annotations

import ast
import linecache
import types
from pathlib import PurePath

from pertdbg.agent.seams.flow import Body
from pertdbg.recording.parts import LayerSource

_trees: dict[str, ast.Module | None] = {}


def body_of(code: types.CodeType) -> Body | None:
    """Find the function, or the module, that a code object was made from; None without source."""
    tree = _tree(code.co_filename)
    if tree is None or code.co_name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
            if code.co_firstlineno in lines:
                return node
    return None


def function_named(filename: str, name: str) -> ast.FunctionDef | None:
    """Find a function of a file that no other one has the name of; None if it is not there."""
    tree = _tree(filename)
    found = [
        node
        for node in (() if tree is None else ast.walk(tree))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return found[0] if len(found) == 1 else None


def adds_to_argument(filename: str, attribute: str) -> bool:
    """Say whether a method in a file adds an attribute of its object to an argument of its own."""
    tree = _tree(filename)
    return any(
        _adds(function, attribute)
        for function in (() if tree is None else ast.walk(tree))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def _adds(function: ast.FunctionDef | ast.AsyncFunctionDef, attribute: str) -> bool:
    own, *given = [argument.arg for argument in function.args.args] or [""]
    wanted = f"{own}.{attribute}"
    sums = [
        {ast.unparse(node.left), ast.unparse(node.right)}
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    ]
    return any(wanted in sides and not sides.isdisjoint(given) for sides in sums)


def _tree(filename: str) -> ast.Module | None:
    if filename not in _trees:
        try:
            _trees[filename] = ast.parse("".join(linecache.getlines(filename)) or "(")
        except (SyntaxError, ValueError):
            _trees[filename] = None
    return _trees[filename]


def name_of_code(code: types.CodeType) -> str:
    """Name a function as ``Class.method``, and a script by its file."""
    if code.co_name == "<module>":
        return PurePath(code.co_filename).name
    qualified: str | None = getattr(code, "co_qualname", None)
    if qualified is None:  # Python 3.10
        qualified = _qualified(code)
    return qualified.replace("<locals>.", "")


def _qualified(code: types.CodeType) -> str:
    wanted, tree = body_of(code), _tree(code.co_filename)
    waiting: list[tuple[ast.AST, str]] = [] if tree is None else [(tree, "")]
    while waiting:
        node, prefix = waiting.pop()
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            path = f"{prefix}{getattr(child, 'name', '')}" if named else prefix
            if child is wanted:
                return path
            waiting.append((child, f"{path}." if named else prefix))
    return code.co_name


def source_of(name: str, code: types.CodeType) -> LayerSource:
    """Give a function's place and text, as the recording keeps them."""
    first, body = code.co_firstlineno, body_of(code)
    lines = linecache.getlines(code.co_filename)
    if isinstance(body, ast.Module):
        text, first = "".join(lines), 1
    else:
        text = "" if body is None else "".join(lines[first - 1 : body.end_lineno])
    return LayerSource(name, None, code.co_filename, first, text or None)
