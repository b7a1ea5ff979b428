"""Reads what a person asks of a stopped target: the code, and what in it may change something."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 4000
"""Most characters of a question."""

_OF_TENSORS = """
abs absolute acos add addmm all allclose amax amin aminmax angle any arange argmax argmin argsort
as_tensor asin atan atan2 baddbmm bfloat16 bincount bmm bool broadcast_to bucketize buffers byte
cat cdist ceil char children cholesky chunk clamp clip clone complex concat concatenate conj
contiguous cos cosh cosine_similarity count_nonzero cov cpu cross cuda cummax cummin cumprod
cumsum data_ptr deg2rad detach diag diagonal diff dim dist div dot double dtype eig eigvals einsum
element_size empty_like eq equal erf exp expand expand_as expm1 eye finfo flatten flip float floor
floor_divide fmod frac full full_like gather ge get_buffer get_device get_parameter get_submodule
greater gt half heaviside histc histogram hypot iinfo imag initial_seed inner int inverse
is_autocast_enabled is_complex is_contiguous is_floating_point is_grad_enabled is_inference
is_inference_mode_enabled is_pinned is_same_size is_shared is_storage is_tensor isclose isfinite
isin isinf isnan isneginf isposinf isreal item kthvalue l1_loss ldexp le lerp less linspace log
log10 log1p log2 log_softmax logical_and logical_not logical_or logical_xor logsumexp long lt
masked_select matmul matrix_norm max maximum mean median min minimum mm mode modules moveaxis
movedim mse_loss mul multiply mv named_buffers named_children named_modules named_parameters
nan_to_num nanmean nanmedian nanquantile nansum narrow nbytes ndimension ne neg nelement nonzero
norm normalize not_equal numel numpy ones ones_like outer parameters permute pow prod qr quantile
ravel real reciprocal relu repeat_interleave reshape resolve_conj roll rot90 round rsqrt select
sgn short sigmoid sign sin sinh size slogdet softmax split sqrt square squeeze stack state_dict
std std_mean storage_offset stride sub subtract sum svd svdvals swapaxes t take tan tanh tensor
tensor_split tile to tolist topk trace transpose tril triu trunc type unbind unflatten unfold
unique unique_consecutive unsqueeze untyped_storage var var_mean vector_norm view view_as vstack
where xlogy zeros zeros_like
"""
_OF_PYTHON = """
as_integer_ratio ascii bin bit_length bytes callable chr comb copysign count degrees dict
difference dist divmod endswith enumerate fabs factorial filter frozenset fsum gcd get hash hex id
index intersection is_integer isdisjoint isinstance isqrt issubclass issubset items join keys len
list lower map oct ord partition radians range replace repr reversed rpartition rsplit set slice
sorted split splitlines startswith str strip title tuple union upper values zip
"""
READERS = frozenset(f"{_OF_TENSORS} {_OF_PYTHON}".split())
"""Names of functions and methods that are known to read only."""

_WRITING_ARGUMENTS = frozenset({"out", "inplace"})
_BINDING = (ast.NamedExpr, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Question:
    """A text that Python takes."""

    code: types.CodeType
    is_expression: bool
    doubts: tuple[str, ...]
    """What in it may change something, in words."""


def read(text: str) -> Question:
    """Read a question.

    Raises:
        SyntaxError: It is no Python; also where it is too long or too deeply nested.
    """
    if not text.strip():
        raise SyntaxError("nothing is asked")
    if len(text) > LONGEST:
        raise SyntaxError(f"a question has at most {LONGEST} characters")
    try:
        tree: ast.Expression | ast.Module = ast.parse(text.strip(), "<ask>", "eval")
    except SyntaxError:
        tree = ast.parse(text.strip(), "<ask>", "exec")
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"it can't be read: {error}") from None
    is_expression = isinstance(tree, ast.Expression)
    try:
        doubts = tuple(dict.fromkeys(_doubts(tree)))
        code = compile(tree, "<ask>", "eval" if is_expression else "exec", dont_inherit=True)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"it can't be read: {error}") from None
    return Question(code, is_expression, doubts)


def _doubts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, _BINDING):
            yield "it assigns"
        elif isinstance(node, ast.stmt) and not isinstance(node, ast.Expr):
            yield _of_statement(node)
        elif isinstance(node, ast.Name) and node.id.endswith("_"):
            yield f"{node.id} ends in _"
        elif isinstance(node, ast.Attribute) and node.attr.endswith("_"):
            yield f"{node.attr} ends in _, as what writes in place does"
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _of_statement(node: ast.stmt) -> str:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return "it assigns"
    return f"{type(node).__name__.lower()} is a statement"


def _of_call(node: ast.Call) -> Iterator[str]:
    function = node.func
    name = ""
    if isinstance(function, ast.Name):
        name = function.id
    elif isinstance(function, ast.Attribute):
        name = function.attr
    if name not in READERS and not name.endswith("_"):
        yield f"{name or 'what it calls'} is not known to read only"
    for keyword in node.keywords:
        if keyword.arg in _WRITING_ARGUMENTS:
            yield f"{keyword.arg}= may write"
        elif keyword.arg is None:
            yield "** may pass an argument that writes"
