"""Layers of torch.nn from the same seed: first weights, results, gradients of parameters, state, text, wrong arguments."""

from __future__ import annotations

from .case import case, fails
from .inputs import Input, f, i, perm, v

# fmt: off
NN = "torch.nn."
LAYER = """
torch.manual_seed(1)
net = nn.{made}
y = net({x})
"""
GRADIENTS = """
torch.manual_seed(1)
net = nn.{made}
y = net({x})
y = y[0] if isinstance(y, tuple) else y
(y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)).sum().backward()
[(name, p.grad) for name, p in net.named_parameters()], list(net.named_buffers())
"""


def layer(made: str, *inputs: Input, grads: bool = True, also: str = "", call: str = "x") -> None:
    """The layer's result, its parameters' gradients, state and text, in training and evaluation."""
    name = f"{NN}{made.partition('(')[0]} {also}".strip()
    for x in inputs:
        case(name, [LAYER.format(made=made, x=call) + "y", LAYER.format(made=made + ".eval()", x=call) + "y"], x=x)
        if grads:
            case(name, GRADIENTS.format(made=made, x=call), grad=False, x=x)
    case(name, [f"nn.{made}", f"torch.manual_seed(2); net = nn.{made}; net.state_dict()", f"net = nn.{made}; [(n, p.shape, p.requires_grad) for n, p in net.named_parameters()], [n for n, _ in net.named_buffers()], net.training"])


F32 = {"dtype": "float32"}
VEC, SEQ, IMG = f(2, 4, **F32), f(2, 4, 6, **F32), f(2, 4, 5, 6, **F32)

for made in ("Linear(4, 3)", "Linear(4, 3, bias=False)", "Linear(in_features=4, out_features=1)"):
    layer(made, VEC, f(2, 3, 4, **F32), f(4, **F32))
layer("Linear(4, 3, dtype=torch.float64)", f(2, 4))
layer("Bilinear(4, 3, 2)", VEC, call="x, x[:, :3]")
for made in ("Sigmoid()", "GELU()", "Tanh()", "LeakyReLU(0.2)", "LeakyReLU()", "SiLU()", "ReLU6()", "ELU(alpha=0.5)", "Hardswish()", "Softplus()", "Softplus(beta=2, threshold=10)", "GELU(approximate='tanh')", "ReLU()", "Hardtanh()", "Hardsigmoid()", "Mish()", "Softsign()", "CELU()", "SELU()", "LogSigmoid()", "Softshrink()", "Hardshrink()", "Tanhshrink()", "Threshold(0.1, 2)", "GLU()", "Softmin(1)", "RReLU()"):
    layer(made, f(3, 4), grads=False)
for made in ("Softmax(dim=1)", "LogSoftmax(dim=-1)", "Softmax(0)", "Softmax()", "Identity()", "Flatten()", "Flatten(0, 1)", "Identity(3, a=4)", "Unflatten(1, (2, 2))"):
    layer(made, f(3, 4), f(2, 4, 3), grads=False)
case(NN + "ReLU", ["nn.ReLU(inplace=True)", "m = nn.ReLU(inplace=True); y = x * 1; m(y); y"], x=f(3, 4))
layer("PReLU()", VEC)
layer("PReLU(4, init=0.1)", VEC, SEQ)
for made in ("Dropout(0.5)", "Dropout()", "Dropout(p=0.0)", "Dropout2d(0.5)", "AlphaDropout(0.3)", "Dropout1d(0.5)"):
    layer(made, f(2, 3, 4, **F32), grads=False)
