"""The first module that Python imports in a script's target: it starts the agent and is gone.

The host runs the script as ``python SCRIPT ARGUMENTS``, nothing else, with the folder of this
file in front of `PYTHONPATH`. So `__main__`, `sys.argv`, `sys.path[0]`, the exit status, the
reading of a script from a pipe and every traceback are not imitations but Python's own, and no
frame of ours lies below the script's: not in `traceback.print_stack`, not in faulthandler's dump.
Running the script by an `exec` of ours, as other debuggers do, was tried too and shows in all of
these. It remains for interpreters that ignore `PYTHONPATH`; see `isolated`.

This module can't be imported from the package: it stands in a folder of its own so that nothing
else comes onto `sys.path`, and loads the package from beside it, whatever is installed.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not there yet
_VARIABLE = "PERTDBG_AGENT"


def begin() -> None:
    """Take the traces away and start the agent, unless this is somebody else's process."""
    known = frozenset(sys.modules)
    text = os.environ.pop(_VARIABLE, None)
    if _HERE in sys.path:
        sys.path.remove(_HERE)
    sys.path_importer_cache.pop(_HERE, None)
    if text is None:
        return
    load_package()
    from pertdbg.agent.script import begin

    begin(text, known)


def load_package() -> None:
    """Import the package from its folder without having the folder's parent on `sys.path`."""
    import importlib.util

    folder = os.path.dirname(os.path.dirname(_HERE))  # noqa: PTH120
    spec = importlib.util.spec_from_file_location(
        "pertdbg",
        os.path.join(folder, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[folder],
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["pertdbg"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    begin()
    # The one that ours has hidden, if any. If there is none, the import error goes on to `site`,
    # which takes it as that, and leaves no trace of this module either.
    del sys.modules[__name__]
    __import__(__name__)
