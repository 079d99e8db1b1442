"""What is around layers: parametrizations, norms of weights, pruning, clipping, vectors of parameters, hooks of modules."""

from __future__ import annotations

from .case import case, fails
from .inputs import f

# fmt: off
NET = "torch.manual_seed(0)\nP = nn.utils.parametrize\nnet = nn.Linear(3, 4).double()\n"
SKEW = "class Skew(nn.Module):\n    def forward(self, w):\n        return w.triu(1) - w.triu(1).t()\n    def right_inverse(self, w):\n        return w.triu(1)\n"
SQUARE = "torch.manual_seed(0)\nP = nn.utils.parametrize\nnet = nn.Linear(3, 3).double()\n" + SKEW
case("", [SQUARE + text for text in (
    "P.register_parametrization(net, 'weight', Skew())\nnet(x), net.weight",
    "P.register_parametrization(net, 'weight', Skew())\n(net(x) * x).sum().backward()\nnet.parametrizations.weight.original.grad",
    "P.register_parametrization(net, 'weight', Skew())\n[n for n, _ in net.named_parameters()], list(net.state_dict()), P.is_parametrized(net), P.is_parametrized(net, 'bias'), type(net).__name__",
    "P.register_parametrization(net, 'weight', Skew())\nP.remove_parametrizations(net, 'weight')\n[n for n, _ in net.named_parameters()], net.weight.detach(), type(net).__name__",
    "P.register_parametrization(net, 'weight', Skew())\nP.remove_parametrizations(net, 'weight', leave_parametrized=False)\nnet.weight.detach()",
    "P.register_parametrization(net, 'weight', Skew())\nnet.weight = torch.arange(9., dtype=torch.float64).reshape(3, 3)\nnet.weight.detach()",
    "P.register_parametrization(net, 'weight', Skew())\nlen(net.parametrizations.weight)",
    "P.register_parametrization(net, 'weight', Skew())\nwith P.cached():\n    same = net.weight is net.weight\nsame, net.weight is net.weight",
    "P.register_parametrization(net, 'weight', Skew())\nother = copy.deepcopy(net)\ntorch.equal(other.weight, net.weight), P.type_before_parametrizations(net).__name__")], x=f(2, 3))
fails("", [SQUARE + text for text in ("P.register_parametrization(net, 'nothing', Skew())", "P.register_parametrization(net, 'weight', nn.Linear(2, 2).double())", "P.remove_parametrizations(net, 'weight')")])
NORMS = "W = nn.utils.parametrizations\n"
case("", [NET + NORMS + text for text in (
    "W.weight_norm(net)\nnet(x)", "W.weight_norm(net, dim=1)\nnet(x), [n for n, _ in net.named_parameters()]", "W.weight_norm(net, dim=None)\nnet(x)", "W.weight_norm(net)\n(net(x) ** 2).sum().backward()\n[p.grad for p in net.parameters()]",
    "W.weight_norm(net)\nP.remove_parametrizations(net, 'weight')\nnet(x)", "W.spectral_norm(net, n_power_iterations=30)\ntorch.linalg.matrix_norm(net.weight, 2).round(decimals=5).detach()", "W.spectral_norm(net, n_power_iterations=30).eval()\nnet(x).detach().round(decimals=6)", "W.spectral_norm(net)\n[n for n, _ in net.named_parameters()], sorted(net.state_dict())",
    "W.orthogonal(net)\nnet.weight.t() @ net.weight", "W.orthogonal(nn.Linear(3, 3), orthogonal_map='cayley').weight.detach().det().abs()", "nn.utils.weight_norm(net)\nnet(x), [n for n, _ in net.named_parameters()]", "nn.utils.remove_weight_norm(nn.utils.weight_norm(net))\nnet(x), [n for n, _ in net.named_parameters()]", "nn.utils.spectral_norm(net, n_power_iterations=50)\nnet(x).detach().shape, sorted(net.state_dict())")], x=f(2, 3))
