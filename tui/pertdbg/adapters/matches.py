"""Which adapters fit a script, as far as its text tells: nothing of it runs."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pertdbg.agent.seams.plans import Findings, loop_plans, used_by
from pertdbg.agent.seams.spec import Spec
from pertdbg.errors import PertdbgError

_UNTOLD = "the script's text can't tell: it is a function of {modules}, seen when that runs"
_NOTHING = {
    "method": "no class here has {methods} and uses {uses}",
    "weights": "no class here has {methods}",
    "loop": "no function here takes the gradient of a tensor and then moves or rebinds it",
}


def matches(path: Path, adapters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Say for each adapter what in a script it fits, or else why nothing.

    Returns:
        For each ``adapter``, ``matched`` (names of functions and classes) and ``why_not``.

    Raises:
        PertdbgError: The script can't be read, or is not Python.
    """
    try:
        module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise PertdbgError(f"{path}: can't be read: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise PertdbgError(f"{path}{line}: is not Python: {error}") from error
    specs, findings = [Spec.of(adapter) for adapter in adapters], Findings()
    loops = [spec for spec in specs if spec.seam == "loop"]
    methods = {spec.methods[0] for spec in specs if spec.seam == "method"}
    for code in _codes(module):
        if not _is_class(code):
            for plan in loop_plans(code, "__main__", loops, findings):
                if not plan.loop.whole or code.co_name not in methods:
                    findings.hit(plan.spec.name, plan.name)
            continue
        for spec in specs:
            _look_at_class(code, spec, findings)
    return [_report(spec, findings) for spec in specs]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _is_class(code: types.CodeType) -> bool:
    return "__qualname__" in code.co_names and not code.co_flags & inspect.CO_OPTIMIZED


def _look_at_class(code: types.CodeType, spec: Spec, findings: Findings) -> None:
    functions = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    names = {function.co_name for function in functions}
    if spec.seam == "weights" and names.issuperset(spec.methods):
        for name in sorted(names):
            if spec.fits_names("__main__", name):
                findings.hit(spec.name, f"{code.co_name}.{name}")
    if spec.seam != "method" or spec.methods[0] not in names:
        return
    missing = spec.missing_names(frozenset().union(*map(used_by, functions)))
    if missing is None:
        findings.hit(spec.name, f"{code.co_name}.{spec.methods[0]}")
    else:
        lacks = f"{code.co_name} has {spec.methods[0]} but uses none of {', '.join(missing)}"
        findings.miss(spec.name, lacks)


def _report(spec: Spec, findings: Findings) -> dict[str, Any]:
    matched = findings.matched.get(spec.name, [])
    near = findings.near.get(spec.name, [])
    words = _NOTHING.get(spec.seam, _UNTOLD).format(
        methods=" and ".join(spec.methods),
        uses=", ".join(" or ".join(group) for group in spec.uses),
        modules=" or ".join(spec.modules),
    )
    why_not = None if matched else near[0] if near else words
    return {"adapter": spec.name, "matched": matched, "why_not": why_not}
