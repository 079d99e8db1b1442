"""Messages about a model: every parameter with its gradient, the health of its activations, and per-sample gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Fact, ToKernel, ToView


@dataclass(frozen=True)
class ParameterRow:
    """One parameter, its gradient, and its next update. None: the value is not defined."""

    node: int  # -1: it is not in the graph
    name: str
    shape: list[int]
    norm: float | None  # L2
    grad_norm: float | None
    grad_mean: float | None  # mean of |grad|
    grad_max: float | None  # largest |grad|
    flag: str  # "", "no gradient", "not yet" (the pass has not reached it), "NaN", "Inf", "all zero", "vanishing", "exploding"
    why: str  # why there is no gradient
    ratio: float | None  # |update| / |weight|
    ratio_from: str  # where the ratio comes from, or why there is none


@dataclass(frozen=True)
class ActivationRow:
    """The outputs of one activation function, over all its calls."""

    node: int  # the last call
    module: str  # its path; "" at the top
    op: str
    calls: int
    samples: int  # of each unit, in all calls
    units: int
    dead: int  # units that are zero for every sample
    zero: float  # share of the elements
    saturated: float  # share of the elements where the slope is nearly zero
    limits: str  # what counts as saturated; "" if nothing does
    flag: str  # "", "dead units", "saturated", "all dead"


@dataclass(frozen=True)
class ModelHealth(ToView):
    kind: ClassVar[str] = "model_health"
    re: int | None
    recording: str
    title: str
    totals: list[Fact]
    parameters: list[ParameterRow]  # in the order in which the forward pass uses them; unused ones last
    activations: list[ActivationRow]
    note: str  # which gradients the numbers describe


@dataclass(frozen=True)
class AskModel(ToKernel):
    kind: ClassVar[str] = "ask_model"
    id: int


@dataclass(frozen=True)
class SampleGradients(ToView):
    """A parameter's gradient, split by the samples of the batch."""

    kind: ClassVar[str] = "sample_gradients"
    re: int | None
    recording: str
    node: int
    name: str
    norms: list[float]  # L2, one for each sample
    total: float | None  # norm of their sum
    cosine: list[float | None]  # of each with the sum: below 0 it pulls the other way
    largest: list[int]  # samples with the largest norms, largest first
    how: str  # how it was computed, in a sentence
    missing: str  # why it could not be


@dataclass(frozen=True)
class AskSampleGradients(ToKernel):
    kind: ClassVar[str] = "ask_sample_gradients"
    id: int
    node: int
