"""CuPy without a GPU: CuPy's own Python code over arrays in the host's memory.

CuPy is Python on top of a compiled core (`cupy._core`, `cupy.cuda`). Here the Python part runs as it is, imported a second time, and
the core is replaced: its array class by `strict_arrays.ndarray`, its kernels by NumPy's and SciPy's functions. Element types, promotion
and signatures come from the real package, which imports without a driver; so a call that CuPy refuses is refused here, with CuPy's error.
A part of the core that nothing here replaces raises NotImplementedError.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import cupy as real
import host_cuda
import numpy
import scipy.special
from cupy._core import _routines_logic, _routines_math, _routines_statistics
from host_cuda import captured
from strict_arrays import CORE, UNSUPPORTED, array, arrays_of, from_interface, ndarray, new, quiet, view, waited

# -- kernels -----------------------------------------------------------------------------------------------------------------

_FLOATS = {"e": numpy.float32, "E": numpy.float32}  # half precision is computed in single


def _computed(compute: Callable, arrays: list, kinds: tuple, out_kinds: tuple) -> tuple:
    """Run a function of NumPy's on arrays cast to the loop's types."""
    with quiet():
        hosts = [numpy.asarray(a).astype(_FLOATS.get(numpy.dtype(kind).char, kind)) for a, kind in zip(arrays, kinds, strict=True)]
        found = compute(*hosts)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(numpy.asarray(a).astype(kind) for a, kind in zip(found, out_kinds, strict=True))


class ufunc:
    """A ufunc of CuPy's: its own loops and promotion, NumPy's function of that name."""

    def __init__(self, theirs: Any, compute: Callable | None = None) -> None:
        self._theirs, self._compute = theirs, compute or _function_of(theirs.name)
        self.name = self.__name__ = theirs.name
        self.nin, self.nout, self.types, self._ops, self._doc = theirs.nin, theirs.nout, theirs.types, theirs._ops, theirs._doc

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"

    @captured
    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind", where: Any = None, **more: Any) -> Any:
        if more:
            raise TypeError(f"Wrong arguments {more}")
        if not self.nin <= len(args) <= self.nin + self.nout:
            raise TypeError(f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or {self.nin + self.nout}.")
        outs = args[self.nin :] or (out if isinstance(out, tuple) else (out,) * (out is not None))
        if self._compute is None:
            raise NotImplementedError(f"the stand-in for CuPy has no {self.name}")
        kinds, out_kinds = self._loop(args[: self.nin], dtype)
        arrays_of(a for a in (*args, *outs) if isinstance(a, ndarray))
        inputs = [a._host if isinstance(a, ndarray) else a for a in args[: self.nin]]
        if self.name in INDEXED:
            inputs, kinds = [*inputs, numpy.arange(outs[0].size)], (*kinds, numpy.int64)
        found = _computed(self._compute, inputs, kinds, out_kinds)
        if where is not None:
            raise NotImplementedError("the stand-in for CuPy has no `where` of ufuncs")
        for one, made in zip(outs, found, strict=False):
            if not isinstance(one, ndarray):
                raise TypeError("Output arguments type must be cupy.ndarray")
            if not numpy.can_cast(made.dtype, one.dtype, casting):
                raise TypeError(f"Cannot cast array data from {made.dtype!r} to {one.dtype!r} according to the rule {casting!r}")
            if numpy.broadcast_shapes(made.shape, one.shape) != one.shape:
                raise ValueError("Out shape is mismatched")
        results = tuple(new(made, one) for made, one in zip(found, outs or (None,) * self.nout, strict=True))
        return results[0] if self.nout == 1 else results

    def _loop(self, args: tuple, dtype: Any) -> tuple[tuple, tuple]:
        """The types of the loop that CuPy would choose."""
        kinds, weaks = [], []
        for a in args:
            if not isinstance(a, (ndarray, bool, int, float, complex, numpy.generic)):
                raise TypeError(UNSUPPORTED.format(type(a)))
            kinds.append(a.dtype if hasattr(a, "dtype") else numpy.dtype(type(a)))
            weaks.append(type(a) if type(a) in (int, float, complex) else False)
        if dtype is not None:
            loop = self._ops._guess_routine_from_dtype(numpy.dtype(dtype))
        else:
            loop = _loops(self._ops, tuple(kinds), tuple(weaks))
        if loop is None:
            raise TypeError(f"Wrong type ({dtype or tuple(kinds)}) of arguments for {self.name}")
        return loop.in_types, loop.out_types

    @captured
    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        if self._theirs._scatter_op is None:
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        a._scatter_op(indices, b, self._theirs._scatter_op)

    def reduce(self, array: ndarray, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        if self.name not in ("cupy_add", "cupy_multiply"):
            raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")
        return (array.sum if self.name == "cupy_add" else array.prod)(axis, dtype, out, keepdims)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        a, b = array(a), array(b)
        return self(a.reshape(a.shape + (1,) * b.ndim), b.reshape((1,) * a.ndim + b.shape), **kwargs)


@functools.cache
def _loops(ops: Any, kinds: tuple, weaks: tuple) -> Any:
    """The first loop that takes these types; Python's numbers count less than arrays unless they are of a higher kind."""

    def rank(kind: Any) -> int:
        ranks = ((numpy.bool_, 0), ((numpy.integer, int), 1), ((numpy.inexact, float, complex), 2))
        return next((rank for kinds, rank in ranks if issubclass(kind, kinds)), 3)

    numbers = [rank(weak) for weak in weaks if weak]
    arrays = [rank(kind.type) for kind, weak in zip(kinds, weaks, strict=True) if not weak]
    weak = bool(numbers and arrays) and max(arrays) >= max(numbers)
    return ops._guess_routine_from_in_types(kinds, weaks if weak else (False,) * len(kinds))


