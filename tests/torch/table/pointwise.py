"""Functions of each element: arithmetic, comparisons, exponentials, trigonometry, rounding, clamping, logic."""

from __future__ import annotations

from .case import case, fails, writes
from .inputs import b, but, c, dtypes, every, f, floats, i, layouts, v

# fmt: off
SPECIAL = v([-float("inf"), -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.5, float("inf"), float("nan")], grad=False)

# functions of one tensor: name, range, as a function and as a method in names.csv
UNARY = {
    "exp": ((-2, 2), "both"), "sqrt": ((0.1, 3), "both"), "sin": ((-2, 2), "both"), "cos": ((-2, 2), "both"), "tanh": ((-2, 2), "both"), "sigmoid": ((-2, 2), "both"),
    "log": ((0.1, 3), "both"), "abs": ((0.1, 3), "both"), "relu": ((-2, 2), "both"), "square": ((-2, 2), "both"), "floor": ((-3, 3), "both"), "acos": ((-0.9, 0.9), "both"),
    "rsqrt": ((0.1, 3), "function"), "log2": ((0.1, 3), "function"), "round": ((-3, 3), "function"), "sign": ((-2, 2), "function"), "isnan": ((-2, 2), "function"),
    "logical_not": ((-1, 1), "function"), "ceil": ((-3, 3), "method"), "log10": ((0.1, 3), "method"),
}
for name, ((low, high), place) in UNARY.items():
    names = " ".join(([f"torch.{name}"] if place != "method" else []) + ([f"torch.Tensor.{name}"] if place != "function" else []))
    case(names, [f"torch.{name}(x)", f"x.{name}()"], x=every(f(3, 4, low=low, high=high)))
    case(names, [f"torch.{name}(x)"], x=[SPECIAL, but(SPECIAL, dtype="float32")], grad=False)
    case(names, f"torch.{name}(x, out=out), out", grad=False, x=f(2, 3, low=low, high=high), out=[f(2, 3) if name not in ("isnan",) else b(2, 3), f(0) if name != "isnan" else b(0)] if name not in ("relu", "isnan") else [])
    if name not in ("isnan",):
        writes(names, [f"x.{name}_()", f"y = x.{name}_(); y is x"], grad=name != "logical_not", x=[*floats(f(3, 4, low=low, high=high)), but(f(3, 4, low=low, high=high), layout="transposed")])
    fails(names, [f"torch.{name}('text')", f"torch.{name}()", f"torch.{name}(x, x, x, x)"], x=f(3))
case("torch.sqrt torch.log", ["torch.sqrt(x)", "torch.log(x)", "torch.rsqrt(x)", "torch.log2(x)", "x.log10()", "x.acos()"], x=f(4, low=-2, high=-1.1))
case("torch.abs torch.sign", ["torch.abs(x)", "torch.sign(x)", "torch.relu(x)", "torch.round(x)"], x=v([-1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5]))
case("torch.round", ["torch.round(x, decimals=2)", "torch.round(x, decimals=-1)", "x.round(decimals=1)"], x=[f(3, 4, low=-50, high=50), f(4, dtype="float32")])
case("torch.isnan", ["torch.isnan(x)", "torch.isinf(x), torch.isnan(x)", "torch.isfinite(x), x.isnan()", "x.nan_to_num(), torch.isnan(x)", "x.nan_to_num(1.0, 2.0, 3.0), torch.isnan(x)"], x=[SPECIAL, v([1, 2], "int64")])

