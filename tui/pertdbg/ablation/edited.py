"""Sources of a program as they are changed for one run: in this process only, the files are not."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Trees = Mapping[str, ast.Module]
"""What stands in the place of files, by their resolved paths."""


class Edited(importlib.abc.MetaPathFinder):
    """Stands first on `sys.meta_path` and has changed files compiled from their trees."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module as Python does, and answer for it if its file is a changed one."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        tree = None if spec is None else tree_of(self._trees, spec.origin)
        if spec is None or spec.origin is None or tree is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, tree)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a file whose code is made from a tree; a cached code of the file is not looked at."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> Any:  # noqa: ARG002 - as importlib calls it
        """Compile the tree under the name of the file."""
        return compile(self._tree, self.path, "exec", dont_inherit=True)


def install(trees: Trees) -> None:
    """Have changed files in the place of those on disk from now on, until the process ends."""
    if trees:
        sys.meta_path.insert(0, Edited(trees))


def tree_of(trees: Trees, file: str | None) -> ast.Module | None:
    """Give what stands in the place of a file, if it is a changed one."""
    return None if file is None else trees.get(str(Path(file).resolve()))
