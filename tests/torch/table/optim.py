"""Optimizers and schedulers: parameters after steps, state, learning rates, text, wrong arguments."""

from __future__ import annotations

from .case import case, fails
from .inputs import f

# fmt: off
OPT = "torch.optim."
STEPS = """
w, c = x.detach().clone().requires_grad_(), y.detach().clone().requires_grad_()
o = torch.optim.{made}
for step in range(4):
    o.zero_grad()
    loss = ((w * w).sum() * 0.5 + (w @ c).sin().sum() + (step + 1) * c.sum())
    loss.backward()
    o.step()
"""
MADE = {
    "SGD": ["", ", lr=0.1", ", lr=0.1, momentum=0.9", ", lr=0.1, momentum=0.9, nesterov=True", ", lr=0.1, weight_decay=0.01", ", lr=0.1, momentum=0.5, dampening=0.1", ", lr=0.1, maximize=True", ", 0.1, foreach=False"],
    "Adam": ["", ", lr=0.1", ", lr=0.1, betas=(0.5, 0.9), eps=1e-3", ", lr=0.1, weight_decay=0.1", ", lr=0.1, amsgrad=True", ", lr=0.1, maximize=True", ", lr=0.1, fused=False"],
    "AdamW": ["", ", lr=0.1", ", lr=0.1, weight_decay=0.3", ", lr=0.1, amsgrad=True", ", lr=0.1, betas=(0.8, 0.99)"],
    "RMSprop": ["", ", lr=0.1", ", lr=0.1, alpha=0.9, eps=0.01", ", lr=0.1, momentum=0.9", ", lr=0.1, centered=True", ", lr=0.1, weight_decay=0.1"],
    "Adadelta": ["", ", lr=0.5", ", rho=0.8, eps=1e-3", ", weight_decay=0.1"],
    "Adagrad": ["", ", lr=0.1", ", lr=0.1, lr_decay=0.1", ", lr=0.1, weight_decay=0.1, initial_accumulator_value=0.5"],
    "Adamax": [""], "NAdam": [""], "RAdam": [""], "Rprop": [""], "ASGD": [""],
}
LISTED = {"SGD", "Adam", "AdamW", "RMSprop", "Adadelta", "Adagrad"}
for name, options in MADE.items():
    claim = OPT + name if name in LISTED else ""
    for more in options:
        text = STEPS.format(made=f"{name}([w, c]{more})")
        case(claim, [text + "w.detach(), c.detach(), w.grad", text + "o.state_dict()"], grad=False, x=f(3, 4), y=f(4))
    case(claim, [f"o = torch.optim.{name}([torch.ones(2, requires_grad=True)]); o", f"o = torch.optim.{name}([torch.ones(2, requires_grad=True)]); o.defaults", f"o = torch.optim.{name}([torch.ones(2, requires_grad=True)]); [sorted(g) for g in o.param_groups]", f"o = torch.optim.{name}(nn.Linear(2, 2).parameters()); len(o.param_groups[0]['params']), isinstance(o, torch.optim.Optimizer)"])
    fails(claim, [f"torch.optim.{name}([])", f"torch.optim.{name}([torch.ones(2)], lr=-1)", f"torch.optim.{name}(torch.ones(2))", f"torch.optim.{name}([1.0])", f"torch.optim.{name}([(torch.ones(2, requires_grad=True) * 2)])", f"torch.optim.{name}([torch.ones(2)], foo=3)", f"torch.optim.{name}()", f"torch.optim.{name}([torch.ones(2)], weight_decay=-1)"])
fails(OPT + "SGD " + OPT + "Adam " + OPT + "RMSprop", ["torch.optim.SGD([torch.ones(2)], momentum=-1)", "torch.optim.SGD([torch.ones(2)], nesterov=True)", "torch.optim.Adam([torch.ones(2)], betas=(1.0, 0.9))", "torch.optim.Adam([torch.ones(2)], eps=-1)", "torch.optim.RMSprop([torch.ones(2)], alpha=-1)"])
TWO = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
o = torch.optim.{made}
for step in range(3):
    o.zero_grad()
    net(x).square().sum().backward()
    o.step()