fails("", [NET + NORMS + text for text in ("W.weight_norm(net, 'no')", "nn.utils.remove_weight_norm(net)", "nn.utils.remove_spectral_norm(net)", "W.spectral_norm(net, n_power_iterations=0)", "W.orthogonal(net, orthogonal_map='no')", "nn.utils.weight_norm(nn.utils.weight_norm(net))")])

PRUNE = "torch.manual_seed(0)\nprune = module('nn.utils.prune')\nnet = nn.Linear(3, 4).double()\n"
case("", [PRUNE + text for text in (
    "prune.l1_unstructured(net, 'weight', amount=0.5)\nnet(x), net.weight_mask", "prune.l1_unstructured(net, 'weight', amount=4)\nnet.weight", "prune.ln_structured(net, 'weight', amount=0.5, n=2, dim=0)\nnet.weight, net.weight_mask", "prune.ln_structured(net, 'weight', amount=1, n=float('inf'), dim=1)\nnet.weight_mask",
    "prune.identity(net, 'weight')\n[n for n, _ in net.named_parameters()], [n for n, _ in net.named_buffers()]", "prune.custom_from_mask(net, 'bias', torch.tensor([1, 0, 1, 0]))\nnet.bias, net.bias_orig", "prune.l1_unstructured(net, 'weight', amount=0.5)\nprune.l1_unstructured(net, 'weight', amount=0.5)\nnet.weight_mask",
    "prune.l1_unstructured(net, 'weight', amount=0.5)\nprune.remove(net, 'weight')\n[n for n, _ in net.named_parameters()], net.weight.detach()", "prune.global_unstructured([(net, 'weight'), (net, 'bias')], prune.L1Unstructured, amount=0.4)\nnet.weight_mask, net.bias_mask", "prune.l1_unstructured(net, 'weight', amount=0.5)\n(net(x) ** 2).sum().backward()\nnet.weight_orig.grad",
    "prune.l1_unstructured(net, 'weight', amount=0.5)\nprune.is_pruned(net), sorted(net.state_dict())", "prune.l1_unstructured(net, 'weight', amount=0.3, importance_scores=torch.arange(12.).reshape(4, 3))\nnet.weight_mask", "prune.random_unstructured(net, 'weight', amount=5)\nnet.weight_mask.sum()", "prune.random_structured(net, 'weight', amount=2, dim=0)\nnet.weight_mask.sum()", "prune.L1Unstructured(amount=0.5).prune(x.detach())")], x=f(2, 3))
fails("", [PRUNE + text for text in ("prune.l1_unstructured(net, 'weight', amount=1.5)", "prune.l1_unstructured(net, 'weight', amount=100)", "prune.l1_unstructured(net, 'no', amount=1)", "prune.remove(net, 'weight')", "prune.ln_structured(net, 'bias', amount=1, n=2, dim=1)", "prune.l1_unstructured(net, 'weight', amount='a')")])
GRADS = "torch.manual_seed(0)\nnet = nn.Linear(3, 4).double()\n(net(x) ** 2).sum().backward()\n"
case("", [GRADS + text for text in ("nn.utils.clip_grad_norm_(net.parameters(), 0.5), [p.grad for p in net.parameters()]", "nn.utils.clip_grad_norm_(net.parameters(), 1.0, norm_type=float('inf')), net.bias.grad", "nn.utils.clip_grad_norm_(net.weight, 1.0, norm_type=1)", "nn.utils.clip_grad_value_(net.parameters(), 0.1)\nnet.weight.grad", "nn.utils.get_total_norm([p.grad for p in net.parameters()])", "nn.utils.parameters_to_vector(net.parameters())", "nn.utils.vector_to_parameters(torch.arange(16., dtype=torch.float64), net.parameters())\nnet.weight.detach(), net.bias.detach()")], x=f(2, 3), grad=False)
fails("", [GRADS + text for text in ("nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True) if net.bias.grad.fill_(float('inf')) is not None else 0", "nn.utils.vector_to_parameters([1.0], net.parameters())")], x=f(2, 3))
