"""Making tensors: constants, ranges, from data, like others; dtypes, devices, sizes, casts, constants of the library, printing."""

from __future__ import annotations

from .case import case, fails, writes
from .inputs import b, c, dtypes, f, i, layouts, v

# fmt: off
DTYPES = ["torch.float32", "torch.float64", "torch.float16", "torch.bfloat16", "torch.int64", "torch.int32", "torch.int16", "torch.int8", "torch.uint8", "torch.bool", "torch.complex64", "torch.complex128"]

for name in ("ones", "zeros"):
    case(f"torch.{name}", [f"torch.{name}(2, 3)", f"torch.{name}((2, 3))", f"torch.{name}([2, 3])", f"torch.{name}(())", f"torch.{name}(0)", f"torch.{name}(2, 0, 3)", f"torch.{name}(size=(2,))", f"torch.{name}(torch.Size([2, 2]))", f"torch.{name}(3, requires_grad=True)", f"torch.{name}(2, device='cpu')", f"torch.{name}(2, device=torch.device('cpu'), dtype=torch.int64)", f"out = torch.empty(2, 3); torch.{name}(2, 3, out=out) is out"])
    case(f"torch.{name} torch.dtype", f"torch.{name}(2, 3, dtype=dtype)", dtype=DTYPES)
    case(f"torch.{name}_like", [f"torch.{name}_like(x)", f"torch.{name}_like(x, dtype=torch.float32)", f"torch.{name}_like(x, requires_grad=False, device='cpu')"], x=[*dtypes(f(3, 4)), *layouts(f(3, 4)), f(), f(0, 2)])
    fails(f"torch.{name}", [f"torch.{name}(-1)", f"torch.{name}('a')", f"torch.{name}(1.5)", f"torch.{name}(2, dtype=3)", f"torch.{name}(2, dtype=torch.int64, requires_grad=True)", f"torch.{name}(2, device='nowhere')", f"torch.{name}((2, 'a'))"])
    fails(f"torch.{name}_like", [f"torch.{name}_like(3)", f"torch.{name}_like([1, 2])"])
case("torch.empty torch.empty_like", ["torch.empty(2, 3).shape", "torch.empty(2, 0)", "torch.empty((3,), dtype=torch.int64).dtype", "torch.empty_like(torch.ones(2, 3)).shape", "torch.empty_like(torch.ones(2, 3), dtype=torch.int8).dtype", "torch.empty_like(torch.ones(2, 3).t()).stride()", "torch.empty(3, requires_grad=True).requires_grad"])
fails("torch.empty torch.empty_like", ["torch.empty(-2)", "torch.empty('a')", "torch.empty_like(2)"])
case("torch.full", ["torch.full((2, 3), 7)", "torch.full((2,), 1.5)", "torch.full([2], True)", "torch.full((), 2)", "torch.full((2,), 1j)", "torch.full((2,), 3, dtype=torch.float64)", "torch.full((2, 2), float('inf'))", "torch.full(size=(2,), fill_value=1)", "torch.full_like(torch.ones(2, dtype=torch.int64), 2.7), torch.full((1,), 2)", "torch.full((2,), torch.tensor(3.))"])
case("torch.full", "torch.full((2,), 1, dtype=dtype)", dtype=DTYPES)
fails("torch.full", ["torch.full((2,))", "torch.full(2, 3)", "torch.full((2,), 'a')", "torch.full((-1,), 0)"])