layer("Dropout2d(0.4)", f(2, 3, 4, 2), grads=False)
layer("Embedding(5, 3)", i(4, low=0, high=5), i(2, 3, low=0, high=5))
layer("Embedding(5, 3, padding_idx=0)", v([[0, 2], [4, 0]], "int64"))
layer("Embedding(5, 3, max_norm=1.0)", v([1, 2], "int64"), grads=False)
case(NN + "Embedding", ["nn.Embedding.from_pretrained(w)(k)", "e = nn.Embedding.from_pretrained(w, freeze=False); e.weight.requires_grad, e", "nn.Embedding.from_pretrained(w).weight.requires_grad"], w=f(4, 2, grad=False), k=v([1, 3], "int64"))
layer("EmbeddingBag(5, 3)", i(2, 3, low=0, high=5))
layer("EmbeddingBag(5, 3, mode='sum')", i(6, low=0, high=5), call="x, torch.tensor([0, 2, 4])")
layer("EmbeddingBag(5, 3, mode='max')", v([[0, 2], [4, 1]], "int64"))
for made in ("Conv1d(4, 3, 2)", "Conv1d(4, 6, 3, stride=2, padding=1, groups=2)", "Conv1d(4, 2, 3, padding='same', padding_mode='circular', bias=False)"):
    layer(made, SEQ, f(4, 6, **F32))
for made in ("Conv2d(4, 3, 2)", "Conv2d(4, 4, kernel_size=3, stride=2, padding=1)", "Conv2d(4, 4, (3, 1), groups=4, bias=False)", "Conv2d(4, 2, 3, dilation=2, padding='same')", "Conv2d(4, 2, 3, padding=1, padding_mode='reflect')", "Conv2d(in_channels=4, out_channels=1, kernel_size=1)"):
    layer(made, IMG, f(4, 5, 6, **F32))
layer("Conv3d(2, 3, 2)", f(1, 2, 3, 3, 4, **F32))
layer("Conv3d(2, 2, 3, padding=1, stride=(1, 2, 1))", f(1, 2, 3, 3, 4, **F32))
layer("ConvTranspose1d(4, 3, 3, stride=2)", SEQ)
layer("ConvTranspose2d(4, 3, 2, stride=2)", IMG)
layer("ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1)", IMG)
case(NN + "ConvTranspose2d", "torch.manual_seed(0); net = nn.ConvTranspose2d(4, 2, 3, stride=2); net(x, output_size=(11, 14)).shape", x=IMG)
layer("ConvTranspose3d(2, 1, 2)", f(1, 2, 2, 2, 3, **F32))
for made in ("MaxPool2d(2)", "MaxPool2d(3, stride=1, padding=1)", "MaxPool2d(kernel_size=2, ceil_mode=True)", "AvgPool2d(2)", "AvgPool2d(3, 2, 1, count_include_pad=False)", "AdaptiveAvgPool2d(1)", "AdaptiveAvgPool2d((2, 3))", "AdaptiveMaxPool2d(2)", "AdaptiveAvgPool2d((None, 2))", "LPPool2d(2, 2)", "ZeroPad2d(1)", "ZeroPad2d((1, 2, 0, 1))", "ReflectionPad2d(1)", "ReflectionPad2d((1, 2, 0, 1))", "ReplicationPad2d((1, 0, 2, 1))", "ConstantPad2d(1, 3.5)", "CircularPad2d(1)", "Upsample(scale_factor=2)", "Upsample(size=(4, 7), mode='bilinear')", "Upsample(scale_factor=2, mode='bilinear', align_corners=True)", "PixelShuffle(2)", "Upsample(scale_factor=(1.5, 2), mode='bicubic')", "Softmax2d()", "ChannelShuffle(2)", "Unfold(2)", "UpsamplingNearest2d(scale_factor=2)"):
    layer(made, perm(1, 4, 4, 6), grads=False)
case(NN + "MaxPool2d " + NN + "AdaptiveMaxPool2d", ["nn.MaxPool2d(2, return_indices=True)(x)", "nn.AdaptiveMaxPool2d(2, return_indices=True)(x)"], x=perm(1, 2, 4, 6))
for made in ("MaxPool1d(2)", "AvgPool1d(3)", "AdaptiveAvgPool1d(2)", "AdaptiveMaxPool1d(3)", "ConstantPad1d(1, 2)", "ReflectionPad1d(2)", "Upsample(scale_factor=2, mode='linear')"):
    layer(made, perm(2, 3, 6), grads=False)
