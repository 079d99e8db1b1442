"""Losses, as functions and as modules."""

from __future__ import annotations

from .case import case, fails
from .inputs import f, i, v

# fmt: off
NF = "torch.nn.functional."
REDUCTIONS = ["mean", "sum", "none"]
X, Y = f(4, 3), f(4, 3)
K = v([0, 2, 1, 2], "int64")
W = f(3, low=0.5, grad=False)
PROBABILITY = f(4, 3, low=0.05, high=0.95)

for x, y in ((X, Y), (f(4, 3, layout="transposed"), Y), (f(4, 3, dtype="float32"), f(4, 3, dtype="float32")), (f(), f()), (f(0, 3), f(0, 3)), (f(4, 3), f(4, 3, layout="stepped"))):
    case(f"{NF}mse_loss torch.nn.MSELoss", ["F.mse_loss(x, y, reduction=r)", "nn.MSELoss(reduction=r)(x, y)"], x=x, y=y, r=REDUCTIONS)
    case("torch.nn.L1Loss", ["F.l1_loss(x, y, reduction=r)", "nn.L1Loss(reduction=r)(x, y)"], x=x, y=y, r=REDUCTIONS)
case(f"{NF}mse_loss torch.nn.MSELoss torch.nn.L1Loss", ["F.mse_loss(x, y)", "nn.MSELoss()(x, y)", "nn.L1Loss()(x, y)", "warned(F.mse_loss, x, y)", "warned(nn.L1Loss(), x, y)", "F.mse_loss(x, y, size_average=False)" ], x=X, y=f(1, 3))
case("torch.nn.MSELoss torch.nn.L1Loss", ["nn.MSELoss()", "nn.L1Loss(reduction='sum')", "nn.MSELoss().reduction, nn.L1Loss().reduction"])
fails(f"{NF}mse_loss torch.nn.MSELoss torch.nn.L1Loss", ["F.mse_loss(x, y)", "F.mse_loss(x, x, reduction='abc')", "nn.MSELoss(reduction='abc')(x, x)", "nn.L1Loss()(x)", "nn.MSELoss()(x, 2.0)", "F.mse_loss(x)"], x=X, y=f(5, 3))