case("torch.arange", [f"torch.arange({args})" for args in ("5", "5.", "1, 4", "1, 2.5, 0.5", "0", "5, 0, -2", "0, 1, 0.25", "start=1, end=4", "0, 10, step=3", "3, dtype=torch.float32", "5, dtype=torch.int8", "-2, 3", "1, 1", "2.5", "0, 1, 0.1", "3, requires_grad=False", "torch.tensor(3)", "True", "0, 3, dtype=torch.bool")][:18])
fails("torch.arange", ["torch.arange(1, 5, -1)", "torch.arange(5, 1)", "torch.arange(1, 5, 0)", "torch.arange('a')", "torch.arange()", "torch.arange(float('inf'))", "torch.arange(0, float('nan'))"])
case("torch.linspace", [f"torch.linspace({args})" for args in ("0, 1, 5", "-2, 2, steps=7", "3, 3, 4", "0, 10, 1", "0, 1, 0", "1, 0, 3", "0, 10, 5, dtype=torch.int64", "0, 1, 3, dtype=torch.float64", "start=0, end=2, steps=3", "torch.tensor(0.), torch.tensor(1.), 4", "0, 5, 11, dtype=torch.float16")] + ["torch.logspace(0, 2, 3), torch.linspace(0, 2, 3)", "torch.logspace(0, 3, 4, base=2), torch.linspace(0, 3, 4)"])
fails("torch.linspace", ["torch.linspace(0, 1)", "torch.linspace(0, 1, -1)", "torch.linspace(0, 1, 2.5)", "torch.linspace('a', 1, 2)"])
case("torch.eye", ["torch.eye(3)", "torch.eye(2, 4)", "torch.eye(4, 2)", "torch.eye(0)", "torch.eye(2, dtype=torch.int64)", "torch.eye(n=2, m=3)", "torch.eye(2, dtype=torch.bool)"])
fails("torch.eye", ["torch.eye(-1)", "torch.eye(2.5)", "torch.eye('a')", "torch.eye((2, 2))"])

DATA = ["3", "3.5", "True", "1j", "[1, 2]", "[1, 2.5]", "[True, False]", "[[1, 2], [3, 4]]", "[]", "[[]]", "(1, (2))", "[1, 2j]", "[True, 2]", "[[1.], [2]]", "range(3)", "[np.float32(1), np.float64(2)]", "np.arange(3)", "np.ones((2, 2), np.float32)", "np.array(2.5)", "np.float64(1.5)", "np.int32(3)", "[torch.tensor(1), torch.tensor(2)]", "float('nan')", "[float('inf'), 1]", "[np.array([1, 2]), np.array([3, 4])]", "2**40", "np.array([True, False])", "np.array([1, 2], np.uint8)", "[[[1]]]", "[(1, 2), (3, 4)]"]
case("torch.tensor", [f"torch.tensor({data})" for data in DATA if not data.startswith("[np.array")])
case("torch.tensor", [f"torch.tensor({data}, dtype=dtype)" for data in ("[1, 0]", "[1.7, 0.2]", "3", "[[True, False]]", "np.array([1.5, 2.5])")], dtype=DTYPES)
case("torch.tensor", ["torch.tensor([1., 2.], requires_grad=True)", "torch.tensor([1.], device='cpu')", "torch.tensor(data=[1])", "x = torch.ones(2); y = torch.tensor(x.tolist()); y[0] = 5; x, y"])
fails("torch.tensor", ["torch.tensor([1, [2]])", "torch.tensor([[1, 2], [3]])", "torch.tensor('a')", "torch.tensor(['a'])", "torch.tensor([None])", "torch.tensor()", "torch.tensor([1], dtype='float32')", "torch.tensor([1], requires_grad=True)", "torch.tensor({1: 2})", "torch.tensor([1, 2], 3)", "torch.tensor(2**70)", "torch.tensor(300, dtype=torch.uint8)", "torch.tensor([1j], dtype=torch.float32)", "torch.tensor(None)"])
case("torch.as_tensor", ["torch.as_tensor([1, 2.])", "torch.as_tensor(3)", "x = torch.ones(2); torch.as_tensor(x) is x", "a = np.zeros(2); t = torch.as_tensor(a); t[0] = 3; a", "torch.as_tensor(np.arange(3))", "torch.as_tensor(np.arange(3), dtype=torch.float32)", "torch.as_tensor([[1], [2]], dtype=torch.int8)", "torch.asarray([1., 2.]), torch.as_tensor([1])", "x = torch.ones(2); torch.as_tensor(x, dtype=torch.float64) is x"])
fails("torch.as_tensor", ["torch.as_tensor('a')", "torch.as_tensor([[1], [1, 2]])", "torch.as_tensor()"])
case("torch.from_numpy", ["torch.from_numpy(np.arange(6.).reshape(2, 3))", "a = np.zeros(3); t = torch.from_numpy(a); t += 1; a[0] = 5; t, a", "torch.from_numpy(np.arange(6).reshape(2, 3).T)", "torch.from_numpy(np.arange(6)[::2]).stride()", "torch.from_numpy(np.zeros((0, 2)))"])
case("torch.from_numpy", "torch.from_numpy(np.ones(2, kind))", kind=["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128"])
fails("torch.from_numpy", ["torch.from_numpy([1])", "torch.from_numpy(np.array(['a']))", "torch.from_numpy(3.0)", "torch.from_numpy(np.arange(3)[::-1])", "torch.from_numpy(np.array([None]))"])
case("torch.Tensor.numpy", ["x.numpy()", "x.detach().numpy()", "np.asarray(x)", "a = x.numpy(); a[...] = 3; x", "x.t().numpy()", "np.sin(x.numpy())", "x.numpy().dtype", "x.cpu().numpy().shape"], x=[f(2, 3), i(2, 3), f(2, 2, dtype="float32"), b(2, 2)][:3], grad=False)
case("torch.Tensor.numpy", ["x.numpy(force=True)", "x.detach().numpy()"], x=f(2))
fails("torch.Tensor.numpy", ["x.numpy()", "x.bfloat16().detach().numpy()", "np.asarray(x)"][:2], x=f(2))
case("torch.Tensor.tolist torch.Tensor.item", ["x.tolist()", "x[0].tolist()", "x.sum().item()", "x[0, 0].item()", "type(x[0, 0].item()).__name__"], x=[f(2, 3), i(2, 3), b(2, 3), f(2, 3, dtype="float32"), f(2, 3, dtype="bfloat16"), c(2, 2), i(2, 2, dtype="uint8", low=0), f(2, 3, layout="transposed")])
case("torch.Tensor.tolist torch.Tensor.item", ["x.tolist()", "x.item()"], x=[f(), i(), f(1, 1)])
fails("torch.Tensor.item", "x.item()", x=[f(2), f(0)])

