"""One torch operation inside a line: what it was given, what it gave, and what it did to both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pertdbg.agent.base import dtype_of, requires_grad, shape_of
from pertdbg.agent.lines.reading import Reader, is_number, version
from pertdbg.agent.lines.scope import Names
from pertdbg.agent.lines.storages import key_of
from pertdbg.agent.quiet import Notes, Quiet
from pertdbg.agent.tensors import is_tensor
from pertdbg.agent.values import Values
from pertdbg.event import LineTensor, Operation

_PLAIN = frozenset(
    {
        *("size", "dim", "ndimension", "numel", "nelement", "stride", "storage_offset"),
        *("is_floating_point", "is_complex", "is_contiguous", "is_pinned", "element_size"),
        *("get_device", "data_ptr", "untyped_storage", "is_inference", "has_names", "is_shared"),
        *("__len__", "__hash__", "__repr__", "__format__", "__dir__", "__deepcopy__"),
        *("register_hook", "retain_grad", "is_signed", "is_same_size", "is_tensor"),
    }
)
"""Operations that tell of a tensor and do nothing."""

_VALUES = frozenset(
    {
        *("__bool__", "__float__", "__int__", "__index__", "item", "equal", "allclose"),
        *("is_nonzero", "tolist", "__contains__"),
    }
)
"""Operations that give a value to Python, where that is worth knowing."""

_MOVING = frozenset(
    {
        *("clamp", "clip", "clamp_min", "clamp_max", "add", "sub", "__radd__", "__rsub__", "where"),
        *("rsub", "__add__", "__sub__", "nan_to_num", "minimum", "maximum", "masked_fill"),
        *("round", "lerp", "renorm", "fmin", "fmax", "hardtanh"),
    }
)
"""Operations of which it is counted how many elements they change."""


@dataclass(slots=True)
class Given:
    """What an operation is given; lives as long as the operation runs."""

    op: str
    setter: bool
    getter: bool
    tensors: list[Any]
    facts: LineTensor | None = None
    key: int | None = None
    version: int | None = None
    requires: bool = False
    copy: Values | None = None


class Operations:
    """Looks at the operations of one line."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.found: list[Operation] = []
        self.written: set[int | None] = set()
        """Identities of storages that were written to; each as long as it is alive."""
        self.notes = Notes()

    def before(self, func: Any, args: Any, kwargs: Any, names: Names) -> Given | None:
        """Look at what an operation is given; None where it is not worth looking at."""
        name, setter, getter = _name(func)
        if name in _PLAIN:
            return None
        given = Given(_shown(name, setter), setter, getter, _tensors(args, kwargs))
        if given.tensors and not getter:
            with Quiet():
                self._see_input(given, name, names)
        return given

    def _see_input(self, given: Given, name: str, names: Names) -> None:
        tensor = given.tensors[0]
        given.key, given.version = key_of(tensor), version(tensor)
        given.requires = requires_grad(tensor)
        path = f"operations.{len(self.found)}.input"
        about = names.of(tensor, given.key)
        given.facts = self._reader.read(tensor, path, self.notes, about)
        writes = name.endswith("_") and not name.endswith("__") and name not in _FLAGS
        if writes or name == "__setitem__" or given.op == "data=":
            given.copy = self._reader.copy(tensor)

    def after(self, given: Given, result: Any, error: BaseException | None, names: Names) -> None:
        """Look at what it gave, or at what it raised."""
        try:
            with Quiet():
                found = self._operation(given, result, error, names)
        finally:
            self._reader.give(given.copy)
        if found is not None:
            self.found.append(found)

    def _operation(
        self, given: Given, result: Any, error: BaseException | None, names: Names
    ) -> Operation | None:
        source = given.tensors[0] if given.tensors else None
        output = _first(result)
        if given.getter and output is None:
            return None
        raised = None if error is None else type(error).__name__
        wrote = self._wrote(given, source, output)
        value = _value(given.op, result)
        telling = (output, raised, value) != (None, None, None) or wrote or given.op in _TELLING
        if not telling:
            return None
        if given.getter and source is not None:
            given.key = key_of(source)
            given.facts = self._read(source, "input", names)
        if output is None and wrote:
            output = source
        into = any(output is each for each in given.tensors[1:]) and output is not source
        facts = None if output is None else self._read(output, "output", names)
        same = None if output is None or source is None else output is source
        counts = self._compared(given, source, output, wrote)
        elements, changed, equal = (None, None, None) if into else counts
        return Operation(
            op=given.op,
            input=given.facts,
            output=facts,
            same_tensor=same,
            same_storage=_same_storage(given, source, output),
            in_place=wrote or into,
            elements=elements,
            changed=changed,
            equal=equal,
            value=value,
            raised=raised,
        )

    def _read(self, tensor: Any, side: str, names: Names) -> LineTensor:
        path = f"operations.{len(self.found)}.{side}"
        return self._reader.read(tensor, path, self.notes, names.of(tensor, key_of(tensor)))

    def _wrote(self, given: Given, source: Any, output: Any) -> bool:
        """Say whether the input was written to, or a flag of it changed; note what was written."""
        if source is None or given.getter:
            return False
        now = version(source)
        itself = output is source and given.op not in _SAME
        wrote = now != given.version or (itself and given.op.endswith("_")) or given.setter
        if now != given.version or (wrote and given.op not in _FLAGS):
            self._reader.forget()
            if given.key is not None:
                self.written.add(given.key)
        elif output is not None and any(output is each for each in given.tensors[1:]):
            self._reader.forget()  # `out=`
            key = key_of(output)
            if key is not None:
                self.written.add(key)
        return bool(wrote or requires_grad(source) != given.requires)

    def _compared(
        self, given: Given, source: Any, output: Any, wrote: bool
    ) -> tuple[int | None, int | None, int | None]:
        """Count the elements that changed, and those that equal the second tensor's."""
        after = source if wrote and given.copy is not None else output
        if source is None or after is None or not (is_number(source) and is_number(after)):
            return None, None, None
        before: Any = source
        if after is source:
            if given.copy is None:
                return None, None, None
            before = given.copy
        elif shape_of(source) != shape_of(after) or not _moves(given, source, after):
            return None, None, None
        changed = self._reader.unequal(before, after)
        if changed is None:
            return None, None, None
        elements, equal = math.prod(shape_of(after)), None
        second = given.tensors[1] if len(given.tensors) > 1 else None
        if dtype_of(source) != dtype_of(after) and second is not None:
            alike = shape_of(second) == shape_of(after) and dtype_of(second) == dtype_of(after)
            differ = self._reader.unequal(second, after) if alike else None
            equal = None if differ is None else elements - differ
        return elements, changed, equal


