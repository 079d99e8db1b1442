"""`install_as_torch`: PyTorch's module names give the engine's modules; what is said of names that are missing."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import pickle
import re
import subprocess
import sys
import warnings
import zlib
from importlib import metadata
from pathlib import Path

import cloudpickle
import pytest

import engine
from engine.compat import missing
from engine.compat.as_torch import installed
from engine.compat.torch_version import TorchVersion
from grouping import grouped


@pytest.fixture
def torch():
    """The engine under PyTorch's name; a real torch that other tests have imported is put aside."""
    aside = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in ("torch", "torchvision", "functorch")}
    try:
        with engine.install_as_torch() as found:
            yield found
        left = [name for name in sys.modules if name.partition(".")[0] == "torch"]
        assert left == [] and not installed()
    finally:
        sys.modules.update(aside)


def test_imports_give_the_engines_own_modules(torch):
    import torch as found
    import torch.nn as nn
    import torch.nn.functional as functional
    import torch.utils.data
    from torch import Tensor, optim
    from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
    from torch.optim.adamw import AdamW
    from torch.optim.lr_scheduler import StepLR
    from torch.utils.data import DataLoader

    assert found is torch is engine and nn is engine.nn and functional is engine.nn.functional and optim is engine.optim
    assert Tensor is engine.Tensor and DataLoader is engine.data.DataLoader and AdamW is engine.optim.AdamW
    assert StepLR is engine.optim.lr_scheduler.StepLR
    assert isinstance(nn.BatchNorm2d(2), _BatchNorm) and not isinstance(nn.InstanceNorm2d(2), _BatchNorm)
    assert SyncBatchNorm is nn.SyncBatchNorm and issubclass(SyncBatchNorm, _BatchNorm)


def test_functorch_is_an_older_name_of_func(torch):
    import functorch
    from functorch import combine_state_for_ensemble, make_functional, make_functional_with_buffers, vmap

    x = torch.arange(6.0).reshape(3, 2)
    with pytest.warns(FutureWarning, match=r"`functorch.vmap` is deprecated as of PyTorch 2.0 .* Please use `torch.vmap` instead"):
        assert vmap(torch.dot)(x, x).tolist() == (x * x).sum(1).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        layer = torch.nn.Linear(2, 3)
        function, params = make_functional(layer)
        assert list(function.parameters()) == [] and function.param_names == ("weight", "bias") and params[0] is not layer.weight
        assert torch.equal(function(params, x), layer(x))
        (grad_weight, _) = functorch.grad(lambda p: function(p, x).sum())(params)
        assert torch.equal(grad_weight, x.sum(0).expand(3, 2))
        with pytest.raises(ValueError, match="expected 2 tensors, for weight, bias, but got 1"):
            function(params[:1], x)

        with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
            make_functional(torch.nn.BatchNorm1d(2))
        norm = torch.nn.BatchNorm1d(2)
        function, params, buffers = make_functional_with_buffers(norm, disable_autograd_tracking=True)
        assert function.buffer_names == ("running_mean", "running_var", "num_batches_tracked") and not params[0].requires_grad
        assert torch.equal(function(params, buffers, x), norm(x)) and torch.equal(buffers[0], norm.running_mean)

        layers = [torch.nn.Linear(2, 3) for _ in range(4)]
        function, params, buffers = combine_state_for_ensemble(layers)
        assert [tuple(p.shape) for p in params] == [(4, 3, 2), (4, 3)] and not params[0].requires_grad
        found = vmap(function, in_dims=(0, 0, None))(params, buffers, x)
        assert torch.allclose(found, torch.stack([m(x) for m in layers]))

        tied = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        tied[1].weight = tied[0].weight
        function, params = make_functional(tied)
        assert len(params) == 3 and torch.equal(function(params, x), tied(x))
    with pytest.raises(ModuleNotFoundError, match="No module named 'functorch.compile'"):
        import functorch.compile


def test_a_module_that_is_imported_late_runs_once():
    code = "import engine, sys; engine.install_as_torch(); import torchvision.io.image, torch.distributions.normal; "
    code += "assert torchvision.io.image is sys.modules['engine.vision.io.image'] is sys.modules['engine.vision.io'].image; "
    code += "assert torch.distributions.Normal is sys.modules['engine.distributions.normal'].Normal; print(sys.modules['torch.distributions'] is engine.distributions)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    assert (ran.stdout, ran.stderr) == ("True\n", "")


def test_a_module_that_is_imported_late_answers_for_its_names():
    code = "import engine; engine.install_as_torch(); from torch.optim import adamw; from torch.cuda.amp import grad_scaler\n"
    code += "print(adamw.AdamW.__name__, grad_scaler.OptState.__name__)\nimport torch.distributions\ntorch.distributions.Norml"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    assert ran.stdout == "AdamW OptState\n"
    assert ran.stderr.endswith("has no attribute 'Norml', and neither has PyTorch 2.13; did you mean 'Normal'?\n")