case(f"{NF}cross_entropy torch.nn.CrossEntropyLoss", ["F.cross_entropy(x, k, reduction=r)", "nn.CrossEntropyLoss(reduction=r)(x, k)", "F.cross_entropy(x, k, weight=w, reduction=r)", "F.cross_entropy(x, k, label_smoothing=0.1, reduction=r)", "nn.CrossEntropyLoss(weight=w, label_smoothing=0.2, reduction=r)(x, k)", "F.cross_entropy(x, k, ignore_index=2, reduction=r)", "nn.CrossEntropyLoss(ignore_index=1, weight=w, reduction=r)(x, k)"], x=[X, f(4, 3, layout="transposed"), f(4, 3, dtype="float64", low=-300, high=300)], k=K, w=W, r=REDUCTIONS)
case(f"{NF}cross_entropy torch.nn.CrossEntropyLoss", ["F.cross_entropy(x, p, reduction=r)", "nn.CrossEntropyLoss(w, reduction=r)(x, p)", "F.cross_entropy(x, p.softmax(1), label_smoothing=0.1, reduction=r)"], x=X, p=PROBABILITY, w=W, r=REDUCTIONS)
case(f"{NF}cross_entropy torch.nn.CrossEntropyLoss", ["F.cross_entropy(x, k, reduction=r)", "nn.CrossEntropyLoss(reduction=r)(x, k)"], x=f(2, 3, 4), k=v([[0, 2, 1, 1], [2, 0, -100, 1]], "int64"), r=REDUCTIONS)
case(f"{NF}cross_entropy", ["F.cross_entropy(x, k)", "F.cross_entropy(x, k, reduction='none')"], x=f(3), k=v(1, "int64"))
case(f"{NF}cross_entropy", "F.cross_entropy(x, k)", x=[f(4, 3, dtype="float32"), f(4, 3, dtype="bfloat16"), f(4, 3, dtype="float16")], k=[K, v([-100, -100, -100, -100], "int64")])
IGNORED = v([-100, -100, -100, -100], "int64")
case(f"{NF}cross_entropy {NF}nll_loss", ["F.cross_entropy(x, k)", "F.cross_entropy(x, k, weight=w)", "F.cross_entropy(x, k, label_smoothing=0.1)", "F.nll_loss(x, k)", "F.nll_loss(x, k, w)", "F.cross_entropy(x, k, reduction='sum')"], x=X, k=IGNORED, w=W)
case(f"{NF}cross_entropy {NF}nll_loss", ["F.cross_entropy(x, k, weight=w)", "F.nll_loss(x, k, w)"], x=X, k=v([0, 0, 2, 0], "int64"), w=v([0.0, 1.0, 0.0], grad=False))
case("torch.nn.CrossEntropyLoss torch.nn.NLLLoss torch.nn.BCELoss torch.nn.BCEWithLogitsLoss", ["nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(torch.ones(2))", "nn.NLLLoss()", "nn.BCELoss()", "nn.BCEWithLogitsLoss(reduction='none')", "nn.CrossEntropyLoss().ignore_index, nn.CrossEntropyLoss().label_smoothing", "list(nn.CrossEntropyLoss(torch.ones(2)).state_dict())"])
fails(f"{NF}cross_entropy torch.nn.CrossEntropyLoss", ["F.cross_entropy(x, k + 5)", "F.cross_entropy(x, k[:3])", "F.cross_entropy(x, k.float())", "F.cross_entropy(x, k, weight=torch.ones(2, dtype=torch.float64))", "F.cross_entropy(x, k, label_smoothing=2)", "nn.CrossEntropyLoss(reduction='abc')(x, k)", "F.cross_entropy(x, k[:, None])", "F.cross_entropy(x, k.int())", "F.cross_entropy(k, k)", "F.cross_entropy(x, -k - 1)", "F.cross_entropy(x[0], k)"], x=X, k=K)
case(f"{NF}nll_loss torch.nn.NLLLoss", ["F.nll_loss(x, k, reduction=r)", "nn.NLLLoss(reduction=r)(x.log_softmax(1), k)", "F.nll_loss(x, k, weight=w, reduction=r)", "nn.NLLLoss(w, ignore_index=2, reduction=r)(x, k)"], x=[X, f(4, 3, layout="transposed"), f(4, 3, dtype="float32")][:2], k=K, w=W, r=REDUCTIONS)
case(f"{NF}nll_loss", ["F.nll_loss(x, k)", "F.nll_loss(x, k, reduction='none')"], x=f(2, 3, 4), k=v([[0, 2, 1, 1], [2, 0, 0, 1]], "int64"))
case(f"{NF}nll_loss", "F.nll_loss(x, k)", x=f(3), k=v(1, "int64"))
fails(f"{NF}nll_loss torch.nn.NLLLoss", ["F.nll_loss(x, k + 5)", "F.nll_loss(x, k[:3])", "F.nll_loss(x, x)", "nn.NLLLoss()(x)", "F.nll_loss(x, k, weight=torch.ones(2, dtype=torch.float64))"], x=X, k=K)
case(f"{NF}binary_cross_entropy torch.nn.BCELoss", ["F.binary_cross_entropy(x, y, reduction=r)", "nn.BCELoss(reduction=r)(x, y)", "F.binary_cross_entropy(x, y, weight=w, reduction=r)", "nn.BCELoss(w, reduction=r)(x, y)"], x=[PROBABILITY, v([[0.0, 1.0, 0.5]] * 4, grad=False)], y=f(4, 3, low=0, high=1, grad=False), w=f(4, 3, low=0.5, grad=False), r=REDUCTIONS)
fails(f"{NF}binary_cross_entropy torch.nn.BCELoss", ["F.binary_cross_entropy(x, x)", "F.binary_cross_entropy(p, p[:2])", "nn.BCELoss()(p, k)", "F.binary_cross_entropy(p, p.float())", "F.binary_cross_entropy(p, p, reduction='abc')"], x=f(4, 3, low=1.5), p=PROBABILITY, k=i(4, 3, low=0, high=2))
case(f"{NF}binary_cross_entropy_with_logits torch.nn.BCEWithLogitsLoss", ["F.binary_cross_entropy_with_logits(x, y, reduction=r)", "nn.BCEWithLogitsLoss(reduction=r)(x, y)", "F.binary_cross_entropy_with_logits(x, y, weight=w, pos_weight=p, reduction=r)", "nn.BCEWithLogitsLoss(pos_weight=p, reduction=r)(x, y)"], x=[X, f(4, 3, low=-300, high=300), f(4, 3, layout="transposed")], y=f(4, 3, low=0, high=1), w=f(4, 3, low=0.5, grad=False), p=f(3, low=0.5, grad=False), r=REDUCTIONS)
fails(f"{NF}binary_cross_entropy_with_logits torch.nn.BCEWithLogitsLoss", ["F.binary_cross_entropy_with_logits(x, x[0])", "nn.BCEWithLogitsLoss()(x, x[:, :2])", "nn.BCEWithLogitsLoss(pos_weight=torch.ones(5))(x, x)", "F.binary_cross_entropy_with_logits(x)"], x=X)
OTHERS = {"smooth_l1_loss(x, y, beta=0.5": "SmoothL1Loss(beta=0.5", "huber_loss(x, y, delta=0.7": "HuberLoss(delta=0.7", "kl_div(x.log_softmax(1), y.softmax(1)": None, "kl_div(x.log_softmax(1), y.log_softmax(1), log_target=True": None, "poisson_nll_loss(x, y.abs()": None, "hinge_embedding_loss(x, y.sign()": None, "soft_margin_loss(x, y.detach().sign()": None, "gaussian_nll_loss(x, y, y.abs() + 0.1": None, "cosine_embedding_loss(x, y, s": None, "margin_ranking_loss(x[:, 0], y[:, 0], s": None, "triplet_margin_loss(x, y, x.roll(1, 0)": None, "multi_margin_loss(x, k": None, "multilabel_soft_margin_loss(x, y.sigmoid()": None, "multilabel_margin_loss(x, z": None}
for text, module in OTHERS.items():
    case("", [f"F.{text}, reduction=r)"] + ([f"nn.{module}, reduction=r)(x, y)"] if module else []), x=X, y=Y, s=v([1.0, -1.0, 1.0, -1.0], grad=False), k=K, z=v([[1, 0, -1]] * 4, "int64"), r=REDUCTIONS if "kl_div" not in text else [*REDUCTIONS, "batchmean"])
case("", [f"F.ctc_loss(x, k, (5, 3), (2, 2), reduction=r, zero_infinity={z})" for z in (False, True)], x=f(5, 2, 4), k=[v([[1, 2], [3, 1]], "int64"), v([[2, 1], [3, 3]], "int64")], r=REDUCTIONS)
case("", "F.ctc_loss(x.log_softmax(2), k, (5, 5), (2, 2), reduction=r)", x=f(5, 2, 4), k=v([[1, 2], [3, 1]], "int64"), r=REDUCTIONS)
