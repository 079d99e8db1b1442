"""Functions of functions: torch.func, torch.autograd.functional, forward mode, modules as functions of their parameters."""

from __future__ import annotations

from .case import case, fails
from .inputs import b, c, f, i, v

# fmt: off
WAVE = "def wave(x):\n    return (x.sin() * x).sum()\n"
MAP = "def g(x):\n    return torch.stack([x[0] * x[1], x.exp().sum(), x[-1] ** 3])\n"

case("", [
    WAVE + "torch.func.grad(wave)(x)",
    WAVE + "torch.func.grad_and_value(wave)(x)",
    WAVE + "torch.func.grad(torch.func.grad(lambda t: t.sin() * t))(x[0])",
    WAVE + "torch.func.grad(lambda x, y: (x * y).sum(), argnums=1)(x, x + 1)",
    WAVE + "torch.func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x + 1)",
    WAVE + "torch.func.grad(lambda x: ((x ** 2).sum(), {'twice': x * 2}), has_aux=True)(x)",
    WAVE + "torch.func.grad(lambda d: (d['a'] * d['b'][0]).sum())({'a': x, 'b': [x * 2]})",
    WAVE + "out, pull = torch.func.vjp(lambda x: x.sin(), x)\nout, pull(torch.ones_like(x))",
    WAVE + "out, pull, aux = torch.func.vjp(lambda x: (x.sin(), x + 1), x, has_aux=True)\nout, pull(x), aux",
    WAVE + "out, pull = torch.func.vjp(lambda x, y: (x * y, x.sum()), x, x + 1)\nout, pull((x, torch.ones((), dtype=x.dtype)))",
    WAVE + "torch.func.jvp(lambda x: x.sin() * x, (x,), (torch.ones_like(x),))",
    WAVE + "torch.func.jvp(lambda x, y: x * y, (x, x + 1), (x, x))",
    WAVE + "torch.func.jvp(lambda x: (x ** 2, x + 1), (x,), (x,), has_aux=True)",
    WAVE + "torch.func.hessian(wave)(x)",
], x=f(3), grad=False)
case("", [MAP + f"torch.func.{name}(g)(x)" for name in ("jacrev", "jacfwd")] + [
    MAP + "torch.func.jacrev(g, chunk_size=1)(x)",
    MAP + "torch.func.jacrev(lambda x, y: x * y.sum(), argnums=(0, 1))(x, x)",
    MAP + "torch.func.jacfwd(lambda x: (x * 2, x.sum()))(x)",
    MAP + "torch.func.jacfwd(torch.func.jacrev(g))(x)",
    MAP + "torch.func.jacrev(lambda x: (g(x), x[:1]), has_aux=True)(x)",
    MAP + "out, push = torch.func.linearize(g, x)\nout, push(x)",
], x=[f(3), f(3, dtype="float32")], grad=False)

# one function over a batch
case("", [
    "torch.func.vmap(torch.dot)(x, x)",
    "torch.vmap(lambda a: a.sum())(x)",
    "torch.vmap(lambda a: a * 2, in_dims=1)(x)",
    "torch.vmap(lambda a: a * 2, in_dims=1, out_dims=1)(x)",
    "torch.vmap(lambda a, s: a * s, in_dims=(0, None))(x, x[0])",
    "torch.vmap(lambda d: d['a'] + d['b'], in_dims=({'a': 0, 'b': None},))({'a': x, 'b': x[0]})",
    "torch.vmap(lambda a: (a.max(), a.argmax()))(x)",
    "torch.vmap(torch.vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))(x[0], x[1])",
    "torch.vmap(lambda a: a.softmax(0))(x)",
    "torch.vmap(lambda a: torch.cat([a, a[:1]]).cumsum(0))(x)",
    "torch.vmap(lambda a: a.sort(descending=True).values)(x)",
    "torch.vmap(lambda a: torch.where(a > 0, a, -a).norm())(x)",
    "torch.vmap(lambda a: a.unsqueeze(0) @ a.unsqueeze(1))(x)",
    "torch.vmap(lambda a: F.layer_norm(a, (4,)))(x)",
    "torch.vmap(lambda a: a[1:] - a[:-1], chunk_size=2)(x)",
    "torch.vmap(torch.func.grad(lambda a: (a ** 3).sum()))(x)",
    "torch.vmap(torch.func.jacrev(lambda a: a ** 2))(x)",
    "torch.vmap(lambda a: torch.einsum('i,j->ij', a, a))(x)",
], x=f(3, 4))
case("", ["torch.vmap(lambda a, k: a[k])(x, k)", "torch.vmap(lambda a, k: a.index_select(0, k))(x, k[:, None])", "torch.vmap(lambda a, k: a.gather(0, k[None]))(x, k)", "torch.vmap(lambda a, m: a * m)(x, m)", "torch.vmap(lambda a, k: F.one_hot(k, 4) * a)(x, k)"], x=f(3, 4), k=v([0, 3, 1], "int64"), m=b(3, 4))
case("", ["torch.vmap(lambda a: a @ w)(x)", "torch.vmap(lambda a: F.linear(a, w.t()).relu().mean())(x)", "torch.vmap(lambda a: torch.linalg.inv(a @ a.T + torch.eye(2, dtype=a.dtype)))(x)", "torch.vmap(lambda a: F.conv1d(a[None], w.t()[:, :2, None]))(x)"], x=f(3, 2, 4), w=f(4, 3))
case("", ["torch.vmap(torch.det)(x)", "torch.vmap(lambda a: a.conj() * a)(x)"], x=[f(2, 3, 3), c(2, 2, 2)])
case("", ["torch.manual_seed(3); torch.vmap(lambda a: a + torch.rand(2, dtype=a.dtype), randomness='same')(x)", "torch.vmap(lambda a: a + torch.rand(2, dtype=a.dtype), randomness='different')(x).shape"], x=f(3, 2), grad=False)
fails("", ["torch.vmap(lambda a: a + torch.rand(2))(x)", "torch.vmap(lambda a, b: a + b)(x, x[:2])", "torch.vmap(lambda a: a, in_dims=5)(x)", "torch.vmap(lambda a: 3)(x)", "torch.vmap(lambda a: a.sum().item())(x)", "torch.vmap(lambda a: a, in_dims=None)(x)", "torch.func.grad(lambda a: a)(x)", "torch.func.grad(lambda a: 3.0)(x)", "torch.func.grad(lambda a: a.sum(), argnums=2)(x)", "torch.func.jvp(lambda a: a, (x,), (x[:1],))"], x=f(3, 2))

