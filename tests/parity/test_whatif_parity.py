"""What-ifs against torch: a fork is what a hook gives there, a Jacobian what torch.autograd.functional.jacobian gives, a path a cut graph."""

from __future__ import annotations

import numpy
import pytest

import engine
import workbench as wb

torch = pytest.importorskip("torch", reason="torch is not installed: make parity")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
R = numpy.random.default_rng(0)
X, W, B, V = R.normal(size=(3, 4)), R.normal(size=(4, 5)), R.normal(size=5), R.normal(size=(5, 2))


def leaves(made):
    return [made(a) for a in (X, W, B, V)]


def ours(array):
    return engine.tensor(array, dtype=engine.float64, requires_grad=True)


def theirs(array):
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def net(module, x, w, b, v, hook=None):
    h = module.tanh(x @ w + b)
    if hook is not None:
        h.register_hook(hook)
    return h, ((h @ v).softmax(-1) * (h @ v)).sum() + (h * h).mean()


CHANGES = [
    ("g.clip(-0.1, 0.1)", lambda g: g.clamp(-0.1, 0.1)), ("g * 0", lambda g: g * 0), ("g / norm(g)", lambda g: g / g.norm()),
    ("where(g > 0, g, 0.1 * g)", lambda g: torch.where(g > 0, g, 0.1 * g)), ("sign(g) * sqrt(abs(g))", lambda g: g.sign() * g.abs().sqrt()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "hook"), CHANGES, ids=[text for text, _ in CHANGES])
def test_a_fork_is_what_a_hook_gives_in_torch(text, hook):
    mine, others = leaves(ours), leaves(theirs)
    h, loss = net(engine, *mine)
    fork = wb.whatif.fork(wb.step(loss), text, at=h)
    net(torch, *others, hook=hook)[1].backward()
    row = fork.ground.recording.row_of
    for a, b in zip(mine, others, strict=True):
        numpy.testing.assert_allclose(fork.leaves[row(a.node)], b.grad.numpy(), rtol=1e-10, atol=1e-12)


OPS = {
    "softmax": (lambda m, x: x.softmax(-1), X), "log_softmax": (lambda m, x: x.log_softmax(0), X), "cumprod": (lambda m, x: x.cumprod(1), X),
    "layer_norm": (lambda m, x: m.nn.functional.layer_norm(x, (4,)), X), "logsumexp": (lambda m, x: x.logsumexp(1), X),
    "matmul": (lambda m, x: x @ (m.ones(4, 2, dtype=m.float64) * 3), X), "gelu": (lambda m, x: m.nn.functional.gelu(x), X),
    "inverse": (lambda m, x: m.linalg.inv(x), X[:, :3]), "var": (lambda m, x: x.var(0), X), "permute": (lambda m, x: x.permute(1, 0), X),
    "conv1d": (lambda m, x: m.nn.functional.conv1d(x, m.ones(2, 3, 2, dtype=m.float64)), X[None]),
    "index": (lambda m, x: x[[2, 0, 2]], X), "max": (lambda m, x: x.max(1)[0], X), "norm": (lambda m, x: x.norm(), X),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_a_local_jacobian_is_torchs(name):
    run, array = OPS[name]
    expected = torch.autograd.functional.jacobian(lambda x: run(torch, x), torch.tensor(array))
    x = ours(array)
    y = run(engine, x)
    last = wb.whatif.local_jacobian(y)[0]
    found = numpy.asarray(last.values)
    if last.kind == "elementwise":
        found = numpy.diag(found.reshape(-1))
    numpy.testing.assert_allclose(
        found.reshape(expected.numel() // x.numel(), -1), expected.reshape(-1, x.numel()).numpy(), rtol=1e-8, atol=1e-10
    )


def test_a_path_is_what_torch_gives_when_all_others_are_cut():
    x, w, b, v = leaves(ours)
    h = engine.tanh(x @ w + b)
    loss = (h * 2).sum() + (h @ v).exp().sum()
    found = wb.whatif.paths(loss, h)
    assert found.count == 2
    through = next(p for p in found.listed if any("exp" in name for name in p.names(found.recording)))
    t = torch.tanh(theirs(X) @ theirs(W) + theirs(B)).detach().requires_grad_()
    (torch.exp(t @ theirs(V)).sum() + (t.detach() * 2).sum()).backward()
    numpy.testing.assert_allclose(through.contribution, t.grad.numpy(), rtol=1e-10)


def test_a_rerun_is_torchs_program_with_the_other_weight():
    mine = leaves(ours)
    _, loss = net(engine, *mine)
    found = wb.whatif.rerun(loss, {mine[1]: "x * 0.5 + 0.1"})
    others = [theirs(X), theirs(W * 0.5 + 0.1), theirs(B), theirs(V)]
    _, expected = net(torch, *others)
    expected.backward()
    assert float(found.loss) == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(mine, others, strict=True):
        numpy.testing.assert_allclose(found.gradients[found.recording.row_of(a.node)], b.grad.numpy(), rtol=1e-9, atol=1e-12)