def test_a_module_keeps_its_own_name_and_place(torch):
    before = engine.hub.__spec__
    import torch.hub as hub

    assert hub is engine.hub and hub.__name__ == "engine.hub" and hub.__spec__ is before and engine.nn.__spec__.name == "engine.nn"
    from torch.autograd.gradcheck import gradcheck  # the module has the name of a function in the package above

    assert engine.autograd.gradcheck is gradcheck and callable(gradcheck)
    importlib.import_module("torch.nn.parallel.data_parallel")
    from torch.utils.data.dataloader import DataLoader, _collate_fn_t
    from torch.utils.data.dataset import Dataset, random_split
    from torch.utils.data.sampler import SubsetRandomSampler

    assert isinstance(len, _collate_fn_t.__origin__)  # an annotation of public loaders
    import torch.distributed.nn.functional

    assert torch.distributed.nn.functional.all_gather is engine.distributed.nn.all_gather
    assert callable(engine.nn.parallel.data_parallel) and DataLoader is engine.data.DataLoader and Dataset is engine.data.Dataset
    assert random_split is engine.data.random_split and SubsetRandomSampler is engine.data.SubsetRandomSampler


def test_every_module_that_is_loaded_has_pytorchs_name(torch):
    for name, module in list(sys.modules.items()):
        if name.startswith("engine.nn") or name.startswith("engine.optim"):
            assert sys.modules["torch" + name[len("engine") :]] is module


def test_it_can_be_undone_and_done_again():
    aside = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "torch"}
    try:
        version, told = engine.__version__, dir(engine.zeros(1))
        outer = engine.install_as_torch()
        with engine.install_as_torch():
            pass
        assert installed()  # who did not install does not take away
        outer.uninstall()
        outer.uninstall()
        assert not installed() and engine.__version__ == version and dir(engine.zeros(1)) == told
        assert not any(type(v).__name__ == "_Absent" for v in vars(engine.Tensor).values())
    finally:
        sys.modules.update(aside)


def test_libraries_that_ask_for_an_array_namespace_find_none_as_with_pytorch(torch):
    assert not hasattr(torch.Tensor, "__array_namespace__") and not hasattr(torch.ones(1), "to_device")


def test_the_packages_metadata_is_there_as_long_as_it_lasts():
    def ask(name):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    before = [ask("torch"), ask("torchvision")]
    aside = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in ("torch", "torchvision", "functorch")}
    try:
        with engine.install_as_torch():
            assert ask("torch") == ask("Torch") == str(engine.__version__) == "2.13.0+engine"
            assert ask("torchvision") == engine.vision.__version__ and ask("torchaudio") is None
            found = metadata.distribution("torch")
            assert (found.name, found.metadata["Name"], found.requires) == ("torch", "torch", None)
            assert {"torch", "torchvision"} <= metadata.packages_distributions().keys()
            assert [one.name for one in metadata.distributions(path=[str(Path(__file__).parent)])] == []
            assert importlib.util.find_spec("torch") is not None and importlib.util.find_spec("torchvision.ops") is not None
    finally:
        sys.modules.update(aside)
    assert [ask("torch"), ask("torchvision")] == before


def test_it_is_refused_beside_pytorch_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", object())
    with pytest.raises(RuntimeError, match="torch itself has been imported in this process already"):
        engine.install_as_torch()


def test_the_version_can_be_compared_and_taken_apart(torch):
    version = torch.__version__
    assert str(version) == "2.13.0+engine" and version.split("+")[0] == "2.13.0" and [int(n) for n in version.split(".")[:2]] == [2, 13]
    assert version >= "1.8" and version >= (2, 0) and not version < "2.9" and version > "2.13.0" and version < "2.14"
    assert torch.version.cuda is None or not torch.version.cuda.startswith("0")


def test_versions_compare_by_their_numbers():
    assert TorchVersion("2.10.0") > "2.9.1" and TorchVersion("2.0") == "2.0.0" and TorchVersion("1.13") < (2,)
    assert TorchVersion("2.0.0+cpu") > "2.0.0" and TorchVersion("2.0.0") != "2.0.1" and TorchVersion("2.0") > "1.13.1"
    assert len({TorchVersion("2.0"), TorchVersion("2.0")}) == 1