layer("BatchNorm1d(4)", f(3, 4, **F32), SEQ)
layer("BatchNorm1d(4, affine=False)", f(3, 4, **F32), grads=False)
layer("BatchNorm2d(4)", IMG)
layer("BatchNorm2d(4, momentum=None, eps=0.01)", IMG)
layer("BatchNorm2d(4, track_running_stats=False)", IMG)
layer("BatchNorm3d(2)", f(2, 2, 2, 2, 3, **F32))
case(NN + "BatchNorm1d " + NN + "BatchNorm2d", ["net = nn.BatchNorm1d(4, momentum=m); net(x); net(x * 2 + 1); net.running_mean, net.running_var, net.num_batches_tracked, net.eval()(x)", "net = nn.BatchNorm2d(4, momentum=m); net(x[..., None, None].expand(3, 4, 2, 2)); net.state_dict()", "net = nn.BatchNorm1d(4); net(x); net.reset_running_stats(); net.running_var"], grad=False, x=f(3, 4, **F32), m=[0.1, 0.5, None])
layer("LayerNorm(4)", f(2, 3, 4, **F32))
layer("LayerNorm((3, 4), eps=0.1)", f(2, 3, 4, **F32))
layer("LayerNorm(4, elementwise_affine=False)", f(2, 3, 4, **F32), grads=False)
layer("LayerNorm(4, bias=False)", f(2, 3, 4, **F32))
layer("RMSNorm(4)", f(2, 3, 4, **F32))
layer("RMSNorm((3, 4), eps=1e-3)", f(2, 3, 4, **F32))
layer("GroupNorm(2, 4)", SEQ, IMG)
layer("GroupNorm(1, 4, affine=False)", SEQ, grads=False)
layer("InstanceNorm2d(4)", IMG, grads=False)
layer("InstanceNorm2d(4, affine=True, track_running_stats=True)", IMG)
layer("LocalResponseNorm(2)", IMG, grads=False)
for kind in ("RNN", "LSTM", "GRU"):
    for more in ("", ", num_layers=2", ", bidirectional=True", ", batch_first=True", ", num_layers=2, dropout=0.0, bias=False", ", nonlinearity='relu'" if kind == "RNN" else ", 2, True, True"):
        layer(f"{kind}(4, 3{more})", f(5, 2, 4, **F32))
    layer(f"{kind}(4, 3)", f(5, 4, **F32))
    case(NN + kind + f" {NN}<Layer>.flatten_parameters", [f"torch.manual_seed(0); net = nn.{kind}(4, 3); net.flatten_parameters(); h = net(x)[1]; net(x, h)", f"torch.manual_seed(0); net = nn.{kind}(4, 3); torch.nn.utils.rnn.pad_packed_sequence(net(torch.nn.utils.rnn.pack_padded_sequence(x, [5, 3]))[0])"], x=f(5, 2, 4, **F32))
    fails(NN + kind, [f"nn.{kind}(4, 3)(x)", f"nn.{kind}(4, 3)(x[:, :, :, None])", f"nn.{kind}(4, 0)", f"nn.{kind}(4, 3, num_layers=0)", f"nn.{kind}(4, 3, dropout=2)", f"nn.{kind}(5, 3)(x, x)"], x=f(5, 2, 5, **F32))
