"""The registry of model builders and their pretrained weights."""

from __future__ import annotations

import fnmatch
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine import hub, nn

from ..transforms._presets import ImageClassification

_BUILDERS: dict[str, Callable[..., nn.Module]] = {}


class Meta(dict):
    """Metadata of weights. The names of ImageNet's 1000 classes are not included."""

    def __missing__(self, key: str) -> Any:
        if key == "categories":
            raise KeyError("categories: the names of ImageNet's 1000 classes are not part of this package; torchvision has them")
        raise KeyError(key)


@dataclass(frozen=True)
class Weights:
    """A weight file (torchvision's name, in the cache), the matching transforms, and metadata."""

    url: str
    transforms: Callable[..., nn.Module] = field(compare=False)
    meta: dict[str, Any] = field(compare=False)


class WeightsEnum(Enum):
    """Base class of the enums of a model's weights; `DEFAULT` are the best."""

    @classmethod
    def verify(cls, obj: Any) -> Any:
        """Return a member, given itself or a name such as "DEFAULT" or "ResNet18_Weights.DEFAULT". Raises TypeError for other models."""
        if isinstance(obj, str):
            name = obj.removeprefix(f"{cls.__name__}.")
            if name not in cls.__members__:
                raise KeyError(f"{cls.__name__} has no weights {name!r}; it has {', '.join(cls.__members__)}")
            return cls[name]
        if obj is not None and not isinstance(obj, cls):
            raise TypeError(f"Invalid Weight class provided; expected {cls.__name__} but received {type(obj).__name__}.")
        return obj

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load the weights from the `torch.hub` cache. Raises FileNotFoundError if the file is missing."""
        path = Path(hub.get_dir()) / "checkpoints" / self.url
        if not path.is_file():
            raise FileNotFoundError(f"{self!r}: nothing is downloaded here. Put torchvision's file {self.url} at {path}")
        return hub.load_state_dict_from_url(self.url, *args, **kwargs)

    @property
    def url(self) -> str:
        """The file name."""
        return self.value.url

    @property
    def transforms(self) -> Callable[..., nn.Module]:
        """A function that returns the transforms used with the weights."""
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        """Metadata: "num_params" and "min_size"."""
        return self.value.meta

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


def imagenet(name: str, params: int, min_size: tuple[int, int] = (1, 1), default: str | None = None, **files: Any) -> Any:
    """Create the enum of a model's ImageNet weights: `IMAGENET1K_V1=("resnet18-f37072fd.pth", {"resize_size": 256})`.

    The dict overrides the preset (resize 256, crop 224, bilinear); "num_params" and "min_size" in it go to `meta`.
    """
    members = {}
    for key, (file, given) in files.items():
        preset = dict(given)
        meta = Meta(num_params=preset.pop("num_params", params), min_size=preset.pop("min_size", min_size))
        members[key] = Weights(file, partial(ImageClassification, **{"crop_size": 224, **preset}), meta)
    members["DEFAULT"] = members[default or list(files)[-1]]
    return WeightsEnum(name, members, module=sys._getframe(1).f_globals["__name__"])  # type: ignore[call-overload]


def builder(
    weights_class: Any,
    fixed: Callable[[Any], dict[str, Any]] = lambda weights: {},
    renamed: Callable = lambda state: state,
    always: Mapping[str, Any] = MappingProxyType({}),
):
    """Decorate a model function to handle `weights=`, and to fix the arguments `always`, and `num_classes` and `fixed` with weights.

    Raises ValueError if a call changes a fixed argument. `renamed` converts a file's parameter names. The former `pretrained=True` and
    `weights=True` select the first weights.
    """

    def around(make: Callable[..., nn.Module]) -> Callable[..., Any]:
        @functools.wraps(make)
        def build(*args: Any, weights: Any = None, progress: bool = True, **kwargs: Any) -> Any:
            weights = asked(weights_class, make.__name__, weights, args, kwargs)
            learned = {} if weights is None else {"num_classes": 1000, **fixed(weights)}
            for name, value in {**always, **learned}.items():
                if kwargs.setdefault(name, value) != value:
                    raise ValueError(f"The parameter '{name}' expected value {value} but got {kwargs[name]} instead.")
            if weights is None:
                return make(**kwargs)
            state = weights.get_state_dict(progress=progress, check_hash=True)
            model = make(**kwargs)
            model.load_state_dict(renamed(state))
            return model

        arguments = [
            inspect.Parameter("weights", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=f"{weights_class.__name__} | None")
        ]
        arguments += [inspect.Parameter("progress", inspect.Parameter.KEYWORD_ONLY, default=True, annotation="bool")]
        arguments += [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD, annotation="Any")]
        build.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
        build.weights_class = weights_class  # type: ignore[attr-defined]
        return register_model()(build)

    return around


def asked(weights_class: Any, name: str, weights: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return the weights selected by a builder's arguments; `pretrained`, a bool and a positional argument emit torchvision's warnings."""
    since = "deprecated since 0.13 and may be removed in the future"
    if len(args) > 1:
        raise TypeError(f"{name}() takes at most one positional argument, the weights, but {len(args)} were given")
    if args:
        weights = args[0]
        said = f"Using 'weights' as positional parameter(s) is {since}. Please use keyword parameter(s) instead."
        warnings.warn(said, UserWarning, stacklevel=3)
    if "pretrained" in kwargs:
        weights = kwargs.pop("pretrained")
        warnings.warn(f"The parameter 'pretrained' is {since}, please use 'weights' instead.", UserWarning, stacklevel=3)
    if weights is not None and not isinstance(weights, (str, WeightsEnum)):
        weights = next(iter(weights_class)) if weights else None
        said = f"Arguments other than a weight enum or `None` for 'weights' are {since}. "
        said += f"The current behavior is equivalent to passing `weights={weights}`."
        if weights is not None:
            said += f" You can also use `weights={weights_class.__name__}.DEFAULT` to get the most up-to-date weights."
        warnings.warn(said, UserWarning, stacklevel=3)
    return weights_class.verify(weights)