# new ones like a tensor
for name in ("new_zeros", "new_ones", "new_empty"):
    tail = ".shape" if name == "new_empty" else ""
    case(f"torch.Tensor.{name}", [f"x.{name}(2, 3){tail}", f"x.{name}((2, 3)){tail}", f"x.{name}([]){tail}", f"x.{name}((2,), dtype=torch.int64){tail}", f"x.{name}(2).dtype", f"x.{name}(2, requires_grad=True).requires_grad" if name != "new_empty" else "x.new_empty(2).device"], x=[f(2), f(2, dtype="float32"), f(2, dtype="float16")])
    fails(f"torch.Tensor.{name}", [f"x.{name}(-1)", f"x.{name}('a')", f"x.{name}()"][:2], x=f(2))
case("torch.Tensor.new_full", ["x.new_full((2,), 3)", "x.new_full((2, 2), 1.5, dtype=torch.float32)", "x.new_full([], 2)"], x=[f(2), i(2), f(2, dtype="float16")])
fails("torch.Tensor.new_full", ["x.new_full((2,))", "x.new_full(2, 1)"], x=f(2))
case("torch.Tensor.new_tensor", ["x.new_tensor([1, 2])", "x.new_tensor(3)", "x.new_tensor([1.5], dtype=torch.int64)", "x.new_tensor(np.ones(2))"], x=[f(2), i(2), f(2, dtype="float32")])
case("torch.Tensor.new", ["x.new(2, 3).shape", "x.new([1, 2])", "x.new().shape", "x.new(2).dtype"], x=[f(2), i(2), f(2, dtype="float32")])

# casts
CASTS = {"float": "torch.Tensor|torch.nn.Module.float", "double": "torch.Tensor|torch.nn.Module.double", "half": "torch.Tensor|torch.nn.Module.half", "bfloat16": "torch.Tensor|torch.nn.Module.bfloat16", "long": "torch.Tensor.long", "int": "torch.Tensor.int", "short": "torch.Tensor.short", "byte": "torch.Tensor.byte", "bool": "torch.Tensor.bool"}
for name, claimed in CASTS.items():
    case(claimed, [f"x.{name}()", f"y = x.{name}(); y is x"], x=[*dtypes(f(2, 3, low=0.5, high=3))[:4], i(2, 3, low=0), b(2, 3), i(2, 3, low=0, dtype="int32"), f(2, 3, layout="transposed", low=0.5), f(0), f(low=0.5)])