layer("LSTM(4, 5, proj_size=2)", f(3, 2, 4, **F32))
layer("LSTMCell(4, 3)", VEC)
layer("GRUCell(4, 3)", VEC)
layer("RNNCell(4, 3)", VEC)
case(NN + "LSTMCell", ["torch.manual_seed(0); cell = nn.LSTMCell(4, 3); h, c = cell(x); cell(x, (h, c))", "torch.manual_seed(0); cell = nn.LSTMCell(4, 3, bias=False); cell(x)"], x=VEC)
fails(NN + "LSTMCell", ["nn.LSTMCell(4, 3)(x)", "nn.LSTMCell(5, 3)(x, (x, x))"], x=f(2, 5, **F32))
ATTENTION = "MultiheadAttention(4, 2"
for more in ("", ", batch_first=True", ", bias=False", ", add_zero_attn=True, add_bias_kv=True", ", kdim=4, vdim=4"):
    layer(f"{ATTENTION}{more})", f(3, 2, 4, **F32), call="x, x, x")
layer(f"{ATTENTION})", f(3, 2, 4, **F32), call="x, x, x, attn_mask=torch.ones(3, 3).triu(1).bool(), average_attn_weights=False")
layer(f"{ATTENTION}, batch_first=True)", f(2, 3, 4, **F32), call="x, x, x, key_padding_mask=torch.tensor([[False, False, True], [False, False, False]]), need_weights=False")
fails(NN + "MultiheadAttention", ["nn.MultiheadAttention(4, 3)", "nn.MultiheadAttention(6, 2)(x, x, x)", "nn.MultiheadAttention(4, 2)(x[0, 0], x, x)"], x=f(3, 2, 4, **F32))
layer("TransformerEncoderLayer(4, 2, 6, dropout=0.0)", f(3, 2, 4, **F32))
layer("TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True, norm_first=True, activation='gelu')", f(2, 3, 4, **F32))
layer("TransformerEncoderLayer(4, 2, 6, 0.0)", f(3, 2, 4, **F32), call="x, src_mask=nn.Transformer.generate_square_subsequent_mask(3), is_causal=True")
layer("TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0), 2)", f(3, 2, 4, **F32), also=NN + "TransformerEncoderLayer")
case(NN + "TransformerEncoder", [f"torch.manual_seed(0); m = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, {how}), 2, norm).eval()\nwith torch.no_grad(): out = m(x, src_key_padding_mask=pad)\nout" for how in ("batch_first=True", "batch_first=True, activation='gelu'", "batch_first=True, norm_first=True")], x=f(3, 4, 4, **F32), pad=[v([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]], "bool"), v([[0, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]], "bool"), v([[0, 0, -1e9, -1e9], [0, 0, 0, 0], [0, 0, 0, -1e9]], "float32")], norm=[None, "torch.nn.LayerNorm(4)"])
case(NN + "TransformerEncoder", [f"torch.manual_seed(0); m = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True), 1, enable_nested_tensor={on}); m.train({train}); m(x, src_key_padding_mask=pad)" for on, train in ((True, False), (False, False), (True, True))], x=f(2, 3, 4, **F32), pad=v([[0, 0, 1], [0, 0, 0]], "bool"), grad=False)
layer("TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6, 0.0), 2)", f(3, 2, 4, **F32), call="x, x[:2] + 1")
layer("Transformer(4, 2, 1, 1, 6, 0.0)", f(3, 2, 4, **F32), call="x, x[:2] * 2")
case(NN + "Transformer", "nn.Transformer.generate_square_subsequent_mask(4)")
fails(NN + "Transformer " + NN + "TransformerEncoderLayer", ["nn.Transformer(5, 2)", "nn.TransformerEncoderLayer(4, 3)", "nn.TransformerEncoderLayer(4, 2, activation='abc')", "nn.Transformer(4, 2, 1, 1, 6)(torch.ones(3, 2, 5), torch.ones(3, 2, 4))"])
layer("CosineSimilarity()", f(2, 3), grads=False, call="x, x.roll(1, 0)")
layer("PairwiseDistance()", f(2, 3), grads=False, call="x, x.roll(1, 0)")

