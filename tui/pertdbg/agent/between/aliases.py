"""Names that share delta's memory: copies that are none."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from pertdbg.agent.base import requires_grad, shape_of
from pertdbg.agent.between.events import Ref
from pertdbg.agent.between.samples import address
from pertdbg.agent.tensors import is_tensor

_ITEMS = 8
"""Newest items of a list or mapping that are looked at."""


def aliases(names: Mapping[str, Any], subject: Any, roles: tuple[Any, ...]) -> dict[str, Ref]:
    """Give the tensors among some names that share a tensor's memory and take no gradient.

    Args:
        names: Attributes of a layer, or locals of a function.
        subject: The tensor.
        roles: Tensors that are meant to be what they are.
    """
    begin = address(subject)
    if begin is None:
        return {}
    return {
        name: weakref.ref(value)
        for name, value in _tensors(names)
        if not any(value is role for role in roles)
        and shape_of(value) == shape_of(subject)
        and not requires_grad(value)
        and address(value) == begin
    }


def _tensors(names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(names.items()):
        if is_tensor(value):
            yield name, value
        elif type(value) in (list, tuple):
            first = max(len(value) - _ITEMS, 0)
            for place, item in enumerate(value[first:], first):
                if is_tensor(item):
                    yield f"{name}[{place}]", item
        elif type(value) is dict:
            for key, item in itertools.islice(reversed(list(value.items())), _ITEMS):
                if is_tensor(item):
                    yield f"{name}[{key!r}]"[:100], item
