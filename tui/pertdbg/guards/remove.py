"""Taking guards out of a function: the tree is rewritten and compiled anew, the file is not."""

from __future__ import annotations
import __future__

import ast
import copy
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.guards.model import Edit, Guard
from pertdbg.guards.source import FunctionSource, function_at
from pertdbg.guards.syntax import FunctionNode

_FUTURE: int = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_FACTORY = "_pertdbg_factory"


def code_without(
    source: FunctionSource, guards: Iterable[Guard], lines: Mapping[int, str] | None = None
) -> types.CodeType:
    """Compile a function without some of its guards, or with lines of its file changed.

    The code keeps the file's name and the numbers of its lines, so that tracebacks and records
    point at the source as it is.

    Args:
        source: The function.
        guards: Guards of this function, to be taken out.
        lines: New text for lines of the file, by number. Guards are then looked for anew by who
            calls this: the two can't be mixed.

    Raises:
        PertdbgError: The changed lines are no Python, or no longer hold the function.
    """
    node = copy.deepcopy(source.node) if not lines else _edited(source, lines)
    rewrite(node, guards)
    return _compile(node, source)


def rewrite(node: FunctionNode, guards: Iterable[Guard]) -> None:
    """Take guards of a function out of its tree, decorators included."""
    nodes = list(ast.walk(node))
    edits: dict[int, list[Edit]] = {}
    for guard in guards:
        for edit in guard.edits:
            edits.setdefault(id(nodes[edit.node]), []).append(edit)
    _Rewriter(edits).visit(node)


def _edited(source: FunctionSource, lines: Mapping[int, str]) -> FunctionNode:
    text = list(source.lines)
    for number, line in lines.items():
        text[number - 1] = line.rstrip("\n") + "\n"
    found = function_at("".join(text), source.function)
    if found is None:
        raise PertdbgError(f"{source.file}: after the change there is no function {source.name}")
    return found[0]


class _Rewriter(ast.NodeTransformer):
    """Performs edits from the leaves up."""

    def __init__(self, edits: Mapping[int, list[Edit]]) -> None:
        self._edits = edits

    def visit(self, node: ast.AST) -> Any:
        """Rewrite what is below a node, then the node."""
        edits = self._edits.get(id(node), [])
        result: Any = self.generic_visit(node)
        for edit in sorted(edits, key=lambda edit: -edit.which):
            result = _ACTIONS[edit.action](result, edit.which)
        if isinstance(result, (ast.With, ast.AsyncWith)) and not result.items:
            return result.body
        return result


def _receiver(node: Any, _: int) -> ast.AST:
    receiver: ast.AST = node.func.value
    return receiver


def _argument(node: Any, which: int) -> ast.AST:
    argument: ast.AST = node.args[which]
    return argument


def _value(node: Any, _: int) -> ast.AST:
    """Put the value in an attribute's place; where it is assigned to, it must be assignable."""
    value: Any = node.value
    if isinstance(node.ctx, ast.Store):
        if not isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
            raise PertdbgError(f"line {node.lineno}: {ast.unparse(value)} can't be assigned to")
        value.ctx = ast.Store()
    found: ast.AST = value
    return found


def _drop(node: Any, _: int) -> ast.AST | None:
    if isinstance(node, ast.stmt):
        return ast.copy_location(ast.Pass(), node)
    return None


def _pair(node: Any, which: int) -> ast.AST:
    """Take one pair out of ``a, b.grad = c, None``."""
    sides = [side for side in (*node.targets, node.value) if isinstance(side, ast.Tuple)]
    for side in sides:
        del side.elts[which]
    if all(len(side.elts) == 1 for side in sides):
        node.targets = [t.elts[0] if isinstance(t, ast.Tuple) else t for t in node.targets]
        node.value = node.value.elts[0]
    found: ast.AST = node
    return found


def _never(node: Any, _: int) -> ast.AST:
    return ast.copy_location(ast.BinOp(node, ast.BitAnd(), ast.Constant(False)), node)


