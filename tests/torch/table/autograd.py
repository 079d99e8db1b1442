"""Gradients: backward, grad, modes, hooks, Function, leaves, in-place checks, anomalies."""

from __future__ import annotations

from .case import case, fails
from .inputs import f

# fmt: off
LEAF = "w = x.detach().clone().requires_grad_(); "
X = f(2, 3)
case("torch.Tensor.backward torch.Tensor.grad", [LEAF + tail for tail in ("(w * w).sum().backward(); w.grad", "(w * w).backward(torch.ones(2, 3, dtype=w.dtype)); w.grad", "y = w.exp(); y.backward(gradient=y.detach()); w.grad", "(w * w).sum().backward(); (w * w).sum().backward(); w.grad", "l = (w ** 3).sum(); l.backward(retain_graph=True); l.backward(); w.grad", "(w ** 3).sum().backward(create_graph=True); g = w.grad; g.requires_grad, torch.autograd.grad(g.sum(), w)", "y = w * 2; y.retain_grad(); y.sum().backward(); y.grad", "w.grad", "w[0].sum().backward(); w.grad", "y = w.detach() * w; y.sum().backward(); w.grad", "(w * 1).sum().backward(inputs=[w]); w.grad", "torch.autograd.backward([w.sum(), (w * w).sum()]); w.grad", "y = w.clone(); y[0] = 0; (y * y).sum().backward(); w.grad", "y = w.reshape(6); y.retain_grad(); (y * 3).sum().backward(); y.grad, w.grad", "w.sum().backward(); w.grad.is_leaf, w.grad.requires_grad")], x=[X, f(2, 3, dtype="float32"), f(2, 3, layout="transposed")], grad=False)
fails("torch.Tensor.backward", [LEAF + tail for tail in ("w.backward()", "x.sum().backward()", "l = (w * w).sum(); l.backward(); l.backward()", "w.sum().backward(torch.ones(3))", "(w * 2).backward(torch.ones(3))", "y = w.exp(); y.add_(1); y.sum().backward()", "w.add_(1)", "y = w * w; w.data; w.detach().zero_(); y.sum().backward()", "w.sum().backward('a')", "(w > 0).sum().backward()", "y = w * w; z = y[0]; y *= 2; y.exp_(); y.exp_().mul_(w); w.sin_()")], x=f(2, 3, grad=False))
case("torch.autograd.grad", [LEAF + tail for tail in ("torch.autograd.grad((w * w).sum(), w)", "torch.autograd.grad((w * w).sum(), [w])", "torch.autograd.grad(w * w, w, grad_outputs=torch.ones_like(w))", "g, = torch.autograd.grad((w ** 3).sum(), w, create_graph=True); torch.autograd.grad(g.sum(), w)", "torch.autograd.grad(w.sum(), [w, u], allow_unused=True)", "torch.autograd.grad(w.sum(), [w, u], materialize_grads=True)", "torch.autograd.grad([w.sum(), (w * u).sum()], [w, u])", "l = (w * w).sum(); torch.autograd.grad(l, w, retain_graph=True); torch.autograd.grad(l, w)", "torch.autograd.grad((w * u).sum(), u)[0].requires_grad", "y = w * 2; torch.autograd.grad((y * y).sum(), y)", "w.sum().backward(); torch.autograd.grad((w * w).sum(), w); w.grad", "I = torch.eye(6, dtype=w.dtype).view(6, 2, 3); torch.autograd.grad(w * w, w, I, is_grads_batched=True)")], x=X, u=f(2, 3))
fails("torch.autograd.grad", [LEAF + tail for tail in ("torch.autograd.grad(w.sum(), [w, u])", "torch.autograd.grad(w, w)", "torch.autograd.grad(x.detach().sum(), w)", "torch.autograd.grad(w.sum(), x.detach())", "l = (w * w).sum(); torch.autograd.grad(l, w); torch.autograd.grad(l, w)", "torch.autograd.grad(w * w, w, torch.ones(5))", "torch.autograd.grad(w.sum(), [])", "torch.autograd.grad(3, w)")], x=X, u=f(2, 3))
case("torch.no_grad torch.is_grad_enabled", ["with torch.no_grad():\n    y = x * 2\ny.requires_grad, torch.is_grad_enabled()", "with torch.no_grad():\n    on = torch.is_grad_enabled()\non", "@torch.no_grad()\ndef g(x):\n    return x * 2, torch.is_grad_enabled()\ng(x)", "with torch.no_grad():\n    with torch.enable_grad():\n        y = x * 2\ny.requires_grad", "w = x.detach().clone().requires_grad_()\nwith torch.no_grad():\n    w -= 0.1\nw, w.requires_grad", "@torch.no_grad\ndef g(x):\n    return x * 2\ng(x).requires_grad", "with torch.no_grad():\n    w = torch.ones(2, requires_grad=True)\nw.requires_grad, w.is_leaf", "torch.no_grad().__class__.__name__, torch.is_grad_enabled()"], x=X)
case("torch.set_grad_enabled", ["with torch.set_grad_enabled(False):\n    y = x * 2\ny.requires_grad", "with torch.set_grad_enabled(True):\n    y = x * 2\ny.requires_grad", "torch.set_grad_enabled(False); y = x * 2; torch.set_grad_enabled(True); y.requires_grad", "@torch.set_grad_enabled(False)\ndef g(x):\n    return x * 2\ng(x).requires_grad, torch.is_grad_enabled()"], x=X)
case("torch.inference_mode", ["with torch.inference_mode():\n    y = x * 2\ny.requires_grad, y.is_inference()", "@torch.inference_mode()\ndef g(x):\n    return x * 2\ng(x).requires_grad", "with torch.inference_mode(False):\n    y = x * 2\ny.requires_grad", "with torch.inference_mode():\n    y = torch.is_inference_mode_enabled(), torch.is_grad_enabled()\ny"], x=X)
fails("torch.inference_mode torch.no_grad", ["with torch.inference_mode():\n    y = x * 2\n(x * y).sum().backward()", "with torch.no_grad():\n    y = x.sum()\ny.backward()", "with torch.inference_mode():\n    y = torch.ones(2, 3)\ny.requires_grad_()\ny.add_(1)"], x=X)
case("torch.autograd.Variable", ["torch.autograd.Variable(x.detach(), requires_grad=True)", "torch.autograd.Variable(torch.ones(2))", "isinstance(torch.autograd.Variable(torch.ones(1)), torch.Tensor)", "v = torch.autograd.Variable(torch.ones(2), requires_grad=True); (v * v).sum().backward(); v.grad", "isinstance(x, torch.autograd.Variable)", "torch.autograd.Variable(torch.ones(2)).data"], x=X)
FN = "torch.autograd.function.FunctionCtx."
SQUARE = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x ** n
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * ctx.n * x ** (ctx.n - 1), None
"""
TWO = """
class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y
    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return (g * y + h if ctx.needs_input_grad[0] else None), (g * x + h if ctx.needs_input_grad[1] else None)