# further functions, each beside one of the list, so that their families are whole
MORE = {
    "asin": (-0.9, 0.9), "atan": (-2, 2), "sinh": (-2, 2), "cosh": (-2, 2), "tan": (-1, 1), "asinh": (-2, 2), "acosh": (1.1, 3), "atanh": (-0.9, 0.9), "log1p": (-0.5, 2), "expm1": (-2, 2),
    "exp2": (-2, 2), "erf": (-2, 2), "erfc": (-2, 2), "erfinv": (-0.9, 0.9), "lgamma": (0.5, 3), "digamma": (0.5, 3), "reciprocal": (0.3, 2), "neg": (-2, 2), "trunc": (-3, 3), "frac": (-3, 3),
    "logit": (0.1, 0.9), "sinc": (0.2, 2), "i0": (-2, 2), "deg2rad": (-90, 90), "rad2deg": (-2, 2), "positive": (-2, 2), "sgn": (-2, 2), "signbit": (-2, 2), "softmax": None, "nan_to_num": (-2, 2),
    "isposinf": (-2, 2), "isneginf": (-2, 2), "isreal": (-2, 2), "conj": (-2, 2), "angle": (-2, 2), "bitwise_not": None, "arccos": (-0.9, 0.9), "absolute": (0.1, 2), "negative": (-2, 2), "fix": (-3, 3), "hardshrink": (-2, 2),
}
for name, span in MORE.items():
    if span is not None:
        case("", [f"torch.{name}(x)", f"x.{name}()"], x=dtypes(f(3, 4, low=span[0], high=span[1])) + [f(3, 4, low=span[0], high=span[1], layout="transposed"), f(0, low=span[0], high=span[1]), f(low=span[0], high=span[1])])

# functions of two tensors
PAIRS = [(f(3, 4), f(3, 4)), (f(3, 4), f(4)), (f(3, 1), f(1, 4)), (f(2, 1, 4), f(3, 1)), (f(), f(3)), (f(0, 3), f(3)), (f(0), f(1)), (f(3, 4, layout="transposed"), f(3, 4)), (f(3, 4, layout="stepped"), f(3, 4, layout="expanded"))]
MIXED = [(f(3), i(3)), (i(3), f(3, dtype="float32")), (f(3, dtype="float16"), f(3, dtype="float32")), (f(3, dtype="float16"), f(3, dtype="bfloat16")), (i(3, dtype="int32"), i(3)), (i(3, dtype="uint8"), i(3, dtype="int8")), (b(3), i(3)), (b(3), b(3)), (f(3, dtype="float32"), f()), (c(3), f(3)), (i(3), f())]
SCALARS = [2, -1.5, True, 0.5]


def pairs(x, y):
    """An input's range moved to where the function has it."""
    return [(but(a, low=x[0], high=x[1]) if a.dtype[0] == "f" else a, but(b_, low=y[0], high=y[1]) if b_.dtype[0] == "f" else b_) for a, b_ in PAIRS]


