"""Random tensors, random in-place fills, and dropout. A seed reproduces PyTorch's values: see `engine.random`."""

import functools
import importlib
import math
import operator

import numpy

from ..backends import cpu, kernels_random
from ..base import dtypes
from ..base.errors import warn
from ..core import devices, inplace, random, tape
from ..core.batching import randomly
from ..core.create import _shape, empty_like, factory, made, number
from ..core.devices import making, namespace
from ..core.naming import named
from ..core.op import Elementwise, composite, functions
from ..core.tensor import Tensor, define
from .shape import broadcast_shapes


def public(fn):
    """Publish a function as `engine.<name>`."""
    functions[fn.__name__] = fn = randomly(factory(fn))
    return fn


def filler(fn):
    """Publish a method of Tensor that fills it in place; its old values and history are discarded."""
    fn = randomly(fn)
    define(fn.__name__, fn)
    return fn


def from_to(fn):
    """Accept the bounds as keywords `from` and `to` too: `from` is a Python keyword and cannot be a parameter."""
    @functools.wraps(fn)
    def call(self, *args, **kwargs):
        return fn(self, *args, **{{"from": "low", "to": "high"}.get(k, k): v for k, v in kwargs.items()})

    return call


def _numbers(function, **given):
    """Return the real numbers that a filler was given, in the order of its parameters; 0-d tensors become numbers."""
    return [number(value, function, name, position, "float") for position, (name, value) in enumerate(given.items(), 1)]


def _within(low, high, d):
    """Raise RuntimeError unless a dtype can hold the integers from `low` to `high` - 1."""
    if low >= high: raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if d.kind not in "iub": return
    limits = (0, 1) if d.kind == "b" else (numpy.iinfo(d).min, numpy.iinfo(d).max)
    for told, n in (("from", low), ("to - 1", high - 1)):
        if not limits[0] <= n <= limits[1]: raise RuntimeError(f"{told} is out of bounds for {dtypes.FROM_NUMPY[d].name}")


def _drawing(device, generator=None):
    """The functions that draw on a device, those of `kernels_random`, and the generator: the given one, or by default the device's."""
    if generator is not None and not isinstance(generator, random.Generator): raise TypeError(f"argument 'generator' must be Generator, not {type(generator).__name__}")
    device = devices.get_default_device() if device is None else devices.device(device)
    if generator is not None and device.type in ("cpu", "cuda") and generator.device.type != device.type:
        raise RuntimeError(f"Expected a '{device.type}' device type for generator but found '{generator.device.type}'")
    on_gpu = device.type == "cuda" and devices.cuda() is not None
    draws = random.drawing.by or (importlib.import_module("engine.backends.gpu.random") if on_gpu else kernels_random)
    return draws, random.generator_of(device) if generator is None else generator


def _drawn(draws, n, dtype, name, device, generator):
    """Return values from `draws(draw, source, n, dtype)`, as `_parts` does, for a dtype and a device that are None by default."""
    d = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
    return _row(functools.partial(_parts, draws), n, d.numpy if d.is_complex else _float(d, name), device, generator)


def _parts(draws, draw, source, n, d):
    """Return values from `draws(draw, source, n, dtype)`; complex ones are pairs of real ones."""
    return draws(draw, source, n, d) if d.kind != "c" else draws(draw, source, 2 * n, dtypes.FROM_NUMPY[d].to_real().numpy).view(d)


def _row(draws, n, d, device, generator):
    """Return values from `draws(draw, source, n, d)`; none are drawn for a device without memory."""
    xp = making(device)
    return draws(*_drawing(device, generator), n, d) if xp is cpu else xp.empty(n, d)


def _float(dtype, name):
    d = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
    if not d.is_floating_point: raise NotImplementedError(f"{name!r} not implemented for {d.name!r}")
    return d.numpy


# -- new tensors -----------------------------------------------------------------------------------------------------------