case("", ["x.char()", "x.cfloat()", "x.cdouble()", "x.real", "x.to(torch.complex64)"], x=[f(2, 3), i(2, 3, low=0), f(2, dtype="float32")])
case("torch.Tensor|torch.nn.Module.to", ["x.to(dtype)", "x.to(dtype=dtype)", "x.to('cpu', dtype)", "x.to(torch.device('cpu'), dtype, non_blocking=True)"], x=[f(2, 3, low=0.5, high=3), i(3, low=0)], dtype=DTYPES)
case("torch.Tensor|torch.nn.Module.to", ["x.to('cpu') is x", "x.to(x.dtype) is x", "x.to(x.dtype, copy=True) is x", "x.to(y)", "x.to(device='cpu')", "x.to(y, non_blocking=True)"], x=[f(2, 3), i(2)], y=[f(1, dtype="float32"), i(1)])
fails("torch.Tensor|torch.nn.Module.to", ["x.to('float32')", "x.to(None, 'a')", "nn.Linear(2, 2).to(torch.int64)", "nn.Linear(2, 2).to('nowhere')"], x=f(2))
case("torch.Tensor|torch.nn.Module.to", ["net = nn.Linear(2, 3).to(dtype); net.weight", "net = nn.Linear(2, 3); net.to(dtype) is net, net.bias.dtype", "net = nn.BatchNorm1d(2).to(dtype); net.running_mean, net.num_batches_tracked"], dtype=["torch.float64", "torch.float16", "torch.bfloat16"])
case("torch.Tensor|torch.nn.Module.float torch.Tensor|torch.nn.Module.double torch.Tensor|torch.nn.Module.half torch.Tensor|torch.nn.Module.bfloat16", [f"net = nn.Linear(2, 2).{name}(); net.weight" for name in ("float", "double", "half", "bfloat16")])
case("torch.Tensor|torch.nn.Module.type", ["x.type()", "x.type(torch.float32)", "x.type('torch.FloatTensor')", "x.type(torch.LongTensor)", "x.type(torch.DoubleTensor)", "nn.Linear(2, 2).type(torch.float64).weight"], x=[f(2, 3, low=0.5), i(2, low=0), f(2, dtype="float32"), b(2)])
case("torch.Tensor.type_as", ["x.type_as(y)", "x.type_as(x) is x"], x=[f(2), i(2), f(2, dtype="float32")], y=[f(1, dtype="float32"), i(1), b(1)])
case("torch.Tensor|torch.nn.Module.cpu", ["x.cpu() is x", "x.cpu()", "net = nn.Linear(2, 2); net.cpu() is net", "x.cpu().device"], x=f(2))
case("torch.Tensor|torch.nn.Module.requires_grad_", ["y = x.detach().requires_grad_(); y.requires_grad", "x.detach().requires_grad_(False).requires_grad", "net = nn.Linear(2, 2).requires_grad_(False); [p.requires_grad for p in net.parameters()]", "y = x.detach(); y.requires_grad_() is y"], x=f(2))
fails("torch.Tensor|torch.nn.Module.requires_grad_", ["i.requires_grad_()", "(x * 2).requires_grad_(False)", "b.requires_grad_(True)"], x=f(2), i=i(2), b=b(2))

# dtypes, devices, sizes and constants
for name in ("float32", "float", "float16", "bfloat16", "float64", "int64", "long", "int32", "int", "int8", "uint8", "bool"):
    case(f"torch.{name}", [f"torch.{name}", f"torch.ones(2, dtype=torch.{name})", f"torch.{name}.is_floating_point, torch.{name}.is_complex, torch.{name}.is_signed, torch.{name}.itemsize", f"torch.{name} == torch.tensor([1, 0]).to(torch.{name}).dtype", f"repr(torch.{name})", f"hash(torch.{name}) == hash(torch.{name})"])