def test_classes_travel(torch):
    layer = torch.nn.Linear(2, 2)
    for load, dump in ((pickle.loads, pickle.dumps), (cloudpickle.loads, cloudpickle.dumps)):
        assert torch.equal(load(dump(layer)).weight, layer.weight)
        assert load(dump(torch.nn.Linear)) is torch.nn.Linear and load(dump(torch.float32)) is torch.float32
        assert load(dump(torch.device("cuda:1"))) == torch.device("cuda", 1)
        assert load(dump(torch.zeros(2).shape)) == (2,)


# zlib.compress(pickle.dumps([torch.arange(12.0).reshape(3, 4)[1:, ::2], Parameter, Buffer, sparse tensor])), written by PyTorch 2.13
PLAIN_PICKLE = (
    b"c-qxe&u`N(6n4_Ild^8AKp=6OI29pPZPlgeX{=1Ugz;nJkjrGHskdax>N;^IbyB5XRyvg1%#8y_{tW&UuKWie?ZC^AmKHi`M{4ESj`PL#`@Z+yNcnWIhLUzH%2AP1"
    b"-*zfE<gOQp=mGXgCv?3o=A;);A79kP4Zt>1SO9}{N<>t`9<{po#HZ)DGvFiuRQtJv&`AEMdbgkVe{G$8efy*`k`I35pdT_+HcN13->00~)Wa9V4_w+~5&+B%_~N;o"
    b"djykS*R^^~o|q~u@<E^Az`Y~^%MF=QHuJC;IMnAXZ^&j2-rOE%1w%2Fcn{h;Wow2KhHz%tjQz~6%#fY9pzg!P`BA#4GRfQoOsi4V^_Je!YTM1G#?pQ5e#ml0@ik}4"
    b"JJ{`*p=DUfsua<D8|^^%0v@mt*cY&GVBf*eE<z=+EwJjYxDtoLPz>3S$H_Pr*U>s~;}M$!H6X|O8^23@(%o}y4h%m#6de9>q&c1XmT#RCPJH<8<jPK=t*n9!do=8L"
    b"WT_6C)@au1dUZhuX}JzFEa)ID=<stV<rf*!m5A-y+06KxB(o1No5pn(?IL<K<24EG#P2i(oLrPoz#=NVPtoye;pOdr&vlzpZ+XP)npUe;^#!KoJ0gCH1*YYUV+l<;"
    b"mKQl5Ldj73vAY2<%f%#8u^Zq{cya=PItjBVemrA4fG`foRE8T7J<JLY@m<SvFReHsARq84;n=eVG>r2hDrKnjZ=2HOKIJqI)K$oXR{*)I8Z}#uZS7v#OtEv?pqWN#"
    b"n<-^TP;I2R|C13ZVe)Ddrq}A*P!H}?HfGqlvLXLP)IVjzc^WB4;0gpD@CVg822Qvb!$2y(0Uzfi5&"
)


def test_plain_pickles_that_pytorch_wrote_are_read(torch):
    view, parameter, buffer, sparse = pickle.loads(zlib.decompress(base64.b85decode(PLAIN_PICKLE)))
    assert view.tolist() == [[4, 6], [8, 10]] and view.stride() == (4, 2) and view.storage_offset() == 4
    assert type(parameter) is torch.nn.Parameter and parameter.requires_grad and parameter.dtype == torch.float64
    assert isinstance(buffer, torch.nn.Buffer) and buffer.tolist() == [True, False]
    assert sparse.layout == torch.sparse_coo and sparse.to_dense().tolist() == [[0, 2]]


@pytest.mark.slow
def test_the_programs_of_its_page_run():
    page = (Path(__file__).resolve().parents[2] / "docs" / "as-torch.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:  # that of a notebook has %torch in front of it
        program = block if "install_as_torch" in block else f"import engine\nengine.install_as_torch()\n{block}"
        subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).resolve().parents[2])


# -- what is missing ---------------------------------------------------------------------------------------------------------