BINARY = {"add": ((-2, 2), (-2, 2)), "sub": ((-2, 2), (-2, 2)), "mul": ((-2, 2), (-2, 2)), "div": ((-2, 2), (0.5, 2)), "pow": ((0.3, 2), (-2, 2)), "maximum": ((-2, 2), (-2, 2)), "minimum": ((-2, 2), (-2, 2)), "remainder": ((-5, 5), (0.5, 2)), "fmod": ((-5, 5), (0.5, 2)), "atan2": ((-2, 2), (0.5, 2)), "eq": ((-2, 2), (-2, 2)), "ne": ((-2, 2), (-2, 2)), "lt": ((-2, 2), (-2, 2)), "le": ((-2, 2), (-2, 2)), "gt": ((-2, 2), (-2, 2)), "ge": ((-2, 2), (-2, 2)), "hypot": ((0.5, 2), (0.5, 2)), "logaddexp": ((-2, 2), (-2, 2)), "fmax": ((-2, 2), (-2, 2)), "fmin": ((-2, 2), (-2, 2)), "logical_and": ((-1, 1), (-1, 1)), "logical_or": ((-1, 1), (-1, 1)), "logical_xor": ((-1, 1), (-1, 1)), "floor_divide": ((-5, 5), (0.5, 2)), "true_divide": ((-5, 5), (0.5, 2)), "copysign": ((0.5, 2), (-2, 2)), "xlogy": ((0.5, 2), (0.5, 2)), "heaviside": ((-2, 2), (-2, 2)), "nextafter": ((-2, 2), (-2, 2))}
IN_LIST = {"add": "torch.add", "mul": "torch.mul torch.Tensor.mul", "div": "torch.div torch.Tensor.div", "pow": "torch.pow torch.Tensor.pow", "maximum": "torch.maximum", "remainder": "torch.remainder", "eq": "torch.eq torch.Tensor.eq", "ne": "torch.Tensor.ne"}
for name, (one, two) in BINARY.items():
    method = [f"x.{name}(y)"] if name != "true_divide" else []
    for x, y in pairs(one, two):
        case(IN_LIST.get(name, ""), [f"torch.{name}(x, y)", *method], grad=name != "heaviside", x=x, y=y)
    for x, y in MIXED:
        ok = but(x, may_refuse=True, low=1 if x.dtype[0] in "iu" else x.low), but(y, may_refuse=True, low=1 if y.dtype[0] in "iu" else 0.5)
        case(IN_LIST.get(name, ""), f"torch.{name}(x, y)", x=ok[0] if name != "pow" or x.dtype[0] != "f" else but(ok[0], low=0.3), y=ok[1])
    if name not in ("maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "logaddexp", "logical_and", "logical_or", "logical_xor", "heaviside", "nextafter"):
        case(IN_LIST.get(name, ""), f"torch.{name}(x, s)", x=[f(3, low=0.3, high=2, may_refuse=True), f(3, dtype="float16", low=0.3, high=2, may_refuse=True), i(3, low=1, may_refuse=True), b(3, may_refuse=True)], s=SCALARS)
    fails(IN_LIST.get(name, ""), [f"torch.{name}(x, y)", f"torch.{name}(x, 'text')", f"torch.{name}(x)"], x=f(3, 4), y=f(3))
case("torch.add", ["torch.add(x, y, alpha=2)", "x.add(y, alpha=-0.5)", "torch.add(x, 3, alpha=2)", "x.sub(y, alpha=2)"], x=[f(3, 4), f(4)], y=[f(3, 4), f(1, 4, dtype="float32")])
fails("torch.add", ["torch.add(x, x, alpha=0.5)", "torch.add(x > 0, x > 0, alpha=1.5)"], x=i(3))
case("torch.div torch.Tensor.div", ["torch.div(x, y, rounding_mode=mode)", "x.div(y, rounding_mode=mode)", "x.div(2, rounding_mode=mode)"], x=[f(3, 4, low=-5, high=5), i(3, 4), f(3, 4, dtype="float32")], y=[f(3, 4, low=0.5), i(4, low=1)], mode=[None, "floor", "trunc"])
case("torch.div", "torch.div(x, y)", x=[v([1.0, -1.0, 0.0]), v([1, -1, 0], "int64")], y=v([0.0, 0.0, 0.0], grad=False), grad=False)
fails("torch.div torch.Tensor.div", ["torch.div(x, y, rounding_mode='up')", "torch.div(i, 0, rounding_mode='floor')"], x=f(3), y=f(3), i=i(3))
fails("torch.remainder", ["torch.remainder(x, 0)", "torch.fmod(x, 0)", "x // 0", "x % 0"], x=i(3))
case("torch.remainder", ["torch.remainder(x, y)", "x % y", "torch.fmod(x, y)", "x // y"], x=[v([-7, -3, 3, 7], "int64"), v([-7.5, -3.0, 3.0, 7.5])], y=[v([3, -3, 2, -2], "int64"), v([2.5, -2.5, 2.0, -2.0])])
case("torch.pow torch.Tensor.pow", ["torch.pow(x, p)", "x.pow(p)", "x ** p"], x=[f(3, 4, low=0.3), f(3, dtype="float32", low=0.3), f(3, dtype="float16", low=0.3)], p=[0, 1, 2, 3, -1, 0.5, -0.5, 2.5])
case("torch.pow", ["torch.pow(2, x)", "torch.pow(2.5, x)", "2 ** x", "0.5 ** x"], x=[f(3), i(3, low=0), f(3, dtype="float32")])
case("torch.pow", ["x ** 2", "x ** 3", "x.pow(0)"], x=[i(3), c(3), v([0.0, -1.0, 2.0]), b(3)][:3])
fails("torch.pow", ["x ** -1", "torch.pow(x, -2)"], x=i(3, low=1))
case("torch.eq torch.Tensor.eq torch.Tensor.ne", ["x == y", "x != y", "x.eq(y)", "x.ne(1)", "torch.eq(x, 1.0)", "x < y", "x <= y", "x > y", "x >= 1", "1 < x"], x=[i(3, 4, low=0, high=3), f(3, 4), b(3, 4)], y=[i(3, 4, low=0, high=3), f(4)])
case("torch.Tensor.eq", ["x == None", "x == 'a'", "x != 'a'"], x=f(3))

# operators of Python, either side
for op in ("+", "-", "*", "/", "//", "%", "**"):
    case("", [f"x {op} y", f"x {op} 2", f"x {op} 1.5", f"3 {op} x", f"2.5 {op} x"], x=[f(3, 4, low=0.5, high=2), i(4, low=1), f(2, 1, dtype="float32", low=0.5), f(4, dtype="bfloat16", low=0.5)], y=f(4, low=0.5))
    writes("", [f"x {op}= y", f"x {op}= 2"] + [f"z = x; z {op}= y; z is x"], x=[f(3, 4, low=0.5)], y=f(4, low=0.5))
for op in ("&", "|", "^"):
    case("", [f"x {op} y", f"x {op} 1"], x=[i(4, low=0), b(4), i(4, low=0, dtype="uint8")], y=[i(4, low=0), b(4)])
    writes("", f"x {op}= y", x=[b(4), i(4, low=0)], y=b(4))
    fails("", f"x {op} x", x=f(3))
case("", ["-x", "+x", "abs(x)"], x=[f(3), i(3), f(3, dtype="float16"), c(3)])
case("", ["~x", "x << 1", "x >> 1", "1 << x"], x=[i(3, low=0)])
case("", ["~x", "x.logical_not()", "bool(x.any())", "x.int() + 1"], x=b(3))
fails("", ["-x", "x - x", "x - True", "1 - x"], x=b(3))
case("", ["float(x)", "int(x)", "bool(x)", "x.item()", "complex(x)", "f'{x.sum():.3f}'", "round(float(x), 3)", "math.sqrt(abs(x))"], x=[f(), f(1, 1), i(), f(dtype="float32")], grad=False)
fails("", ["float(x)", "int(x)", "bool(x)", "x.item()"], x=[f(3), f(0)])
case("", ["len(x)", "[row.sum() for row in x]", "list(x)", "a, b = x; a * b", "x in x", "0.123 in x"], x=[f(2, 3), i(2, 3), f(2)])
fails("", ["len(x)", "iter(x)", "list(x)"], x=f())
case("", ["divmod(x, y)", "x // y, x % y"][1:], x=f(3, low=-5, high=5), y=f(3, low=0.5))
case("", ["x @ y", "x.T @ x", "x @ y @ y"], x=f(3, 3), y=f(3, 3))

# in place
for program in ("x.add_(y)", "x.add_(y, alpha=0.5)", "x.add_(2)", "x.sub_(y)", "x.sub_(y, alpha=3)", "x.mul_(y)", "x.mul_(0.5)", "x.div_(y)", "x.div_(2.0)"):
    writes(f"torch.Tensor.{program[2:6]}", program, x=[f(3, 4), f(3, 4, layout="transposed"), f(3, 4, dtype="float32"), f(3, 4, dtype="bfloat16")], y=[f(3, 4, low=0.5), f(4, low=0.5), f(low=0.5)])
writes("torch.Tensor.div_", "x.div_(y, rounding_mode=mode)", x=[f(3, 4), f(3, 4, layout="transposed"), f(3, 4, dtype="float32")], y=[f(3, 4, low=0.5), f(4, low=0.5), f(low=0.5)], mode=["floor", "trunc"])
writes("torch.Tensor.pow", ["x.pow_(2)", "x.pow_(y)", "x.remainder_(2)", "x.clamp_(0); x.pow(2)", "x.neg_(); x.pow(3)", "x.eq_(y); x.pow(2)", "x.atan2_(y).pow(2)"], x=f(3, 4, low=0.5), y=f(3, 4, low=0.5))
fails("torch.Tensor.add_ torch.Tensor.mul_ torch.Tensor.div_ torch.Tensor.sub_", ["i.add_(x)", "i.mul_(0.5)", "i.div_(2)", "i.sub_(1.5)", "s.add_(x)", "s.mul_(x)", "s.div_(x)", "s.sub_(x)"], x=f(3, 4), i=i(3, 4), s=f(4))
fails("torch.Tensor.add_", ["x.add_(1)", "x.mul_(2)", "x.zero_()", "x.exp_()", "x[0] = 1", "x.detach().expand(2, 3).add_(1)"], x=f(3))
for name in ("addcmul", "addcdiv"):
    case("", [f"torch.{name}(x, y, z)", f"torch.{name}(x, y, z, value=-0.5)", f"x.{name}(y, z, value=2)"], x=[f(3, 4), f(4)], y=f(3, 4), z=[f(3, 4, low=0.5), f(3, 1, low=0.5)])
    writes(f"torch.Tensor.{name}_", [f"x.{name}_(y, z)", f"x.{name}_(y, z, value=0.5)"], x=[f(3, 4), f(3, 4, layout="transposed")], y=[f(3, 4), f(4)], z=f(3, 1, low=0.5))
    fails(f"torch.Tensor.{name}_", [f"x.{name}_(y, y)", f"x.{name}_(x)"], x=f(3), y=f(3, 4))

# clamping
case("torch.clamp torch.Tensor.clamp torch.Tensor.clip", ["torch.clamp(x, -1, 1)", "x.clamp(min=0.25)", "x.clamp(max=0.5)", "torch.clamp(x, min=-0.5, max=0.5)", "x.clip(-1, 1)", "x.clamp(1, -1)"], x=every(f(3, 4)))
case("torch.clamp torch.Tensor.clamp", ["torch.clamp(x, lo, hi)", "x.clamp(min=lo)", "x.clamp(max=hi)"], x=[f(3, 4), f(4)], lo=[f(4, low=-1, high=-0.5), f(3, 4, low=-1, high=0)], hi=f(3, 1, low=0.5, high=1))
case("torch.clamp", "torch.clamp(x, -1.0, 1.0)", x=v([-2.0, -1.0, 0.0, 1.0, 2.0, float("nan"), float("inf")]))
case("torch.Tensor.clamp_min", ["x.clamp_min(0)", "x.clamp_min(0.5)", "torch.clamp_min(x, 1), x.clamp_min(0)", "torch.clamp_max(x, 1), x.clamp_min(-1)"], x=[f(3, 4), i(3, 4), f(3, dtype="float32")])
writes("torch.Tensor.clamp_", ["x.clamp_(-1, 1)", "x.clamp_(min=0)", "x.clamp_(max=0.5)", "x.clamp_min_(0.1); x.clamp_(0, 1)"], x=[f(3, 4), f(3, 4, layout="transposed"), f(3, 4, dtype="float32"), i(3, 4)][:3])
fails("torch.clamp torch.Tensor.clamp", ["torch.clamp(x)", "x.clamp()", "torch.clamp(x, 'a')", "x.clamp(min=None, max=None)"], x=f(3))
fails("torch.Tensor.clamp_", ["x.clamp_()", "i.clamp_(0.5)"], x=f(3), i=i(3))

# where and friends
case("torch.where", ["torch.where(m, x, y)", "x.where(m, y)", "torch.where(m, x, 0)", "torch.where(m, 1.5, x)", "torch.where(m, 0., 1.), torch.where(m, x, y)"], m=[b(3, 4), b(4), b(3, 1), b()], x=[f(3, 4), f(4)], y=[f(3, 4), f()])
case("torch.where", "torch.where(m, x, y)", m=b(3), x=[f(3), i(3), f(3, dtype="float32"), b(3)], y=[f(3), i(3), f(3, dtype="float16"), f()])
case("torch.where", ["torch.where(m)", "torch.where(x > 0)", "torch.where(m, 1, 0)", "torch.where(m, 1, 2.5)", "torch.where(m, True, False)"], m=[b(3, 4), b(5), b(0)], x=f(3, 4), grad=False)
fails("torch.where", ["torch.where(m, x, y)", "torch.where(x, x, x)", "torch.where(m, x)"], m=b(3), x=f(4), y=f(3))
case("torch.Tensor.masked_fill", ["x.masked_fill(m, 0.5)", "torch.masked_fill(x, m, -1e9)", "x.masked_fill(m, y)", "x.masked_fill(m == 0, float('-inf')).exp()"], x=layouts(f(3, 4)), m=[b(3, 4), b(4), b(3, 1)], y=f())
case("torch.Tensor.masked_fill", "x.masked_fill(m, 2)", x=dtypes(f(3, 4)), m=b(3, 4))
case("torch.Tensor.masked_fill", "x.masked_fill(m, 2)", x=f(4), m=b(3, 4))
writes("torch.Tensor.masked_fill_", ["x.masked_fill_(m, 0.5)", "x.masked_fill_(m, y)", "x.t().masked_fill_(m.t(), 2); x * 2"], x=[f(3, 4), f(3, 4, layout="transposed")], m=[b(3, 4)], y=f())
fails("torch.Tensor.masked_fill torch.Tensor.masked_fill_", ["x.masked_fill(i, 0.)", "x.masked_fill(m, 0.)", "x.masked_fill_(m, 0.)", "x.masked_fill(x > 0, x)"], x=f(3, 4), i=i(3, 4), m=b(3))
case("torch.allclose", ["torch.allclose(x, y)", "torch.allclose(x, x + 1e-9)", "x.allclose(x + 1e-3)", "torch.allclose(x, x + 1e-3, atol=1e-2)", "torch.allclose(x, x * 1.01, rtol=0.1)", "torch.allclose(n, n)", "torch.allclose(n, n, equal_nan=True)"], x=f(3), y=f(3), n=v([1.0, float("nan")], grad=False), grad=False)
fails("torch.allclose", ["torch.allclose(x, y)", "torch.allclose(x, x.float())", "torch.allclose(x, 1.0)"], x=f(3), y=f(4))
case("torch.equal", ["torch.equal(x, x)", "torch.equal(x, x.clone())", "torch.equal(x, x + 1)", "torch.equal(x, x[:1])", "x.equal(x.clone())", "torch.isclose(x, x), torch.equal(x, x)"], x=[f(2, 3), i(2), f(0)], grad=False)
fails("torch.equal", "torch.equal(x, 1)", x=f(3))
case("torch.polar", ["torch.polar(r, a)", "torch.polar(r, a).abs()", "torch.view_as_real(torch.polar(r, a))"], r=f(3, low=0.5), a=f(3))
case("torch.polar", "torch.polar(r, a)", r=f(2, 3, dtype="float32", low=0.5), a=f(3, dtype="float32"))
fails("torch.polar", ["torch.polar(r, r.float())", "torch.polar(i, i)"], r=f(3), i=i(3))
case("torch.view_as_complex", ["torch.view_as_complex(x)", "torch.view_as_complex(x).real", "torch.view_as_complex(x) * 1j"], x=[f(3, 2), f(2, 3, 2), f(3, 2, dtype="float32"), f(2)])
fails("torch.view_as_complex", ["torch.view_as_complex(x)", "torch.view_as_complex(x.t())", "torch.view_as_complex(i)"], x=f(3, 3), i=i(3, 2))
case("torch.view_as_real", ["torch.view_as_real(x)", "torch.view_as_real(x)[..., 0]", "x.real, x.imag, torch.view_as_real(x)", "torch.view_as_real(x * 2j)", "x.conj() * x, torch.view_as_real(x)", "x.abs(), x.angle(), torch.view_as_real(x)"], x=[c(3), c(2, 3), c(3, dtype="complex64"), c(2, 3, layout="transposed"), c()])
fails("torch.view_as_real", "torch.view_as_real(x)", x=f(3))
case("torch.softmax torch.Tensor.softmax", ["torch.softmax(x, 1)", "x.softmax(dim=0)", "torch.softmax(x, -1, dtype=torch.float64)", "x.softmax(-1)", "x.log_softmax(-1), x.softmax(1)"], x=[*floats(f(3, 4)), *layouts(f(3, 4))[1:], f(3, 4, low=-500, high=500), f(0, 3), f(1, 1)])
case("torch.softmax torch.Tensor.softmax", ["torch.softmax(x, 0)", "x.softmax(-1)"], x=[f(), f(4), v([float("-inf"), 0.0, 1.0]), v([float("inf"), 0.0])])
fails("torch.softmax torch.Tensor.softmax", ["torch.softmax(x, 2)", "x.softmax(-3)", "torch.softmax(i, 0)", "torch.softmax(x)"], x=f(3, 4), i=i(3))
case("torch.Tensor.clamp torch.lerp", ["torch.lerp(x, y, 0.3), x.clamp(0)", "torch.lerp(x, y, w), y.clamp(0)", "x.lerp(y, 0.7).clamp(0, 1)"], x=f(3, 4), y=f(4), w=f(3, 4, low=0, high=1))
