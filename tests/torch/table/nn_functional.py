"""torch.nn.functional: activations, convolutions, pooling, padding, normalisation, attention, sampling."""

from __future__ import annotations

from .case import case, fails, writes
from .inputs import every, f, floats, i, layouts, perm, v

# fmt: off
X = f(3, 4)
NF = "torch.nn.functional."
ACTIVATIONS = {"relu": "", "sigmoid": "", "tanh": "", "silu": "", "leaky_relu": ", 0.2", "softplus": ", beta=2, threshold=1", "elu": ", alpha=0.5", "gelu": ", approximate='tanh'", "relu6": "", "selu": ""}
for name, more in ACTIVATIONS.items():
    case(NF + name, [f"F.{name}(x)", *([f"F.{name}(x{more})"] if more else [])], x=every(X))
    if name in ("relu", "silu", "leaky_relu", "elu", "relu6", "selu"):
        writes(NF + name, [f"F.{name}(x, inplace=True)", f"y = F.{name}(x, inplace=True); y is x"], x=[X, f(3, 4, layout="transposed"), f(3, 4, dtype="float32")])
    fails(NF + name, f"F.{name}()")
    if name not in ("sigmoid", "tanh"):
        fails(NF + name, f"F.{name}('a')")
case(NF + "gelu " + NF + "silu", ["F.gelu(x)", "F.silu(x)", "F.elu(x)", "F.selu(x)", "F.softplus(x)"], x=v([-100.0, -20.0, -1e-8, 0.0, 1e-8, 20.0, 100.0]), grad=False)
fails(NF + "gelu", ["F.gelu(x, approximate='abc')", "F.gelu(x, 3)"], x=X)
case("", ["F.hardtanh(x)", "F.hardsigmoid(x)", "F.hardswish(x)", "F.mish(x)", "F.softsign(x)", "F.logsigmoid(x)", "F.tanhshrink(x)", "F.softshrink(x)", "F.hardshrink(x)", "F.celu(x, 0.7)", "F.threshold(x, 0.1, 20)", "F.glu(x)", "F.glu(x, 1)", "F.prelu(x, w.to(x.dtype))", "F.softmin(x, 1)", "F.rrelu(x)"], x=[X, f(3, 4, dtype="float32"), f(3, 4, layout="transposed")], w=v(0.25))
for name in ("softmax", "log_softmax"):
    case(NF + name, [f"F.{name}(x, 1)", f"F.{name}(x, dim=0)", f"F.{name}(x, -1, dtype=torch.float64)", f"F.{name}(x, dim=-1)"], x=[*floats(X), *layouts(X)[1:], f(3, 4, low=-800, high=800), f(0, 3), f(2, 3, 4)])
    case(NF + name, [f"F.{name}(x)", f"F.{name}(x, 0)"], x=[f(4), f(3, 4), f(2, 3, 4), f()])
    case(NF + name, f"warned(F.{name}, x)", x=X)
    fails(NF + name, [f"F.{name}(x, 2)", f"F.{name}(i, 0)", f"F.{name}(x, 'a')"], x=X, i=i(3))

