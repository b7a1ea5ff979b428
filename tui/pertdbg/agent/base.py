"""Torch's and numpy's own functions, in the forms that the probe calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

numpy: Any
"""The module, or None where it can't be imported."""
try:
    import numpy
except ImportError:
    numpy = None

C: Any = torch._C
"""Torch's C module; what it holds differs between versions."""

_BASE = C.TensorBase
_Read = Callable[[torch.Tensor], Any]

# The getters and methods of the C base class: a subclass may hide them behind code of its own.
shape_of: _Read = _BASE.shape.__get__
dtype_of: _Read = _BASE.dtype.__get__
device_of: _Read = _BASE.device.__get__
layout_of: _Read = _BASE.layout.__get__
is_leaf: _Read = _BASE.is_leaf.__get__
requires_grad: _Read = _BASE.requires_grad.__get__
retains_grad: _Read = _BASE.retains_grad.__get__
grad_fn_of: _Read = _BASE.grad_fn.__get__
grad_of: _Read = _BASE.grad.__get__
version_of: _Read = _BASE._version.__get__
is_cpu: _Read = _BASE.is_cpu.__get__
is_quantized: _Read = _BASE.is_quantized.__get__
numel: _Read = _BASE.numel
stride_of: _Read = _BASE.stride
offset_of: _Read = _BASE.storage_offset
element_size: _Read = _BASE.element_size
storage_of: _Read = _BASE.untyped_storage
is_view: _Read = _BASE._is_view
is_contiguous: _Read = _BASE.is_contiguous
is_inference: _Read = _BASE.is_inference
is_conj: _Read = _BASE.is_conj
is_neg: _Read = _BASE.is_neg
