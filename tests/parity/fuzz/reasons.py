"""Classes of differences that stay, each with its reason. What a row covers is counted under it, apart from the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Known(NamedTuple):
    """Regular expressions over a difference's class, its line, what is told of it and the program up to it, and the reason why it stays.

    With `instead`, replacements of regular expressions in the program, it stays only where PyTorch then gives the engine's answer.
    """

    kinds: str
    line: str
    told: str
    reason: str
    program: str = ""
    instead: tuple[tuple[str, str | Callable[[re.Match], str]], ...] = ()


_SPECIAL = r"special\.(bessel|modified_bessel|scaled_modified|spherical_bessel|airy|chebyshev|hermite|laguerre|legendre|shifted)"
_ATTENTION = r"T\.nn\.functional\.scaled_dot_product_attention\("
_SLOWLY = (
    (_ATTENTION, "T.nn.attention.sdpa_kernel(T.nn.attention.SDPBackend.MATH)(T.nn.functional.scaled_dot_product_attention)("),
    (_ATTENTION + r"(v\d+), (v\d+), (v\d+), is_causal=True\)",  # it adds -inf to nan
     r"T._safe_softmax((\1 @ \2.mT / \1.shape[-1] ** 0.5).masked_fill(T.ones(\1.shape[-2], \2.shape[-2]).tril() == 0, -inf), -1) @ \3"),
)  # fmt: skip
# elementwise functions of two tensors, and what is made of them
_TWO = (
    r" [-+*/%<>=!&|^]{1,2} |\b(add|sub|mul|div|floor_divide|remainder|fmod|pow|hypot|logaddexp2?|eq|ne|lt|le|gt|ge|bitwise_\w+|logical_\w+|maximum|minimum"
    r"|fmax|fmin|clamp\w*|clip|copysign|gcd|lcm|xlogy|xlog1py|nextafter|atan2|arctan2|true_divide|divide|multiply|subtract|greater\w*|less\w*|not_equal"
    r"|addcmul|addcdiv|lerp|rsub|float_power|ldexp|complex|\w+_loss|householder_product|Product)\b"
)
_TWICE = r"(?s)\b(v\d+)\b[^\n=]*= [^\n]*create_graph=True[^\n]*\n(.*\n)?[^\n]*\b\1\b[^\n]*\Z"  # the last line goes through a gradient
_RESHAPED = "transpose|t|swapaxes|swapdims|squeeze|unsqueeze"


def _copied(text: str) -> str:
    return re.sub(r"\bv\d+\b(?! = )", r"\g<0>.clone()", text)


# of equal elements, the first
_FIRST = {
    "topk": "lambda x, k, dim=-1, largest=True, sorted=True: tuple(y.narrow(dim, 0, k) for y in x.sort(dim=dim, descending=largest, stable=True))",
    "kthvalue": "lambda x, k, dim=-1, keepdim=False:"
    " tuple(y.narrow(dim, k - 1, 1) if keepdim else y.select(dim, k - 1) for y in x.sort(dim=dim, stable=True))",
}
_INVERSE = "lambda L, upper=False: T.linalg.inv(L.triu().mH @ L.triu() if upper else L.tril() @ L.tril().mH)"
_TRIANGULAR = (
    "lambda b, A, upper=True, transpose=False, unitriangular=False:"
    " (T.linalg.solve_triangular(A.mT if transpose else A, b, upper=upper != transpose, unitriangular=unitriangular), A.clone())"
)
# the tangent is that of the symmetric part, also where the value is not symmetric
_DET = "(det := lambda x: (sum((-1) ** i * x[..., 0, i] * det(T.cat((x[..., 1:, :i], x[..., 1:, i + 1 :]), -1)) for i in range(x.shape[-1])) if x.shape[-1] else x.sum((-2, -1)) + 1))"
KNOWN = [
    Known("flags|gradient|value|refused|accepted|error type", _SPECIAL, "requires_grad|differentiation|derivative|not 0.0|at \\(",
          "PyTorch declares these functions of torch.special not differentiable, silently; here they have their derivatives."),
    Known("accepted", "", "not implemented for '|Unsupported|is not supported for|not supported on|only supports float",
          "PyTorch has no CPU kernel for the dtype; here the op takes it."),
    Known("accepted", "", "Could not run 'aten::", "An overload of PyTorch's that exists for other devices only."),
    Known("accepted", "fft", "MKL FFT error", "A fault of the library behind PyTorch's FFT on empty or strided inputs."),
    Known("accepted", "", "Batching rule not implemented|do not support batching|requires_grad_\\(\\) \\(or perhaps",
          "A limit of PyTorch's vmap that is not one here."),
    Known("accepted|error type", "out=", "Trying to resize storage that is not resizable",
          "PyTorch cannot resize memory that it borrowed; here a result that does not fit gets its own."),
    Known("alias|stride|version", r"autograd\.grad|backward|func\.", "",
          "How gradients that no leaf keeps lie in memory, and which of them share it, PyTorch promises to nobody."),
    Known("alias|stride|flags", r"conj|\bmH|\.H\b|adjoint\(", "lies in the memory|strides|storage offset|grad_fn", "Conjugates are computed at once here and do not share memory."),
    Known("stride", r"lu_solve\(.*adjoint=", "", "PyTorch's lu_solve leaves its result as it lay while it worked on the adjoint."),
    Known("accepted", r"logsumexp\(.*(\[\]|\(\))", "doesn't match the broadcast shape", "PyTorch refuses its own documented empty dim with the shape of another result."),
    Known("flags", "heaviside|nextafter|unique|gcd|lcm", "requires_grad",
          "PyTorch marks a result as differentiable and refuses in backward; here it is a constant from the start."),
    Known("accepted", r"autograd\.grad|backward|func\.", "derivative for|is not implemented|not differentiable",
          "The slope is 0 almost everywhere, which is what this engine answers."),
    Known("accepted", r"autograd\.grad|backward|func\.", "second time|modified by an inplace operation",
          "A rule that keeps nothing, or less than PyTorch's, has nothing that could have been freed or overwritten."),
    Known("value|shape", "out=", "", "Where `out` is an input too, PyTorch resizes or clears it before it has read it.", "", ((r"(= .*)(\bout=.*)\Z", lambda m: _copied(m[1]) + m[2]),)),
    Known("alias|after refusal|accepted", r"\b(v\d+)\b.*out=\(?(v\d+, )*\1\b", "", "Where `out` is an input too, PyTorch resizes or clears it before it has read it."),
    Known("gradient", r"autograd\.grad|backward|func\.", " not ", "For an empty `dim`, which means all, PyTorch's slope of a variance is that over no dimensions.",
          r"(std|var)(_mean)?\((v\d+, |x, )?(dim=)?(\[\]|\(\))"),
    Known("value|shape|kind|dtype", r"unique_consecutive\((\w+, )?(True|False)", "", "PyTorch takes the second argument for `return_counts` where it chooses what to return."),
    Known("value", r"topk\(.*sorted=False|topk\((v\d+, )?\d+, -?\d+, (True|False), False\)", "", "Unsorted, PyTorch gives the largest elements in any order."),
    Known("value|gradient", "kthvalue|median|mode|topk|sort", r"^\d+, not \d+, at .* of result 1$", "Which of several equal elements is named, PyTorch leaves open."),
    Known("value|gradient", "argsort", r"^\d+, not \d+, at .* places$", "In which order equal elements come, PyTorch leaves open."),
    Known("value|gradient", r"(std|var)_mean|(std|var)\(", "-?(inf|nan), not -?(inf|nan)", "PyTorch's running mean of numbers with infinities is nan; here it is what NumPy's is."),
    Known("value|gradient", r"\bigamma|gammainc", "nan, not [01].0", "Of a nan for a parameter PyTorch gives a number where the other argument is 0."),
    Known("value|gradient", "polygamma|digamma|psi|lgamma|gammaln", r"inf, not -?(\d{6,}|\d\.\d+e\+)|nan, not -?\d", "At a pole PyTorch's sine of a rounded multiple of pi is not 0."),
    Known("value|gradient", r"\bmode\(", "nan", "PyTorch's mode sorts nans by where they stand."),
    Known("value|gradient", "fft|stft", "nan|inf", "An infinity times 0 in a sum of a Fourier transform depends on how the sum is split."),
    Known("value", "threshold|searchsorted|bucketize", r"^\d+, not \d+", "PyTorch takes a negative number beside unsigned integers for a large one.", "uint"),
    Known("gradient", r"autograd\.grad|backward", "", "PyTorch's second derivative of weight normalisation is not that of finite differences; this one is.", rf"{_TWICE[:4]}(?=.*weight_norm){_TWICE[4:]}"),
    Known("dtype", "autocast.*pinv", "", "PyTorch's pseudoinverse ends in a product of half precision under autocast."),
    Known("version|after refusal", "", ": version ", "A version is one of memory here, also of what `.data` shows.", r"\.data\b"),
    Known("version", "out=", "", "A function that is made of ops may write `out=` once or twice."),
    Known("flags|after refusal", "", "not a view that a write has cut off", "PyTorch cannot be asked of a view after such a write; here it can until its gradient is wanted."),
    Known("value|gradient", r"\.step\(\)", "(nan|inf), not|not -?(nan|inf)", "Where a sum of squares overflows, the order of the products decides between nan and infinity."),
    Known("version", "", "", "PyTorch counts the memory that a tensor is given as a write.", r"\.set_\("),
    Known("value|gradient", "margin_loss", "^-?(nan|inf), not", "A score of nan lies within no margin in PyTorch, and its loss is 0; here it is nan."),
    Known("refused", r"inner\(.*out=", "automatic differentiation", "PyTorch's inner looks at no gradient when it is given `out`."),
    Known("refused", r"autograd\.grad|backward", "second time", "A pass through a second derivative goes through the steps of a function that is made of ops here, and frees them.", "create_graph=True"),
    Known("refused", r"logical_(and|or|xor|not)_", "leaf", "PyTorch lets the logical functions write over a leaf that requires a gradient."),
    Known("refused", r"\] [^=]*= ", "more than one element", "PyTorch only warns of an assignment by index to memory whose elements overlap."),
    Known("after refusal", "", "only PyTorch has changed it$", "PyTorch has resized or written something before it refuses; here a refused call changes nothing."),
    Known("flags", r"_copy\(.*out=", "not {'requires_grad': True", "PyTorch says of what these write to `out` that it has a gradient, which then reaches nobody."),
    Known("gradient|accepted|refused|kind", r"autograd|backward", "", "PyTorch says of what these write to `out` that it has a gradient, which then reaches nobody.", r"(_copy|softmax)\(.*out="),
    Known("error type", r"together\(lambda", "", "Of the errors of two threads either may come first."),
    Known("error type", "", r"^PyTorch: RuntimeError: You are attempting to call Tensor\.requires_grad_\(\)", "A limit of PyTorch's transforms that is not one here; another error follows."),
    Known("error type", "", "^PyTorch: .*Trying to use forward AD with|^PyTorch: .*Batching rule not implemented", "PyTorch has no such transform of the function, and does not come to what is wrong with the call."),
    Known("error type", "", "^PyTorch: .*automatic differentiation for outputs with complex dtype", "PyTorch looks for a derivative before it looks for a kernel, and has neither."),
    Known("error type", r"index_(put|reduce)_\(", "refer to a single memory location", "PyTorch looks at the memory between two of its looks at the indices."),
    Known("error type", r"narrow_copy\(", "", "PyTorch's narrow_copy has checks of its own, in another order and with other errors than narrow's."),
    Known("error type", "", r"^PyTorch: NotImplementedError: .* not implemented for 'UInt(16|32|64)'", "PyTorch has no kernel for the dtype; here the op takes it, and refuses the call for something else."),
    Known("error type", r"cum(sum|prod)_\(", "not implemented for 'Bool'", "Sums and products of bools are integers, which do not fit into their input; PyTorch has no kernel that would sum them as bools."),
    Known("error type", r"fft\.\w+\(.*out=", "^PyTorch: IndexError", "PyTorch's functions of fft look at dims before they look at `out`."),
    Known("error type", r"vmap\(", r"^PyTorch: IndexError: Dimension out of range \(expected to be in range of \[-1, 0\]", "A dimension of a number is -1 or 0 outside of PyTorch's vmap, and none inside."),
    Known("error type", r"\w_\(|[-+*/%&|^]= |\] = ", "^PyTorch: RuntimeError: .*is being modified inplace", "What PyTorch's transforms give is a view of what they have made inside.", r"func\."),
    Known("error type", "", "^PyTorch: OverflowError", "PyTorch reads the numbers of a call, which are of at most 64 bits, before it looks at its tensors."),
    Known("accepted", "", "Expected a proper Tensor but got None|INTERNAL ASSERT FAILED", "PyTorch comes upon something that it holds for impossible."),
    Known("accepted", "autograd|backward|func", "doesn't match the broadcast shape", "PyTorch does not sum the slope of a clamp between larger tensors to the input's shape.", "cl(am|i)p"),
    Known("accepted", "autograd|backward", "'NoneType' object has no attribute|operand type.*'NoneType'", "PyTorch calls the hook of a result that no gradient reaches, with None.", "register_hook"),
    Known("accepted", "autograd|backward", "invalid gradient at index 0", "PyTorch goes through what was reshaped in place without recording it as if it had not been.", rf"no_grad|inference_mode|({_RESHAPED})_\("),
    Known("accepted", r"\w_\(|[-+*/%&|^]= |\] = ", "is being modified inplace|used in an in-place operation", "What PyTorch's transforms give is a view of what they have made inside.", r"func\."),
    Known("accepted", "backward|autograd", "this checkpoint\\(\\) is not necessary", "PyTorch declares these functions of torch.special not differentiable, silently; here they have their derivatives.", _SPECIAL),
    Known("accepted", "vmap", r"Dimension out of range \(expected to be in range of \[-1, 0\]", "A dimension of a number is -1 or 0 outside of PyTorch's vmap, and none inside."),
    Known("accepted", "vmap", "cannot reshape tensor of 0 elements", "PyTorch's vmap counts the samples, of which there are none, among the elements."),
    Known("accepted", "", "support automatic differentiation for outputs with complex dtype", "PyTorch has this derivative for real numbers only; here for complex ones too."),
    Known("accepted", "", "A view was created in (no_grad|inference) mode", "A view of a constant may be written here wherever it was made: its gradient is known."),
    Known("accepted", "autograd|backward", "with a bool tensor is not supported|Promotion for uint", "PyTorch's formula of a slope does not hold for the dtype of a constant input."),
    Known("accepted", "", "[Ii]nference tensor", "Tensors made in inference mode are usual tensors here, which may be written and differentiated later."),
    Known("accepted", "", "OverflowError: ", "An integer of more than 64 bits is a floating-point number here where one is asked for."),
    Known("accepted", "autograd|backward", "non-zero size for non-batch dimensions", "PyTorch's slope of a pooling to nothing is refused after the pooling has been taken."),
    Known("accepted", "take_along_dim|kron|matrix_exp", "view size is not compatible", "PyTorch flattens these by a view, which not all memory allows."),
    Known("accepted", "native_group_norm", "is_contiguous", "PyTorch's native_group_norm takes inputs in rows alone."),
    Known("accepted", r"func\.", "Trying to use forward AD with", "PyTorch has no forward mode for it; here it has one, or a slope of 0."),
    Known("accepted", "", "unresolved conjugated tensors", "Conjugates are computed at once here, so that there is nothing to be resolved."),
    Known("accepted", "autocast", "at::autocast::prioritize", "PyTorch's autocast takes real numbers of some dtypes alone."),
    Known("accepted", "(index|masked)_fill", "Autograd not support dtype", "A number that is written among integers has no gradient; PyTorch refuses one that asks for it."),
    Known("accepted", r"argsort\(.*out=", "", "PyTorch's argsort writes the values, too, and has an `out` only with `stable`."),
    Known("accepted", r"_\(.*alpha=", "refer to a single memory location", "What was scaled first lies in memory of its own here, and may be added to any part of the tensor."),
    Known("accepted", r"func\.(jvp|jacfwd|hessian|vmap)", "more than one element of the written-to tensor", "PyTorch lays tangents as their tensors lie; where elements of these share memory, so do the tangents'."),
    Known("accepted", r"view(_copy|_as)?\(", "to view .* as .* \\(different element sizes\\)", "Along dimensions of one element or none strides are left open here, and read in another width."),
    Known("after refusal", r"together\(lambda", "", "What the other thread has done when one meets an error is left open."),
    Known("refused", r"vmap\(", r"not implemented for|expected input with shape|Number of indices|array of size 0|not differentiable with respect|with a bool tensor", "PyTorch's vmap does not look at what it refuses outside of vmap."),
    Known("refused", r"T\.(max|min)\(.*out=", "Expected reduction dim to be specified", "Of no elements PyTorch writes to `out` what it begins with."),
    Known("refused", r"mode\(", r"not implemented for complex.*input is \(\)", "Without a second element PyTorch's mode comes to no kernel that would refuse the dtype."),
    Known("refused", r"index_put_\(", "more than one element", "PyTorch does not look whether elements share their memory where it adds at indices."),
    Known("refused", r"(fft\.ifft|linalg\.norm)\(.*out=", "support automatic differentiation", "PyTorch writes some results of these as `copy_` does, and others as an `out` that cannot be recorded."),
    Known("refused", r"(all|any)\(.*out=", "Expected out tensor to have dtype bool", "PyTorch writes bools to an `out` of bytes."),
    Known("refused", r"conv_transpose\dd?\(", "of one dtype", "PyTorch's transposed convolutions cast a bias of another dtype, and its other convolutions refuse it."),
    Known("accepted", r"matrix_power\(.*out=", "Expected out tensor", "PyTorch's matrix_power casts into an `out` for some powers and not for others."),
    Known("accepted", "", "Promotion for uint16, uint32, uint64 types", "An integer beyond int64 is a uint64 to PyTorch, which promotes with nothing; here it wraps around or is a float.", r"\d{19}"),
    Known("accepted", "vander", "Promotion for uint16, uint32, uint64 types", "PyTorch sums the exponents of unsigned integers by a promotion that it does not have."),
    Known("refused", "", "would become complex32", "There is no complex32 here for a pair of float16 to become."),
    Known("refused", r"\.split\('", "must be Tensor, not str", "PyTorch's split asks whatever it is given to split itself, a string too."),
    Known("refused", r"T\.cholesky\(|\bv\d+\.cholesky\(", r"input is \((.*\b)?0\b", "PyTorch's old cholesky looks at nothing of a tensor without elements."),
    Known("refused", "", r"of at least 32 bits as input|not implemented (for|on).* is \((.*\b)?0\b", "Without elements PyTorch comes to no kernel that would refuse the dtype.", r"\(.*\b0\b|\[\]|:\]"),
    Known("refused", r"rfftfreq\(-", "negative dimension", "PyTorch counts down from a negative number of frequencies."),
    Known("refused", r"(tri[ul]|nan_to_num)_\(", "more than one element", "PyTorch's triu_, tril_ and nan_to_num_ do not look whether elements share their memory."),
    Known("refused|accepted", r"\bdetach_\(", "Can't detach views", "Whether a function's result is a view of something that it has made inside is its own affair."),
    Known("refused", "together", "CheckpointError", "Two threads that go through one checkpoint at once disturb each other's counting."),
    Known("refused", "grid_sampler", "interpolation_mode must be", "PyTorch takes an unknown mode of interpolation, and does what another one says."),
    Known("refused", r"inv\w*\(|solve\w*\(", "singular", "Whether a matrix is singular, or nearly so, rounding decides."),
    Known("accepted", "vmap", r"select\(\): index 0 out of range|NYI: querying is_contiguous", "A limit of PyTorch's vmap that is not one here."),
    Known("error type", r"fft\.", "Unsupported dtype|expected? a (complex|floating point|real) (output|input) tensor", "PyTorch's functions of fft look at dtypes before they look at dims, or after."),
    Known("error type", "", "^PyTorch: RuntimeError: Inference tensors", "Tensors made in inference mode are usual tensors here, and another error follows."),
    Known("error type", r"stft\(", "reflection_pad1d", "PyTorch pads a signal before it looks at the other arguments of stft."),
    Known("refused", r"(masked_fill|index_fill|index_put)_\(", "more than one element", "PyTorch only warns of these writes to memory whose elements overlap."),
    Known("refused", r"searchsorted|bucketize", "Overflow when unpacking", "An integer of more than 63 bits PyTorch lets wrap around, or makes a float."),
    Known("refused", r"autograd|backward", r"igammac?: input' is not implemented", "Here all derivatives of an op are asked for together, those too that lead to nothing that was asked for."),
    Known("refused", r"autograd|backward", r"second time: the arrays that (mul|lerp) saved|l1_loss saved", "A product with a number keeps it, for `alpha` and `beta` too, where PyTorch keeps nothing; an absolute loss keeps its inputs, and PyTorch's their difference.", "alpha=|beta=|lerp|sub|add|l1_loss"),
    Known("refused", r"autograd|backward", r"inplace operation: mul saved", "PyTorch's kron keeps views of which it does not know that they were written.", r"\bkron\("),
    Known("refused", r"autograd|backward", r"inplace operation: svdvals saved", "PyTorch's slope of singular values reads what was made, not what was given.", "nuc"),
    Known("refused", r"vmap\(.*_\(", "doesn't match the broadcast shape", "PyTorch's vmap takes a write that gives each sample another shape, which it refuses outside of vmap."),
    Known("refused", r"vmap\(.*heaviside", "of one dtype", "PyTorch's vmap does not look at heaviside's dtypes."),
    Known("refused", r"vmap\(.*(broadcast_to|expand)\(", "leading, non-existing dimension", "PyTorch's vmap counts the samples as the dimension that -1 leaves as it is."),
    Known("refused", r"vmap\(.*tri[ul]\(", "at least 2 dimensions", "PyTorch's vmap counts the samples as a dimension of triu and tril."),
    Known("stride", "fft", "", "PyTorch has the transformed dimension innermost in memory."),
    Known("stride", _TWO, r"strides \(\d+, 1\), not \(1, \d+\)", "A matrix in columns beside one in rows gives rows here: looking at strides would cost each op."),
    Known("value|gradient", "", "elements that share a place were written", "What a write to elements that share a place in memory leaves there, and its gradient, PyTorch leaves open; here each place is written once."),
    Known("flags", "create_graph=True", "", "Whether a second derivative that is 0 is recorded depends on how the first is written."),
    Known("flags", r"func\.(jacrev|grad)\(|vander\(.*\b1\)", "'requires_grad': True.*not .*'requires_grad': False", "Whether a second derivative that is 0 is recorded depends on how the first is written."),
    Known("kind", r"autograd\.grad", "NoneType, not a tensor", "Whether a second derivative goes through the result or the input depends on how the first is written.", r"log_ndtr\((.*\n)*.*create_graph=True"),
    Known("flags", r"\w_\(|\] = ", r"not {'requires_grad': True.* of torch\.(u?int\d+|bool)", "PyTorch lets integers that something with a gradient was written into require one, which they otherwise cannot."),
    Known("flags", "", "'requires_grad': True.*not .*'requires_grad': False", "What was made in inference mode records nothing in PyTorch, also as the data of a leaf that asks for a gradient.", r"inference_mode\(\): v\d+\.data = "),
    Known("gradient", "vmap", "", "PyTorch's squeeze_ in a vmap takes away the dimension of the samples too, where there is one.", "", ((r"\.squeeze_\(\)", ".squeeze()"),)),
    Known("flags", r"vmap\(lambda x: (x\.t(ranspose)?\(|T\.t(ranspose)?\(x)", "not {'requires_grad': True, 'is_leaf': True", "Of a number PyTorch's transpose in a vmap gives the number itself, and so the leaf."),
    Known("flags", r"\.detach_\(", r"not {'requires_grad': False, 'is_leaf': True, 'retains_grad': True", "After `detach_` PyTorch says of a leaf that it retains its gradient, which by its own account only others do."),
    Known("flags", r"inference_mode\(\): v\d+\.detach_\(", "", "PyTorch's `detach_` does nothing in inference mode."),
    Known("kind", r"autograd\.grad", "NoneType, not zeros", "Whether a second derivative that is 0 is recorded depends on how the first is written.", "create_graph=True"),
    Known("dtype", r"autocast.*(einsum|inner|tensordot)", "", "Along dimensions of one element PyTorch multiplies in place of a matrix product, and autocast does not see it."),
    Known("gradient", r"autograd\.grad|backward", "nan|inf", "Where something is 0 or not finite, a second derivative is 0 or nan as the first is written, with a mask or a product.", _TWICE),
    Known("gradient", r"autograd\.grad|backward", "nan|inf", "What nan and infinities come to in a decomposition depends on the order in which a library works.",
          r"(?s)(?=.*(nan|inf|e\+)).*\b(lu|lu_\w+|qr|\w*solve\w*|\w*inv\w*|\w*det|svd\w*|eig\w*|cholesky\w*|cond|householder_product|lstsq|matrix_(norm|exp|power))\("),
    Known("gradient", r"autograd\.grad|backward|func\.", "nan|inf", "An infinity times 0 in a sum of a Fourier transform depends on how the sum is split.", r"fft|stft"),
    Known("gradient", r"autograd\.grad|backward", "^(v\\d+\\.grad: )?nan, not", "PyTorch's slope of logcumsumexp takes a gradient of nan for none.", r"logcumsumexp"),
    Known("gradient", r"autograd\.grad|backward", "not nan", "PyTorch's cumprod divides by each factor, and loses the slope where the product overflows or is nan, or not, when the slope is recorded.", r"cumprod\("),
    Known("gradient", r"autograd\.grad|backward|func\.", "^(v\\d+\\.grad: )?nan, not -?0.0", "PyTorch's logit has another slope at nan, and outside of its domain, when it is recorded.", r"(?s)(?=.*(create_graph=True|func\.)).*logit"),
    Known("gradient", r"autograd\.grad|backward", "not nan", "PyTorch multiplies a slope of 0 within the margin with a gradient, which may be infinite.", r"margin_loss\("),
    Known("gradient", r"autograd\.grad|backward", "not nan", "PyTorch multiplies what is masked with 0, also where it is infinite.", r"masked\.\w+\("),
    Known("gradient", r"autograd\.grad|backward|func\.", "", "Between which elements a place lies that is not finite depends on how it becomes an integer.", r"(?s)(?=.*(nan|inf)).*grid_sampl"),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*logcumsumexp", r"not -?0\.0, at", "PyTorch's tangent of logcumsumexp is 0 where exp is, after the largest element has been taken away."),
    Known("gradient", r"autograd\.grad|backward", "not nan", "PyTorch's slope of log_ndtr is nan where the square of a number overflows.", r"log_ndtr"),
    Known("gradient|shape", r"vmap\(.*arg(max|min)\((x, )?(dim=None, )?keepdim=True\)", r"^\([\d, ]*\), not \([\d, ]*\)$", "PyTorch's vmap keeps one dimension where argmax of all elements keeps all."),
    Known("value|gradient", "polygamma|digamma|psi", "^inf, not", "At a pole PyTorch's sine of a rounded multiple of pi is not 0.", "9223372036854775808"),
    Known("gradient", "", "", "PyTorch's slope of cholesky_inverse reaches the triangle that is not read.", "cholesky_inverse", ((r"(?:T\.cholesky_inverse\((v\d+|x)(?:, )?|\b(v\d+|x)\.cholesky_inverse\()((?:upper=)?True)?", lambda m: f"{m[1] or m[2]}.tri{'u' if m[3] else 'l'}().cholesky_inverse({m[3] or ''}"),)),
    Known("gradient", "", "", "PyTorch's slope of cholesky_solve by the factor reaches the triangle that is not read.", "cholesky_solve", ((r"(T\.cholesky_solve\((?:v\d+|x), |(?<!T)\.cholesky_solve\()(v\d+|x)(?=(, (?:upper=)?True)?)", lambda m: f"{m[1]}{m[2]}.tri{'u' if m[3] else 'l'}()"),)),
    Known("gradient", "", "", "PyTorch gives the gradient to the part that is replaced, and none to the rest.", "as_strided_scatter",
          ((r"(?:T|\b(v\d+|x))\.as_strided_scatter\(", lambda m: f"(lambda x, src, *at, **kw: (lambda y: (y.as_strided(*at, **kw).copy_(src), y)[1])(x.clone(memory_format=T.contiguous_format)))({m[1] + ', ' if m[1] else ''}"),)),
    Known("gradient", "narrow_copy|autograd|backward", "", "PyTorch loses the gradient of narrow_copy for a start that is counted from the end.", r"narrow_copy\([^)]*-\d", ((r"narrow_copy\(", "narrow("),)),
    Known("gradient", r"autograd|backward|func\.", "", "PyTorch multiplies `value` with a tensor of bytes before it is one of floats, and wraps.", "addcmul|addcdiv", ((r"T\.uint\d+", "T.int64"),)),
    Known("value|gradient", "", "", "PyTorch moves running statistics again while it recomputes a checkpoint; here once, where nothing after them was recorded.", "BatchNorm|InstanceNorm",
          ((r"T\.utils\.checkpoint\.checkpoint\((lambda x: .*), (v\d+), use_reentrant=\w+\)", r"(\1)(\2)"),)),
    Known("value|gradient", r"(lu_factor|solve|inv)_ex\(", r"inf|nan|\d{7}|e\+|^\d+, not \d+, .* of result [12]$", "Whether the last pivot of a singular matrix is 0, or what rounding leaves of it."),
    Known("value", r" [-+]=? |\b(add\w*|r?sub\w*|tanhshrink|diff|lerp|\w+_loss|\w*trapezoid|trapz)_?\(", r"not (nan|\([^)]*nan)", "PyTorch multiplies the second of two complex numbers by 1 before it adds it, and an infinity times 0 is nan.", "complex"),
    Known("value", r" /=? |\*\*|\b(div\w*|true_divide|reciprocal|pow|float_power|log1p|(cum)?prod)_?\(", r"\([^)]*(nan|inf)[^)]*j\), not|not \([^)]*(nan|inf)", "What a power, a quotient or a product of complex numbers is that are not finite, or 0, PyTorch tells otherwise than its own other ways to it."),
    Known("value", r"isin\(", "", "PyTorch is told that no element occurs twice where one does.", "", ((r"assume_unique=True", "assume_unique=False"),)),
    Known("value", r"histogram(dd)?\(", r"^\d+\.0, not \d+\.0, .* of result 0", "An element on the edge between two bins lies in one or the other as the edge is rounded."),
    Known("value|gradient", "polygamma|digamma|psi|lgamma|gammaln", "inf, not nan|nan, not -?inf", "Beside a pole whose number is too large for its fraction."),
    Known("shape", "pixel_(un)?shuffle", r"0", "Of no elements PyTorch gives the shape of the input."),
    Known("value", r"zeta|polygamma", r"not -?nan", "Of an infinity PyTorch's zeta and polygamma are nan; their limit is 0."),
    Known("value", r"gelu", r"not -?nan", "PyTorch's vector units make nan of an infinity, its loop over the elements that are left does not."),
    Known("value", r"(pow|\*\*)", r"0.0, not nan", "In half precision PyTorch takes one over the root for a power of -1/2, also of -inf.", r"bfloat16|float16|half|autocast"),
    Known("gradient", "", "", "PyTorch's slope of polar by a negative length has the wrong sign.", r"polar\(",
          ((r"T\.polar\(", "(lambda abs, angle: T.complex(abs * angle.cos(), abs * angle.sin()))("),)),
    Known("value", "out=", r"^v\d+:", "What else sees the memory of an `out` that has to be resized, PyTorch may overwrite."),
    Known("flags", r"requires_grad_\(\)$", "'requires_grad': False.*not .*'requires_grad': True", "A view that was made before its base required a gradient has none."),
    Known("value", "lgamma|gammaln", "^inf, not", "Of a number below the smallest normal one SciPy's is infinite."),
    Known("value", r"\bcov\(.*weights", r"^v\d+: ", "PyTorch's cov of one observation with a weight takes the mean away from the input itself."),
    Known("value", r"ihfft(n|2)\(.*out=", "", "PyTorch's ihfftn over one dimension leaves `out` as it was."),
    Known("value|gradient", r"median\(", "", "PyTorch's median along a dimension whose elements share their memory reads what lies behind it.", r"as_strided\(|expand"),
    Known("gradient", r"func\.(jvp|jacfwd)\(", r"^torch\.complex\d+, not torch\.b?float\d+( of result \d)*$", "PyTorch's tangent of a complex number less a real one is real."),
    Known("gradient", r"func\.(jvp|jacfwd)\(.*(frexp|norm|var|std|nextafter|prod)\(", r"^torch\.\w+, not torch\.\w+( of result \d)*$", "PyTorch's tangent has another dtype than the result that it belongs to."),
    Known("gradient", "", r"inf, not -?(\d{6,}|\d\.\d+e\+)|nan, not -?0", "At a pole PyTorch's sine of a rounded multiple of pi is not 0, and the slope not infinite.", "polygamma|digamma|psi|lgamma|gammaln"),
    Known("value", r"fftfreq\(.*out=", "", "PyTorch's fftfreq loses half of what it writes to an `out` with gaps in its memory."),
    Known("gradient", r"autograd\.grad", r"^\([\d, ]*\), not \([\d, ]*\)$", "PyTorch's gradient of what was reshaped in place without recording it has the former shape; here it has the tensor's.", rf"(no_grad|inference_mode)\(\): v\d+\.({_RESHAPED})_\("),
    *[Known("gradient", "backward|grad", "", "PyTorch goes through what was reshaped in place without recording it as if it had not been.", "",
            ((rf"^with T\.(?:no_grad|inference_mode)\(\): (v\d+)\.({_RESHAPED})_\((.*)\)$", recorded),)) for recorded in (r"\1 = \1.\2(\3)", r"\1.\2_(\3)", r"\1 = \1.detach().\2(\3).requires_grad_(\1.requires_grad)")],
    Known("shape", "topk", r"\(0,\), not \(\)", "Of none of the elements of a number PyTorch gives one that nobody set."),
    Known("value", "airy_ai", r"(-?\d\.\d{5})\d*(e-\d+)?, not \1", "PyTorch's series is good to seven digits, also in double precision."),
    Known("flags", r"^with T\.(no_grad|inference_mode)\(\): ", "'requires_grad': False, 'is_leaf': True.* not {'requires_grad': True, 'is_leaf': True",
          "A view that was made where nothing is recorded says in PyTorch that it requires a gradient, which then reaches nobody."),
    Known("flags", r"func\.|detach_copy|create_graph=True|backward|matrix_power", "'requires_grad': False.*not .*'requires_grad': True", "A slope that does not depend on the input is a constant here; of a detached copy PyTorch says that it forgot the slope."),
    Known("value|gradient|shape", r"vmap\(.*((fft\w*|any|all)\(.*(dim=|, )(\[\]|\(\))|unfold\()", "", "PyTorch's vmap takes all dimensions for none, and gives a number another window than outside of vmap."),
    Known("gradient", "backward|grad", r"^v\d+\.grad: \(.*\), not \(", "A retained gradient has the shape of the tensor here, also where it was reshaped in place by another name.", rf"(?s)retain_grad\(\).*\.(?:{_RESHAPED})_\("),
    Known("value", r"out=\((v\d+), \1\)", "", "Which of two results is left in one tensor that is the `out` of both, PyTorch leaves open."),
    Known("gradient", "backward|grad", r"^v\d+\.grad: ", "PyTorch keeps the gradient of what a tensor was before it was reshaped in place; here, as after any other write, that of the tensor.", "",
          ((rf"^(v\d+)\.retain_grad\(\)\n((?:.*\n)*\1\.(?:{_RESHAPED})_\(.*\))$", r"\2\n\1.retain_grad()"),)),
    Known("gradient", "autograd|backward|func", "", "PyTorch's slope of soft_margin_loss negates a target of bytes, and wraps.", "soft_margin_loss",
          ((r"dtype=T\.uint8\)", "dtype=T.uint8).float()"),)),
    *[Known("value|gradient", "", "nan, not", "Of a query whose scores are all nan PyTorch's quick attention makes zeros; its other way of attention, and this one, nan.", "scaled_dot_product_attention",
            (pair,)) for pair in _SLOWLY],
    Known("value|gradient", r"scaled_dot_product_attention\(|autograd|backward", "not -?nan", "PyTorch adds -inf to a score that a mask hides, and makes nan of an infinite one; here what is hidden is not seen.",
          r"scaled_dot_product_attention\(.*(is_causal=True|True\)|mask|T\.tensor\()"),
    *[Known("value", r"state_dict\(\)", told, "Computing a checkpoint again ends here as soon as all that is needed is there, before running statistics move once more.",
            rf"(BatchNorm|InstanceNorm){affine}(.*\n)*.*checkpoint\(lambda x: first\(m\d+\(x\)\)") for told, affine in (("of result [23]$", ""), ("of result [01]$", ".*affine=False"))],
    Known("shape", "conv", r"^\((\d+, )?\d+, .*\), not \((\d+, )?0, ", "Of inputs without channels PyTorch's results have none; here they have the weight's, which hold the bias."),
    Known("gradient", "create_graph|autograd|backward", r"\d{9}|e\+", "At a probability of 0 or 1 PyTorch's second derivative is bounded by 1e24, and here by 1e12.", r"binary_cross_entropy\(.*(\n.*)*create_graph=True"),
    Known("value|gradient", r"conv\dd?\(.*padding|autograd|backward|p\.grad|state_dict", "(nan|inf).*, not", "PyTorch skips padding beside a weight that is not finite, or multiplies 0 with it, as its kernel for the dtype does.", r"[cC]onv\dd?\(.*padding"),
    Known("kind", r"autograd\.grad", r"not None \(NoneType\)", "The mean and deviation that native_group_norm gives beside its result lose their gradients in PyTorch.", "native_group_norm"),
    Known("gradient", r"autograd\.grad|backward|func\.", r"nan, not -?\d|, not (-?0\.0|nan), at", "PyTorch's vector units have another slope at nan than its loop over the elements that are left.", r"(?si)(?=.*\b(nan|inf)\b).*\b(relu6|hardtanh|softshrink|hardshrink|hardswish|elu|celu|selu|logit)_?\("),
    Known("value", "multi_margin_loss", r"^-?\d+, not -?\d+, at \(\)", "Of no rows of integers PyTorch's multi_margin_loss tells what the memory held."),
    Known("dtype", r"pairwise_distance|\bdist\(", "torch.float32, not torch.float16", "There is no complex32 here: half precision beside a complex number becomes complex64, and its length float32.", "complex"),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*(renorm|frexp|ldexp|addcmul|addcdiv|var|std)", r"^torch\.(b?float16, not torch\.float32|b?float16, not torch\.float64|float32, not torch\.float64)( of result \d)?$",
          "PyTorch's tangent of these is of another dtype than their result; here the two are of one."),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*scatter_reduce\(.*prod", r"not -?0\.0, at", "PyTorch's tangent of a product of scattered elements is 0, and its gradient is not."),
    Known("gradient", r"autograd\.grad|backward", "", "PyTorch's tangent of a norm, differentiated, holds mean and deviation fixed; finite differences say otherwise.",
          r"(jvp|jacfwd)\(.*layer_norm"),
    Known("gradient", r"(vmap|jacrev|hessian)\(.*cdist", "", "PyTorch's gradient of cdist is not that of finite differences inside a vmap, and so in a Jacobian.", "",
          ((r"T\.cdist\(", "(lambda x1, x2, p=2.0, compute_mode=None: T.linalg.vector_norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1))("),)),
    Known("value|gradient", "", "", "Of an integer exponent PyTorch's ldexp takes the last 32 bits, and its slope is an integer, 0 where the exponent is negative.", r"ldexp\(",
          ((r"T\.ldexp\(", "(lambda input, other: input * T.pow(2.0, other))("), (r"\b(x|v\d+)\.ldexp\(", r"(lambda input, other: input * T.pow(2.0, other))(\1, "))),
    Known("gradient|accepted", r"vmap\(.*out_dims=-1", r"not \(\d{9,}|\[\d{9,}", "PyTorch counts a negative `out_dims` from memory that is not the shape's where no sample differs."),
    Known("gradient", r"vmap\(.*(addcmul|addcdiv|cl(am|i)p)", r"^torch\.b?float\d+, not torch\.b?float\d+$", "PyTorch's vmap promotes these as if a number for each sample were a vector."),
    Known("gradient", r"(jvp|jacfwd)\(", "", "PyTorch lays tangents as their tensors lie; where elements of these share memory, so do the tangents'.", r"(as_strided|unfold|expand)\(",
          ((r"\((v\d+)\)$", r"(\1.clone())"), (r", \((v\d+),\), \(", r", (\1.clone(),), ("))),
    Known("gradient", r"vmap\(.*(aminmax|argmax|argmin)\(.*keepdim=True", r"^\([\d, ]+\), not \([\d, ]+\)", "Over all dimensions of a sample, `keepdim` keeps one in PyTorch's vmap, and all outside of it."),
    Known("gradient", r"vmap\(.*softm(ax|in)", r"^nan, not 0\.0", "Of a single number PyTorch's vmap makes the slope of softmax 0, also where it is nan."),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*cholesky_inverse", "", "PyTorch's tangent of cholesky_inverse is not that of finite differences.", "",
          ((r"T\.cholesky_inverse\(", f"({_INVERSE})("), (r"\b(x|v\d+)\.cholesky_inverse\(", rf"({_INVERSE})(\1, "))),
    Known("gradient|value", r"func.*prod\(", "nan|inf", "Where a factor is infinite or nan, or a product overflows, the order of the products decides between nan and a number.",
          r"(?s)(?=.*(inf|nan|e\+\d)).*prod"),
    Known("gradient", r"vmap\(.*\bqr\(.*'r'", r"^\([\d, ]+\), not \(0,\)", "Without Q, PyTorch's qr in a vmap gives an empty one without the batch."),
    Known("gradient", r"(jvp|jacfwd)\(.*logsumexp", r"^0\.0, not nan", "PyTorch's tangent of the logarithm of no sum is nan.", r"tensor\(\[\]|zeros\("),
    Known("gradient", "backward|grad|func", r"^(v\d+\.grad: )?-?0\.0, not nan", "PyTorch's slope of logcumsumexp is nan where the sum is still 0; its limit is not.", r"(?s)(?=.*-inf).*logcumsumexp"),
    Known("gradient", r"autograd|backward|func\.", r"^(v\d+\.grad: )?\(?-?\d\S*, not", "PyTorch counts the tensor itself among equal extremes also where `include_self` leaves it out, and its share of the gradient is lost.",
          r"(scatter_reduce|index_reduce)\(.*am(ax|in).*include_self=False"),
    Known("value", r"as_strided_scatter\(.*\), [[(](\d+)(, \1)+[])]", "", "Of several elements that are written to one place PyTorch leaves open which stays."),
    Known("gradient", r"vmap\(.*index_select\((x, )?-?\d, (index=)?T\.tensor\(\d", r"^\(", "Of a number for an index, PyTorch's index_select in a vmap gives all slices."),
    Known("value", "alpha=", r"^(v\d+: )?-?inf, not -?\d\.\d+e\+\d+", "PyTorch's vector units add a multiple with one rounding, and it does not overflow on the way."),
    Known("value", "", r"^(v\d+: )?-?\d+, not -?\d+", "What bits a nan has is left open by everyone.", r"(?s)dtype=T\.u?int\d+\).*\.view\(T\.(complex|float|bfloat|half)"),
    Known("value|gradient", r"vmap\(.*roll\(", "", "PyTorch's vmap rolls numbers along the batch.", "",
          ((r"\bx\.roll\(", "(lambda x, shifts, *dims: x.reshape(-1).roll(shifts).reshape(x.shape))(x, "),)),
    Known("value", r"\b(var|std)_mean\(", "", "Beside the mean PyTorch's variance keeps the digits that it rounds alone; here the two are one.", "",
          ((r"T\.(var|std)_mean\(", r"(lambda *args, **kw: (T.\1(*args, **kw), T.var_mean(*args, **kw)[1]))("),)),
    Known("gradient", "backward|grad|func", "", "PyTorch takes slopes at another place than it reads where a place in a volume is no number.",
          r"(?s)(?=.*\b(nan|inf)\b).*grid_sample\(.*(border|reflection)"),
    Known("gradient", "", "", "PyTorch's slopes of logcumsumexp take a nan in the gradient for 0, and the largest of all for the largest so far.", "logcumsumexp",
          ((r"(?:T|\b(v\d+|x))\.logcumsumexp\(", lambda m: f"(lambda x, dim: x.exp().cumsum(dim).log())({m[1] + ', ' if m[1] else ''}"),)),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*triangular_solve", "", "PyTorch's tangent of triangular_solve is not that of linalg.solve_triangular: it reaches the triangle that is not read.", "",
          ((r"T\.triangular_solve\(", f"({_TRIANGULAR})("), (r"\b(x|v\d+)\.triangular_solve\(", rf"({_TRIANGULAR})(\1, "))),
    *[Known("gradient", "autograd|backward|func", "", why, program, ((r"T\.(?:linalg\.)?det\(", f"{_DET}("), (r"\b(x|v\d+)\.det\(", rf"{_DET}(\1"))) for why, program in (
        ("PyTorch's tangent of a determinant, differentiated, holds a factor fixed; finite differences say otherwise.", r"(jvp|jacfwd)\(.*\bdet\((.*\n)+.*autograd"),
        ("PyTorch's slope of the determinant of a singular matrix is 0 where no second derivative is asked for; here it is the matrix of cofactors.", r"\bdet\("),
    )],
    Known("value", r"functional\.hvp\(", "", "PyTorch's hvp goes through a third derivative; here it is vhp, as the Hessian is symmetric.", "", ((r"functional\.hvp\(", "functional.vhp("),)),
    Known("value|gradient", r"vector_norm\(|norm\(", "", "Of a number PyTorch's vector norm along a dimension takes powers; of vectors of one element, and here, it is the length.", "",
          ((r"(T\.(?:linalg\.(?:vector_)?)?norm\()(v\d+|x)\b(.*\))$", r"\1\2.reshape(1)\3.reshape(())"),)),
    Known("value|gradient", r"pinv(erse)?\(|backward|grad", r"\d{7}|e\+", "Where the tolerance is smaller than a rounding, what should be 0 among the singular values is inverted.", r"pinv(erse)?\("),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*(\*\*|pow)", r"j\), not \([^)]*[+-]0j\)", "PyTorch's tangent of a complex number to a real power loses its imaginary part."),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*silu", "j\\)", "PyTorch's tangent of a complex silu is conjugated once too often."),
    Known("gradient", r"(hessian|jacfwd|jvp)\(", "not -?nan|not \\(nan", "In PyTorch a gradient's tangent starts from zeros, which times nan or an infinity are nan.", "",
          ((r"T\.func\.hessian\(", "(lambda f: T.func.jacrev(T.func.jacrev(f)))("), (r"T\.func\.jacfwd\(", "T.func.jacrev("))),
    Known("value", r"\bcross\(", r"e\+\d+j?\)?, not \(?-?0(\.0)?j?,|^\(?-?0(\.0)?j?, not .*e\+", "Where products cancel, that of the two which rounds once for a product and a difference is left with a rounding."),
    Known("value|gradient", r"\b(cond|slogdet|logdet)\(", r"^-?inf, not|not -?inf|^-?[01]\.0, not -?[01]\.0, .* of result 0$", "Whether the last pivot or singular value of a singular matrix is 0, or what rounding leaves of it."),
    Known("value", r"\b(svd|pinv|pinverse|lstsq)\(", "^nan, not", "Of a matrix with infinities PyTorch has values that are nan and count as 0, and vectors of another matrix; here all is nan.", r"\binf\b"),
    Known("value|gradient", r"\b(geqrf|qr|ldl_factor(_ex)?)\(", r"nan, not|not -?nan|not -?inf|inf, not", "What nan and infinities come to in a decomposition depends on the order in which a library works."),
    Known("gradient", "autograd|backward|func", r"not -?nan|not \(nan", "PyTorch exchanges the rows of an LU factor's slope by a product with a matrix, in which nan spreads.", r"(?s)(?=.*\b(nan|inf)\b).*\blu(_factor)?(_ex)?\("),
    Known("value", r"\b[cp]dist\(", r"^\d.*, not inf", "Between vectors of one element PyTorch's distances overflow on the way."),
    Known("value|gradient", r"lstsq\(|backward|grad", "", "PyTorch's lstsq by gelsy, its default, leaves columns where memory that nobody set tells it to.", r"lstsq\(",
          ((r"(?:T\.linalg\.lstsq\()(v\d+|x), ", r"(lambda A, B, rcond=None, driver=None: (lambda d, y: (d[0], y[1], d[2], y[3]))(T.linalg.lstsq(A, B, rcond, driver='gelsd'), T.linalg.lstsq(A, B, rcond)))(\1, "),)),
    *[Known("gradient", "", "", "Which of equal elements is chosen, and so has the slope, PyTorch leaves open; here it is the first, as after a stable sort.", name,
            ((rf"T\.{name}\(", f"({first})("), (rf"\b(x|v\d+)\.{name}\(", rf"({first})(\1, "))) for name, first in _FIRST.items()],
    Known("gradient", r"autograd\.grad\(", r"^\(?-?0(\.0)?j?[,+-]? .*not", "What comes out of a vmap is another tensor here than that which rules inside have kept; in PyTorch they are one.",
          r"\b(v\d+) = T\.func\.vmap\((.*\n)+.*autograd\.grad\(v\d+, \(?.*\b\1\b"),
    Known("gradient", r"vmap\(.*zeta", r"not -?nan", "PyTorch's zeta is nan at an infinity, where it has a limit."),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*embedding\(", r"^-?0\.0, not", "PyTorch's tangent of an embedding is that of the padding's row too, to which no gradient goes; here neither."),
    Known("gradient", r"vmap\(.*group_norm", r"^\(0, ", "Of no samples PyTorch's group_norm in a vmap loses the channels."),
    Known("gradient", r"(jvp|jacfwd|hessian)\(.*(cosine_similarity|gaussian_nll_loss)", "", "PyTorch cuts off a norm or a variance where no gradient sees it, but a tangent does; here neither."),
    Known("gradient", r"autograd\.grad|backward", "", "PyTorch's dist takes its difference anew for the slope, and so sees what was written through `.data` since.", r"(?s)\bdist\(.*\.data\b"),
    Known("value", r"(cholesky_solve|triangular_solve|solve_triangular|lu_solve)\(", "nan|inf", "Divided by a pivot below the smallest normal number, what overflows depends on the order of the quotients.", r"e-(4\d|3(0[89]|1\d|2\d))\b"),
    Known("value", r"out=\((?:v\d+, )*(v\d+), (?:v\d+, )*\1\b", "", "Which of two results stays that are written to one `out`, PyTorch leaves open."),
    Known("shape", rf"\.(?:{_RESHAPED})_\(", r"^v\d+: ", "What vmap's function hands back as it was given is the given tensor itself in PyTorch, and a view of it here.", r"vmap\("),
    Known("refused", r"func\.|vmap", "Unbatchable|vmap:", "What vmap cannot do here it says; nothing wrong comes of it."),
]  # fmt: skip


def _rows(kind: str, line: str, told: str, program: str) -> Iterator[Known]:
    looked = ((kind, re.fullmatch), (line, re.search), (told, re.search), (program, re.search))
    return (k for k in KNOWN if all(find(k[i if i < 3 else 4], text) for i, (text, find) in enumerate(looked)))


def reason(kind: str, line: str, told: str, program: str) -> str | None:
    """Why a difference stays; None where it should not be."""
    return next((k.reason for k in _rows(kind, line, told, program) if not k.instead), None)


def written_otherwise(kind: str, line: str, told: str, program: str) -> list[Known]:
    """The rows that ask PyTorch once more."""
    return [k for k in _rows(kind, line, told, program) if k.instead]