"""
case(f"{OPT}Optimizer {OPT}Optimizer.step {OPT}Optimizer.param_groups {OPT}Optimizer.state torch.nn.Module|torch.optim.Optimizer.zero_grad torch.nn.Module|torch.optim.Optimizer.state_dict torch.nn.Module|torch.optim.Optimizer.load_state_dict", [
    TWO.format(made="SGD([{'params': net[0].parameters(), 'lr': 0.1}, {'params': net[2].parameters()}], lr=0.01, momentum=0.9)") + "net.state_dict(), [g['lr'] for g in o.param_groups]",
    TWO.format(made="AdamW(net.parameters(), lr=0.05)") + "net.state_dict(), len(o.state), sorted(o.state[net[0].weight])",
    TWO.format(made="Adam(net.parameters(), lr=0.05)") + "s = o.state_dict(); o2 = torch.optim.Adam(net.parameters(), lr=0.9); o2.load_state_dict(s); net(x).sum().backward(); o2.step(); net.state_dict(), o2.param_groups[0]['lr']",
    TWO.format(made="SGD(net.parameters(), lr=0.05)") + "o.zero_grad(); net[0].weight.grad, o.zero_grad(set_to_none=False)",
    TWO.format(made="SGD(net.parameters(), lr=0.05)") + "o.param_groups[0]['lr'] = 0.5; o.step(); o.add_param_group({'params': [torch.ones(1, requires_grad=True)], 'lr': 3}); len(o.param_groups), net[0].bias, o",
    TWO.format(made="RMSprop(net.parameters())") + "o.step(lambda: torch.tensor(3.0)), isinstance(o, torch.optim.Optimizer)",
    "w = torch.ones(2, requires_grad=True); o = torch.optim.SGD([w], lr=1.0); o.step(); w.detach()",
], grad=False, x=f(5, 3, dtype="float32"))
case(OPT + "Optimizer", "\n".join(["class Mine(torch.optim.Optimizer):", "    def __init__(self, params, lr=0.1):", "        super().__init__(params, dict(lr=lr))", "    @torch.no_grad()", "    def step(self, closure=None):", "        for g in self.param_groups:", "            for p in g['params']:", "                p.add_(p.grad, alpha=-g['lr'])", "                self.state[p]['n'] = self.state[p].get('n', 0) + 1", "w = torch.ones(3, requires_grad=True)", "o = Mine([w])", "(w * w).sum().backward()", "o.step()", "w.detach(), o, o.state_dict()"]))
case("", "\n".join(["w = torch.tensor([1.5, -1.0], requires_grad=True)", "o = torch.optim.LBFGS([w], lr=0.5)", "def closure():", "    o.zero_grad()", "    loss = ((w - 2) ** 4).sum()", "    loss.backward()", "    return loss", "first = o.step(closure)", "first.detach(), w.detach()"]))
fails(f"{OPT}Optimizer torch.nn.Module|torch.optim.Optimizer.load_state_dict", ["o = torch.optim.SGD([torch.ones(1)]); o.load_state_dict({'state': {}, 'param_groups': []})", "o = torch.optim.SGD([torch.ones(1)]); o.load_state_dict({})", "o = torch.optim.SGD([torch.ones(1)]); o.add_param_group({'params': o.param_groups[0]['params']})", "nn.Linear(2, 2).load_state_dict({})", "nn.Linear(2, 2).load_state_dict({'weight': torch.ones(3, 3), 'bias': torch.ones(2)})", "nn.Linear(2, 2).load_state_dict(3)", "nn.Linear(2, 2).load_state_dict({'weight': torch.ones(2, 2), 'bias': torch.ones(2), 'a': 1})"])

# schedulers
SCHEDULE = """
w = torch.ones(2, requires_grad=True)
o = torch.optim.SGD([{{'params': [w], 'lr': 0.5}}, {{'params': [torch.ones(1, requires_grad=True)]}}], lr=1.0, momentum=0.9)
s = torch.optim.lr_scheduler.{made}
lrs = [s.get_last_lr()]
for step in range(12):
    o.step()
    s.step()
    lrs.append(s.get_last_lr())
