"""Random tensors, random fillings in place, and dropout. A seed gives PyTorch's numbers: see `engine.random`."""

import math

import numpy

from .. import dtypes, inplace, random
from ..backends import kernels_random as draw
from ..create import _shape, made
from ..devices import namespace
from ..op import Elementwise, composite, functions
from ..tensor import Tensor


def public(fn):
    """Found as `engine.<name>`."""
    functions[fn.__name__] = fn
    return fn


def filler(fn):
    """Found as a method of Tensor, which it fills in place: the old values and their history are gone."""
    setattr(Tensor, fn.__name__, fn)
    return fn


def _source(generator):
    return random.default_generator if generator is None else generator


def _float(dtype, name):
    d = dtypes.default if dtype is None else dtypes.as_dtype(dtype)
    if not d.is_floating_point: raise NotImplementedError(f"{name!r} not implemented for {d.name!r}")
    return d.numpy


# -- new tensors -----------------------------------------------------------------------------------------------------------


@public
def rand(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Uniform random numbers in [0, 1)."""
    shape = _shape(size)
    return made(draw.uniform(_source(generator), math.prod(shape), _float(dtype, "rand")).reshape(shape), device, requires_grad)


@public
def randn(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Normal random numbers of mean 0 and variance 1."""
    shape = _shape(size)
    return made(draw.normal(_source(generator), math.prod(shape), _float(dtype, "normal")).reshape(shape), device, requires_grad)


@public
def randint(low, high=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False):
    """Random integers from `low` (0 when left out) to `high` - 1, int64 unless told otherwise: `randint(10, (2, 3))`, `randint(3, 10, (2,))`."""
    if size is None and (high is None or hasattr(high, "__iter__")): low, high, size = 0, low, high
    if size is None: raise TypeError("randint() missing the size: randint(low=0, high, size)")
    if low >= high: raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    shape = _shape((size,))
    d = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    return made(draw.integers(_source(generator), math.prod(shape), int(low), int(high), d.numpy).reshape(shape), device, requires_grad)


@public
def randperm(n, *, generator=None, dtype=None, device=None, requires_grad=False):
    """The integers from 0 to n - 1 in random order."""
    if n < 0: raise RuntimeError(f"n must be non-negative, got {n}")
    return made(draw.permutation(_source(generator), n).astype((dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)).numpy), device, requires_grad)


def _like(input, dtype, device):
    return {"dtype": input.dtype if dtype is None else dtype, "device": input.device if device is None else device}


@public
def rand_like(input, *, generator=None, dtype=None, device=None, requires_grad=False):
    """`rand` with the shape, dtype and device of a tensor."""
    return rand(*input.shape, generator=generator, requires_grad=requires_grad, **_like(input, dtype, device))


@public
def randn_like(input, *, generator=None, dtype=None, device=None, requires_grad=False):
    """`randn` with the shape, dtype and device of a tensor."""
    return randn(*input.shape, generator=generator, requires_grad=requires_grad, **_like(input, dtype, device))


@public
def randint_like(input, low, high=None, *, generator=None, dtype=None, device=None, requires_grad=False):
    """`randint` with the shape, dtype and device of a tensor."""
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, input.shape, generator=generator, requires_grad=requires_grad, **_like(input, dtype, device))


@public
def normal(mean, std=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False):
    """Normal random numbers whose means and standard deviations are tensors or numbers; of two numbers, `size` is the shape."""
    std = 1.0 if std is None else std
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None: raise TypeError("normal() of two numbers needs the size")
        if std < 0: raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        shape = _shape((size,))
        return made(draw.normal(_source(generator), math.prod(shape), _float(dtype, "normal"), mean, std).reshape(shape), device, requires_grad)
    if isinstance(std, Tensor) and bool((std < 0).any()): raise RuntimeError("normal expects all elements of std >= 0.0")
    like = mean if isinstance(mean, Tensor) else std
    shape = numpy.broadcast_shapes(*[tuple(x.shape) for x in (mean, std) if isinstance(x, Tensor)])
    values = [x.detach() if isinstance(x, Tensor) else x for x in (mean, std)]
    return randn(*shape, generator=generator, dtype=like.dtype, device=like.device) * values[1] + values[0]


@public
def bernoulli(input, p=None, *, generator=None):
    """Ones with the probabilities that `input` holds (or all with `p`), else zeros; the dtype is the input's."""
    host = input._host()
    if p is not None:
        drawn = draw.bernoulli(_source(generator), host.size, p)
    else:
        if not input.is_floating_point(): raise RuntimeError(f"bernoulli: expected probabilities as floats, got {input.dtype.name}")
        if not ((host >= 0) & (host <= 1)).all(): raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        drawn = draw.bernoulli_each(_source(generator), host)
    return made(drawn.astype(host.dtype).reshape(host.shape), input.device)


