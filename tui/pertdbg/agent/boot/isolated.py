"""Runs a script under an interpreter that ignores `PYTHONPATH` (``-I``, ``-E``) or `site` (``-S``).

``python -I isolated.py SCRIPT ARGUMENTS`` or ``python -I isolated.py -m MODULE ARGUMENTS``. Here
frames of ours do lie below the script's; they are taken out of the traceback of what ends it.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import runpy
import sys
import types
import zipfile
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - as in sitecustomize


def main() -> None:
    """Start the agent and run what the command line names, in a fresh `__main__`."""
    given = sys.argv[1:]
    if given[0].startswith("-m") and given[0] != "-m":
        given[:1] = ["-m", given[0][2:]]
    searches = bool(sys.path) and sys.path[0] == _HERE
    runpy.run_path(os.path.join(_HERE, "sitecustomize.py"))["begin"]()  # noqa: PTH118
    module = types.ModuleType("__main__")
    vars(module)["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        vars(module)["__annotations__"] = {}
    sys.modules["__main__"] = module
    try:
        _run(given, module, searches)
    except SystemExit:
        raise
    except BaseException:  # Python shows it, and chooses the exit status
        _hide_ours()
        raise


def _run(given: list[str], module: types.ModuleType, searches: bool) -> None:
    sys.argv[:] = given if given[0] != "-m" else ["-m", *given[2:]]
    if given[0] == "-m":
        _search(os.getcwd() if searches else None)  # noqa: PTH109
        _as_main(given[1], True)
    elif os.path.isdir(given[0]) or zipfile.is_zipfile(given[0]):  # noqa: PTH112
        _search(os.path.join(os.getcwd(), given[0]))  # noqa: PTH109, PTH118
        _as_main("__main__", False)
    elif given[0] == "-":
        _search("" if searches else None)
        vars(module).update(__file__="<stdin>", __cached__=None)
        code = compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 - to run it is what we are asked
    else:
        _search(os.path.dirname(os.path.realpath(given[0])) if searches else None)  # noqa: PTH120
        _run_file(os.path.join(os.getcwd(), given[0]), module)  # noqa: PTH109, PTH118


def _run_file(path: str, module: types.ModuleType) -> None:
    kind: Any = importlib.machinery.SourceFileLoader
    with io.open_code(path) as file:
        if path.endswith(".pyc"):
            kind = importlib.machinery.SourcelessFileLoader
            code: Any = kind("__main__", path).get_code("__main__")
        else:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    vars(module).update(__file__=path, __cached__=None, __loader__=kind("__main__", path))
    exec(code, vars(module))  # noqa: S102 - to run it is what we are asked


def _as_main(name: str, alter_argv: bool) -> None:
    """Do what Python itself does for ``-m`` and for folders."""
    run: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    run(name, alter_argv)


def _search(folder: str | None) -> None:
    """Put what Python would put there first on the path."""
    if sys.path and sys.path[0] == _HERE:
        del sys.path[0]
    if folder is not None:
        sys.path.insert(0, folder)


def _hide_ours() -> None:
    """Have the excepthook, whosever it is, get the traceback without the frames of this file.

    They are added when the exception leaves them, which is after this.
    """
    hook = sys.excepthook

    def show(kind: Any, value: Any, trace: Any) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        value.__traceback__ = trace
        sys.excepthook = hook
        hook(kind, value, trace)

    sys.excepthook = show


if __name__ == "__main__":
    main()
