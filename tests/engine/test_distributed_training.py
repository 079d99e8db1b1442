"""Training in several processes: DistributedDataParallel, and an optimizer whose state lies in parts."""

from __future__ import annotations

import copy
import sys

import numpy
import pytest
from processes import equal, together

import engine
import engine.distributed as dist
from engine import nn
from engine.nn.parallel import DistributedDataParallel

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]


class Branches(nn.Module):
    """Two heads; `which` says who takes part."""

    def __init__(self):
        super().__init__()
        self.body, self.left, self.right, self.never = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 2)

    def forward(self, x, which):
        h = self.body(x).tanh()
        return {"out": sum((head(h) for head in which(self)), engine.zeros(2, dtype=x.dtype))}


def network():
    net = nn.Sequential(nn.Linear(4, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 2)).double()
    net[1].eval()  # the statistics of a part of a batch are not those of the whole
    net[1].training = False
    return net


def trains(rank, world, x, y, state, expected):
    engine.manual_seed(100 + rank)  # each starts elsewhere
    model = network()
    if rank == 0:
        model.load_state_dict(state)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.05)
    assert len(ddp._buckets) > 1 and list(ddp.state_dict())[0] == "module.0.weight"
    for name, value in ddp.module.state_dict().items():
        equal(value, state[name].numpy())
    optimizer = engine.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    part = len(x) // world
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x[rank * part : (rank + 1) * part]), y[rank * part : (rank + 1) * part]).backward()
        optimizer.step()
    for p, q in zip(ddp.module.parameters(), expected, strict=True):
        numpy.testing.assert_allclose(p.detach().numpy(), q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("world", [2, 3])
def test_training_is_that_of_one_process(world, tmp_path):
    engine.manual_seed(0)
    x, y, model = engine.randn(12, 4, dtype=engine.float64), engine.randn(12, 2, dtype=engine.float64), network()
    state = copy.deepcopy(model.state_dict())
    optimizer = engine.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    together(trains, world, tmp_path, x, y, state, [p.detach().numpy() for p in model.parameters()])


def accumulates(rank, world):
    engine.manual_seed(1)
    model = nn.Linear(3, 2).double()
    xs = [engine.randn(2, 4, 3, dtype=engine.float64) for _ in range(2)]
    alone = copy.deepcopy(model)
    for x in xs:
        (sum(alone(x[r]).pow(2).sum() for r in range(world)) / world).backward()
    ddp = DistributedDataParallel(model)
    with ddp.no_sync():
        ddp(xs[0][rank]).pow(2).sum().backward()
    own = copy.deepcopy(model.weight.grad)
    ddp(xs[1][rank]).pow(2).sum().backward()
    equal(model.weight.grad, alone.weight.grad.numpy(), 1e-12)
    equal(model.bias.grad, alone.bias.grad.numpy(), 1e-12)
    assert not numpy.allclose(own.numpy(), alone.weight.grad.numpy())
    with engine.no_grad():
        assert ddp(xs[0][rank]).shape == (4, 2)


def test_no_sync_accumulates(tmp_path):
    together(accumulates, 2, tmp_path)


def left(m):
    return [m.left]


def right(m):
    return [m.right]


def unused(rank, world):
    engine.manual_seed(2)
    x = engine.randn(2, 5, 4, dtype=engine.float64)
    model = Branches().double()
    alone = copy.deepcopy(model)
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    for _ in range(2):
        ddp.zero_grad()
        ddp(x[rank], left if rank == 0 else right)["out"].sum().backward()
    ((alone(x[0], left)["out"].sum() + alone(x[1], right)["out"].sum()) / 2).backward()
    for (name, p), q in zip(model.named_parameters(), alone.parameters(), strict=True):
        if name.startswith("never"):
            assert p.grad is None
        else:
            equal(p.grad, q.grad.numpy(), 1e-12)
    strict = DistributedDataParallel(Branches().double())
    strict(x[rank], left)["out"].sum().backward()
    with pytest.raises(RuntimeError, match="Expected to have finished reduction in the prior iteration"):
        strict(x[rank], left)


def test_unused_parameters(tmp_path):
    together(unused, 2, tmp_path)


def hooked(rank, world):
    from engine.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks

    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 400), nn.Tanh(), nn.Linear(400, 2))
    x = engine.randn(world, 6, 3)
    alone = copy.deepcopy(model)
    (sum(alone(x[r]).pow(2).sum() for r in range(world)) / world).backward()
    exact = [p.grad.numpy() for p in alone.parameters()]
    seen = []

    def zero(state, bucket):
        state.append((bucket.index(), bucket.is_last(), [tuple(g.shape) for g in bucket.gradients()], len(bucket.parameters())))
        bucket.gradients()[0].fill_(rank + 1.0)  # a view of the buffer
        done = engine.futures.Future()
        done.set_result(bucket.buffer())
        return done

    for hook, tolerance in (
        (hooks.allreduce_hook, 1e-5), (hooks.fp16_compress_hook, 2e-3), (hooks.bf16_compress_hook, 2e-2),
        (hooks.fp16_compress_wrapper(hooks.allreduce_hook), 2e-3), (zero, None),
    ):  # fmt: skip
        net = copy.deepcopy(model)
        ddp = DistributedDataParallel(net, bucket_cap_mb=0.004)
        ddp.register_comm_hook(seen if hook is zero else None, hook)
        ddp(x[rank]).pow(2).sum().backward()
        if tolerance is None:
            assert net[2].bias.grad.tolist() == [rank + 1.0] * 2  # each its own: the hook has sent nothing
            continue
        for p, q in zip(net.parameters(), exact, strict=True):
            assert p.grad.dtype is engine.float32
            numpy.testing.assert_allclose(p.grad.numpy(), q, rtol=tolerance, atol=tolerance * abs(q).max())
    assert seen[0] == (0, False, [(2,), (2, 400)], 2) and [s[0] for s in seen] == list(range(len(seen))) and seen[-1][1]
    assert sum(s[3] for s in seen) == 4
    with pytest.raises(RuntimeError, match="can only be called once"):
        ddp.register_comm_hook(None, zero)
    wrong = DistributedDataParallel(copy.deepcopy(model))
    with pytest.raises(TypeError, match="must be callable"):
        wrong.register_comm_hook(None, 3)
    wrong.register_comm_hook(None, lambda state, bucket: bucket.buffer())
    with pytest.raises(TypeError, match="expected the communication hook to return a Future of a tensor, got Tensor"):
        wrong(x[rank]).sum().backward()
    with pytest.raises(NotImplementedError, match="device_mesh is not supported here"):
        DistributedDataParallel(model, device_mesh=3)