@public
def multinomial(input, num_samples, replacement=False, *, generator=None):
    """Indices drawn in proportion to the weights in each row of `input` (rows, columns), or in a single row (columns,)."""
    if input.ndim not in (1, 2): raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.is_floating_point(): raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype.name}")
    if num_samples <= 0: raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]: raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    weights = input._host().reshape(-1, input.shape[-1])
    if not (numpy.isfinite(weights).all() and (weights >= 0).all()): raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(1) == 0).any(): raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    found = draw.multinomial(_source(generator), weights, num_samples, replacement)
    return made(found.reshape(*input.shape[:-1], num_samples).astype(numpy.int64), input.device)


@public
def poisson(input, generator=None):
    """Poisson random numbers whose rates are the elements of `input`; the dtype is the input's."""
    host = input._host()
    if (host < 0).any(): raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return made(draw.poisson(_source(generator), host.reshape(-1).astype(float)).astype(host.dtype).reshape(host.shape), input.device)


Tensor.bernoulli, Tensor.multinomial = bernoulli, multinomial


# -- filling in place ------------------------------------------------------------------------------------------------------


def _fill(tensor, name, numbers):
    """Put `numbers(n, dtype)` into a tensor's memory, in the order in which the memory lies."""
    inplace.refuse_leaf(tensor, name)
    array = tensor.array
    order = sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))
    drawn = numbers(array.size, array.dtype)
    place = array.transpose(order)
    place[...] = namespace(array).asarray(drawn.reshape(place.shape))
    inplace.note_write(array, name)
    if tensor.node is not None and tensor.node.op is not None: inplace.rebase(tensor, None)
    return tensor


def _floating(tensor, name):
    if not tensor.is_floating_point(): raise NotImplementedError(f'"{name}" not implemented for {tensor.dtype.name!r}')


@filler
def uniform_(self, a=0.0, b=1.0, *, generator=None):
    """Fill with uniform random numbers in [a, b)."""
    _floating(self, "check_uniform_bounds")
    if a > b: raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    return _fill(self, "uniform_", lambda n, d: draw.uniform(_source(generator), n, d, a, b))


@filler
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fill with normal random numbers."""
    _floating(self, "normal_kernel_cpu")
    if std < 0: raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return _fill(self, "normal_", lambda n, d: draw.normal(_source(generator), n, d, mean, std, self.is_contiguous()))


@filler
def random_(self, low=None, high=None, *, generator=None):
    """Fill with random integers: from `low` to `high` - 1, from 0 to `low` - 1, or over all that the dtype can count."""
    if low is None: return _fill(self, "random_", lambda n, d: draw.full_range(_source(generator), n, d))
    low, high = (0, low) if high is None else (low, high)
    if low >= high: raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return _fill(self, "random_", lambda n, d: draw.integers(_source(generator), n, low, high, d))


@filler
def bernoulli_(self, p=0.5, *, generator=None):
    """Fill with ones of probability `p`, a number or a tensor that broadcasts, and zeros."""
    if isinstance(p, Tensor):
        host = numpy.broadcast_to(p._host(), self.shape)
        return _fill(self, "bernoulli_", lambda n, d: draw.bernoulli_each(_source(generator), host).astype(d))
    if not 0 <= p <= 1: raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _fill(self, "bernoulli_", lambda n, d: draw.bernoulli(_source(generator), n, p).astype(d))


@filler
def exponential_(self, lambd=1.0, *, generator=None):
    """Fill with exponential random numbers of rate `lambd`."""
    _floating(self, "exponential")
    if lambd <= 0: raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _fill(self, "exponential_", lambda n, d: draw.exponential(_source(generator), n, d, lambd))


@filler
def geometric_(self, p, *, generator=None):
    """Fill with how many trials of probability `p` the first success takes."""
    if not 0 < p < 1: raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _fill(self, "geometric_", lambda n, d: draw.geometric(_source(generator), n, d, p))


@filler
def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Fill with Cauchy random numbers."""
    _floating(self, "cauchy")
    if sigma <= 0: raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return _fill(self, "cauchy_", lambda n, d: draw.cauchy(_source(generator), n, d, median, sigma))


@filler
def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """Fill with numbers whose logarithm is normal."""
    _floating(self, "log_normal_cpu")
    if std <= 0: raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _fill(self, "log_normal_", lambda n, d: numpy.exp(draw.normal_pairs(_source(generator), n) * std + mean).astype(d))


# -- dropout ---------------------------------------------------------------------------------------------------------------


class masked_scale(Elementwise):
    """The input times `scale` where the mask is True, else zero."""
    home, inplace, inputs, types = "", False, ("input", "mask"), "any"
    examples = ((((2, 3), [[True, False, True], [True, True, False]]), {"scale": 2.0}),)
    exempt = {"promotion": "only dropout uses it.", "zero_size": "PyTorch has no function of this name.", "broadcasting": "the mask is drawn to fit."}
    def forward(xp, input, mask, scale=1.0): return xp.where(mask, input * scale, xp.zeros_like(input[..., :1] if input.ndim else input))
    def d_input(xp, g, mask, scale): return xp.where(mask, g * scale, xp.zeros_like(g[..., :1] if g.ndim else g))