case(NF + "linear", ["F.linear(x, w)", "F.linear(x, w, c)", "F.linear(input=x, weight=w, bias=c)"], x=[f(2, 4), f(4), f(2, 3, 4), f(0, 4), f(2, 4, layout="transposed")], w=[f(3, 4), f(3, 4, layout="transposed")], c=f(3))
case(NF + "linear", "F.linear(x, w)", x=[f(2, 4, dtype="float32"), f(4, dtype="float32")], w=[f(3, 4, dtype="float32"), f(4, dtype="float32")])
case(NF + "linear", "F.linear(x, w, c)", x=f(2, 4, dtype="bfloat16"), w=f(3, 4, dtype="bfloat16"), c=f(3, dtype="bfloat16"))
fails(NF + "linear", ["F.linear(x, w.t())", "F.linear(x, w.float())", "F.linear(x, w, x[0])", "F.linear(x)", "F.linear(x.long(), w)", "F.linear(x, 2)"], x=f(2, 4), w=f(3, 4))
CONV1 = {"x": [f(2, 4, 7), f(4, 7)], "w": f(6, 4, 3)}
case(NF + "conv1d", ["F.conv1d(x, w)", "F.conv1d(x, w, c)", "F.conv1d(x, w, stride=2, padding=1)", "F.conv1d(x, w, padding='same')", "F.conv1d(x, w, padding='valid')", "F.conv1d(x, w, dilation=2)", "F.conv1d(x, g, groups=2)", "F.conv1d(x, w, c, 2, 2, 1)", "F.conv1d(x, w, stride=(2,), padding=(1,))"], **CONV1, c=f(6), g=f(6, 2, 3))
fails(NF + "conv1d", ["F.conv1d(x, w)", "F.conv1d(x[0, 0], w)", "F.conv1d(x, w[:, :3], stride=0)", "F.conv1d(x, w[:, :3, :1], padding=-1)", "F.conv1d(x, w[:, :3], padding='full')", "F.conv1d(x, w[:, :3], stride=2, padding='same')", "F.conv1d(x, w[:, :3], groups=2)", "F.conv1d(x.float(), w[:, :3])"], x=f(2, 3, 7), w=f(6, 4, 9))
case(NF + "conv2d", ["F.conv2d(x, w)", "F.conv2d(x, w, c)", "F.conv2d(x, w, stride=2)", "F.conv2d(x, w, stride=(1, 2), padding=(2, 1))", "F.conv2d(x, w, padding='same')", "F.conv2d(x, w, dilation=2)", "F.conv2d(x, g, groups=2)", "F.conv2d(x, w[:, :, :1, :1])", "F.conv2d(x, w, c, 2, 1, 1, 1)", "F.conv2d(input=x, weight=w, bias=None, padding=1)"], x=[f(2, 4, 6, 5), f(4, 6, 5), f(2, 4, 6, 5, layout="stepped")], w=f(2, 4, 3, 2), c=f(2), g=f(2, 2, 3, 2))
case(NF + "conv2d", ["F.conv2d(x, w)", "F.conv2d(x, w, padding=1)"], x=[f(2, 2, 4, 4, dtype="float32"), f(0, 2, 4, 4, dtype="float32")], w=f(3, 2, 3, 3, dtype="float32"))
fails(NF + "conv2d", ["F.conv2d(x, w)", "F.conv2d(x[0, 0], w)", "F.conv2d(x, w[:, :3], x)", "F.conv2d(x, w[:, :3].float())", "F.conv2d(x, w[:, :3], stride=-1)", "F.conv2d(x, w[:, :3, 0])", "F.conv2d(x, w[:, :3], groups=3)", "F.conv2d(x[:, :, :1], w[:, :3])"], x=f(2, 3, 6, 6), w=f(2, 4, 3, 3))
case("", ["F.conv3d(x, w)", "F.conv3d(x, w, padding=1, stride=2)"], x=f(1, 2, 4, 4, 4), w=f(3, 2, 2, 2, 2))
case("", ["F.conv_transpose2d(x, w)", "F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)", "F.conv_transpose2d(x, w, c, dilation=2)", "F.conv_transpose2d(x, w[:, :1], groups=2)"], x=f(1, 2, 3, 4), w=f(2, 3, 3, 2), c=f(3))
case("", ["F.conv_transpose1d(x, w, stride=2)", "F.conv_transpose1d(x, w, c, padding=1)"], x=f(2, 3, 5), w=f(3, 2, 3), c=f(2))