class Reduction:
    """A reduction of CuPy's: its own loops, NumPy's function."""

    def __init__(self, theirs: Any, compute: Callable) -> None:
        self._theirs, self._compute = theirs, compute

    @captured
    def __call__(self, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        (host,) = arrays_of((a,))
        ops = self._theirs._ops
        loop = _loops(ops, (a.dtype,), (False,)) if dtype is None else ops._guess_routine_from_dtype(numpy.dtype(dtype))
        if loop is None:
            raise TypeError(f"Wrong type of arguments for {self._theirs.name}")
        kind = loop.in_types[0] if dtype is None else loop.out_types[0]
        (found,) = _computed(lambda x: self._compute(x, axis=axis, keepdims=keepdims), [host], (kind,), loop.out_types)
        return new(found, out)


class Kernel:
    """An `ElementwiseKernel` or `ReductionKernel`; those that something here computes have their function in KERNELS."""

    def __init__(self, *args: Any, name: str = "", **kwargs: Any) -> None:
        self.name = name or next((a for a in args[3:] if isinstance(a, str) and a.startswith("cupy")), "kernel")

    @captured
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.name not in KERNELS:
            raise NotImplementedError(f"the stand-in for CuPy has no kernel {self.name}")
        return KERNELS[self.name](*args, **kwargs)


def _function_of(name: str) -> Callable | None:
    """The function of NumPy or SciPy behind a ufunc of CuPy's, by its name."""
    for prefix in ("cupyx_scipy_special_", "cupyx_scipy_", "cupy_"):
        if name.startswith(prefix):
            short = name.removeprefix(prefix)
            homes = (numpy, scipy.special) if prefix == "cupy_" else (scipy.special,)
            return FUNCTIONS.get(short) or next((getattr(home, short) for home in homes if hasattr(home, short)), None)
    return None


def _is_close(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    return numpy.isclose(a, b, rtol.item(), atol.item(), bool(equal_nan))


def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    return numpy.where(numpy.isnan(x), nan, numpy.where(numpy.isposinf(x), posinf, numpy.where(numpy.isneginf(x), neginf, x)))


FUNCTIONS: dict[str, Callable] = {
    "is_close": _is_close,
    "is_close_complex": _is_close,
    "nan_to_num_": _nan_to_num,
    "copy": lambda x: x,
    "arange": lambda start, step, i: start + i * step,
    "clip": numpy.clip,
}

INDEXED = {"cupy_arange"}  # ufuncs that also use the place of the element


def _tri(m: int, k: int, out: ndarray) -> ndarray:
    out._host[...] = numpy.tri(*out.shape, k)
    return out


def _count(x: ndarray, out: ndarray) -> None:
    out._host[...] = numpy.bincount(x._host, minlength=out.size)


def _add_weights(x: ndarray, weights: ndarray, out: ndarray) -> None:
    out._host[...] = numpy.bincount(x._host, weights._host, out.size)


def _search(v: ndarray, a: ndarray, n: int, right: bool, increasing: bool, out: ndarray) -> None:
    out._host[...] = numpy.searchsorted(a._host, v._host, "right" if right else "left")


def _addresses(x: ndarray) -> ndarray:
    places = numpy.full(x.shape, x.data.ptr)
    for d, (n, stride) in enumerate(zip(x.shape, x.strides, strict=True)):
        places += (numpy.arange(n) * stride).reshape((-1,) + (1,) * (x.ndim - d - 1))
    return new(places)


KERNELS: dict[str, Callable] = {
    "cupy_get_memory_ptrs": _addresses,
    "cupy_tri": _tri,
    "cupy_bincount_kernel": _count,
    "cupy_bincount_with_weight_kernel": _add_weights,
    "cupy_searchsorted_kernel": _search,
}


# -- the core's functions ----------------------------------------------------------------------------------------------------


@captured
def _concatenate(tup: Any, axis: int | None = 0, out: Any = None, dtype: Any = None, casting: str = "same_kind") -> ndarray:
    hosts = arrays_of(tup)
    return new(numpy.concatenate(hosts, axis, dtype=dtype, casting=casting), out)


@captured
def _matmul(a: Any, b: Any, out: Any = None) -> ndarray:
    a, b = arrays_of((a, b))
    kind = numpy.result_type(a, b)
    (found,) = _computed(numpy.matmul, [a, b], (kind, kind), (kind,))
    return new(found, out)


@captured
def _dot(a: Any, b: Any, out: Any = None) -> ndarray:
    return new(numpy.dot(*arrays_of((a, b))), out)


@captured
def _copy_into(x: Any, out: ndarray, _where: Any = True) -> ndarray:
    numpy.copyto(out._host, x._host if isinstance(x, ndarray) else x, "unsafe", *arrays_of(() if _where is True else (_where,)))
    return out


def _scan(a: ndarray, axis: int | None, op: Any, dtype: Any = None, out: Any = None) -> ndarray:
    return (a.cumsum if op.name == "SCAN_SUM" else a.cumprod)(axis, dtype, out)


def _check_array(array: Any, *, arg_name: str) -> None:
    if not isinstance(array, ndarray):
        raise TypeError(f"{arg_name!r} must be a cupy.ndarray object, not {type(array)}.")


def _viewing(function: Callable) -> Callable:
    """A function of NumPy's that returns a view, for an array and only that."""

    def call(a: Any, *args: Any) -> ndarray:
        if not isinstance(a, ndarray):
            raise TypeError(f"Argument 'a' has incorrect type (expected cupy._core.core._ndarray_base, got {type(a)})")
        return view(a, function(a._host, *args))

    return call


class Broadcast:
    """`cupy.broadcast`: arrays and numbers of one shape."""

    def __init__(self, *arrays: Any) -> None:
        self.shape = numpy.broadcast_shapes(*(a.shape for a in arrays if isinstance(a, ndarray)))
        self.values = [CORE["broadcast_to"](a, self.shape) if isinstance(a, ndarray) else a for a in arrays]
        self.nd, self.size = len(self.shape), int(numpy.prod(self.shape))


def _flattened_tensordot(a: Any, b: Any, out: Any, n: int, m: int, k: int, shape: tuple) -> ndarray:
    return new(_matmul(a.reshape(k, n).T, b.reshape(k, m))._host.reshape(shape), out)


_REDUCTIONS = {
    _routines_math: {"sum_auto_dtype": numpy.sum, "_sum_keep_dtype": numpy.sum, "prod_auto_dtype": numpy.prod, "_prod_keep_dtype": numpy.prod},
    _routines_statistics: {"amax": numpy.max, "amin": numpy.min, "nanmax": numpy.nanmax, "nanmin": numpy.nanmin},
    _routines_logic: {"all": numpy.all, "any": numpy.any},
}  # fmt: skip

CORE |= {name: ufunc(one) for name, one in vars(real._core).items() if isinstance(one, real.ufunc)}
CORE |= {name: Reduction(getattr(home, name), compute) for home, names in _REDUCTIONS.items() for name, compute in names.items()}
CORE |= {
    "ndarray": ndarray, "_ndarray_base": ndarray, "array": array, "ufunc": ufunc, "broadcast": Broadcast,
    "broadcast_to": _viewing(numpy.broadcast_to),
    "concatenate_method": _concatenate, "matmul": _matmul, "dot": _dot, "elementwise_copy": _copy_into,
    "tensordot_core": _flattened_tensordot, "ElementwiseKernel": Kernel, "ReductionKernel": Kernel, "clip": ufunc(_routines_math.clip),
    "create_ufunc": lambda *args, **kwargs: ufunc(real._core.create_ufunc(*args, **kwargs)),
    "create_comparison": lambda *args, **kwargs: ufunc(_routines_logic.create_comparison(*args, **kwargs)),
    "create_reduction_func": lambda name, *args, **kwargs: Kernel(name=name),
    "ascontiguousarray": lambda a, dtype=None: array(a, dtype, copy=False, order="C"),
    "asfortranarray": lambda a, dtype=None: array(a, dtype, copy=False, order="F"),
    "_internal_ascontiguousarray": lambda a: array(a, copy=False, order="C"),
    "_internal_asfortranarray": lambda a: array(a, copy=False, order="F"),
    "moveaxis": _viewing(numpy.moveaxis), "_move_single_axis": _viewing(numpy.moveaxis), "rollaxis": _viewing(numpy.rollaxis),
    "_expand_dims": _viewing(numpy.expand_dims), "scan_core": _scan, "get_routine_accelerators": list,
    "from_dlpack": lambda array, device=None, copy=None: view(found := array.__dlpack__(copy=copy), found._host),
    "size": lambda a, axis=None: numpy.size(a._host, axis),
    "_ufunc_doc_signature_formatter": lambda ufunc, name: name,
    "_is_fusing": lambda: False,
    "fuse": lambda *args, **kwargs: lambda function: function,
    "_convert_object_with_cuda_array_interface": from_interface,
}  # fmt: skip


# -- the package -------------------------------------------------------------------------------------------------------------


class Core(types.ModuleType):
    """A compiled module of CuPy's core, with its functions replaced."""

    def __init__(self, theirs: types.ModuleType) -> None:
        super().__init__(theirs.__name__)
        self._theirs = theirs
        if hasattr(theirs, "__path__"):
            self.__path__ = theirs.__path__

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._theirs, name)
        if name in CORE:
            return CORE[name]
        if isinstance(found, real.ufunc):
            return ufunc(found)
        if isinstance(found, types.ModuleType) and found.__name__.startswith("cupy._core"):
            return sys.modules[found.__name__]
        if isinstance(found, type) or not callable(found):
            return found
        return _missing(f"{self.__name__}.{name}")


def _missing(name: str) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"the stand-in for CuPy has no {name}")

    return call