@public
def rand(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Uniform random values in [0, 1)."""
    shape = _shape(size)
    drawn = _drawn(lambda draw, source, n, d: draw.uniform(source, n, d), math.prod(shape), dtype, "rand", device, generator)
    return made(drawn.reshape(shape), device, requires_grad)


@public
def randn(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Normal random values of mean 0 and variance 1."""
    shape = _shape(size)
    std = math.sqrt(0.5) if dtype is not None and dtypes.as_dtype(dtype).is_complex else 1.0  # complex values have variance 1 in all
    drawn = _drawn(lambda draw, source, n, d: draw.normal(source, n, d, 0.0, std), math.prod(shape), dtype, "normal", device, generator)
    return made(drawn.reshape(shape), device, requires_grad)


@public
def randint(low=0, high=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False):
    """Random integers from `low` (default 0) to `high` - 1, int64 by default: `randint(10, (2, 3))`, `randint(3, 10, (2,))`."""
    if size is None and hasattr(high, "__iter__"): high, size = None, high
    for name, bound in (("low", low), ("high", low if high is None else high)):
        if not hasattr(bound, "__index__"): raise TypeError(f"randint(): argument '{name}' must be int, not {type(bound).__name__}")
    if high is None: low, high = 0, low
    if not hasattr(size, "__iter__") or isinstance(size, str): raise TypeError(f"randint() takes the size as a tuple of ints: randint(low=0, high, size), got {size!r}")
    shape = _shape((size,))
    d = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    _within(int(low), int(high), d.numpy)
    drawn = _row(lambda draw, source, n, d: draw.integers(source, n, int(low), int(high), d), math.prod(shape), d.numpy, device, generator)
    return made(drawn.reshape(shape), device, requires_grad)


@public
def randperm(n, *, generator=None, dtype=None, device=None, requires_grad=False):
    """Random permutation of the integers from 0 to n - 1."""
    n = operator.index(n)
    if n < 0: raise RuntimeError(f"n must be non-negative, got {n}")
    if dtype is not None and n: _within(0, n, dtypes.as_numpy(dtype))
    d = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    return made(_row(lambda draw, source, n, d: draw.permutation(source, n).astype(d), n, d.numpy, device, generator), device, requires_grad)


def _filled(fill, input, dtype, device, requires_grad, memory_format):
    """Return a tensor like `input`, filled in the order of its memory."""
    if not isinstance(input, Tensor): raise TypeError(f"argument 'input' must be Tensor, not {type(input).__name__}")
    out = empty_like(input.detach(), dtype=dtype, device=device, memory_format=memory_format)
    fill(out)
    return out.requires_grad_() if requires_grad else out


@public
def rand_like(input, *, generator=None, dtype=None, device=None, requires_grad=False, memory_format=None):
    """`rand` with the shape, dtype, device and memory layout of a tensor."""
    return _filled(lambda out: out.uniform_(generator=generator), input, dtype, device, requires_grad, memory_format)


@public
def randn_like(input, *, generator=None, dtype=None, device=None, requires_grad=False, memory_format=None):
    """`randn` with the shape, dtype, device and memory layout of a tensor."""
    return _filled(lambda out: out.normal_(generator=generator), input, dtype, device, requires_grad, memory_format)


@public
def randint_like(input, low=0, high=None, *, generator=None, dtype=None, device=None, requires_grad=False, memory_format=None):
    """`randint` with the shape, dtype, device and memory layout of a tensor."""
    low, high = (0, low) if high is None else (low, high)
    return _filled(lambda out: out.random_(int(low), int(high), generator=generator), input, dtype, device, requires_grad, memory_format)


class sampled(Elementwise):
    """Random values `input`, drawn with a parameter, whose gradient is 0, as in PyTorch."""
    home, inplace, inputs, types = "", False, ("input", "parameter"), "any"
    examples = ((((2, 3), (2, 1)), {}), (((3,), ()), {}))
    exempt = {"promotion": "only random functions use it.", "zero_size": "PyTorch has no function of this name.", "broadcasting": "the values have the shape of all parameters together."}
    def forward(xp, input, parameter): return xp.copy(input)
    def d_input(xp, g): return g
    def d_parameter(xp, g): return xp.zeros_like(g)


def _with(values, *parameters, name="Normal"):
    """Return drawn values that require a gradient if a parameter does; `name` is that of PyTorch's node."""
    for one in parameters:
        if isinstance(one, Tensor) and one.requires_grad: values = named(sampled(values, one), name)
    return values


@public
def normal(mean, std=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False):
    """Normal random values with tensors or scalars as means and standard deviations; for two scalars, `size` is the shape."""
    std = 1.0 if std is None else std
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None: raise TypeError("normal() of two numbers needs the size")
        if std < 0: raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        shape = _shape((size,))
        drawn = _row(lambda draw, source, n, d: draw.normal(source, n, d, mean, std), math.prod(shape), _float(dtype, "normal"), device, generator)
        return made(drawn.reshape(shape), device, requires_grad)
    if isinstance(std, Tensor): devices.require(~(std.array < 0), RuntimeError, "normal expects all elements of std >= 0.0")
    like = mean if isinstance(mean, Tensor) else std
    shape = broadcast_shapes(*[tuple(x.shape) for x in (mean, std) if isinstance(x, Tensor)])
    values = [x.detach() if isinstance(x, Tensor) else x for x in (mean, std)]
    return _with(randn(shape, generator=generator, dtype=like.dtype, device=like.device) * values[1] + values[0], mean, std)


def _probable(p):
    """Raise RuntimeError for what is no probability in an array on the CPU."""
    if namespace(p) is cpu and not ((p >= 0) & (p <= 1)).all(): raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


@public
def bernoulli(input, p=None, *, generator=None):
    """Ones with the probabilities in `input` (or all with `p`), else zeros, in the dtype of the input; their gradient is 0."""
    if input.is_meta: return _with(empty_like(input.detach()), input, name="Bernoulli")
    draw, source = _drawing(input.device, generator)
    array = input.array
    if p is not None:
        drawn = draw.bernoulli(source, array.size, p)
    else:
        _floating(input, "bernoulli_tensor_cpu_p_")
        _probable(array)
        drawn = draw.bernoulli_each(source, array)
    return _with(made(drawn.astype(array.dtype).reshape(array.shape), input.device), input, name="Bernoulli")


@public
def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Indices drawn in proportion to the weights in each row of `input` (rows, columns), or in a single row (columns,)."""
    if input.ndim not in (1, 2): raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.is_floating_point(): raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype.name}")
    if num_samples <= 0: raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]: raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if input.is_meta: return input.new_empty((*input.shape[:-1], num_samples), dtype=dtypes.int64)
    (draw, source), xp = _drawing(input.device, generator), namespace(input.array)
    weights = input.array.reshape(-1, input.shape[-1])
    devices.require(xp.isfinite(weights) & (weights >= 0), RuntimeError, "probability tensor contains either `inf`, `nan` or element < 0")
    devices.require(weights.sum(1) != 0, RuntimeError, "invalid multinomial distribution (sum of probabilities <= 0)")
    found = draw.multinomial(source, weights, num_samples, replacement)
    return made(found.reshape(*input.shape[:-1], num_samples).astype(numpy.int64), input.device)


@public
def poisson(input, generator=None):
    """Poisson random values with the rates in `input`, in the dtype of the input; their gradient is 0."""
    _floating(input, "poisson_cpu")
    if input.is_meta: return _with(empty_like(input.detach()), input, name="Poisson")
    host = input._host()
    if (host < 0).any(): raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    drawn = (random.drawing.by or kernels_random).poisson(_drawing(input.device, generator)[1], host.reshape(-1).astype(float))
    return _with(made(drawn.astype(host.dtype).reshape(host.shape), input.device), input, name="Poisson")


@public
def binomial(count, prob, generator=None):
    """Number of successes in `count` trials of probability `prob`, for two float tensors that broadcast."""
    for name, x in (("count", count), ("prob", prob)):
        if not x.is_floating_point(): raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {x.dtype.name}")
    if count.is_meta: return count + prob
    n, p = numpy.broadcast_arrays(count._host().astype(float), prob._host().astype(float))
    draws, source = random.drawing.by or kernels_random, _drawing(count.device, generator)[1]
    drawn = [draws.binomial(source, a, b) for a, b in zip(n.ravel().tolist(), p.ravel().tolist(), strict=True)]
    return made(numpy.array(drawn).reshape(n.shape).astype(count.array.dtype), count.device)


define("bernoulli", bernoulli)
define("multinomial", multinomial)


# -- in-place fills --------------------------------------------------------------------------------------------------------


def _fill(tensor, name, generator, numbers):
    """Write `numbers(draw, source, n, dtype)` into a tensor, in the order of its memory; see `_drawing`."""
    inplace.refuse_leaf(tensor, name)
    array = tensor.array
    inplace.refuse_overlap(array, name)
    if not tensor.is_meta:
        drawn = numbers(*_drawing(tensor.device, generator), array.size, array.dtype)
        place = array if array.flags.c_contiguous else array.transpose(sorted(range(array.ndim), key=lambda i: -abs(array.strides[i])))
        place[...] = namespace(array).asarray(drawn.reshape(place.shape))
    recorded = tape.mode.grad
    inplace.note_write_to(tensor, name, recorded)
    if recorded and tensor.node is not None: inplace.rebase(tensor, inplace.constant(tensor))
    return tensor


def _floating(tensor, name):
    if not tensor.is_floating_point(): raise NotImplementedError(f'"{name}" not implemented for {tensor.dtype.name!r}')


@filler
@from_to
def uniform_(self, low=0.0, high=1.0, *, generator=None):
    """Fill with uniform random values in [low, high); the keywords `from` and `to` are accepted too."""
    if not self.is_complex(): _floating(self, "check_uniform_bounds")
    low, high = _numbers("uniform_", **{"from": low, "to": high})
    if low > high: raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    return _fill(self, "uniform_", generator, lambda draw, source, n, d: _parts(lambda draw, source, n, d: draw.uniform(source, n, d, low, high), draw, source, n, d))


@filler
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fill with normal random values."""
    mean, std = _numbers("normal_", mean=mean, std=std)
    _floating(self, "normal_kernel_cpu")
    if std < 0: raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return _fill(self, "normal_", generator, lambda draw, source, n, d: draw.normal(source, n, d, mean, std, self.is_contiguous()))


@filler
def random_(self, *bounds, generator=None, **named):
    """Fill with random integers: `random_(from, to)` up to `to` - 1, `random_(to)` from 0, `random_()` over the range of the dtype."""
    low, high = _bounds(self, bounds, named)
    if low is None: return _fill(self, "random_", generator, lambda draw, source, n, d: draw.full_range(source, n, d))
    _within(low, high, self.array.dtype)
    return _fill(self, "random_", generator, lambda draw, source, n, d: draw.integers(source, n, low, high, d))


def _bounds(tensor, bounds, named):
    if not named.keys() <= {"from", "to"} or len(bounds) + len(named) > 2: raise TypeError(f"random_() takes from and to, got {bounds} and {named}")
    if len(bounds) == 1 and not named: return 0, bounds[0]
    low, high = (*bounds, None, None)[:2]
    low, high = named.get("from", low), named.get("to", high)
    if low is not None and high is None:
        d = tensor.array.dtype
        high = int(numpy.iinfo(d).max) + 1 if d.kind in "iu" else int(2 / dtypes.finfo(tensor.dtype).eps)
    return (0 if low is None and high is not None else low), high


@filler
def bernoulli_(self, p=0.5, *, generator=None):
    """Fill with ones of probability `p`, a scalar or a tensor that broadcasts, and zeros."""
    if isinstance(p, Tensor):
        each = p.array if p.is_meta or p.is_cuda and self.is_cuda else namespace(self.array).asarray(p._host())
        each = namespace(each).broadcast_to(each, self.shape)
        _probable(each)
        return _fill(self, "bernoulli_", generator, lambda draw, source, n, d: draw.bernoulli_each(source, each).astype(d))
    (p,) = _numbers("bernoulli_", p=p)
    if not 0 <= p <= 1: raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _fill(self, "bernoulli_", generator, lambda draw, source, n, d: draw.bernoulli(source, n, p).astype(d))


@filler
def exponential_(self, lambd=1.0, *, generator=None):
    """Fill with exponential random values of rate `lambd`."""
    if not self.is_floating_point(): raise RuntimeError(f"Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified {self.dtype.name}")
    (lambd,) = _numbers("exponential_", lambd=lambd)
    if lambd <= 0: raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _fill(self, "exponential_", generator, lambda draw, source, n, d: draw.exponential(source, n, d, lambd))


@filler
def geometric_(self, p, *, generator=None):
    """Fill with the number of trials of probability `p` up to the first success."""
    (p,) = _numbers("geometric_", p=p)
    if not 0 < p < 1: raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _fill(self, "geometric_", generator, lambda draw, source, n, d: draw.geometric(source, n, d, p))


@filler
def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Fill with Cauchy random values."""
    _floating(self, "cauchy")
    median, sigma = _numbers("cauchy_", median=median, sigma=sigma)
    if sigma <= 0: raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return _fill(self, "cauchy_", generator, lambda draw, source, n, d: draw.cauchy(source, n, d, median, sigma))


@filler
def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """Fill with log-normal random values; `mean` and `std` are those of the logarithm."""
    _floating(self, "log_normal_cpu")
    mean, std = _numbers("log_normal_", mean=mean, std=std)
    if std <= 0: raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _fill(self, "log_normal_", generator, lambda draw, source, n, d: draw.log_normal(source, n, d, mean, std))


# -- dropout ---------------------------------------------------------------------------------------------------------------


class masked_scale(Elementwise):
    """The input times `scale` where the mask is True, else 0."""
    home, inplace, inputs, types = "", False, ("input", "mask"), "any"
    examples = ((((2, 3), [[True, False, True], [True, True, False]]), {"scale": 2.0}),)
    exempt = {"promotion": "only dropout uses it.", "zero_size": "PyTorch has no function of this name.", "broadcasting": "the mask is drawn to fit."}
    def forward(xp, input, mask, scale=1.0): return xp.where(mask, input * scale, 0)
    def d_input(xp, g, mask, scale): return xp.where(mask, g * scale, 0)


@randomly
def _kept(input, p, shape):
    """Return a mask of the elements that stay. As in PyTorch, values are drawn in the memory order of the input."""
    drawn = _row(lambda draw, source, n, d: draw.bernoulli(source, n, 1 - p), math.prod(shape), numpy.bool_, input.device, None)
    return made(_laid_as(input.array, drawn) if shape == input.shape else drawn.reshape(shape), input.device)


def _laid_as(beside, flat):
    """Reshape drawn values to the shape of an array, in the order of its memory."""
    if getattr(beside, "flags", None) is not None and beside.flags.c_contiguous and 0 not in beside.strides: return flat.reshape(beside.shape)
    axes, strides, shape = list(range(beside.ndim)), beside.strides, beside.shape
    # PyTorch infers a dense layout by strides, the largest outermost; an axis of stride 0 is neither larger nor smaller
    for moving in range(beside.ndim - 2, -1, -1):
        for inner in range(moving + 1, beside.ndim):
            a, b = axes[inner], axes[moving]
            if strides[a] and strides[b] and strides[a] < strides[b]: break
            if strides[a] and strides[b] and (strides[a], shape[a]) > (strides[b], shape[b]):
                axes[inner], axes[moving], moving = b, a, inner
    return flat.reshape([beside.shape[axis] for axis in axes]).transpose(sorted(range(len(axes)), key=axes.__getitem__))


def _probability(p):
    if not 0 <= p <= 1: raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _into(input, result, in_place, name):
    """Return the result, or the input after writing the result to it."""
    if not in_place: return result
    inplace.refuse_leaf(input, name)
    inplace.put(input, result, name)
    return input


def _checked(input, shape):
    if len(shape) > input.ndim: raise RuntimeError(f"Feature dropout requires at least {len(shape)} dimensions in the input, but got {input.ndim}")


def _drop(input, p, training, in_place, shape, name):
    _probability(p)
    if not training or p == 0 or not input.numel(): return input
    if p == 1: return _into(input, input * 0, in_place, name)
    _checked(input, shape)
    if input.dtype.rank <= dtypes.INT: raise RuntimeError(f"dropout scales by {1 / (1 - p):g}, and so needs floating-point or complex numbers, but got {input.dtype.name}")
    return _into(input, masked_scale(input, _kept(input, p, shape), 1 / (1 - p)), in_place, name)


@composite(home="nn.functional")
def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability `p` and scale the others by 1 / (1 - p); without `training`, return the input."""
    return _drop(input, p, training, inplace, tuple(input.shape), "dropout_")


def _channels(input, dims):
    """Shape of a mask that is constant over each channel."""
    first = tuple(input.shape[:dims])
    return (*first, *(1,) * (max(input.ndim, dims) - len(first)))


@composite(home="nn.functional")
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, L) or (C, L) with probability `p`, and scale the others by 1 / (1 - p)."""
    if input.ndim not in (2, 3): raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs).")
    return _drop(input, p, training, inplace, _channels(input, input.ndim - 1), "dropout1d_")


@composite(home="nn.functional")
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, H, W); also of (N, C, L) and other shapes, with a warning."""
    if input.ndim == 3: warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using dropout1d instead.")
    elif input.ndim != 4: _warn_of_dims(input, 2)
    return _drop(input, p, training, inplace, _channels(input, 2), "dropout2d_")