POOL = [perm(2, 3, 6, 5), perm(3, 6, 5), perm(2, 3, 6, 5, layout="stepped"), perm(2, 1, 4, 4, dtype="float32")]
case(NF + "max_pool2d", ["F.max_pool2d(x, 2)", "F.max_pool2d(x, 3, stride=1)", "F.max_pool2d(x, (2, 3), padding=1)", "F.max_pool2d(x, 2, ceil_mode=True)", "F.max_pool2d(x, 2, dilation=2)", "F.max_pool2d(x, 2, return_indices=True)", "F.max_pool2d(x, kernel_size=2, stride=(2, 1))", "F.max_pool2d(x, 3, 2, 1)", "F.max_pool1d(x[0], 2) if x.ndim < 4 else F.max_pool2d(x, 1)"], x=POOL)
fails(NF + "max_pool2d", ["F.max_pool2d(x, 9)", "F.max_pool2d(x, 2, padding=2)", "F.max_pool2d(x[0, 0], 2)", "F.max_pool2d(x, 0)", "F.max_pool2d(x, 2, stride=0)", "F.max_pool2d(x)", "F.max_pool2d(x, (2, 2, 2))"], x=perm(2, 3, 6, 5))
case(NF + "avg_pool2d", ["F.avg_pool2d(x, 2)", "F.avg_pool2d(x, 3, stride=1, padding=1)", "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", "F.avg_pool2d(x, 2, ceil_mode=True)", "F.avg_pool2d(x, (2, 1), divisor_override=3)", "F.avg_pool2d(x, kernel_size=2)"], x=[f(2, 3, 6, 5), f(3, 6, 5), f(2, 1, 4, 4, dtype="float32"), f(2, 3, 6, 5, layout="stepped")])
fails(NF + "avg_pool2d", ["F.avg_pool2d(x, 9)", "F.avg_pool2d(x, 2, padding=2)", "F.avg_pool2d(x[0, 0], 2)", "F.avg_pool2d(x, 2, divisor_override=0)"], x=f(2, 3, 6, 5))
case(NF + "adaptive_avg_pool2d", ["F.adaptive_avg_pool2d(x, 1)", "F.adaptive_avg_pool2d(x, (2, 3))", "F.adaptive_avg_pool2d(x, (None, 2))", "F.adaptive_avg_pool2d(x, 4)", "F.adaptive_avg_pool1d(x[0], 2)" ], x=[f(2, 3, 6, 5), f(1, 2, 4, 4, dtype="float32")])
case(NF + "adaptive_avg_pool2d", "F.adaptive_avg_pool2d(x, 2)", x=f(3, 6, 5))
fails(NF + "adaptive_avg_pool2d", ["F.adaptive_avg_pool2d(x, (1, 2, 3))", "F.adaptive_avg_pool2d(x, -1)", "F.adaptive_avg_pool2d(x)"], x=f(2, 3, 6, 5))
case(NF + "adaptive_max_pool2d", ["F.adaptive_max_pool2d(x, 1)", "F.adaptive_max_pool2d(x, (2, 3))", "F.adaptive_max_pool2d(x, 2, return_indices=True)", "F.adaptive_max_pool2d(x, (None, 1))"], x=[perm(2, 3, 6, 5), perm(3, 6, 5)])
fails(NF + "adaptive_max_pool2d", ["F.adaptive_max_pool2d(x[0, 0], 1)", "F.adaptive_max_pool2d(x)"], x=perm(2, 3, 6, 5))
case("", ["F.lp_pool2d(x, 2, 2)", "F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)", "F.avg_pool1d(x[0], 2)", "F.max_pool3d(x, 2)", "F.avg_pool3d(x, 2)"], x=perm(1, 2, 4, 4, low=1))