case("torch.dtype", ["isinstance(torch.float32, torch.dtype)", "torch.float is torch.float32, torch.long is torch.int64, torch.half is torch.float16, torch.double is torch.float64, torch.int is torch.int32, torch.short is torch.int16", "torch.get_default_dtype()", "torch.promote_types(torch.int64, torch.float16), torch.dtype.__name__", "torch.result_type(torch.ones(2, dtype=torch.int8), 1.5), torch.dtype.__name__", "torch.can_cast(torch.float64, torch.int64), torch.can_cast(torch.int64, torch.float32), torch.dtype.__name__", "torch.set_default_dtype(torch.float64); x = torch.ones(2), torch.tensor(1.5); torch.set_default_dtype(torch.float32); x, torch.dtype.__name__"])
case("torch.finfo", [f"torch.finfo({d}).{a}" for d in ("torch.float32", "torch.float64", "torch.float16", "torch.bfloat16") for a in ("max", "min", "eps", "tiny", "smallest_normal", "bits", "resolution", "dtype")] + ["torch.finfo().max", "torch.iinfo(torch.int64).max, torch.finfo().bits", "torch.iinfo(torch.uint8).min, torch.iinfo(torch.int8).bits, torch.finfo().eps", "torch.finfo(torch.complex64).max"])
fails("torch.finfo", ["torch.finfo(torch.int64)", "torch.finfo('a')", "torch.iinfo(torch.float32).max"])
case("torch.device", ["torch.device('cpu')", "torch.device('cpu').type", "torch.device('cpu').index", "torch.device('cpu', 0)", "torch.device('cpu:0').index", "torch.device('cuda:1').index", "torch.device('cuda', 1) == torch.device('cuda:1')", "torch.device(type='cpu')", "str(torch.device('cpu'))", "repr(torch.device('cuda:0'))", "torch.device('cpu') == 'cpu'", "torch.device(torch.device('cpu'))", "torch.ones(2).device", "{torch.device('cpu'): 1}[torch.device('cpu')]", "torch.device('mps').type", "torch.device('cuda')"])
fails("torch.device", ["torch.device('nowhere')", "torch.device()", "torch.device('cpu:x')", "torch.device('cpu', 'a')", "torch.device(1.5)", "torch.device('cuda:-1')"])
case("torch.Size", ["torch.Size([2, 3])", "torch.Size((2, 3)) == (2, 3)", "torch.Size([2, 3]).numel()", "x.shape", "x.shape[0], x.shape[-1], x.shape[:1]", "x.shape + (4,)", "x.size()", "x.size(0), x.size(-1), x.size(dim=1)", "isinstance(x.shape, tuple), isinstance(x.shape, torch.Size)", "repr(x.shape)", "list(x.shape)", "h, w = x.shape; h * w", "x.shape == torch.Size([2, 3])", "torch.Size()", "len(x.shape)", "hash(x.shape) == hash((2, 3))", "2 * x.shape", "x.shape * 2", "f'{x.shape}'"], x=f(2, 3))
fails("torch.Size", ["torch.Size(3)", "torch.Size(['a'])", "torch.Size([1.5])", "x.size(2)", "x.size(-3)", "x.size('a')", "x.shape[2]"], x=f(2, 3))
case("torch.Tensor.shape torch.Tensor.size torch.Tensor.ndim torch.Tensor.dim torch.Tensor.numel torch.Tensor.nelement torch.Tensor.element_size torch.Tensor.stride torch.Tensor.is_contiguous torch.Tensor.dtype torch.Tensor.device torch.Tensor.is_cuda torch.Tensor.requires_grad torch.Tensor.grad torch.Tensor.grad_fn torch.Tensor.data", ["x.shape", "x.size()", "x.ndim", "x.dim()", "x.numel()", "x.nelement()", "x.element_size()", "x.stride()", "x.is_contiguous()", "x.dtype", "x.device", "x.is_cuda", "x.requires_grad", "x.grad", "x.grad_fn", "x.data", "x.is_floating_point()", "x.is_complex()", "x.storage_offset()", "x.nbytes", "x.itemsize", "x.is_leaf", "x.layout == torch.strided", "x.is_signed()", "x.get_device()"], x=[*layouts(f(2, 3)), i(2, 3, dtype="int32"), f(2, 3, dtype="bfloat16"), f(), f(1, 3), b(2)])
case("torch.Tensor.shape torch.Tensor.size torch.Tensor.stride torch.Tensor.is_contiguous", ["x.shape", "x.size()", "x.ndim", "x.numel()", "torch.zeros(x.shape).stride()", "x.is_contiguous()", "x.storage_offset()", "x.nbytes", "x.data"], x=[f(0, 3), f(2, 0)])
fails("torch.Tensor.stride torch.Tensor.size", ["x.stride(2)", "x.size(5)"], x=f(2, 3))
case("torch.Tensor.stride", ["x.stride(0)", "x.stride(-1)", "x.stride(dim=1)", "x.t().stride()", "x[:, 1:].stride()"], x=f(2, 3))
case("torch.Tensor.data_ptr", ["x.data_ptr() == x.view(-1).data_ptr()", "x.data_ptr() == x.clone().data_ptr()", "x[1:].data_ptr() - x.data_ptr()", "x.detach().data_ptr() == x.data_ptr()", "type(x.data_ptr()).__name__"], x=[f(2, 3), i(2, 3, dtype="int32")])
case("torch.Tensor.grad_fn", [f"[None if n is None else n.name() for n, _ in ({text}).grad_fn.next_functions]" for text in ("2 * x.exp()", "x.exp() * 2", "torch.ones(2, 3) * x.exp()", "1 - x.exp()", "2 ** x.exp()", "x.exp() ** 2", "x.exp() ** torch.ones(3)", "torch.where(x > 0, x.exp(), x.sin())", "x.exp().masked_fill(x > 0, x.sum())", "F.embedding(torch.tensor([1]), x.exp())", "F.nll_loss(x.exp(), torch.tensor([1, 0]))", "F.mse_loss(x.exp(), torch.ones(2, 3))")] + ["[n if n is None else n.name() for n, _ in F.linear(x.exp(), torch.ones(4, 3), x.sum().sin() * torch.ones(4)).grad_fn.next_functions][:2]", "torch.manual_seed(0); nn.Linear(3, 2)(x).grad_fn.next_functions[0][0].name()", "seen = []; y = F.linear(x.exp(), torch.ones(4, 3), torch.ones(4, requires_grad=True)); y.grad_fn.register_hook(lambda gi, go: seen.append([None if g is None else tuple(g.shape) for g in gi][:2])); y.sum().backward(); seen", "y = x * 1; z = y.exp(); [z.grad_fn._saved_result.grad_fn is z.grad_fn, (y * y).grad_fn._saved_self.grad_fn is y.grad_fn, y.requires_grad, (x * x).grad_fn._saved_self is x]", "seen = []; y = (x * x.exp()); y.grad_fn._raw_saved_self.register_hooks(lambda t: (seen.append('packed'), t.tolist())[1], lambda t: (seen.append('unpacked'), torch.tensor(t))[1]); y.sum().backward(); seen"], x=f(2, 3, dtype="float32"))
case("torch.Tensor.grad_fn", ["(x * 2).grad_fn is None", "x.grad_fn", "(x * 2).grad_fn.name()", "type((x + 1).grad_fn).__name__", "(x.exp()).grad_fn.name()", "(x @ x.t()).grad_fn.name()", "x.sum().grad_fn.name()", "x.mean().grad_fn.name()", "x.view(-1).grad_fn.name()", "F.relu(x).grad_fn.name()", "(x / 2).grad_fn.next_functions[0][0].name()", "x.clone().grad_fn.next_functions[0][1]"], x=f(2, 3))
case("torch.Tensor", ["torch.Tensor(2, 3).shape", "torch.Tensor([1, 2])", "torch.Tensor().shape", "torch.Tensor([[1, 2], [3, 4]])", "isinstance(torch.ones(1), torch.Tensor)", "torch.Tensor(np.ones(2, np.float32))", "type(torch.ones(1)).__name__", "torch.Tensor((2, 3))", "torch.Tensor(torch.Size([2])).shape"])
fails("torch.Tensor", ["torch.Tensor(2.5)", "torch.Tensor('a')", "torch.Tensor(2, 'a')"])
for name in ("LongTensor", "FloatTensor", "IntTensor"):
    case(f"torch.{name}", [f"torch.{name}([1, 2])", f"torch.{name}(2, 3).shape", f"torch.{name}().dtype", f"torch.{name}([[1], [2]])", f"isinstance(torch.{name}([1]), torch.{name})", f"isinstance(torch.ones(1, dtype=torch.float16), torch.{name})", f"torch.{name}(2).dtype"])
