"""Pruning: masks that keep selected elements of a parameter at zero while the others are trained."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from ...autograd import no_grad
from ...core.create import ones_like, zeros_like
from ...core.tensor import Tensor
from ...ops.join import cat
from ...ops.random import rand, rand_like
from ..module import Module


class BasePruningMethod(ABC):
    """Base of pruning methods: a forward pre-hook that sets a parameter to `<name>_orig` times `<name>_mask`.

    Subclasses define `compute_mask` and `PRUNING_TYPE`: "unstructured" (single elements), "structured" (channels) or "global" (several
    parameters at once).
    """

    PRUNING_TYPE: str = ""
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for a tensor, which is zero wherever `default_mask` is."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the module's pruned tensor."""
        if not hasattr(self, "_tensor_name"):
            raise AssertionError(f"Module {module} has to be pruned")
        mask, orig = getattr(module, self._tensor_name + "_mask"), getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=orig.dtype) * orig

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> BasePruningMethod:
        """Prune `module.<name>`, in addition to earlier pruning; `importance_scores` replace the values as the criterion."""
        old = next((m for _, m in _methods(module, name)), None)
        if old is not None:
            _unhang(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        orig = getattr(module, name)
        if importance_scores is None:
            importance_scores = orig
        elif tuple(importance_scores.shape) != tuple(orig.shape):
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}: got {tuple(importance_scores.shape)}, "
                f"expected {tuple(orig.shape)}"
            )
        before = getattr(module, name + "_mask").detach().clone() if old is not None else ones_like(orig)
        if old is not None:
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method._tensor_name = name
            method = container
        method._tensor_name = name
        with no_grad():
            mask = method.compute_mask(importance_scores, before)
        if old is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", orig)
            module.register_buffer(name + "_mask", mask)
        else:
            module._buffers[name + "_mask"] = mask
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a pruned copy of a tensor."""
        if importance_scores is not None and tuple(importance_scores.shape) != tuple(t.shape):
            raise AssertionError("importance_scores should have the same shape as tensor t")
        default_mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, default_mask)

    def remove(self, module: Module) -> None:
        """Make pruning permanent: the tensor becomes an ordinary parameter, with zeros where it was pruned."""
        name = self._tensor_name
        with no_grad():
            weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig = module._parameters[name + "_orig"]
        orig.data = weight.detach()  # type: ignore[union-attr]
        del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
        setattr(module, name, orig)


def _methods(module: Module, name: str) -> list[tuple[int, BasePruningMethod]]:
    """Return the pruning hooks of one tensor, with their handle ids."""
    table = module._forward_pre_hooks  # type: ignore[attr-defined]
    return [(key, hook) for key, hook in table.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]


def _unhang(module: Module, name: str) -> None:
    for key, _ in _methods(module, name):
        del module._forward_pre_hooks[key]  # type: ignore[attr-defined]


class PruningContainer(BasePruningMethod):
    """Several pruning methods of one tensor, applied in order, each to the elements that the previous ones kept."""

    def __init__(self, *args: BasePruningMethod):
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method; ValueError if it is for another tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and hasattr(method, "_tensor_name") and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Apply the latest method to the elements that are left in `default_mask`."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            place: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            others = [d for d in range(t.ndim) if d != method.dim % t.ndim]  # type: ignore[attr-defined]
            place = (slice(None),) * (method.dim % t.ndim) + (mask.sum(others) != 0,)  # type: ignore[attr-defined]
        elif method.PRUNING_TYPE == "global":
            place = (slice(None),) * t.ndim
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = mask.clone()
        new[place] = method.compute_mask(t[place], default_mask=mask[place]).to(dtype=new.dtype)
        return new


class Identity(BasePruningMethod):
    """Prune nothing, but create the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _how_many(self, t: Tensor) -> int:
        size = t.nelement()
        found = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(found, size)
        return found