case(NF + "pad", ["F.pad(x, (1, 2))", "F.pad(x, (1, 0, 2, 1))", "F.pad(x, (1, 1), value=3.5)", "F.pad(x, (-1, 1))", "F.pad(x, [1, 2], 'constant', 1)", "F.pad(x, (0, 0, 1, -1))", "F.pad(x, (1, 2), mode='constant', value=None)", "F.pad(x, ())"], x=[*layouts(X), i(3, 4), f(2, 3, 4), f(3, 4, dtype="float16")])
case(NF + "pad", ["F.pad(x, (1, 2), mode=mode)", "F.pad(x, (2, 0), mode)"], x=[f(2, 3, 4), f(3, 4)], mode=["reflect", "replicate", "circular"])
case(NF + "pad", ["F.pad(x, (1, 2, 0, 1), mode=mode)", "F.pad(x, (1, 1, 1, 1), mode)"], x=[f(2, 3, 4, 3), f(3, 4, 3)], mode=["reflect", "replicate", "circular"])
fails(NF + "pad", ["F.pad(x, (1,))", "F.pad(x, (4, 0), mode='reflect')", "F.pad(x, (1, 1, 1, 1, 1, 1))", "F.pad(x, (1, 1), mode='abc')", "F.pad(x, (-5, 0))", "F.pad(x, (1, 1), mode='reflect', value=2)", "F.pad(x, (1, 1, 1, 1), mode='reflect')", "F.pad(x, (5, 0), mode='circular')"], x=X)
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    corner = [f"F.interpolate(x, size=(5, 7), mode='{mode}', align_corners=True)", f"F.interpolate(x, scale_factor=2, mode='{mode}', align_corners=False)"] if mode in ("bilinear", "bicubic") else []
    case(NF + "interpolate", [f"F.interpolate(x, size=(6, 8), mode='{mode}')", f"F.interpolate(x, scale_factor=2, mode='{mode}')", f"F.interpolate(x, scale_factor=(0.5, 1.5), mode='{mode}')", f"F.interpolate(x, size=2, mode='{mode}')", f"F.interpolate(x, scale_factor=1.7, mode='{mode}', recompute_scale_factor=True)", *corner], x=[f(1, 2, 3, 4), f(2, 1, 4, 4, dtype="float32")])
case(NF + "interpolate", ["F.interpolate(x, 8)", "F.interpolate(x, scale_factor=2.0, mode='linear')", "F.interpolate(x, size=3, mode='linear', align_corners=True)", "F.interpolate(x, size=3, mode='area')"], x=f(1, 2, 5))
case(NF + "interpolate", ["F.interpolate(x, scale_factor=2)", "F.interpolate(x, size=(2, 3, 4), mode='trilinear')"], x=f(1, 2, 2, 3, 2))
fails(NF + "interpolate", ["F.interpolate(x)", "F.interpolate(x, size=3, scale_factor=2)", "F.interpolate(x, size=(1, 2, 3))", "F.interpolate(x, size=3, mode='linear')", "F.interpolate(x, size=3, mode='abc')", "F.interpolate(x, size=3, align_corners=True)", "F.interpolate(x[0, 0], size=3)", "F.interpolate(x, scale_factor=(1, 2, 3))", "F.interpolate(x, size=0)"], x=f(1, 2, 3, 4))
for mode in ("bilinear", "nearest", "bicubic"):
    case(NF + "grid_sample", [f"F.grid_sample(x, g, mode='{mode}', padding_mode=p, align_corners=c)"], x=f(2, 3, 4, 5), g=f(2, 3, 2, 2, low=-1.4, high=1.4), p=["zeros", "border", "reflection"], c=[False, True])