case("torch.LongTensor", ["torch.DoubleTensor([1]), torch.LongTensor([2])", "torch.ByteTensor([1]), torch.BoolTensor([True]), torch.LongTensor([2])", "torch.HalfTensor([1]).dtype, torch.LongTensor([2])", "torch.ShortTensor([1]), torch.CharTensor([1]), torch.LongTensor([2])"])
fails("torch.LongTensor torch.FloatTensor torch.IntTensor", ["torch.LongTensor(['a'])", "torch.FloatTensor('a')", "torch.IntTensor([1, [2]])"])
case("torch.pi torch.inf", ["torch.pi", "torch.inf", "torch.e, torch.pi", "torch.nan, torch.inf", "torch.tensor([torch.pi, torch.inf])", "-torch.inf < 0 < torch.pi", "torch.newaxis, torch.inf"])
case("torch.is_tensor", ["torch.is_tensor(x)", "torch.is_tensor(3)", "torch.is_tensor([x])", "torch.is_tensor(nn.Parameter(x.detach()))", "torch.is_floating_point(x), torch.is_tensor(x)", "torch.is_complex(x), torch.is_tensor(x)", "torch.is_nonzero(torch.tensor(1)), torch.is_tensor(None)", "torch.numel(x), torch.is_tensor(x)"], x=f(2))
case("torch.__version__ torch.version.cuda", ["type(torch.__version__).__mro__[-2].__name__ in ('str', 'TorchVersion')", "isinstance(torch.__version__, str)", "torch.version.cuda", "torch.__version__.count('.') >= 2"])
case("torch.set_float32_matmul_precision", ["torch.set_float32_matmul_precision('high'); p = torch.get_float32_matmul_precision(); torch.set_float32_matmul_precision('highest'); p"])