LAZY = {"LazyLinear(3)": VEC, "LazyConv2d(3, 2)": IMG, "LazyBatchNorm2d()": IMG, "LazyConv1d(2, 2)": SEQ, "LazyBatchNorm1d()": VEC}
for made, x in LAZY.items():
    name = NN + made.partition("(")[0]
    case(name, [f"nn.{made}", f"torch.manual_seed(0); net = nn.{made}; y = net(x); net, y, net.state_dict()", f"net = nn.{made}; net(x); type(net).__name__, [p.shape for p in net.parameters()]", f"net = nn.Sequential(nn.{made}); [type(p).__name__ for p in net.parameters()]"], grad=False, x=x)

# attributes that programs read
case(f"{NN}<Layer>.weight {NN}<Layer>.bias {NN}<Layer>.in_features {NN}<Layer>.out_features", ["torch.manual_seed(0); net = nn.Linear(4, 3); net.weight, net.bias, net.in_features, net.out_features", "nn.Linear(4, 3, bias=False).bias", "net = nn.Linear(2, 1); net.weight.data.fill_(2); net.bias.data.zero_(); net(torch.ones(1, 2))", "net = nn.Linear(2, 1); net.weight = nn.Parameter(torch.ones(1, 2)); list(net.state_dict())", "type(nn.Linear(2, 2).weight).__name__"])
case(f"{NN}<Layer>.out_channels {NN}<Layer>.in_channels {NN}<Layer>.kernel_size {NN}<Layer>.stride {NN}<Layer>.groups {NN}<Layer>.dilation {NN}<Layer>.padding", ["c = nn.Conv2d(4, 2, 3, stride=2, padding=1); c.in_channels, c.out_channels, c.kernel_size, c.stride, c.padding, c.dilation, c.groups, c.padding_mode, c.transposed, c.output_padding", "c = nn.Conv1d(4, 2, 3, padding='same'); c.kernel_size, c.padding, c.stride, c.in_channels, c.out_channels, c.dilation, c.groups", "p = nn.MaxPool2d(2); p.kernel_size, p.stride, p.padding, p.dilation, p.ceil_mode"])
case(f"{NN}<Layer>.p {NN}<Layer>.running_mean {NN}<Layer>.running_var {NN}<Layer>.num_embeddings {NN}<Layer>.embedding_dim {NN}<Layer>.eps", ["nn.Dropout(0.3).p, nn.Dropout(0.3).inplace", "b = nn.BatchNorm2d(3, eps=0.1); b.running_mean, b.running_var, b.eps, b.momentum, b.affine, b.num_features", "e = nn.Embedding(5, 3); e.num_embeddings, e.embedding_dim, e.padding_idx", "n = nn.LayerNorm(3); n.eps, n.normalized_shape, n.elementwise_affine", "m = nn.LSTM(3, 4, 2); m.input_size, m.hidden_size, m.num_layers, m.bidirectional", "m = nn.MultiheadAttention(4, 2); m.embed_dim, m.num_heads, m.head_dim"])
case("torch.nn.modules.batchnorm._BatchNorm", ["isinstance(nn.BatchNorm2d(3), nn.modules.batchnorm._BatchNorm)", "isinstance(nn.LayerNorm(3), torch.nn.modules.batchnorm._BatchNorm)", "isinstance(nn.BatchNorm1d(3), nn.modules._BatchNorm if hasattr(nn.modules, '_BatchNorm') else nn.modules.batchnorm._BatchNorm)"])