def _kept(input, p, shape):
    """Which elements stay: a mask of the given shape."""
    return made(draw.bernoulli(random.default_generator, math.prod(shape), 1 - p).reshape(shape), input.device)


def _probability(p):
    if not 0 <= p <= 1: raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _into(input, result, in_place, name):
    """The result, or the input that it was put into."""
    if not in_place: return result
    inplace.refuse_leaf(input, name)
    inplace.put(input, result, name)
    return input


def _drop(input, p, training, in_place, shape, name):
    _probability(p)
    if not training or p == 0 or not input.numel(): return input
    if p == 1: return _into(input, input * 0, in_place, name)
    return _into(input, masked_scale(input, _kept(input, p, shape), 1 / (1 - p)), in_place, name)


@composite(home="nn.functional")
def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability p and scale the others by 1 / (1 - p); without `training`, the input itself."""
    return _drop(input, p, training, inplace, tuple(input.shape), "dropout_")


def _channels(input, dims):
    """The shape of a mask that is the same over all of a channel."""
    return (*input.shape[:dims], *(1,) * (input.ndim - dims))


@composite(home="nn.functional")
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, L) or (C, L)."""
    if input.ndim not in (2, 3): raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs).")
    return _drop(input, p, training, inplace, _channels(input, input.ndim - 1), "dropout1d_")


@composite(home="nn.functional")
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, H, W)."""
    if input.ndim not in (3, 4): raise RuntimeError(f"dropout2d: expected a 4D input (N, C, H, W), but received a {input.ndim}D input")
    return _drop(input, p, training, inplace, _channels(input, 2), "dropout2d_")


@composite(home="nn.functional")
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    if input.ndim not in (4, 5): raise RuntimeError(f"dropout3d: expected a 4D or 5D input, but received a {input.ndim}D input")
    return _drop(input, p, training, inplace, _channels(input, input.ndim - 3), "dropout3d_")


_SATURATED = -1.7580993408473766  # SELU at minus infinity


def _alpha_drop(input, p, training, in_place, shape, name):
    """Dropped elements become SELU's lowest value; then all are scaled and shifted to zero mean and unit variance again."""
    _probability(p)
    if not training or p == 0 or not input.numel(): return input
    if p == 1: return _into(input, input * 0, in_place, name)
    mask = _kept(input, p, shape)
    a = 1 / math.sqrt((_SATURATED**2 * p + 1) * (1 - p))
    real = input.array.dtype.type
    shift = Tensor._wrap(namespace(mask.array).where(mask.array, real(0), real(_SATURATED * a)) + real(-_SATURATED * a * p))
    return _into(input, masked_scale(input, mask, a) + shift, in_place, name)


@composite(home="nn.functional")
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps zero mean and unit variance behind a SELU (Klambauer et al., 2017)."""
    return _alpha_drop(input, p, training, inplace, tuple(input.shape), "alpha_dropout_")


@composite(home="nn.functional")
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Alpha dropout of whole channels of (N, C, ...)."""
    if input.ndim < 2: raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return _alpha_drop(input, p, training, inplace, _channels(input, 2), "feature_alpha_dropout_")


@composite(home="nn.functional")
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """x where it is positive, else a x: in training a is drawn for each element from U(lower, upper), else it is their mean."""
    if lower > upper: raise RuntimeError(f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training: return functions["nn.functional.leaky_relu"](input, (lower + upper) / 2, inplace)
    below = input._host() <= 0
    slopes = numpy.ones(below.shape, input.array.dtype)
    slopes[below] = input.new_empty((int(below.sum()),), dtype=dtypes.float64).uniform_(lower, upper)._host()
    slopes = Tensor._wrap(namespace(input.array).asarray(slopes))
    return input.mul_(slopes) if inplace else input * slopes


@composite(home="nn.functional")
def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
    """Samples of a categorical distribution with a gradient: softmax of logits plus Gumbel noise, or `hard` one-hot vectors of them."""
    noise = draw.exponential(random.default_generator, logits.numel(), logits.array.dtype).reshape(logits.shape)
    soft = ((logits + made(-numpy.log(noise), logits.device)) / tau).softmax(dim)
    if not hard: return soft
    one = soft.new_zeros(soft.shape).scatter(dim, soft.detach().argmax(dim, keepdim=True), 1.0)
    return one - soft.detach() + soft


functions.update(
    {name: functions[f"nn.functional.{name}"] for name in ("dropout", "alpha_dropout", "feature_alpha_dropout")}
    | {"seed": random.seed, "manual_seed": random.manual_seed, "initial_seed": random.initial_seed, "Generator": random.Generator}
    | {"get_rng_state": random.get_rng_state, "set_rng_state": random.set_rng_state, "default_generator": random.default_generator}
)