class RandomUnstructured(_Unstructured):
    """Prune random elements; `amount` is their number, or their fraction as a float."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask, n = default_mask.clone(), self._how_many(t)
        if n:
            mask.view(-1)[rand_like(t).view(-1).topk(n).indices] = 0
        return mask


class L1Unstructured(_Unstructured):
    """Prune the elements with the smallest absolute values."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask, n = default_mask.clone(), self._how_many(t)
        if n:
            mask.view(-1)[t.abs().reshape(-1).topk(n, largest=False).indices] = 0
        return mask


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1):
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def _channels(self, t: Tensor) -> int:
        _validate_structured_pruning(t)
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        found = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(found, size)
        return found

    def _keeping(self, t: Tensor, kept: Any, default_mask: Tensor) -> Tensor:
        mask = zeros_like(t)
        mask[(slice(None),) * (self.dim % t.ndim) + (kept,)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prune random channels along `dim`."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        n, size = self._channels(t), t.shape[self.dim]
        if not n:
            return default_mask
        chances = rand(size, device=t.device)
        least = chances.kthvalue(n).values
        return self._keeping(t, chances > least, default_mask)


class LnStructured(_Structured):
    """Prune the channels along `dim` with the smallest n-norm."""

    def __init__(self, amount: float, n: float, dim: int = -1):
        super().__init__(amount, dim)
        self.n = n

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        gone = self._channels(t)
        if not gone:
            return default_mask
        norms = _compute_norm(t, self.n, self.dim)
        return self._keeping(t, norms.topk(t.shape[self.dim] - gone, largest=True).indices, default_mask)


class CustomFromMask(BasePruningMethod):
    """Prune with a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if tuple(default_mask.shape) != tuple(self.mask.shape):
            raise AssertionError(f"mask should have shape {tuple(default_mask.shape)}, got {tuple(self.mask.shape)}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -- functional forms -------------------------------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Attach pruning to `module.<name>` without pruning any element; return the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune random elements of `module.<name>`; `amount` is their number, or their fraction as a float."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of `module.<name>` with the smallest absolute values."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune random channels of `module.<name>` along `dim`."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: float, n: float, dim: int, importance_scores: Tensor | None = None) -> Module:
    """Prune the channels of `module.<name>` along `dim` with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune `module.<name>` with a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod], importance_scores: dict | None = None, **kwargs: Any
) -> None:
    """Prune elements of several parameters, given as `(module, name)` pairs, with one common threshold."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    if not issubclass(pruning_method, BasePruningMethod) or pruning_method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {pruning_method.PRUNING_TYPE}"
        )
    with no_grad():
        tensors = [getattr(module, name) for module, name in parameters]
        relevant = cat([scores.get(key, t).reshape(-1) for key, t in zip(parameters, tensors, strict=True)])
        before = [getattr(module, name + "_mask", None) for module, name in parameters]
        default = cat([(ones_like(t) if m is None else m).reshape(-1) for m, t in zip(before, tensors, strict=True)])
        method = pruning_method(**kwargs)
        container = PruningContainer()
        container._tensor_name = method._tensor_name = "temp"
        container.add_pruning_method(method)
        final = container.compute_mask(relevant, default)
    at = 0
    for (module, name), t in zip(parameters, tensors, strict=True):
        custom_from_mask(module, name, final[at : at + t.numel()].reshape(t.shape))
        at += t.numel()


def remove(module: Module, name: str) -> Module:
    """Make the pruning of a tensor permanent: it becomes an ordinary parameter, with zeros where it was pruned."""
    for key, hook in _methods(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]  # type: ignore[attr-defined]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Return whether any parameter of a module or its descendants is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for m in module.modules()
        if m._hooks is not None
        for hook in m._forward_pre_hooks.values()  # type: ignore[attr-defined]
    )


# -- amounts ----------------------------------------------------------------------------------------------------------------------


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if float(amount) < 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0.0, 1.0] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t: Tensor) -> None:
    if t.ndim <= 1:
        raise ValueError(
            f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with {t.ndim} dims"
        )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)  # type: ignore[return-value]


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """Return the n-norm of each channel along `dim`."""
    others: Sequence[int] = [d for d in range(t.ndim) if d != dim % t.ndim]
    return t.norm(n, others)
