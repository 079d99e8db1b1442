"""Libraries that are written for the array API standard: array_api_compat with the engine as torch; SciPy and scikit-learn on its own namespace.

Each runs in a process of its own: which library stands behind `torch`, and whether SciPy dispatches, is decided at the first import.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", ["compat", "dispatch"])
def test_in_a_process_of_its_own(name):
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE)])
    ran = subprocess.run(
        [sys.executable, __file__, name], env={**os.environ, "PYTHONPATH": path, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True
    )
    assert ran.returncode == 0 and ran.stdout.endswith("done\n"), ran.stdout + ran.stderr


def compat():
    """`array_api_compat.torch` over the engine agrees with NumPy wherever it does over PyTorch."""
    import engine

    engine.install_as_torch()
    import array_api_compat.torch as xp
    import test_array_api as tables
    from array_api_compat import array_namespace, device, is_torch_array, size, to_device

    x = xp.ones((2, 3))
    assert isinstance(x, engine.Tensor) and is_torch_array(x) and array_namespace(x) is xp and not hasattr(x, "__array_namespace__")
    assert size(x) == 6 and to_device(x, device(x)) is x and xp.__array_namespace_info__().devices()[0] == engine.device("cpu")

    for name in ("uint16", "uint32", "uint64"):  # PyTorch computes with them in part, so the library does not offer them
        tables.INTS.remove(name)
        del tables.KIND[name]
    told, tables.xp = tables.agree, xp
    agreed = 0

    def agree(call, *arrays, **names):
        nonlocal agreed
        if not otherwise(call, arrays, names):
            told(call, *arrays, **names)
            agreed += 1

    tables.agree = agree
    for name in tables.UNARY:
        tables.test_functions_of_one_array(name)
    for name in tables.BINARY:
        tables.test_functions_of_two_arrays_or_an_array_and_a_number(name)
    for name in ("floor_divide", "remainder", "pow", "bitwise_left_shift", "bitwise_right_shift"):
        tables.test_functions_of_two_arrays_of_which_the_second_is_not_everything(name)
    for name in tables.REDUCTIONS:
        tables.test_reductions(name)
    for name in ("cumulative_sum", "cumulative_prod"):
        tables.test_running_sums_and_products(name)
    for call in tables.CALLS:
        tables.test_calls(call)
    for call in tables.PAIRED:
        tables.test_calls_with_two_arrays(call)
    assert agreed > 6000, agreed


def otherwise(call: str, arrays: tuple, names: dict) -> bool:
    """What array_api_compat leaves as PyTorch has it."""
    summed = call.startswith(("xp.sum", "xp.prod", "xp.cumulative", "xp.linalg.trace")) and "dtype" not in call
    return (
        (summed and arrays[0].dtype == "uint8")  # sums are int64
        or ("count_nonzero" in call and names.get("n") == ())
        or ("std" in call and names.get("c") == 0.5)
        or ("xp.roll" in call and "axis" in call and (names["n"] == 1 or names["n"] == (0, 1)))  # one shift for several axes
        or ("xp.concat" in call and len(arrays) == 2 and arrays[0].ndim != arrays[1].ndim)  # an empty vector beside anything
    )


def dispatch():
    """SciPy and scikit-learn find the engine's namespace and compute in it: tensors come, with the numbers of NumPy's arrays."""
    import scipy.fft
    import scipy.ndimage
    import scipy.special
    import scipy.stats
    import sklearn
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge
    from sklearn.metrics import mean_squared_error
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    import engine

    rows = numpy.random.default_rng(0).normal(size=(8, 3))
    calls = [
        scipy.special.expit, scipy.special.gammaln, lambda x: scipy.special.logsumexp(x, axis=0), lambda x: scipy.special.softmax(x, axis=1),
        scipy.fft.fft, scipy.stats.zscore, scipy.stats.skew, lambda x: scipy.stats.ttest_1samp(x, 0.1).pvalue,
        lambda x: scipy.stats.pearsonr(x[:, 0], x[:, 1]).statistic, lambda x: scipy.ndimage.gaussian_filter(x, 1.0),
    ]  # fmt: skip
    models = [
        StandardScaler().fit_transform, MinMaxScaler().fit_transform, lambda x: abs(PCA(2, svd_solver="full").fit_transform(x)),
        lambda x: Ridge(solver="svd").fit(x, x[:, 0]).predict(x),
    ]  # fmt: skip
    for call in calls + models:
        want = call(rows)
        with sklearn.config_context(array_api_dispatch=True):
            got = call(engine.tensor(rows))
        assert isinstance(got, engine.Tensor) and str(got.dtype) == f"torch.{want.dtype}" and tuple(got.shape) == want.shape, call
        numpy.testing.assert_allclose(got.numpy(), want, 1e-9, 1e-12)
    with sklearn.config_context(array_api_dispatch=True):
        found = mean_squared_error(engine.tensor(rows[:, 0]), engine.tensor(rows[:, 1]))
    assert abs(found - mean_squared_error(rows[:, 0], rows[:, 1])) < 1e-12
    assert isinstance(StandardScaler().fit_transform(engine.tensor(rows)), numpy.ndarray)  # without dispatch: as any other tensor
    x = engine.tensor(rows, requires_grad=True)
    scipy.special.logsumexp(x, axis=1).sum().backward()
    numpy.testing.assert_allclose(x.grad.numpy(), scipy.special.softmax(rows, axis=1), 1e-9)


if __name__ == "__main__":
    sys.path.append(str(HERE.parent))
    import grouping  # noqa: F401 # for the tables; while the folder is on the path, the one beside it would pass for PyTorch

    sys.path.pop()
    {"compat": compat, "dispatch": dispatch}[sys.argv[1]]()
    print("done")