@composite(home="nn.functional")
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W); for other shapes, with a warning, along the first dimension."""
    if input.ndim not in (4, 5): _warn_of_dims(input, 3)
    return _drop(input, p, training, inplace, _channels(input, 2 if input.ndim == 5 else 1), "dropout3d_")


def _warn_of_dims(input, n):
    warn(f"dropout{n}d: Received a {input.ndim}-D input to dropout{n}d, which is deprecated and will result in an error in a future release. To retain the behavior and silence this warning, please use dropout instead. Note that dropout{n}d exists to provide channel-wise dropout on inputs with {n} spatial dimensions, a channel dimension, and an optional batch dimension (i.e. {n + 1}D or {n + 2}D inputs).")


_SATURATED = -1.7580993408473766  # SELU at minus infinity


def _alpha_drop(input, p, training, in_place, shape, name):
    """Set dropped elements to SELU's lowest value, then scale and shift all back to zero mean and unit variance."""
    _probability(p)
    if not training or p == 0 or not input.numel(): return input
    if p == 1: return _into(input, input * 0, in_place, name)
    _checked(input, shape)
    mask = _kept(input, p, shape)
    a = 1 / math.sqrt((_SATURATED**2 * p + 1) * (1 - p))
    real = input.array.dtype.type
    shift = Tensor._wrap(namespace(mask.array).where(mask.array, real(0), real(_SATURATED * a)) + real(-_SATURATED * a * p))
    return _into(input, masked_scale(input, mask, a) + shift, in_place, name)


