"""`Distribution`: a batch of independent distributions of shape `batch_shape`, with samples of shape `event_shape`."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import engine
from engine import Size, Tensor

from . import constraints
from .utils import holds, lazy_property


class Distribution:
    """Base class of all distributions. `rsample` is differentiable (if `has_rsample`), `sample` is not; `log_prob` is the log density.

    `validate_args` checks the parameters on construction and the values passed to densities, and raises ValueError if they are invalid.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: Any = {}
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions validate their arguments by default."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` to turn off validation.", stacklevel=3
            )
            return
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(inspect.getattr_static(type(self), name, None), lazy_property):
                continue  # derived from the given parameters
            value = getattr(self, name)
            if not holds(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its batch expanded to `batch_shape`."""
        raise NotImplementedError(f"{type(self).__name__}.expand")

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return `_instance`, or a new object of this class if it has the same `__init__` as `cls`, for `expand` to fill."""
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom "
                ".expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _expanded(self, _instance: Any, batch_shape: Any, *names: str) -> Any:
        """Return a copy with the parameters `names` expanded to `batch_shape`, skipping those not set."""
        cls = type(self)
        new = cls.__new__(cls) if _instance is None else _instance
        batch_shape = Size(batch_shape)
        for name in names:
            if name in self.__dict__:
                value = self.__dict__[name]
                extra = value.shape[value.dim() - self._parameter_dims(name) :] if self._parameter_dims(name) else ()
                setattr(new, name, value.expand(batch_shape + tuple(extra)))
        new._batch_shape, new._event_shape, new._validate_args = batch_shape, self._event_shape, self._validate_args
        return new

    def _parameter_dims(self, name: str) -> int:
        """Return the number of trailing dimensions of a parameter that are not batch dimensions."""
        return 0

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a single sample."""
        return self._event_shape

    if TYPE_CHECKING:
        support: Any  # a class attribute in some subclasses, a property in others
    else:

        @property
        def support(self) -> Any:
            """The constraint that samples satisfy."""
            raise NotImplementedError(f"{type(self).__name__}.support")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__}.mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw samples of shape `sample_shape + batch_shape + event_shape`, without gradients."""
        with engine.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw samples like `sample`, differentiable in the parameters (reparameterized)."""
        raise NotImplementedError(f"{type(self).__name__}.rsample")

    def sample_n(self, n: int) -> Tensor:
        """Return `n` samples. Deprecated: use `sample((n,))`."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log probability (density) at `value`."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function, P(X <= value)."""
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def entropy(self) -> Tensor:
        """Return the entropy in nats of each distribution in the batch."""
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def perplexity(self) -> Tensor:
        """Return exp(entropy)."""
        return engine.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError if the value has the wrong shape or is outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        begin = value.dim() - len(self._event_shape)
        if value.shape[begin:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(tuple(value.shape)), reversed(tuple(expected)), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support` to enable sample validation. Please initialize the distribution with "
                          "`validate_args=False` to turn off validation.", stacklevel=3)  # fmt: skip
            return
        if not holds(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support ({support!r}) "
                f"of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        known = [k for k in self.arg_constraints if k in self.__dict__]
        told = ", ".join(f"{k}: {self.__dict__[k] if self.__dict__[k].numel() == 1 else self.__dict__[k].size()}" for k in known)
        return f"{type(self).__name__}({told})"
