"""Being told when a module has been imported, without importing it."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pertdbg.agent.reraise import going_on

Imported = Callable[[types.ModuleType], None]
Within = Callable[[], AbstractContextManager[None]]


class Imports(importlib.abc.MetaPathFinder):
    """Stands first on `sys.meta_path` and tells of chosen modules once each has run."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Imported]] = {}
        self._within: dict[str, Within] = {}

    def install(self) -> None:
        """Begin."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Stop."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def when(self, name: str, imported: Imported, within: Within = nullcontext) -> None:
        """Ask to be told once a module is imported; at once if it is there already.

        Args:
            name: Of the module.
            imported: Is told.
            within: Gives what the module is to run in.
        """
        module = sys.modules.get(name)
        if module is not None and not _is_loading(module):
            imported(module)
        else:
            self._waiting.setdefault(name, []).append(imported)
            self._within[name] = within

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module that is waited for as everybody else would, and add ourselves."""
        told = self._waiting.get(fullname)
        if not told:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: importlib.machinery.ModuleSpec | None = find and find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    told_of = functools.partial(self._run, fullname)
                    _tell_after(spec.loader, told_of, self._within[fullname])
                return spec
        return None

    def _run(self, name: str, module: types.ModuleType) -> None:
        for imported in self._waiting.pop(name, []):
            imported(module)


def _tell_after(loader: Any, told: Imported, within: Within) -> None:
    """Let this one loader tell when it has run its module; it is put back before that."""
    run = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        del loader.exec_module
        try:
            with within():
                run(module)
        except BaseException as error:
            # A bare raise adds no entry for this frame again.
            if error.__traceback__ is not None:
                going_on(error, error.__traceback__.tb_next)
            raise
        told(module)

    loader.exec_module = exec_module


def _is_loading(module: types.ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