"""
SPLIT = """
class Split(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
"""
case(f"torch.autograd.Function {FN}save_for_backward {FN}saved_tensors", [SQUARE + "Square.apply(x, 3)", SQUARE + "Square.apply(x, 2).grad_fn.name()", TWO + "Two.apply(x, y)", TWO + "Two.apply(x, y.detach())[0] * 2", SQUARE + "Square.apply(Square.apply(x, 2), 2)", SQUARE + "Square.apply(x.detach(), 2).requires_grad", TWO + "a, b = Two.apply(x, y); a * b"], x=X, y=f(2, 3))
case("torch.autograd.Function", SPLIT + "Split.apply(x)", x=X)
case("torch.autograd.Function", ["class Sign(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x.sign()\n    @staticmethod\n    def backward(ctx, g):\n        return g\nSign.apply(x)", "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        y = x > 0\n        ctx.mark_non_differentiable(y)\n        return x * 2, y\n    @staticmethod\n    def backward(ctx, g, h):\n        return g * 2\nA.apply(x)", "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.mark_dirty(x)\n        return x.mul_(2)\n    @staticmethod\n    def backward(ctx, g):\n        return g * 2\nA.apply(x * 1)"], x=X)
fails("torch.autograd.Function", [SQUARE + "Square()(x, 2)", SQUARE + "Square.apply(x)", "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 2\n    @staticmethod\n    def backward(ctx, g):\n        return g, g\nA.apply(x).sum().backward()", "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 2\n    @staticmethod\n    def backward(ctx, g):\n        return g[0]\nA.apply(x).sum().backward()", "class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 2\nA.apply(x).sum().backward()", "torch.autograd.Function.apply(x)", SQUARE + "Square.forward(x, 2)"], x=X)
case("torch.Tensor.register_hook", [LEAF + tail for tail in ("h = w.register_hook(lambda g: g * 2); (w * 3).sum().backward(); w.grad", "seen = []; y = w * 2; y.register_hook(lambda g: seen.append(g.clone())); (y * y).sum().backward(); seen", "h = w.register_hook(lambda g: g * 2); h.remove(); w.sum().backward(); w.grad", "y = w * 2; y.register_hook(lambda g: torch.zeros_like(g)); y.sum().backward(); w.grad", "w.register_hook(lambda g: g + 1); w.register_hook(lambda g: g * 2); w.sum().backward(); w.grad", "seen = []; w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone())); w.register_hook(lambda g: None); w.sum().backward(); seen")], grad=False, x=X)
fails("torch.Tensor.register_hook", ["x.detach().register_hook(lambda g: g)", LEAF + "w.register_hook(lambda g: g[0]); w.sum().backward()"], x=X)
case("torch.Tensor.requires_grad torch.Tensor.detach", ["x.requires_grad, (x * 2).requires_grad, x.detach().requires_grad, (x > 0).requires_grad, x.argmax().requires_grad, x.long().requires_grad", "y = x.detach().clone(); y.requires_grad = True; y.requires_grad", "y = x.detach(); y.requires_grad = True; y.is_leaf", "(x.detach() * x).requires_grad", "x.data.requires_grad", "x.is_leaf, (x * 2).is_leaf, x.detach().is_leaf"], x=X)
fails("torch.Tensor.requires_grad", ["y = x * 2; y.requires_grad = False", "y = torch.ones(2, dtype=torch.int64); y.requires_grad = True", "x.detach().requires_grad = 'a'"], x=X)
case("torch.autograd.grad", ["torch.autograd.functional.jacobian(lambda t: t ** 2, x.detach()), torch.autograd.grad(x.sum(), x)", "torch.autograd.functional.hessian(lambda t: (t ** 3).sum(), x.detach()), torch.autograd.grad(x.sum(), x)", "torch.autograd.functional.vjp(lambda t: t ** 2, x.detach(), torch.ones(2, 3, dtype=x.dtype)), torch.autograd.grad(x.sum(), x)", "torch.autograd.functional.jvp(lambda t: t ** 2, x.detach(), torch.ones(2, 3, dtype=x.dtype)), torch.autograd.grad(x.sum(), x)", "torch.autograd.gradcheck(lambda t: t.sin(), x.detach().requires_grad_()), torch.autograd.grad(x.sum(), x)"], x=X)