_FLAGS = frozenset({"requires_grad_", "detach_", "retain_grad", "requires_grad=", "grad="})
"""In place, but what is changed is no value."""

_SAME = frozenset({"contiguous", "to"})
_TELLING = frozenset({"backward"})


def _moves(given: Given, source: Any, after: Any) -> bool:
    return dtype_of(source) != dtype_of(after) or given.op in _MOVING


def _same_storage(given: Given, source: Any, output: Any) -> bool | None:
    if source is None or output is None:
        return None
    key = key_of(output)
    return None if key is None or given.key is None else key == given.key


def _name(func: Any) -> tuple[str, bool, bool]:
    """Give an operation's name, and whether it sets or gets an attribute of that name."""
    name = getattr(func, "__name__", None) or type(func).__name__
    if name in ("__get__", "__set__", "__delete__"):
        owner = getattr(func, "__self__", None)
        return str(getattr(owner, "__name__", name)), name != "__get__", name == "__get__"
    return str(name), False, False


_DUNDERS = {"__getitem__": "[]", "__setitem__": "[]=", "__rsub__": "sub", "__rpow__": "pow"}
_DUNDERS |= {"__rtruediv__": "div", "__rdiv__": "div", "__bool__": "bool", "__float__": "float()"}


def _shown(name: str, setter: bool) -> str:
    if setter:
        return f"{name}="
    shown = _DUNDERS.get(name)
    if shown is None:
        shown = name.strip("_") if name.startswith("__") else name
    return shown


def _tensors(args: Any, kwargs: Any) -> list[Any]:
    """Give the tensors among arguments, those of lists of tensors too."""
    found: list[Any] = []
    for value in (*args, *(kwargs or {}).values()):
        if is_tensor(value):
            found.append(value)
        elif type(value) in (list, tuple):
            found += [each for each in value[:_MANY] if is_tensor(each)]
    return found


_MANY = 64


def _first(result: Any) -> Any:
    if is_tensor(result):
        return result
    if isinstance(result, (tuple, list)):
        return next((each for each in result if is_tensor(each)), None)
    return None


def _value(op: str, result: Any) -> bool | int | float | str | None:
    if type(result) in (bool, int, float) and op in _SHOWN_VALUES:
        found: bool | int | float = result
        return found if type(result) is not int or abs(result) < 1 << 53 else str(result)
    return None


_SHOWN_VALUES = frozenset(_shown(name, False) for name in _VALUES)
