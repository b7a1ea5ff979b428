"""What a scenario file may hold. Every key is described here; the JSON schema comes from it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from pertdbg.agent.adapter import SIFT, Adapter
from pertdbg.conditions import Condition, ConditionError, parse
from pertdbg.guards.model import Kind
from pertdbg.record import BoundKind

REFERENCES = ("pertdbg.layer:PerturbationLayer", "pertdbg:PerturbationLayer")
"""Places of the reference layer; the first is meant where `layer.class` is not said."""

FaultKind = Literal[
    "nan-gradient",
    "inf-gradient",
    "zero-gradient",
    "skip-backward",
    "other-batch",
    "write-input-in-place",
    "write-through-data",
]
LossName = Literal["symmetric-kl", "kl", "mse", "ce"]
FloatType = Literal["float32", "float64", "float16", "bfloat16"]


def _place(text: str) -> str:
    home, colon, name = text.rpartition(":")
    if not (colon and home and all(part.isidentifier() for part in name.split("."))):
        raise ValueError(
            f"{text!r} is no place in Python; write file.py:name or package.module:name"
        )
    return text


def _attribute(text: str) -> str:
    if not text.isidentifier():
        raise ValueError(f"{text!r} is not the name of an attribute")
    return text


def _device(text: str) -> str:
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", text):
        raise ValueError(f"{text!r} is no device; allowed: cpu, mps, cuda, cuda:0, cuda:1 ...")
    return text


def _condition(text: str) -> str:
    try:
        Condition.of(text)
    except ConditionError as error:
        raise ValueError(str(error)) from None
    return text


def _expression(text: str) -> str:
    try:
        parse(text)
    except ConditionError as error:
        raise ValueError(str(error)) from None
    return text


def _shorthand(value: Any) -> Any:
    return {"build": value} if isinstance(value, str) else value


Place = Annotated[str, AfterValidator(_place)]
"""``file.py:name``, relative to the scenario's file, or ``package.module:name``."""
Attribute = Annotated[str, AfterValidator(_attribute)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Count = Annotated[int, Field(ge=1)]
Arguments = dict[str, Any]
ConditionText = Annotated[str, AfterValidator(_condition)]
ExpressionText = Annotated[str, AfterValidator(_expression)]


class Table(BaseModel):
    """A table of the file: unknown keys are errors, and values are not converted."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class AdapterTable(Table):
    """How the layer is observed; what is left out is as in the reference layer."""

    method: Attribute | None = None
    """Name of the update method."""
    delta: Attribute | None = None
    """Attribute that holds delta."""
    input: Attribute | None = None
    """Attribute that holds the unperturbed input."""
    perturbed_input: Attribute | None = None
    """Attribute that holds the perturbed input."""
    learning_rate: str | None = None
    """Step size, as arithmetic over numbers and attributes: ``self.learning_rate``."""
    bound: str | None = None
    """Limit of |delta| that the code declares, such as ``2 * self.init_perturbation``."""
    bound_kind: BoundKind | None = None
    """`creation`: only the first delta is clamped to the bound. `always`: every one is."""


class LayerTable(Table):
    """The perturbation layer."""

    class_: Place = Field(default=REFERENCES[0], alias="class")
    """Class of the layer. The loop calls its `adversarial_(flag)` and, with `requires_grad=True`,
    its update method."""
    arguments: Arguments = Field(default_factory=dict)
    """Keyword arguments of the class. The reference layer's `hidden_size` is filled in."""
    adapter: AdapterTable | None = None
    """How to observe it."""

    @property
    def observed(self) -> Adapter:
        """How an agent is to observe the layer."""
        base = SIFT if self.class_ in REFERENCES else Adapter()
        said = {} if self.adapter is None else self.adapter.model_dump(exclude_none=True)
        return dataclasses.replace(base, **said)


class ModelTable(Table):
    """The model around the layer: one that is built in, or one that Python builds."""

    kind: Literal["encoder", "perceptron"] = "encoder"
    """`encoder`: embedding, layer, transformer encoder, head. `perceptron`: linear, layer, tanh,
    linear."""
    build: Place | None = None
    """Function called as ``build(layer, **arguments)`` that returns the model."""
    arguments: Arguments = Field(default_factory=dict)
    """Keyword arguments of `build`."""
    width: Count = 64
    """Length of a hidden row; what the layer perturbs."""
    layers: Count = 2
    """Layers of the encoder."""
    heads: Count = 2
    """Attention heads of the encoder."""
    vocabulary: Count = 256
    """Number of tokens that the encoder knows."""
    outputs: Count = 256
    """Number of classes."""
    head: Literal["tokens", "pooled"] = "tokens"
    """Logits of each token, or of the mean over the tokens."""
    dtype: FloatType = "float32"
    """Type of the parameters."""


class InputTable(Table):
    """The data: a file, a function or random numbers."""

    file: str | None = None
    """A `.txt` file (its bytes are the tokens), `.npy`, `.csv` or `.safetensors`."""
    key: str | None = None
    """Name of the tensor in a `.safetensors` file that holds several."""
    build: Place | None = None
    """Function called as ``build(**arguments)`` that returns rows, or rows and labels."""
    arguments: Arguments = Field(default_factory=dict)
    """Keyword arguments of `build`."""
    distribution: Literal["normal", "uniform", "integers"] | None = None
    """Random numbers: `mean` and `std`, or from `low` up to but not including `high`."""
    mean: float = 0.0
    """Of `normal`."""
    std: Annotated[float, Field(gt=0)] = 1.0
    """Of `normal`."""
    low: float = 0.0
    """Of `uniform` and `integers`."""
    high: float = 1.0
    """Of `uniform` and `integers`."""
    shape: Annotated[tuple[Count, ...], Field(strict=False, min_length=1)] | None = None
    """Shape of a batch, rows first. Without it a file or a function gives one batch."""
    labels: Literal["next"] | None = None
    """`next`: each token's label is the token after it."""
    dtype: FloatType | None = None
    """Type of inputs that are no tokens; by default the model's."""
    device: Annotated[str, AfterValidator(_device)] = "cpu"
    """Where inputs and model are: `cpu`, `cuda`, `cuda:1`, `mps`."""
    seed: Seed = 0
    """Of random numbers; each batch is drawn from a stream of its own."""


class OptimizerTable(Table):
    """Trains the model once a batch."""

    kind: Literal["sgd", "adam", "adamw"] = "sgd"
    """Of torch.optim."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Its step size."""


class LoopTable(Table):
    """The loop that calls the layer's update."""

    rhythm: Literal["steps", "learner"] = "steps"
    """`steps`: creation, then updates, each after a perturbed pass and a backward. `learner`: an
    AdversarialLearner for each batch, which makes one creation and one update."""
    calls: Count = 20
    """Number of update calls, creations included."""
    updates: Count | None = None
    """Updates of a batch before the next one comes; by default there is one batch."""
    loss: LossName = "symmetric-kl"
    """Loss of the perturbed pass."""
    against: Literal["clean", "labels"] = "clean"
    """What the perturbed logits are compared with: the clean pass's, detached, or the labels."""
    reduction: Literal["sum", "mean"] = "sum"
    """How the values of the loss become one."""
    clean_gradients: bool = True
    """Whether the clean pass runs with gradients."""
    freeze: bool = True
    """Whether the parameters are frozen during the perturbed passes."""
    accumulate: Count = 1
    """Perturbed passes and backwards for each update."""
    optimizer: OptimizerTable | None = None
    """Trains the model at the end of each batch."""


class Fault(Table):
    """Something that the loop does wrong, on purpose and in the open."""

    kind: FaultKind
    """What goes wrong."""
    call: Annotated[int, Field(ge=2)]
    """The update call that meets it."""
    seed: Seed = 0
    """Of what is drawn for it."""


class Expect(Table):
    """A fact that must be observed. All the conditions given must hold."""

    call: Count | None = None
    """Number of the call."""
    calls: Literal["all", "creations", "updates"] | None = None
    """Or every call of this kind."""
    layer: str | None = None
    """Name of the layer, where there are several."""
    field: str
    """Dotted path in a record, such as ``gradient.norm``."""
    equals: Any = None
    """The value; an array for a list."""
    not_equals: Any = None
    """Any other value; null is another value."""
    above: float | None = None
    """A number greater than this."""
    at_least: float | None = None
    """A number not less than this."""
    below: float | None = None
    """A number less than this."""
    at_most: float | None = None
    """A number not greater than this."""
    contains: Any = None
    """An element of a list, or a part of a text."""
    null: bool | None = None
    """Whether there is no value."""
    reason: str | None = None
    """There is no value, and the record gives this reason for it."""


CONDITIONS = (
    *("equals", "not_equals", "above", "at_least", "below", "at_most"),
    *("contains", "null", "reason"),
)
"""The keys of `Expect` that say something of the value."""


class Removed(Table):
    """A guard that is taken out of the update method, or of what that calls."""

    kind: Kind
    """What it is, as `pertdbg ablate` names it."""
    line: Count
    """The line that it stands in."""
    file: str | None = None
    """Name of the file, where the update method's own is not meant."""


class Line(Table):
    """A line of the update method's file that is another one in this run."""

    line: Count
    """Its number."""
    was: str
    """What stands there; if it does not, the file has changed and nothing is run."""
    now: str
    """What stands there in this run."""


class Head(Table):
    """What every scenario says of itself, and how its run differs from the source as it is."""

    title: Annotated[str, Field(min_length=1)]
    """What it shows, in a line."""
    about: Annotated[str, Field(min_length=1), AfterValidator(str.strip)]
    """What to look for, for the person at the screen."""
    guards_removed: Annotated[tuple[Removed, ...], Field(strict=False)] = ()
    """Guards that are taken out of the update method for this run."""
    lines: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Lines of the update method's file that are changed for this run."""
    breakpoints: Annotated[tuple[ConditionText, ...], Field(strict=False, max_length=64)] = ()
    """Where the app stops: names or conditions, such as ``nan-gradient`` or ``gradient.norm > 1e3;
    after 3 hits; skip 2; layer NAME; rank 0``. A recording marks these calls."""
    watches: Annotated[tuple[ExpressionText, ...], Field(strict=False, max_length=64)] = ()
    """Expressions that the app shows at every call, such as ``delta.max_abs / delta.bound``."""


class Derived(Head):
    """A scenario that is another one but for what it says."""

    base: Annotated[str, Field(min_length=1)]
    """The other one: a file, or the name of one that ships."""
    change: dict[str, Any] = Field(default_factory=dict)
    """Other values by dotted key in quotes, such as ``"layer.arguments.learning_rate" = 0.1``."""
    expect: Annotated[tuple[Expect, ...], Field(strict=False)] = ()
    """What must be observed; what the other one expects is not."""


class Scenario(Head):
    """A scenario: what is run, what goes wrong in it and what must be observed."""

    seed: Seed = 0
    """Of the model's parameters and of the first delta."""
    layer: LayerTable = Field(default_factory=LayerTable)
    """The layer whose updates are observed."""
    model: Annotated[ModelTable, BeforeValidator(_shorthand)] = Field(default_factory=ModelTable)
    """The model, or the place of the function that builds it."""
    input: InputTable
    """The data."""
    loop: LoopTable = Field(default_factory=LoopTable)
    """The loop."""
    fault: Annotated[tuple[Fault, ...], Field(strict=False)] = ()
    """Faults to inject."""
    expect: Annotated[tuple[Expect, ...], Field(strict=False)] = ()
    """What must be observed."""

    _path: Path = PrivateAttr(default=Path("scenario.toml"))
    _file: Path | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path:
        """The file that its paths are relative to: of a derived scenario, that of the other one."""
        return self._path

    @property
    def file(self) -> Path:
        """The file that it was read from."""
        return self._file or self._path

    @property
    def python_files(self) -> list[Path]:
        """Python files that a run of the scenario executes, besides installed packages."""
        places = [self.layer.class_, self.model.build, self.input.build]
        homes = [place.rpartition(":")[0] for place in places if place is not None]
        return sorted({self.path.parent / home for home in homes if home.endswith(".py")})
