"""Where in a TOML text each key stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

from pertdbg.scenario.problem import KeyPath

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Position = tuple[int, int]
"""Line and column, from 1; the column counts characters."""

_KEYS = frozenset({"bare_key", "quoted_key", "dotted_key"})


class Positions:
    """Finds the line and column of a key. A text that is not TOML has none."""

    def __init__(self, text: str) -> None:
        """Read the text."""
        self._lines = text.encode().split(b"\n")
        self._found: dict[KeyPath, Position] = {(): (1, 1)}
        self._arrays: dict[KeyPath, int] = {}
        self.repeated: list[tuple[KeyPath, Position, Position]] = []
        """Keys that stand twice: path, second and first position."""
        root = Parser(Language(tree_sitter_toml.language())).parse(text.encode()).root_node
        if not root.has_error:
            self._table(root, ())

    def of(self, path: KeyPath) -> Position:
        """Give the position of a key, or of the nearest table around it that is in the text."""
        while path not in self._found:
            path = path[:-1]
        return self._found[path]

    def _table(self, node: Node, prefix: KeyPath) -> None:
        for child in node.named_children:
            if child.type == "pair":
                self._pair(child, prefix)
            elif child.type == "table":
                self._table(child, self._header(child, repeats=False))
            elif child.type == "table_array_element":
                self._table(child, self._header(child, repeats=True))

    def _header(self, node: Node, *, repeats: bool) -> KeyPath:
        key = _key(node)
        path: KeyPath = ()
        for name in _names(key):
            if path in self._arrays:
                path = (*path, self._arrays[path])
            path = (*path, name)
            self._found.setdefault(path, self._position(key))
        if repeats:
            self._arrays[path] = self._arrays.get(path, -1) + 1
        if path in self._arrays:
            path = (*path, self._arrays[path])
        self._found.setdefault(path, self._position(key))
        return path

    def _pair(self, node: Node, prefix: KeyPath) -> None:
        key = _key(node)
        path = prefix
        for name in _names(key):
            path = (*path, name)
            first = self._found.setdefault(path, self._position(key))
        if prefix != path and first != self._position(key):
            self.repeated.append((path, self._position(key), first))
        for value in node.named_children:
            if value.id != key.id:
                self._value(value, path)

    def _value(self, node: Node, path: KeyPath) -> None:
        if node.type == "inline_table":
            self._table(node, path)
        elif node.type == "array":
            elements = [child for child in node.named_children if child.type != "comment"]
            for number, element in enumerate(elements):
                self._found[(*path, number)] = self._position(element)
                self._value(element, (*path, number))

    def _position(self, node: Node) -> Position:
        row, column = node.start_point
        return row + 1, len(self._lines[row][:column].decode(errors="replace")) + 1


def _key(node: Node) -> Node:
    return next(child for child in node.named_children if child.type in _KEYS)


def _names(key: Node) -> Iterator[str]:
    """Read a key, quoted and dotted as it may be, as TOML reads it."""
    table: Any = tomllib.loads((key.text or b"").decode() + " = 0")
    while isinstance(table, dict):
        ((name, table),) = table.items()
        yield name
