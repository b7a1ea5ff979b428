"""What the panels say just after a line inside a call, above what they say of the whole call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pertdbg.app.inside import Moment
from pertdbg.app.lines import Line, Piece, table, wrap
from pertdbg.app.numbers import yes
from pertdbg.event import LineTensor, Operation
from pertdbg.output.safe import printable
from pertdbg.output.words import number, type_name

_ARROW = "→"


def heading(moment: Moment, width: int) -> list[Line]:
    """Say which line the first part of a panel is about."""
    event = moment.event
    inside = f" in {printable(event.function)}" if event.depth else ""
    return wrap(f"after line {event.line}{inside}:", width, "note")


def ending(call: int, width: int) -> list[Line]:
    """Say what the second part of a panel is about: the call as a whole."""
    return wrap(f"call {call:,} as it ended:", width, "note")


def under_way(width: int) -> list[Line]:
    """Say why there is no second part."""
    return wrap("the call is under way; its record comes at its end", width, "dim")


def gradient(moment: Moment, width: int) -> list[Line]:
    """Say which gradients the lines have read, and which tensors hold one."""
    read, names = _reads(moment), _gradients(moment)
    lines = _numbers(moment, names, width) if names else []
    if not names and read:
        line, operation = read[-1]
        lines += wrap(printable(f"line {line} read one, {operation.says}"), width)
    elif not names:
        lines += wrap("no line has read a gradient so far", width)
    holders = {
        word: [name for name in moment.names if _is_filled(moment.tensors[name], flag)]
        for word, flag in (("set", True), ("none", False))
    }
    for word, names in holders.items():
        if names:
            lines += wrap(printable(f".grad {word}: {', '.join(names)}"), width)
    return lines


def _reads(moment: Moment) -> list[tuple[int, Operation]]:
    """Give the operations that gave a gradient so far, each with its line."""
    lines = moment.events[: moment.at + 1]
    found = [(event.line, each) for event in lines for each in event.operations]
    return [(line, each) for line, each in found if each.op == "grad" and each.output is not None]


def _gradients(moment: Moment) -> list[str]:
    """Give the names that stand for a gradient: by where it lies, or by what they are called."""
    storages = {each.output.storage for _, each in _reads(moment) if each.output is not None}
    return [
        name
        for name in moment.names
        if moment.tensors[name].storage in storages - {None} or "grad" in name.rpartition(".")[2]
    ]


def _is_filled(facts: LineTensor, filled: bool) -> bool:
    return bool(facts.requires_grad) and facts.has_grad is filled


def delta(moment: Moment, width: int) -> list[Line]:
    """Give the size of every tensor that the lines have told of."""
    gradients = _gradients(moment)
    names = [name for name in moment.names if name not in gradients]
    if not names:
        return wrap("no line has made or changed a tensor so far", width)
    return _numbers(moment, names, width)


def leaf(moment: Moment, width: int) -> list[Line]:
    """Give the place of every tensor in the autograd graph."""
    modes = {"on": "operations are recorded for a backward", "off": "no_grad: nothing is recorded"}
    event = moment.event
    said = modes.get(event.gradients, "inference mode: nothing is recorded")
    style = "" if event.gradients == event.gradients_before else "changed"
    lines = wrap(said, width, style)
    if not moment.tensors:
        return lines
    columns: tuple[tuple[str, Callable[[LineTensor], str]], ...] = (
        ("leaf", lambda facts: yes(facts.leaf)),
        ("req", lambda facts: yes(facts.requires_grad)),
        ("grad_fn", _node),
        ("ver", lambda facts: "?" if facts.version is None else str(facts.version)),
    )
    rows: list[list[Piece]] = [[("", "head"), *((name, "head") for name, _ in columns)]]
    for name in moment.names:
        cells = [_cell(moment, name, text) for _, text in columns]
        rows.append([_label(moment, name), *cells])
    return lines + table(rows, width, flexible=(0, 3))


def storage(moment: Moment, width: int) -> list[Line]:
    """Say who lies in one storage, and who is the very same tensor."""
    lines: list[Line] = []
    for one, other in moment.event.shared[:3]:
        same = other in getattr(moment.tensors.get(one), "same", ())
        how = "are one tensor" if same else "share storage"
        lines += wrap(printable(f"{one} and {other} {how}"), width, "changed")
    labels: dict[str, list[str]] = {}
    for name in sorted(moment.tensors):
        labels.setdefault(moment.tensors[name].storage or "?", []).append(name)
    for label in sorted(labels):
        lines += wrap(printable(f"{label}: {', '.join(labels[label])}"), width)
    return lines or wrap("no line has made or changed a tensor so far", width)


def labels(moment: Moment, letters: Mapping[str, str], width: int) -> list[Line]:
    """Say which storages of the call's record those are that a line knows by small letters."""
    known = sorted({tensor.storage for tensor in moment.tensors.values() if tensor.storage})
    pairs = [f"{letter} is {letters[letter]}" for letter in known if letter in letters]
    return wrap(printable(f"of these, {', '.join(pairs)}"), width, "dim") if pairs else []


def _numbers(moment: Moment, names: list[str], width: int) -> list[Line]:
    rows: list[list[Piece]] = [[(name, "head") for name in ("", "norm", "max", "dtype", "shape")]]
    for name in names:
        shape = "x".join(map(str, moment.tensors[name].shape)) or "scalar"
        rows.append([
            _label(moment, name),
            _cell(moment, name, lambda facts: number(facts.norm)),
            _cell(moment, name, lambda facts: number(facts.max_abs)),
            _cell(moment, name, lambda facts: printable(type_name(facts.dtype))),
            (shape, ""),
        ])  # fmt: skip
    return table(rows, width, flexible=(0,))


def _label(moment: Moment, name: str) -> Piece:
    """Give a name; those of this line are marked, whether they were made or changed."""
    event = moment.event
    mark = "*" if name in event.made else "~" if name in event.tensors else " "
    return mark + printable(name), "mark" if name in event.tensors else "label"


def _cell(moment: Moment, name: str, text: Callable[[LineTensor], str]) -> Piece:
    now, old = moment.tensors[name], moment.before.get(name)
    if old is None or name not in moment.event.tensors or text(old) == text(now):
        return text(now), ""
    return f"{text(old)}{_ARROW}{text(now)}", "changed"


def _node(facts: LineTensor) -> str:
    if facts.grad_fn is None:
        return "-"
    return printable(facts.grad_fn).removesuffix("0").removesuffix("Backward")