# Modules of the core that compute nothing and are kept.
WITHOUT_ARRAYS = {
    f"cupy._core.{name}" for name in ("_dtype", "_scalar", "internal", "flags", "syncdetect", "_fusion_thread_local", "_codeblock")
}


@captured
def _solved(name: str, compute: Callable, a: Any, *rest: Any) -> Any:
    """A factorization after CuPy's checks. What fails raises LinAlgError only where the program has asked for it, and then the host waits."""
    util, config = sys.modules["cupy.linalg._util"], sys.modules["cupyx._ufunc_config"]
    util._assert_cupy_array(a)
    util._assert_stacked_2d(a)
    arrays = [one for one in (a, *rest) if isinstance(one, ndarray)]
    kind, out_kind = util.linalg_common_type(*arrays)
    asks = config.get_config_linalg() == "raise"
    if asks and name not in ("det", "slogdet"):
        waited(name, bool)
    given = [one._host.astype(kind) if isinstance(one, ndarray) else one for one in (a, *rest)]
    with quiet():
        try:
            found = compute(*given)
        except numpy.linalg.LinAlgError:
            if asks:
                raise
            found = numpy.full(given[-1 if name == "solve" else 0].shape, numpy.nan, out_kind)
    return tuple(map(new, found)) if isinstance(found, tuple) else new(found)