"""
LR = "torch.optim.lr_scheduler."
SCHEDULERS = {"StepLR": ["StepLR(o, 3)", "StepLR(o, step_size=4, gamma=0.5)"], "MultiStepLR": ["MultiStepLR(o, [2, 5])", "MultiStepLR(o, milestones=[3, 3, 8], gamma=0.3)"], "CosineAnnealingLR": ["CosineAnnealingLR(o, 5)", "CosineAnnealingLR(o, T_max=10, eta_min=0.1)"], "OneCycleLR": ["OneCycleLR(o, 2.0, total_steps=13)", "OneCycleLR(o, max_lr=[1.0, 2.0], epochs=3, steps_per_epoch=5, anneal_strategy='linear', pct_start=0.4)", "OneCycleLR(o, 1.0, 20, three_phase=True, cycle_momentum=False)"], "": ["ExponentialLR(o, 0.9)", "LambdaLR(o, lambda e: 0.9 ** e)", "LambdaLR(o, [lambda e: 1 / (e + 1), lambda e: 0.5])", "LinearLR(o, 0.1, total_iters=4)", "ConstantLR(o, 0.3, 3)", "PolynomialLR(o, 6, 2.0)", "CosineAnnealingWarmRestarts(o, 3, 2)", "MultiplicativeLR(o, lambda e: 0.8)", "CyclicLR(o, 0.1, 0.9, step_size_up=3)", "SequentialLR(o, [torch.optim.lr_scheduler.ConstantLR(o, 0.1, 2), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], [3])", "ChainedScheduler([torch.optim.lr_scheduler.ConstantLR(o, 0.1, 2), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)])"]}
for name, listed in SCHEDULERS.items():
    for made in listed:
        case(f"{LR}{name}" if name else "", SCHEDULE.format(made=made) + "lrs, [g['lr'] for g in o.param_groups], o.param_groups[0].get('momentum')")
    if name:
        case(f"{LR}{name} {LR}LRScheduler.step {LR}LRScheduler.get_last_lr {LR}LRScheduler.last_epoch" + (f" {LR}LRScheduler.base_lrs" if name != "OneCycleLR" else ""), SCHEDULE.format(made=listed[0]) + "sorted(k for k in s.state_dict() if not k.startswith('_')), s.base_lrs, s.last_epoch, isinstance(s, torch.optim.lr_scheduler.LRScheduler), s.get_last_lr()")
case(f"{LR}_LRScheduler {LR}LRScheduler.base_lrs", ["torch.optim.lr_scheduler._LRScheduler.__name__", "isinstance(torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)]), 2), torch.optim.lr_scheduler._LRScheduler)", "\n".join(["class Half(torch.optim.lr_scheduler._LRScheduler):", "    def get_lr(self):", "        return [b / (self.last_epoch + 1) for b in self.base_lrs]", "o = torch.optim.SGD([torch.ones(1)], lr=1.0)", "s = Half(o)", "o.step(); s.step(); o.step(); s.step()", "s.get_last_lr(), s.base_lrs"])])
PLATEAU = SCHEDULE.replace("    s.step()", "    s.step([5.0, 4.0, 4.0, 4.1, 4.2, 4.0, 3.9, 4.0, 4.0, 4.0, 4.0, 4.0][step])")
for made in ("ReduceLROnPlateau(o)", "ReduceLROnPlateau(o, 'max', patience=1)", "ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1)", "ReduceLROnPlateau(o, patience=0, threshold=0.1, threshold_mode='abs', min_lr=0.05)"):
    case(LR + "ReduceLROnPlateau", PLATEAU.format(made=made) + "lrs, s.num_bad_epochs, s.best")
case(LR + "StepLR", [SCHEDULE.format(made="StepLR(o, 3)") + "d = s.state_dict(); t = torch.optim.lr_scheduler.StepLR(o, 9); t.load_state_dict(d); t.step_size, t.last_epoch", "warned(torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)]), 2).step)"])
fails(LR + "StepLR " + LR + "ReduceLROnPlateau " + LR + "OneCycleLR", ["torch.optim.lr_scheduler.StepLR(3, 2)", "torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)]))", "torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.ones(1)]), factor=1.5)", "torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.ones(1)]), 'abc')", "torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.ones(1)])).step()", "torch.optim.lr_scheduler.OneCycleLR(torch.optim.SGD([torch.ones(1)]), 1.0)", "torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.ones(1)]), 2, last_epoch=3)", "torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD([torch.ones(1)]), [1, 2])"])