case(NF + "grid_sample", ["F.grid_sample(x, F.affine_grid(t, (2, 3, 4, 5), align_corners=False), align_corners=False)", "F.grid_sample(x, F.affine_grid(t, (2, 3, 2, 2), align_corners=True))"], x=f(2, 3, 4, 5), t=f(2, 2, 3, low=-0.9, high=0.9))
fails(NF + "grid_sample", ["F.grid_sample(x, g)", "F.grid_sample(x, g[..., :1], align_corners=False)", "F.grid_sample(x, g[:1].repeat(1, 1, 1, 1)[..., :2], mode='abc')", "F.grid_sample(x, g[0])"], x=f(2, 3, 4, 5), g=f(1, 3, 2, 2))
case(NF + "unfold", ["F.unfold(x, 2)", "F.unfold(x, (2, 3), padding=1)", "F.unfold(x, 2, stride=2)", "F.unfold(x, 2, dilation=2)", "F.unfold(x, kernel_size=(1, 2), stride=(2, 1))", "F.fold(F.unfold(x, 2), x.shape[-2:], 2)"], x=[f(2, 3, 4, 5), f(1, 1, 4, 4, dtype="float32")])
fails(NF + "unfold", ["F.unfold(x, 9)", "F.unfold(x[0, 0], 2)", "F.unfold(x, 0)", "F.unfold(x, 2, stride=0)", "F.unfold(x, (1, 2, 3))"], x=f(2, 3, 4, 5))

case(NF + "layer_norm", ["F.layer_norm(x, (4,))", "F.layer_norm(x, [4], w, c)", "F.layer_norm(x, (3, 4))", "F.layer_norm(x, normalized_shape=(4,), weight=w, eps=0.1)", "F.layer_norm(x, (4,), None, c)"], x=[f(2, 3, 4), f(3, 4), f(2, 3, 4, layout="stepped"), f(0, 3, 4)], w=f(4), c=f(4))
case(NF + "layer_norm", "F.layer_norm(x, (4,))", x=[f(3, 4, dtype="float32"), f(3, 4, dtype="float16"), f(3, 4, dtype="bfloat16")], grad=False)
fails(NF + "layer_norm", ["F.layer_norm(x, (3,))", "F.layer_norm(x, 4)", "F.layer_norm(x, (4,), x[0, :3])", "F.layer_norm(x, ())", "F.layer_norm(x, (2, 3, 4))"], x=f(3, 4))
case(NF + "rms_norm", ["F.rms_norm(x, (4,))", "F.rms_norm(x, [4], w)", "F.rms_norm(x, (3, 4), eps=0.1)", "F.rms_norm(x, (4,), weight=w, eps=1e-3)"], x=[f(2, 3, 4), f(3, 4, dtype="float64")], w=f(4))
fails(NF + "rms_norm", ["F.rms_norm(x, (3,))", "F.rms_norm(x, (4,), x[0, :3])"], x=f(3, 4))
case(NF + "group_norm", ["F.group_norm(x, 2)", "F.group_norm(x, 1, w, c)", "F.group_norm(x, 4, weight=w, bias=c, eps=0.1)"], x=[f(3, 4, 2), f(3, 4), f(2, 4, 2, 3)], w=f(4), c=f(4))
fails(NF + "group_norm", ["F.group_norm(x, 3)", "F.group_norm(x, 2, x[0, :3])", "F.group_norm(x[0], 2)", "F.group_norm(x, 0)"], x=f(3, 4))
case(NF + "batch_norm", ["F.batch_norm(x, m, s)", "F.batch_norm(x, None, None, training=True)", "F.batch_norm(x, m, s, w, c, eps=0.1)", "m2, s2 = m.detach().clone(), s.detach().clone(); F.batch_norm(x, m2, s2, w, c, True, 0.3), m2, s2", "m2, s2 = m.detach().clone(), s.detach().clone(); F.batch_norm(x, m2, s2, training=True, momentum=0.0), m2"], x=[f(3, 4), f(3, 4, 2), f(3, 4, 2, 3)], m=f(4, grad=False), s=f(4, low=0.5, grad=False), w=f(4), c=f(4))
fails(NF + "batch_norm", ["F.batch_norm(x, None, None)", "F.batch_norm(x[:1], None, None, training=True)", "F.batch_norm(x, m, m)", "F.batch_norm(x, x[0], x[0], m)"], x=f(3, 4), m=f(3))
case("", ["F.instance_norm(x)", "F.instance_norm(x, weight=w, bias=c)", "F.local_response_norm(x, 2)"], x=f(3, 4, 5), w=f(4), c=f(4))
case(NF + "normalize", ["F.normalize(x)", "F.normalize(x, dim=0)", "F.normalize(x, p=1, dim=-1)", "F.normalize(x, p=3.0, dim=0, eps=1e-3)", "F.normalize(x, p=float('inf'))", "F.normalize(x * 0)"], x=[X, f(2, 3, 4), f(3, 4, layout="transposed"), f(3, 4, dtype="float32")])
fails(NF + "normalize", ["F.normalize(x, dim=2)", "F.normalize(x.long())", "F.normalize(x[0])"], x=X)
case(NF + "cosine_similarity", ["F.cosine_similarity(x, y)", "F.cosine_similarity(x, y, dim=0)", "F.cosine_similarity(x, y, -1, 0.01)", "F.cosine_similarity(x[:, None], y[None], dim=-1)", "F.pairwise_distance(x, y), F.cosine_similarity(x, y)"], x=[X, f(3, 4, layout="transposed")], y=f(3, 4))
fails(NF + "cosine_similarity", ["F.cosine_similarity(x, y)", "F.cosine_similarity(x, x, dim=2)", "F.cosine_similarity(x.long(), x.long())"], x=X, y=f(3, 5))