@grouped(
    ("home", "name", "told"),
    [
        ("engine", "zeross", "module 'engine' has no attribute 'zeross', and neither has PyTorch 2.13; did you mean 'zeros'?"),
        ("engine", "quantize_per_tensor", "PyTorch has torch.quantize_per_tensor, this engine does not"),
        ("engine.nn", "Lienar", "and neither has PyTorch 2.13; did you mean 'Linear'?"),
        ("engine.nn", "leaky_relu", "did you mean 'LeakyReLU'?"),
        ("engine.nn.utils", "clip_grad_norms", "did you mean 'clip_grad_norm'?"),
        ("engine.nn.parallel", "DistributedData", "and neither has PyTorch 2.13; did you mean 'DistributedDataParallel'?"),
        ("engine.nn.functional", "crossentropy", "did you mean 'cross_entropy'?"),
        ("engine.optim", "Addam", "did you mean 'Adam'?"),
        ("engine.utils.data", "DataLoder", "did you mean 'DataLoader'?"),
        ("engine.cuda", "CUDAPluggableAllocator", "PyTorch has torch.cuda.CUDAPluggableAllocator, this engine does not"),
        ("engine.backends", "xeon", "PyTorch has torch.backends.xeon, this engine does not"),
        ("engine.optim.adam", "adam", "PyTorch has torch.optim.adam.adam, this engine does not. The nearest name here is 'Adam'"),
        (
            "engine.optim.adaptive",
            "adagrad",
            "PyTorch has torch.optim.adagrad.adagrad, this engine does not. The nearest name here is 'Adagrad'",
        ),
        ("engine.nn.init", "xavier_unifrom_", "did you mean 'xavier_uniform_'?"),
    ],
)
def test_a_missing_name_says_what_is_known_of_it(home, name, told):
    module = importlib.import_module(home)
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert repr(name) in str(caught.value) and str(caught.value).endswith(told)
    with pytest.raises(ImportError) as caught:
        exec(f"from {home} import {name}")
    assert f"cannot import name {name!r}" in str(caught.value) and str(caught.value).endswith(told.partition("has no attribute")[2] or told)


def test_nothing_is_said_of_private_names_that_the_list_does_not_have():
    assert missing.sentence("it", "engine.utils.benchmark", "Compare", frozenset()).endswith(
        "PyTorch has torch.utils.benchmark.Compare, this engine does not"
    )
    assert missing.sentence("it", "engine.cuda.memory", "_snapshot", frozenset()) == "it has no attribute '_snapshot'"
    assert missing.sentence("it", "engine.cuda.memory", "snapshots", frozenset()).endswith("and neither has PyTorch 2.13")


def test_dunder_names_are_asked_for_by_machines():
    with pytest.raises(AttributeError, match=r"^module 'engine' has no attribute '__wrapped__'$"):
        engine.__wrapped__  # noqa: B018


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("torch.foo", "No module named 'torch.foo' in this engine, and neither has PyTorch 2.13 a public one"),
        ("torch.nn.quantized", "No module named 'torch.nn.quantized' in this engine, though PyTorch has it"),
        ("torch.optim.addam", "the nearest name here is torch.optim.adam"),
        ("torch._inductor", "No module named 'torch._inductor' in this engine"),
    ],
)
def test_a_missing_module_says_what_is_known_of_it(torch, name, told):
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(name)
    assert told in str(caught.value) and caught.value.name == name


def test_a_missing_method_of_a_tensor_says_that_pytorch_has_it(torch):
    absent = sorted(n for n in missing.known()["engine.Tensor"] if not hasattr(torch.Tensor, n))
    for name in absent:
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': PyTorch has torch.Tensor.{name}, this engine does not"):
            getattr(torch.zeros(2), name)
        assert name not in dir(torch.zeros(2))
    with pytest.raises(AttributeError, match="no attribute 'no_such_method'"):
        torch.zeros(2).no_such_method  # noqa: B018


def test_a_library_that_is_missing_is_named(torch, tmp_path, monkeypatch):
    from engine.compat.as_torch import _finder

    monkeypatch.setitem(sys.modules, "engine.needs_it", None)  # an import of it fails as one inside it would
    with pytest.raises(ModuleNotFoundError):
        _finder.find_spec("torch.needs_it", None)


def test_the_list_of_names_is_read_at_the_first_miss_only():
    code = "import sys, engine; engine.zeros(2); assert 'engine.compat.missing' not in sys.modules\nhasattr(engine, 'foo')\n"
    code += "assert sys.modules['engine.compat.missing'].known.cache_info().currsize"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2])


def test_what_every_op_walks_through_has_no_getattr():
    """CPython (3.11 at least) does not specialize the lookup of names in a module with `__getattr__`: each would take seven times as long."""
    for name in (
        "base.observe",
        "core.devices",
        "core.tape",
        "core.inplace",
        "base.dtypes",
        "base.layout",
        "backends.cpu",
        "backends.reduction",
        "ops.math",
    ):
        assert "__getattr__" not in vars(sys.modules[f"engine.{name}"]), name
    assert "__getattr__" in vars(engine.backends.cudnn)


def test_what_libraries_ask_for_again_and_again_is_found_once(torch):
    """huggingface_hub asks for each tensor that it saves, accelerate for each module."""
    import torch._dynamo

    name = "torch.distributed.tensor.not_there"
    told = []
    before = missing._absence.cache_info().hits
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="No module named") as info:
            importlib.import_module(name)
        told.append(str(info.value))
    assert told[0] == told[1] and missing._absence.cache_info().hits == before + 1
    assert torch._dynamo.eval_frame is torch._dynamo and "eval_frame" in vars(torch._dynamo)