@captured
def _solve_into(a: Any, b: Any) -> None:
    b._host[...] = _solved("solve", numpy.linalg.solve, a, b)._host


def _transformed(theirs: Callable, compute: Callable) -> Callable:
    signature = inspect.signature(theirs)

    @captured
    @functools.wraps(theirs)
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        signature.bind(a, *args, **kwargs)
        (host,) = arrays_of((a,))
        if host.dtype.kind == "V":
            raise TypeError(f"Unsupported dtype {host.dtype}")
        with quiet():
            return new(compute(host, *args, **kwargs))

    return call


def _factorization(theirs: Callable, compute: Callable) -> Callable:
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _solved(theirs.__name__, compute, *bound.args)

    return call


def _libraries() -> None:
    """Replace what cuSOLVER, cuBLAS and cuFFT compute."""
    linalg, fft = (importlib.import_module(name) for name in ("cupy.linalg", "cupy.fft"))
    names = ("cholesky", "det", "slogdet", "qr", "svd", "eigh", "eigvalsh")
    whole = {name: _factorization(getattr(real.linalg, name), getattr(numpy.linalg, name)) for name in names}
    for module in [module for name, module in sys.modules.items() if name.startswith("cupy.linalg")]:
        vars(module).update({name: whole[name] for name in vars(module).keys() & whole.keys()})
    sys.modules["cupy.linalg._solve"]._batched_inv = lambda a: _solved("inv", numpy.linalg.inv, a)  # type: ignore[attr-defined]
    lapack, cublas = (types.ModuleType(name) for name in ("cupyx.lapack", "cupy.cublas"))
    vars(lapack).update(gesv=_solve_into)
    vars(cublas).update(batched_gesv=lambda a, b: _solved("solve", numpy.linalg.solve, a, b), get_batched_gesv_limit=lambda: 2048)
    sys.modules |= {"cupyx.lapack": lapack, "cupy.cublas": cublas}
    vars(sys.modules["cupyx"]).update(lapack=lapack, empty_pinned=host_cuda.empty_pinned)
    vars(sys.modules["cupy"]).update(cublas=cublas)
    for name in ("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "fftn", "ifftn", "rfftn", "irfftn"):
        setattr(fft, name, _transformed(getattr(real.fft, name), getattr(numpy.fft, name)))


def _anew(package: types.ModuleType) -> types.ModuleType:
    """The package, executed again from its source, on the submodules that are in `sys.modules`."""
    spec = importlib.util.find_spec(package.__name__) or package.__spec__
    made = importlib.util.module_from_spec(spec)
    sys.modules[package.__name__] = made
    for name, module in sys.modules.items():
        parent, _, last = name.rpartition(".")
        if parent == package.__name__:
            setattr(made, last, module)
    spec.loader.exec_module(made)
    return made


def _modules() -> dict[str, types.ModuleType]:
    """CuPy's modules: the Python ones imported anew on top of the replaced core."""
    theirs = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    for name in theirs:
        del sys.modules[name]
    try:
        for name, module in theirs.items():
            if name.startswith("cupy._core") and name not in WITHOUT_ARRAYS:
                sys.modules[name] = Core(module)
            elif name in WITHOUT_ARRAYS or name.startswith("cupy.cuda.") or not getattr(module, "__file__", "").endswith(".py"):
                sys.modules[name] = module
        sys.modules["cupy.cuda"] = host_cuda.Cuda()
        sys.modules["cupy._util"] = types.ModuleType("cupy._util")
        vars(sys.modules["cupy._util"]).update(vars(real._util), check_array=_check_array)
        _anew(real)
        importlib.import_module("cupyx.scipy.special")
        _libraries()
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx")]:
            del sys.modules[name]
        sys.modules.update(theirs)


@functools.cache
def modules() -> dict[str, types.ModuleType]:
    """What to put into `sys.modules` so that `import cupy` and `import cupyx` find the stand-in."""
    return _modules()
