"""torch.nn.init from a seed: the very numbers, and what they are made of."""

from __future__ import annotations

from .case import case, fails

# fmt: off
INIT = "torch.nn.init."
SHAPES = [(4, 3), (5, 2, 3, 3), (3, 4, 2)]
for call in ("normal_(w)", "normal_(w, 1.0, 0.5)", "normal_(w, mean=0.0, std=0.02)", "zeros_(w)", "ones_(w)", "constant_(w, 0.3)", "uniform_(w)", "uniform_(w, -0.1, 0.1)", "xavier_uniform_(w)", "xavier_uniform_(w, gain=2.0)", "xavier_normal_(w)", "kaiming_normal_(w)", "kaiming_normal_(w, mode='fan_out', nonlinearity='relu')", "kaiming_uniform_(w)", "kaiming_uniform_(w, a=math.sqrt(5))", "kaiming_uniform_(w, nonlinearity='leaky_relu')", "trunc_normal_(w)", "trunc_normal_(w, std=0.02)", "trunc_normal_(w, mean=0.1, std=0.5, a=-0.3, b=0.4)", "orthogonal_(w)", "orthogonal_(w, gain=0.5)"):
    case(INIT + call.partition("(")[0], [f"torch.manual_seed(3); w = torch.empty(shape); nn.init.{call}", f"torch.manual_seed(3); w = nn.Parameter(torch.empty(shape)); y = nn.init.{call}; y is w, w.requires_grad, w.detach()", f"torch.manual_seed(3); w = torch.empty(shape, dtype=torch.float64); nn.init.{call}"], shape=SHAPES)
case(INIT + "orthogonal_", ["torch.manual_seed(0); w = nn.init.orthogonal_(torch.empty(4, 4)); w @ w.T", "torch.manual_seed(0); w = nn.init.orthogonal_(torch.empty(6, 3)); w.T @ w"])
case("", ["nn.init.eye_(torch.empty(3, 4))", "nn.init.dirac_(torch.empty(3, 2, 3))", "torch.manual_seed(0); nn.init.sparse_(torch.empty(4, 3), 0.5)"])
case(INIT + "calculate_gain", ["nn.init.calculate_gain(name)"], name=["linear", "relu", "tanh", "sigmoid", "leaky_relu", "selu", "conv2d"])
case(INIT + "calculate_gain", "nn.init.calculate_gain('leaky_relu', 0.2)")
case(INIT + "_calculate_fan_in_and_fan_out", "nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))", shape=SHAPES)
fails(INIT + "calculate_gain " + INIT + "_calculate_fan_in_and_fan_out", ["nn.init.calculate_gain('abc')", "nn.init.calculate_gain('leaky_relu', 'a')", "nn.init._calculate_fan_in_and_fan_out(torch.ones(3))"])
for name in ("xavier_uniform_", "xavier_normal_", "kaiming_normal_", "kaiming_uniform_", "orthogonal_"):
    fails(INIT + name, [f"nn.init.{name}(torch.ones(3))", f"nn.init.{name}(3)"])
fails(INIT + "kaiming_normal_ " + INIT + "kaiming_uniform_ " + INIT + "normal_ " + INIT + "constant_", ["nn.init.kaiming_normal_(torch.ones(2, 2), mode='abc')", "nn.init.kaiming_uniform_(torch.ones(2, 2), nonlinearity='abc')", "nn.init.normal_(torch.ones(2), std=-1)", "nn.init.constant_(torch.ones(2), 'a')"])