def register_model(name: str | None = None) -> Callable:
    """Return a decorator that registers a builder for `get_model` and `list_models`."""

    def wrapper(fn: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
        key = name if name is not None else fn.__name__
        if key in _BUILDERS:
            raise ValueError(f"An entry is already registered under the name '{key}'.")
        _BUILDERS[key] = fn
        return fn

    return wrapper


def list_models(module: Any = None, include: Iterable[str] | str | None = None, exclude: Iterable[str] | str | None = None) -> list[str]:
    """Return sorted model names, of one module if given, that match any pattern in `include` and none in `exclude` ("resnet*")."""
    names = [
        key
        for key, fn in _BUILDERS.items()
        if module is None or fn.__module__.rpartition(".")[0] == module.__name__ or fn.__module__ == module.__name__
    ]
    patterns = {"include": include, "exclude": exclude}
    kept, out = ([given] if isinstance(given, str) else given and list(given) for given in patterns.values())
    found = [n for n in names if not kept or any(fnmatch.fnmatch(n, pattern) for pattern in kept)]
    return sorted(n for n in found if not any(fnmatch.fnmatch(n, pattern) for pattern in out or ()))


def get_model_builder(name: str) -> Callable[..., nn.Module]:
    """Return the builder of that name. Raises ValueError if there is none."""
    if name.lower() not in _BUILDERS:
        raise ValueError(f"Unknown model {name.lower()}")
    return _BUILDERS[name.lower()]


def get_model(name: str, **config: Any) -> nn.Module:
    """Create a model by name."""
    return get_model_builder(name)(**config)


def get_model_weights(name: Any) -> Any:
    """Return the enum of a model's weights, given its name or builder."""
    return (name if callable(name) else get_model_builder(name)).weights_class  # type: ignore[attr-defined]


def get_weight(name: str) -> Any:
    """Return weights by their full name, such as "ResNet50_Weights.IMAGENET1K_V1"."""
    cls, _, member = name.partition(".")
    if not member:
        raise ValueError(f"Invalid weight name provided: '{name}'.")
    for fn in _BUILDERS.values():
        if fn.weights_class.__name__ == cls:  # type: ignore[attr-defined]
            return fn.weights_class.verify(member)  # type: ignore[attr-defined]
    raise ValueError(f"The weight enum '{cls}' for the specific method couldn't be retrieved.")