@composite(home="nn.functional")
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that preserves zero mean and unit variance after a SELU (Klambauer et al., 2017)."""
    return _alpha_drop(input, p, training, inplace, tuple(input.shape), "alpha_dropout_")


@composite(home="nn.functional")
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Alpha dropout of whole channels of (N, C, ...)."""
    return _alpha_drop(input, p, training, inplace, _channels(input, 2), "feature_alpha_dropout_")


@randomly
def _slopes(input, lower, upper):
    """Random slopes where the input is not positive, ones elsewhere."""
    if input.is_meta: return empty_like(input.detach())
    below = input._host() <= 0
    slopes = numpy.ones(below.shape, input.array.dtype)
    slopes[below] = input.new_empty((int(below.sum()),), dtype=dtypes.float64).uniform_(lower, upper)._host()
    return Tensor._wrap(namespace(input.array).asarray(slopes))


@composite(home="nn.functional")
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """x where it is positive, else `a * x`: in training, `a` is drawn from U(lower, upper) for each element, else it is their mean."""
    if lower > upper: raise RuntimeError(f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training: return functions["nn.functional.leaky_relu"](input if inplace else input.contiguous(), (lower + upper) / 2, inplace)
    slopes = _slopes(input, lower, upper)
    return input.mul_(slopes) if inplace else input.contiguous() * slopes


@randomly
def _gumbel(beside):
    """Gumbel noise in the shape of a tensor."""
    noise = _row(lambda draw, source, n, d: draw.exponential(source, n, d), beside.numel(), beside.array.dtype, beside.device, None)
    return made(-namespace(noise).log(noise.reshape(beside.shape)), beside.device)


@composite(home="nn.functional")
def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
    """Differentiable samples of a categorical distribution: softmax of logits plus Gumbel noise, or with `hard` one-hot vectors."""
    if logits.dtype.rank < dtypes.FLOAT: raise RuntimeError(f"gumbel_softmax: logits must be of a floating point dtype, but are of {logits.dtype.name}")
    soft = ((logits + _gumbel(logits)) / tau).softmax(dim)
    if not hard: return soft
    one = soft.new_zeros(soft.shape).scatter(dim, soft.detach().argmax(dim, keepdim=True), 1.0)
    return one - soft.detach() + soft


functions.update(
    {name: functions[f"nn.functional.{name}"] for name in ("dropout", "alpha_dropout", "feature_alpha_dropout")}
    | {"seed": random.seed, "manual_seed": random.manual_seed, "initial_seed": random.initial_seed, "Generator": random.Generator}
    | {"get_rng_state": random.get_rng_state, "set_rng_state": random.set_rng_state, "default_generator": random.default_generator}
)