def test_communication_hooks(tmp_path):
    together(hooked, 2, tmp_path)


def own_buffers(rank, world):
    for options, expected in (({}, 0), ({"broadcast_buffers": False}, rank), ({"forward_sync_buffers": False}, 0)):
        norm = nn.BatchNorm1d(1)
        norm.running_mean.fill_(rank)
        DistributedDataParallel(norm, **options)
        assert norm.running_mean.item() == expected, options


def test_buffers_stay_each_processs_own_without_broadcast(tmp_path):
    together(own_buffers, 2, tmp_path)


def normalizes(rank, world):
    draw = numpy.random.default_rng(0)
    whole = draw.standard_normal((world, 3000, 2, 8)) * 30 + 20  # neither the count of values nor the sums of squares fit in float16
    for name, tolerance in (("float16", 2e-3), ("bfloat16", 2e-2)):
        dtype = getattr(engine, name)
        rows = engine.tensor(whole).to(dtype)
        layer = nn.SyncBatchNorm(2)
        x = rows[rank].clone().requires_grad_()
        out = layer(x)
        out.sum().backward()
        all_rows = rows.double().numpy()
        mean, var = all_rows.mean((0, 1, 3)), all_rows.var((0, 1, 3))
        n = all_rows.size // 2
        assert out.dtype is dtype and x.grad.dtype is dtype
        expected = (all_rows[rank] - mean[:, None]) / numpy.sqrt(var + 1e-5)[:, None]
        numpy.testing.assert_allclose(out.detach().double().numpy(), expected, rtol=tolerance, atol=tolerance)
        numpy.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * mean, rtol=1e-5)
        numpy.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * var * n / (n - 1), rtol=1e-5)


def test_half_precision_is_normalized_by_statistics_in_float32(tmp_path):
    together(normalizes, 2, tmp_path)


def differs(rank, world):
    with pytest.raises(RuntimeError, match="DDP expects same model across all ranks"):
        DistributedDataParallel(nn.Linear(2, 2 + rank))


def test_models_that_differ(tmp_path):
    together(differs, 2, tmp_path)


def sharded(rank, world):
    from engine.distributed.optim import ZeroRedundancyOptimizer

    def model():
        engine.manual_seed(1)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()

    whole, parts = model(), model()
    plain = engine.optim.Adam(whole.parameters(), lr=0.05)
    optimizer = ZeroRedundancyOptimizer(parts.parameters(), engine.optim.Adam, lr=0.05)
    for step in range(6):
        for net, opt in ((whole, plain), (parts, optimizer)):
            engine.manual_seed(step)
            opt.zero_grad()
            net(engine.randn(4, 3, dtype=engine.float64)).square().sum().backward()
            opt.step()
        if step == 2:  # saved as a whole and taken up again, in parts
            with pytest.raises(RuntimeError, match="has not been consolidated"):
                optimizer.state_dict()
            optimizer.consolidate_state_dict(to=0)
            box = [optimizer.state_dict() if rank == 0 else None]
            dist.broadcast_object_list(box, src=0)
            assert sorted(box[0]["state"]) == [0, 1, 2, 3]
            optimizer = ZeroRedundancyOptimizer(parts.parameters(), engine.optim.Adam, lr=0.05)
            optimizer.load_state_dict(box[0])
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        assert engine.equal(a, b)
    owned = 0 if optimizer.optim is None else len(optimizer.optim.state)
    assert 0 < owned < 4  # no process holds the whole state
    with pytest.raises(NotImplementedError):
        ZeroRedundancyOptimizer(parts.parameters(), engine.optim.Adam, overlap_with_ddp=True)


def test_an_optimizer_whose_state_lies_in_parts(tmp_path):
    together(sharded, 2, tmp_path)