Q = f(2, 2, 3, 4)
case(NF + "scaled_dot_product_attention", ["F.scaled_dot_product_attention(q, k, w)", "F.scaled_dot_product_attention(q, k, w, is_causal=True)", "F.scaled_dot_product_attention(q, k, w, attn_mask=m)", "F.scaled_dot_product_attention(q, k, w, attn_mask=a, scale=0.3)", "F.scaled_dot_product_attention(q, k, w, dropout_p=0.0)", "F.scaled_dot_product_attention(q[0, 0], k[0, 0], w[0, 0])", "F.scaled_dot_product_attention(q[:, :, :2], k, w)"], q=[Q, f(2, 2, 3, 4, dtype="float32")][:1], k=f(2, 2, 3, 4), w=f(2, 2, 3, 4), m=v([[True, False, True], [True, True, True], [False, False, True]], "bool"), a=f(3, 3))
case(NF + "scaled_dot_product_attention", "F.scaled_dot_product_attention(q, k, w, enable_gqa=True)", q=f(1, 4, 3, 4), k=f(1, 2, 3, 4), w=f(1, 2, 3, 4))
fails(NF + "scaled_dot_product_attention", ["F.scaled_dot_product_attention(q, q[..., :3], q)", "F.scaled_dot_product_attention(q, q, q, attn_mask=q[0, 0, :, :2])", "F.scaled_dot_product_attention(q, q.float(), q)", "F.scaled_dot_product_attention(q, q)"], q=Q)
case(NF + "dropout", ["F.dropout(x, training=False)", "F.dropout(x, 0.0)", "F.dropout(x, 1.0)", "F.dropout(x, 0.5)", "F.dropout(x, p=0.3, training=True)", "F.dropout(x)"], x=[X, f(3, 4, dtype="float32")])
case("", ["F.dropout1d(x, 0.5)", "F.dropout2d(x[None], 0.5)", "F.alpha_dropout(x, 0.5)", "F.feature_alpha_dropout(x, 0.5)"], x=f(3, 4, 2))
fails(NF + "dropout", ["F.dropout(x, -0.1)", "F.dropout(x, 1.5)", "F.dropout(x, 'a')"], x=X)
case("", ["F.pixel_shuffle(x, 2)", "F.pixel_unshuffle(x, 2)", "F.channel_shuffle(x, 2)"], x=f(1, 4, 2, 4))
case("", ["F.embedding(k, w)", "F.embedding(k, w, padding_idx=1)", "F.embedding_bag(k, w)", "F.embedding_bag(k, w, mode='sum')", "F.embedding_bag(k, w, mode='max')"], k=v([[0, 2], [1, 1]], "int64"), w=f(3, 4))
