"""The kinds of findings: their slugs, how pressing they are, and what repairs them."""

from __future__ import annotations

from dataclasses import dataclass

from pertdbg.findings.model import Severity


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding."""

    slug: str
    severity: Severity
    title: str
    """What it means, in one short sentence without a full stop."""
    remedy: str


_ALL = (
    Kind(
        "grad-missing",
        "error",
        "delta.grad is None when the update wants it",
        "Make sure that delta is a leaf that requires grad and that the loss of a backward since "
        "the last update depends on it.",
    ),
    Kind(
        "nonleaf-delta",
        "error",
        "delta is the result of an operation, so autograd stores no gradient in it",
        "Do every operation on delta first and end with .detach().requires_grad_(True).",
    ),
    Kind(
        "grad-nonfinite",
        "error",
        "the gradient at delta, or its norm, is not finite",
        "Repair the loss or the model where the first NaN or infinity appears.",
    ),
    Kind(
        "update-refused",
        "warning",
        "the update declined and left delta as it was",
        "Repair what made it decline, and look at the value that the update returns.",
    ),
    Kind(
        "grad-zero",
        "warning",
        "the gradient at delta is exactly zero everywhere",
        "Use a loss that is not flat there: logits instead of saturated probabilities, a margin "
        "without its clamp, a start away from the minimum.",
    ),
    Kind(
        "guard-dominates",
        "warning",
        "the gradient is below the guard of the normalisation, so the step is far below the "
        "learning rate",
        "Start with a larger perturbation, sum the loss instead of averaging it, or use a guard "
        "well below the gradient.",
    ),
    Kind(
        "delta-nonfinite",
        "error",
        "delta holds NaN or infinities",
        "Guard the division that made them, such as g / (norm + 1e-12), or skip such rows.",
    ),
    Kind(
        "delta-out-of-bound",
        "error",
        "delta has left the bound that the code names",
        "Clamp the distance to the unperturbed tensor after every step.",
    ),
    Kind(
        "update-lost-in-rounding",
        "warning",
        "delta moves, but the perturbed input does not follow: its dtype rounds the step away",
        "Use a step of at least the spacing of the input's dtype, or keep this layer in float32.",
    ),
    Kind(
        "graph-grows",
        "error",
        "the autograd graph gets deeper with every call",
        "Detach delta after each step: delta = delta.detach().requires_grad_(True).",
    ),
    Kind(
        "graph-retained",
        "warning",
        "graphs of earlier steps stay alive",
        "Keep numbers instead of tensors, such as loss.item(), and drop retain_graph.",
    ),
    Kind(
        "gradient-leaks",
        "warning",
        "the backward of a perturbation step fills gradients beyond delta",
        "Detach the input of the perturbation, or ask only for delta's gradient with "
        "torch.autograd.grad(loss, delta).",
    ),
    Kind(
        "backward-twice",
        "error",
        "a backward runs into a graph that an earlier one has freed",
        "Build the shared part anew for each backward, or detach the perturbed input from it.",
    ),
    Kind(
        "storage-shared",
        "error",
        "tensors that should be independent share storage",
        "Copy instead of detaching only: .detach().clone().",
    ),
    Kind(
        "input-modified",
        "error",
        "the values of the stored input change although no new batch came",
        "Compute the perturbed input out of place: input.detach() + delta.",
    ),
    Kind(
        "version-bypassed",
        "error",
        "a write through .data after the forward makes gradients wrong without an error",
        "Change the tensor before the forward, or with an operation that autograd sees.",
    ),
    Kind(
        "leaf-inplace",
        "error",
        "an in-place operation on a leaf that requires grad",
        "Write out of place, or under torch.no_grad().",
    ),
    Kind(
        "stale-delta",
        "warning",
        "delta made for one batch is used for another",
        "Drop delta where a new batch begins.",
    ),
    Kind(
        "stale-input",
        "error",
        "the layer answers with a tensor that belongs to another input",
        "Switch the perturbation off for other passes, or compute the answer from what is given.",
    ),
    Kind(
        "not-perturbed",
        "error",
        "nothing is perturbed",
        "Check the name, the hook or the budget that decides what is perturbed.",
    ),
    Kind(
        "padding-perturbed",
        "warning",
        "padding positions carry a perturbation",
        "Multiply delta by the mask of the padding id that the tokenizer really uses.",
    ),
    Kind(
        "random-start-dominates",
        "warning",
        "the first step goes in the direction of the random start, not of the gradient",
        "Normalise the gradient before it is added, or start with a larger perturbation.",
    ),
    Kind(
        "grad-accumulates",
        "error",
        "a gradient that was not cleared is added to the next one",
        "Clear delta.grad on every path out of the update, also where it declines.",
    ),
    Kind(
        "mode-left-on",
        "warning",
        "something that was switched for the perturbation stays switched",
        "Switch it back in a finally block or a context manager.",
    ),
    Kind(
        "stochastic-forward",
        "warning",
        "clean and perturbed pass differ without any perturbation",
        "Run both passes in eval mode, or with the same random state.",
    ),
    Kind(
        "scaled-gradient",
        "warning",
        "the factor of a loss scaler is still in delta's gradient",
        "Divide the gradient by the scale, or normalise it.",
    ),
    Kind(
        "dtype-mismatch",
        "error",
        "the perturbed input has another dtype than the module that takes it",
        "Cast back: perturbed.to(input.dtype).",
    ),
    Kind(
        "shape-mismatch",
        "error",
        "delta, mask and input do not fit together",
        "Drop delta where the shape of the input changes.",
    ),
)

KINDS = {kind.slug: kind for kind in _ALL}
"""All kinds by their slugs."""

CAUSES: dict[str, tuple[str, ...]] = {
    "grad-missing": ("nonleaf-delta",),
    "graph-grows": ("nonleaf-delta",),
    "graph-retained": ("graph-grows", "nonleaf-delta", "backward-twice"),
    "update-refused": ("grad-accumulates", "grad-nonfinite"),
    "grad-accumulates": ("update-refused",),
    "delta-nonfinite": ("grad-nonfinite", "grad-zero"),
    "grad-nonfinite": ("delta-nonfinite", "grad-accumulates"),
    "input-modified": ("storage-shared",),
    "backward-twice": ("gradient-leaks", "nonleaf-delta", "graph-grows"),
    "update-lost-in-rounding": ("guard-dominates",),
    "grad-zero": ("not-perturbed", "grad-missing"),
    "guard-dominates": ("random-start-dominates",),
    "shape-mismatch": ("stale-delta",),
}
"""Of which other kinds each is a consequence, where those were found at the same call or before."""