def _always(node: Any, _: int) -> ast.AST:
    return ast.copy_location(ast.BinOp(node, ast.BitOr(), ast.Constant(True)), node)


def _decorator(node: Any, which: int) -> ast.AST:
    """Put one that does nothing in its place: the function still begins at the same line."""
    old = node.decorator_list[which]
    nothing = ast.parse("lambda function: function", mode="eval").body
    for part in ast.walk(nothing):
        ast.copy_location(part, old)
    node.decorator_list[which] = nothing
    found: ast.AST = node
    return found


def _left(node: Any, _: int) -> ast.AST:
    left: ast.AST = node.left
    return left


def _right(node: Any, _: int) -> ast.AST:
    right: ast.AST = node.right
    return right


_ACTIONS: dict[str, Callable[[Any, int], ast.AST | None]] = {
    "receiver": _receiver,
    "argument": _argument,
    "value": _value,
    "drop": _drop,
    "pair": _pair,
    "false": _never,
    "true": _always,
    "decorator": _decorator,
    "left": _left,
    "right": _right,
}


def _compile(node: FunctionNode, source: FunctionSource) -> types.CodeType:
    """Compile a function as it was: in its class, with its closure, in its file."""
    wanted = source.function.__code__.co_freevars
    _strip(node)
    code = _code(node, source, wanted)
    if code.co_freevars != wanted:
        # A function's code can be replaced only by one with the same closure.
        uses: list[ast.expr] = [ast.Name(name, ast.Load()) for name in wanted]
        test = ast.If(ast.Constant(False), [ast.Expr(ast.Tuple(uses, ast.Load()))], [])
        # What uses them is never run; the compiler counts them as used all the same.
        node.body.insert(_after_docstring(node), ast.copy_location(test, node))
        code = _code(node, source, wanted)
    code = code.replace(co_firstlineno=source.function.__code__.co_firstlineno)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=source.name)
    return code


def _strip(node: FunctionNode) -> None:
    """Leave out what is evaluated where a function is defined: that has been done already."""
    node.decorator_list = []
    node.returns = None
    if hasattr(node, "type_params"):
        node.type_params = []
    arguments = node.args
    everyone = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in [*everyone, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    arguments.defaults = []
    arguments.kw_defaults = [None for _ in arguments.kwonlyargs]


def _after_docstring(node: FunctionNode) -> int:
    return int(ast.get_docstring(node, clean=False) is not None)


def _code(node: FunctionNode, source: FunctionSource, free: tuple[str, ...]) -> types.CodeType:
    """Compile within a class and a function that have the names that the closure needs."""
    inner: ast.stmt = node
    if source.classes:
        inner = ast.ClassDef(
            name=source.classes[-1], bases=[], keywords=[], body=[node], decorator_list=[]
        )
        _no_type_params(inner)
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in free if name != "__class__"],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    body: list[ast.stmt] = [inner]
    if "__class__" in free and not source.classes:
        arguments.args.append(ast.arg("__class__"))
    factory = ast.FunctionDef(name=_FACTORY, args=arguments, body=body, decorator_list=[])
    _no_type_params(factory)
    module = ast.Module([factory], [])
    for made in (module, factory, inner):
        if made is not node and made is not module:
            ast.copy_location(made, node)
    ast.fix_missing_locations(module)
    flags = source.function.__code__.co_flags & _FUTURE
    try:
        whole = compile(module, source.file, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError, TypeError) as error:
        raise PertdbgError(f"{source.name} without the guard is no Python: {error}") from error
    return _find(whole, node.name, source)


def _no_type_params(node: Any) -> None:
    if "type_params" in node._fields:  # Python 3.12 and later
        node.type_params = []


def _find(code: types.CodeType, name: str, source: FunctionSource) -> types.CodeType:
    path = [_FACTORY, *source.classes[-1:], name]
    for part in path:
        code = next(
            inner
            for inner in code.co_consts
            if isinstance(inner, types.CodeType) and inner.co_name == part
        )
    return code