# printing
PRINTED = ["1, 2, 3", "1., 2., 3.", "1.5, 2.25, -3.125", "1e-8, 1., 1e6", "float('nan'), float('inf'), -1.", "1e10, 1.", "True, False", "[1, 2], [3, 4]", "[[1.5]], [[2.]]", "1e-5, 2e-5", "100000., 1.", "0.1, 0.25", "1 + 2j, 3.5 - 1j", "-0.0, 0."]
case("", [f"repr(torch.tensor([{data}]))" for data in PRINTED] + [f"str(torch.tensor([{data}], dtype=torch.float64))" for data in PRINTED[:6]] + ["repr(torch.tensor(3.5))", "repr(torch.tensor(3))", "repr(torch.zeros(0))", "repr(torch.zeros(2, 0))", "repr(torch.arange(2000))", "repr(torch.arange(1100.).reshape(11, 100))", "repr(torch.ones(2, requires_grad=True))", "repr(torch.ones(2, requires_grad=True) * 2)", "repr(nn.Parameter(torch.ones(2)))", "repr(torch.ones(2, dtype=torch.float16))", "repr(torch.ones(2, dtype=torch.int32))", "repr(torch.ones(30) / 3)", "repr(torch.zeros(2, 3, 2))", "printed(print, torch.ones(2, 2))", "f'{torch.tensor(1.23456789)}'", "f'{torch.tensor(1.23456789):.2f}'", "str([torch.tensor(1)])", "'%.3f' % torch.tensor(2.)", "'{:5d}'.format(torch.tensor(7))", "repr(torch.ones(2, 2).max(0))", "repr(torch.return_types.max) != ''"][:-1])
for options in ("precision=2", "sci_mode=True", "sci_mode=False, precision=8", "threshold=3, edgeitems=1", "linewidth=30", "profile='short'", "profile='full'"):
    case("torch.set_printoptions", f"torch.set_printoptions({options}); t = repr(torch.arange(12.).reshape(3, 4) / 7); torch.set_printoptions(profile='default'); t")