# wrong arguments and inputs
fails(NN + "Linear", ["nn.Linear(4, 3)(x)", "nn.Linear(5)", "nn.Linear(5, 3)(x.double())", "nn.Linear(5, 3)(x.long())", "nn.Linear('a', 3)", "nn.Linear(5, 3)()", "nn.Linear(5, 3)(x, x)", "nn.Linear(5, 3)([1, 2])", "nn.Linear(5, 3).abc", "nn.Linear(-1, 3)", "nn.Linear(5, 3, foo=1)"], x=f(2, 5, **F32))
fails(NN + "Conv2d " + NN + "Conv1d " + NN + "Conv3d " + NN + "ConvTranspose2d", ["nn.Conv2d(3, 4, 3)(x)", "nn.Conv2d(4, 4, 9)(x)", "nn.Conv2d(4, 3, 1, groups=2)", "nn.Conv2d(3, 4, 1, groups=2)", "nn.Conv2d(4, 4, 3, padding='abc')", "nn.Conv2d(4, 4, 3, padding_mode='abc')", "nn.Conv2d(4, 4, 3, stride=2, padding='same')", "nn.Conv2d(4, 4)", "nn.Conv1d(4, 4, 3)(x)", "nn.Conv3d(4, 4, 3)(x[0, 0])", "nn.ConvTranspose2d(3, 4, 2)(x)", "nn.Conv2d(4, 4, 3)(x.double())", "nn.Conv2d(4, 4, 3, groups=0)"], x=f(2, 4, 5, 6, **F32))
fails(NN + "BatchNorm2d " + NN + "BatchNorm1d " + NN + "LayerNorm " + NN + "GroupNorm " + NN + "InstanceNorm2d", ["nn.BatchNorm2d(3)(x)", "nn.BatchNorm2d(4)(x[0, 0])", "nn.BatchNorm1d(4)(x)", "nn.BatchNorm1d(4)(x[:1, :, 0, 0])", "nn.LayerNorm(5)(x)", "nn.GroupNorm(3, 4)", "nn.GroupNorm(2, 6)(x)", "nn.InstanceNorm2d(4)(x[0, 0])"], x=f(2, 4, 5, 6, **F32))
fails(NN + "Embedding " + NN + "EmbeddingBag", ["nn.Embedding(3, 2)(k)", "nn.Embedding(9, 2)(k.float())", "nn.Embedding(9, 2)(-k)", "nn.Embedding(3)", "nn.Embedding(3, 2, padding_idx=5)", "nn.EmbeddingBag(9, 2)(k)", "nn.EmbeddingBag(9, 2, mode='abc')(k[None])"], k=v([1, 5], "int64"))
fails(NN + "Dropout " + NN + "Dropout2d", ["nn.Dropout(1.5)", "nn.Dropout(-0.1)", "nn.Dropout2d(2)"])
fails(NN + "Upsample " + NN + "PixelShuffle " + NN + "ZeroPad2d " + NN + "ReflectionPad2d", ["nn.Upsample(size=2, mode='linear')(x)", "nn.Upsample()(x)", "nn.PixelShuffle(3)(x)", "nn.ReflectionPad2d(9)(x)", "nn.ZeroPad2d((1, 2, 3))(x)"], x=f(2, 4, 5, 6, **F32))
fails(NN + "Softmax " + NN + "Flatten " + NN + "MaxPool2d " + NN + "AvgPool2d", ["nn.Softmax(5)(x)", "nn.Flatten(5)(x)", "nn.MaxPool2d(9)(x)", "nn.AvgPool2d(9)(x)", "nn.MaxPool2d()", "nn.MaxPool2d(2, padding=2)(x)"], x=f(2, 4, 5, 6, **F32))
case("torch.nn.attention.SDPBackend", "b = torch.nn.attention.SDPBackend; [str(b.MATH), f'{b.FLASH_ATTENTION}', repr(b.MATH), b.MATH.value]")
case("torch.nn.Module.to", "import importlib; o = module('__future__'); torch.manual_seed(0); o.set_swap_module_params_on_conversion(True); m = nn.Linear(2, 2); w = m.weight; m.to(torch.float64); told = [o.get_swap_module_params_on_conversion(), o.get_overwrite_module_params_on_conversion(), m.weight is w, w]; o.set_swap_module_params_on_conversion(False); told")