# torch.autograd.functional
FUNCTIONAL = "A = torch.autograd.functional\n"
case("", [FUNCTIONAL + MAP + text for text in (
    "A.jacobian(g, x)", "A.jacobian(lambda x, y: x * y.sum(), (x, x + 1))", "A.jacobian(g, x, vectorize=True)", "A.jacobian(g, x, strategy='forward-mode', vectorize=True)",
    "A.hessian(lambda x: (x ** 3).sum() * x[0], x)", "A.hessian(lambda x, y: (x * y).sum() ** 2, (x, x))", "A.vjp(g, x, torch.ones(3, dtype=x.dtype))", "A.jvp(g, x, torch.ones(3, dtype=x.dtype))",
    "A.vhp(lambda x: (x ** 3).sum(), x, x)", "A.hvp(lambda x: (x ** 3).sum(), x, x)", "A.jacobian(g, x.detach().requires_grad_(), create_graph=True).requires_grad")], x=f(3), grad=False)
fails("", [FUNCTIONAL + text for text in ("A.jacobian(lambda x: x.detach(), x, strict=True)", "A.hessian(lambda x: x, x)", "A.vjp(lambda x: x * 2, x, torch.ones(5))", "A.jvp(lambda x: x * 2, x)")], x=f(3))

# forward mode
DUAL = "fwAD = torch.autograd.forward_ad\n"
case("", [DUAL + "with fwAD.dual_level():\n    d = fwAD.make_dual(x, y)\n    out = fwAD.unpack_dual(" + text + ")\nout.primal, out.tangent" for text in ("d.sin() * d", "d @ d.t()", "d.softmax(1).sum(0)", "torch.cat([d, x])", "d.clone().mul_(2)", "torch.linalg.norm(d)", "F.gelu(d)", "d[:, 1:].prod(1)")], x=f(2, 3), y=f(2, 3), grad=False)
case("", [DUAL + "with fwAD.dual_level():\n    t = fwAD.unpack_dual(x).tangent\nt"], x=f(2), grad=False)
fails("", [DUAL + "fwAD.make_dual(x, x)", DUAL + "with fwAD.dual_level():\n    fwAD.make_dual(x, x[:1])"], x=f(2))

# modules as functions of their parameters
NET = "torch.manual_seed(0)\nnet = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()\n"
case("", [
    NET + "p = dict(net.named_parameters())\ntorch.func.functional_call(net, p, (x,))",
    NET + "p = {k: t * 2 for k, t in net.state_dict().items()}\ntorch.func.functional_call(net, p, x)",
    NET + "torch.func.functional_call(net, {'2.bias': torch.ones(1, dtype=torch.float64)}, (x,))",
    NET + "p = {k: t.detach() for k, t in net.named_parameters()}\ntorch.func.grad(lambda p: torch.func.functional_call(net, p, (x,)).pow(2).sum())(p)",
    NET + "p = {k: t.detach() for k, t in net.named_parameters()}\ntorch.vmap(torch.func.grad(lambda p, x: torch.func.functional_call(net, p, (x,)).pow(2).sum()), in_dims=(None, 0))(p, x)",
    NET + "nets = [nn.Linear(3, 2).double() for _ in range(3)]\np, b = torch.func.stack_module_state(nets)\n{k: t.shape for k, t in p.items()}, torch.vmap(lambda p, x: torch.func.functional_call(nets[0], p, (x,)), in_dims=(0, None))(p, x)",
    NET + "torch.nn.utils.stateless.functional_call(net, dict(net.named_parameters()), (x,))",
], x=f(4, 3), grad=False)
fails("", [NET + "torch.func.functional_call(net, {'no': x}, (x,), strict=True)", NET + "torch.func.functional_call(net, 3, (x,))"], x=f(4, 3))

case("", ["torch.func.functionalize(lambda x: x.clone().add_(1))(x)", "torch.func.grad(lambda x: x.abs().sum())(x * 0)", "torch.func.jacrev(lambda x: x.cumsum(0))(x)"], x=f(3), grad=False)
case("", "torch.vmap(lambda k: k + 1)(k)", k=[i(3), i(2, 3)], grad=False)