fails("torch.set_printoptions", ["torch.set_printoptions(foo=3)", "torch.set_printoptions(5, 5, 5, 5, 5, 5, 5)"])

# filling
writes("torch.Tensor.fill_", ["x.fill_(2)", "x.fill_(torch.tensor(2))", "x.t().fill_(1)", "x[0].fill_(3)", "x.fill_(z)"], x=[f(3, 4), f(3, 4, layout="transposed"), i(3, 4), f(3, 4, dtype="bfloat16")], z=v(3.0, grad=False))
writes("torch.Tensor.fill_", "x.fill_(y)", x=[f(3, 4), f(3, 4, layout="transposed"), f(3, 4, dtype="bfloat16")], y=v(3.0))
fails("torch.Tensor.fill_", ["x.detach().fill_(torch.ones(2))", "x.detach().fill_('a')", "x.detach().fill_()"], x=f(3))
writes("torch.Tensor.zero_", ["x.zero_()", "x[1:].zero_()", "y = x.zero_(); y is x", "x.t().zero_(); x + 1"], x=[f(3, 4), f(3, 4, layout="transposed"), i(3, 4), b(3, 4)])
writes("torch.Tensor.copy_", ["x.copy_(y)", "x[:, 1].copy_(y[..., 0])", "x.copy_(y); x * 2"], x=[f(3, 4), i(3, 4), f(3, 4, dtype="float16")], y=[f(3, 4), f(3, 4, layout="transposed"), i(3, 4), f(3, 4, dtype="float32")])
writes("torch.Tensor.copy_", "x.copy_(y)", x=f(3, 4), y=[f(4), f(3, 1), f(1, 4)])
fails("torch.Tensor.copy_", ["x.detach().copy_(y)", "x.detach().copy_('a')"], x=f(3), y=f(4))
case("torch.Tensor.clone torch.Tensor.detach torch.Tensor.contiguous", ["x.clone()", "x.detach()", "x.contiguous()", "x.contiguous() is x", "torch.clone(x)", "x.clone(memory_format=torch.contiguous_format)", "x.detach().clone().requires_grad_()", "y = x.clone(); y.is_contiguous()"], x=[*layouts(f(3, 4)), *dtypes(f(2, 3))])
writes("torch.Tensor.detach_", ["y = (x * 2); y.detach_(); y.requires_grad", "z = x * 2; z.detach_() is z"], x=f(3))
fails("torch.Tensor.detach_", "x.view(-1).detach_()", x=f(3, 2))
writes("torch.Tensor.data torch.Tensor.grad", ["y = x.detach().requires_grad_(); y.data.add_(1); y", "y = x.detach().requires_grad_(); y.data = torch.ones(2, dtype=torch.float64); y", "y = x.detach().requires_grad_(); y.sum().backward(); g = y.grad; y.grad = None; g, y.grad", "y = x.detach().requires_grad_(); y.grad = torch.full_like(y, 2); y.grad", "y = x.detach().requires_grad_(); (y * y).sum().backward(); y.grad.zero_(); y.grad"], x=f(3))
fails("torch.Tensor.grad", ["x.grad = torch.ones(2)", "x.grad = 3", "x.grad = torch.ones(3)"], x=f(3))
case("torch.Tensor.new torch.Tensor.clone", ["copy.deepcopy(x)", "copy.copy(x)", "x.clone().requires_grad", "copy.deepcopy(x).data_ptr() == x.data_ptr(), x.new(2).shape"], x=f(2, 3))
writes("torch.Tensor.resize_", ["x.resize_(2, 2)", "x.resize_((3, 1))", "x.resize_(6).shape", "x.resize_(0)", "x.resize_(2, 3) is x"], grad=False, x=[f(2, 3), i(2, 3)])
fails("torch.Tensor.resize_", ["x.resize_(-1)", "x.resize_('a')"], x=i(3))
