"""Checkpoints both ways with an installed torch: what one writes the other reads, with the same values, strides and ties."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict

import numpy
import pytest

torch = pytest.importorskip("torch")

import engine  # noqa: E402
from engine.base.dtypes import ALL  # noqa: E402

pytestmark = pytest.mark.torch


def to_torch(obj, **options):
    file = io.BytesIO()
    engine.save(obj, file, **options)
    file.seek(0)
    return torch.load(file, weights_only=True)


def to_engine(obj, weights_only=True, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return engine.load(file, weights_only=weights_only)


FORMATS = pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "legacy"])
VIEWS = {
    "whole": lambda x: x, "t": lambda x: x.t(), "row": lambda x: x[1], "steps": lambda x: x[::2, 1:], "scalar": lambda x: x[1, 2],
    "wide": lambda x: x[0].expand(3, 4), "none": lambda x: x[:0], "clone": lambda x: x.clone(), "flat": lambda x: x.reshape(-1),
    "strided": lambda x: x.as_strided((2, 2), (3, 1), 1),
}  # fmt: skip


def same(ours, theirs) -> bool:
    return (
        ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        and tuple(ours.shape) == tuple(theirs.shape)
        and (ours.numel() == 0 or ours.stride() == theirs.stride())
        and ours.requires_grad == theirs.requires_grad
        and (ours.double() if ours.dtype.is_floating_point else ours).tolist()
        == (theirs.double() if theirs.dtype.is_floating_point else theirs).tolist()
    )


LEGACY = {"_use_new_zipfile_serialization": False}  # torch.load(weights_only=True) cannot read its own files of wide uints in it
CASES = [(d, {}) for d in ALL] + [(d, LEGACY) for d in ALL if d.name not in ("uint16", "uint32", "uint64")]


@pytest.mark.parametrize(("d", "options"), CASES, ids=lambda x: x.name if isinstance(x, engine.dtype) else "legacy" if x else "zip")
def test_every_dtype_and_view(d, options):
    numbers = numpy.random.default_rng().integers(0, 100, (3, 4))
    ours = engine.from_numpy(numbers).to(d)
    theirs = torch.from_numpy(numbers).to(getattr(torch, d.name))
    written, read = (
        to_torch({k: f(ours) for k, f in VIEWS.items()}, **options),
        to_engine({k: f(theirs) for k, f in VIEWS.items()}, **options),
    )
    for name, view in VIEWS.items():
        assert same(view(ours), written[name]) and same(read[name], view(theirs)), name
    written["whole"][1, 2] = 0
    read["whole"][1, 2] = 0
    assert written["row"][2] == written["t"][2, 1] == written["scalar"] == 0
    assert read["row"][2] == read["t"][2, 1] == read["scalar"] == 0


@FORMATS
def test_containers(options):
    obj = {"a": [1, (2.5, None)], "b": OrderedDict(x=1), "c": {1, 2}, "d": b"\xff", 3: 1 + 2j, "e": 1 << 90, "f": "é"}
    assert to_torch(obj, **options) == obj and to_engine(obj, **options) == obj
    found = to_torch({"size": engine.Size([2, 3]), "dtype": engine.bfloat16, "device": engine.device("cuda:1")}, **options)
    assert found == {"size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda:1")}
    found = to_engine({"size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda:1")}, **options)
    assert found == {"size": engine.Size([2, 3]), "dtype": engine.bfloat16, "device": engine.device("cuda:1")}


def test_leaves_and_what_is_not_one():
    def tensors(lib):
        p = lib.nn.Parameter(lib.ones(2))
        p.note = 3
        x = lib.ones(2)
        x.label = "a"
        return [p, p * 2, x, lib.nn.Parameter(lib.ones(1), requires_grad=False), lib.nn.Buffer(lib.ones(1), persistent=False), p.detach()]

    for found, lib in ((to_torch(tensors(engine)), torch), (to_engine(tensors(torch)), engine)):
        assert [t.requires_grad for t in found] == [True, True, False, False, False, False]
        assert [isinstance(t, lib.nn.Parameter) for t in found] == [True, False, False, True, False, False]
        assert found[0].note == 3 and found[2].label == "a" and isinstance(found[4], lib.nn.Buffer) and found[4].persistent is False
        assert found[0].data_ptr() == found[5].data_ptr()


def test_conjugates():
    x = torch.randn(3, dtype=torch.complex64)
    assert same(to_engine(x.conj()), x.conj().resolve_conj()) and same(to_engine(x.conj().imag), x.conj().imag.resolve_neg())


@pytest.mark.filterwarnings("ignore:Sparse")  # torch says that its support is in beta and its checks are off
def test_sparse_tensors():
    def tensors(lib):
        places, content = lib.tensor([[0, 1, 1], [2, 0, 2]]), lib.tensor([3.0, 4.0, 5.0])
        coo = lib.sparse_coo_tensor(places, content, (2, 3))
        return [coo, coo.coalesce(), lib.sparse_csr_tensor(lib.tensor([0, 1, 3]), lib.tensor([2, 0, 2]), content, (2, 3)), lib.sparse_coo]

    for found, lib in ((to_torch(tensors(engine)), torch), (to_engine(tensors(torch)), engine)):
        expected = tensors(lib)
        for f, e in zip(found[:3], expected[:3], strict=True):
            assert f.layout == e.layout and f.to_dense().tolist() == e.to_dense().tolist()
        assert found[1].is_coalesced() and not found[0].is_coalesced() and found[3] is lib.sparse_coo


def model(lib):
    return lib.nn.Sequential(
        lib.nn.Conv2d(1, 4, 3), lib.nn.BatchNorm2d(4), lib.nn.ReLU(), lib.nn.AdaptiveAvgPool2d(2), lib.nn.Flatten(), lib.nn.Linear(16, 8),
        lib.nn.LayerNorm(8), lib.nn.GELU(), lib.nn.Dropout(0.3), lib.nn.Linear(8, 3),
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_a_training_crosses_over(optimizer):
    """A training that is saved by one and goes on in the other gives the same losses."""
    options = {"lr": 0.01, **({"momentum": 0.9} if optimizer == "SGD" else {})}
    x = numpy.random.default_rng(0).standard_normal((4, 1, 8, 8)).astype("f4")

    def begin(lib):
        net = model(lib).eval()
        opt = getattr(lib.optim, optimizer)(net.parameters(), **options)
        return net, opt, lib.optim.lr_scheduler.ExponentialLR(opt, 0.9)

    def steps(lib, net, opt, scheduler, n):
        losses = []
        for _ in range(n):
            opt.zero_grad()
            loss = net(lib.from_numpy(x)).square().mean()
            loss.backward()
            opt.step()
            scheduler.step()
            losses.append(loss.item())
        return losses

    for lib, other, across in ((torch, engine, to_engine), (engine, torch, to_torch)):
        first, second = begin(lib), begin(other)
        steps(lib, *first, 3)
        state = across([part.state_dict() for part in first])
        for part, saved in zip(second, state, strict=True):
            part.load_state_dict(saved)
        numpy.testing.assert_allclose(steps(other, *second, 4), steps(lib, *first, 4), rtol=1e-4)


def test_whole_modules():
    net = model(torch).eval()
    tail = torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    x = torch.randn(2, 1, 6, 6)
    ours = to_engine({"net": net, "tail": tail}, weights_only=False)
    out = ours["net"](engine.from_numpy(x.numpy()))
    numpy.testing.assert_allclose(out.detach().numpy(), net(x).detach().numpy(), atol=1e-5)
    steps = torch.randn(2, 5, 3)
    numpy.testing.assert_allclose(
        ours["tail"](engine.from_numpy(steps.numpy()))[0].detach().numpy(), tail(steps)[0].detach().numpy(), atol=1e-5
    )


def test_files_refused_alike(tmp_path):
    """What torch refuses with weights_only=True is refused here by the same kind of error."""
    import pickle

    (tmp_path / "x.pt").write_bytes(b"PK\x03\x04 nonsense")
    for lib in (torch, engine):
        with pytest.raises(RuntimeError):
            lib.load(tmp_path / "x.pt")
    torch.save({"x": print}, tmp_path / "y.pt")
    for lib in (torch, engine):
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            lib.load(tmp_path / "y.pt")
        assert lib.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "y.pt") in (["builtins.print"], ["__builtin__.print"])


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@FORMATS
def test_storages_types_functions_and_named_results(options):
    def values(lib):
        x = lib.tensor([[1.0, 5.0], [7.0, 2.0]])
        typed = lib.arange(1.0, 3.0)._typed_storage()
        return [typed, typed, lib.max(x, 0), lib.exp, lib.nn.init.zeros_, int, ..., NotImplemented, type(None), lib.nn.functional.relu]

    file = io.BytesIO()
    engine.save(values(engine), file, **options)
    file.seek(0)
    for lib, found in ((torch, torch.load(file, weights_only=False)), (engine, to_engine(values(torch), False, **options))):
        wanted = values(lib)
        assert found[0].tolist() == [1, 2] and found[0].data_ptr() == found[1].data_ptr() and type(found[0]) is type(wanted[0])
        assert type(found[2]) is type(wanted[2]) and found[2].values.tolist() == [7, 5] and found[2].indices.tolist() == [1, 0]
        assert found[3:] == wanted[3:]


def test_an_untyped_storage():  # torch.load cannot read its own in the legacy format
    file = io.BytesIO()
    engine.save(engine.ones(2).untyped_storage(), file)
    file.seek(0)
    assert torch.load(file, weights_only=True).tolist() == [0, 0, 128, 63] * 2


def test_legacy_checkpoints_in_a_row():
    file, legacy = io.BytesIO(), {"_use_new_zipfile_serialization": False}
    for lib in (torch, engine, torch, engine):
        lib.save({"a": lib.ones(2), "b": lib.zeros(len(file.getvalue()))}, file, **legacy)
    ends = []
    for lib in (torch, engine):
        file.seek(0)
        for _ in range(4):
            assert lib.load(file)["a"].tolist() == [1, 1]
            ends.append(file.tell())
    assert ends[:4] == ends[4:]


def test_a_whole_module_that_is_allowed_part_by_part():
    """`add_safe_globals([nn.Linear])` allows what PyTorch's file calls `torch.nn.modules.linear.Linear`, functions among it."""

    def parts(nn):
        return [nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention, nn.LayerNorm, nn.Dropout, nn.Linear,
                nn.ModuleList, nn.modules.linear.NonDynamicallyQuantizableLinear, nn.functional.relu]  # fmt: skip

    theirs = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2).eval()
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL torch.nn.modules"):
        to_engine(theirs)
    with engine.serialization.safe_globals(parts(engine.nn)[:-1]), pytest.raises(pickle.UnpicklingError, match=r"functional\.relu"):
        to_engine(theirs)
    with engine.serialization.safe_globals(parts(engine.nn)):
        ours = to_engine(theirs)
    x = numpy.random.default_rng(0).standard_normal((3, 5, 4)).astype("float32")
    assert numpy.allclose(ours(engine.from_numpy(x)).detach().numpy(), theirs(torch.from_numpy(x)).detach().numpy(), atol=1e-5)
