"""Random programs: each line is drawn for the tensors that the lines before it have made in PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import torch
from fuzz.scenes import Scenes
from fuzz.session import NAMED, Difference, Session
from fuzz.signatures import Signature, path, sampled, samples, signatures
from fuzz.writer import THEMES, Writer, source

BINARY = ("+", "-", "*", "/", "//", "%", "**", "@", "==", "<", ">=", "!=", "&", "|", "^", "<<", ">>")
CONVERSIONS = ("bool({0})", "int({0})", "float({0})", "len({0})", "{0}.item()", "{0}.tolist()", "str({0}.dtype)", "complex({0})", "{0}.size()",
               "{0}.is_contiguous()", "{0}.numel()", "{0}.data", "{0}.real", "{0}.imag", "{0}.T", "{0}.mT", "{0}.H", "{0}.mH", "[x for x in {0}]", "{0}.itemsize", "{0}.nbytes",
               "T.is_tensor({0})", "T.get_default_dtype()", "{0}.numpy(force=True).tolist()", "{0}.__contains__(1)", "T.finfo({0}.dtype).eps", "T.result_type({0}, 1.5)")  # fmt: skip
CASTS = ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cfloat", "cdouble")
HANGS = re.compile(
    r"\bqr\b|geqrf|householder|\blu\b|lu_factor|pinv|svd|matrix_rank|\bcond\b|lstsq|eig|matrix_norm|nuclear|matrix_exp|norm\(.*(nuc|ord=-?2)|slogdet|lu_|cholesky"
)
FUNCTIONAL = (
    "tanh({0})",
    "({0} * {0}).sum()",
    "{0}.sin().mul(2)",
    "T.softmax({0}, -1)",
    "{0}.reshape(-1)[:1]",
    "{0}.exp() / 3",
    "{0}.relu()",
    "({0} @ {0}.mT)",
)

# what a line writes: the variable before an in-place method, an assignment to a part or Python's augmented one, and those behind `out=`
WRITTEN = re.compile(r"(?:^|(?<=: )|(?<== ))(v\d+)(?:\.\w+_\(|\[.*\] = | ?(?:[-+*/%&|^@]|//|\*\*|<<|>>)= )|out=(\(.*|v\d+)")
SEEN = re.compile(r"v\d+(?:\[[^][]*\]|\.m?T\b|\.detach\(\))+(?! *[-+*/%&|^<>@]*= )")  # views of variables, but what is written
DENSE = torch.ops.aten.is_non_overlapping_and_dense.default


def memory(x: torch.Tensor | None) -> int | None:
    """Where a tensor's storage begins; None where it has none, as a sparse one or one of a transform that is over."""
    try:
        return None if x is None or x.layout is not torch.strided else x.untyped_storage().data_ptr()
    except RuntimeError:  # NotImplementedError is one
        return None


def places(x: torch.Tensor) -> list[int]:
    """Where the elements of a tensor lie in its storage, in bytes."""
    at = torch.zeros((), dtype=torch.int64)
    for n, step in zip(x.shape, x.stride(), strict=True):
        at = at[..., None] + torch.arange(n) * step
    return ((at + x.storage_offset()) * x.itemsize).reshape(-1).tolist()


def _finite(x: torch.Tensor) -> bool:
    return bool(torch.isfinite(x.detach().to_dense()).all())


def _huge(x: torch.Tensor) -> bool:
    return not x.is_complex() and bool((x.detach().double().abs() > 1e6).any())


class Generator(Scenes):
    """One program. `lines` gives them as they are drawn and run; `difference` is the first that was found."""

    def __init__(self, seed: int, ops: str = "") -> None:
        self.random, self.ops = Random(seed), ops
        self.theme = self.random.choices([*THEMES], [weight for weight, _ in THEMES.values()])[0]
        self.session = Session()
        self.count = 0
        self.kinds: list[tuple[Callable[[], str | None], float]] = [
            (self.create, 6), (self.operator, 40), (self.sample, 13), (self.view, 8), (self.write, 9), (self.python, 6), (self.convert, 3), (self.cast, 2),
            (self.out, 5), (self.hook, 3), (self.gradient, 6), (self.backward, 2), (self.function, 2), (self.checkpoint, 2), (self.transform, 3),
            (self.autocast, 2), (self.threads, 1), (self.mode, 2), (self.index, 5), (self.saved, 1),
            (self.module, 2), (self.optimiser, 1), (self.twice, 3), (self.chain, 4), (self.fitting, 2), (self.handle, 1.5), (self.mapped, 2.5), (self.parallel, 0.5), (self.image, 0.7),
            (self.nested_autocast, 0.7),
        ]  # fmt: skip

    def run(self) -> list[Difference]:
        """Draws and runs a whole program."""
        found: list[Difference] = []
        for _ in range(self.random.randint(2, 4)):
            self._step(self.create(), found)
        for _ in range(self.random.randint(3, 34)):
            if not self.session.alike:
                return found
            kind = self.random.choices([k for k, _ in self.kinds], [w for _, w in self.kinds])[0]
            self._step(kind(), found)
        if self.session.alike:
            self._step(self.gradient(), found)
        return found

    def _step(self, text: str | None, found: list[Difference]) -> None:
        for line in text.split("\n") if text is not None else ():
            self._line(line, found)

    def _line(self, line: str, found: list[Difference]) -> None:
        if not self.session.alike:
            return
        used = [x for n, x in self.tensors.items() if re.search(rf"\b{n}\b", line)]
        if "_polynomial_" in line and (any(_huge(x) for x in used) or re.search(r"\d{7}", line)):
            return  # PyTorch counts up to the degree
        if HANGS.search(line) and ("nan" in line or "inf" in line or not all(map(_finite, used))):
            return  # LAPACK turns for ever
        if "T.embedding_bag" in line and ("[[" in line or any(x.ndim > 1 and not x.is_floating_point() for x in used)):
            return  # PyTorch writes beyond its memory
        if "narrow_copy" in line and "out=" in line and not all(x.is_contiguous() for x in used):
            return  # PyTorch writes as if the elements of `out` lay side by side
        if re.search(r"\.(stride|storage_offset)\(", line) and any(1 in x.shape for x in used):
            return  # nothing is ever found by such a step
        if re.search(r"\.(stride|storage_offset)\(|as_strided", line) and not all(x.numel() for x in used):
            return  # where a tensor of no elements lies, NumPy forgets
        if re.search(r"T\.range\(.*[ =(-]0?\.\d.*dtype=T\.u?int", line):
            return  # PyTorch dies of a step that has no whole part
        if self._raced(line, used):
            return
        if len(line) < 1200 and (told := self.session.step(line)):
            found.append(told)

    def _raced(self, line: str, used: list[torch.Tensor]) -> bool:
        """Whether a line reads elements at other places than it writes them: PyTorch leaves open which come first, unless it refuses."""
        targets = [self.tensors[n] for n in NAMED.findall(" ".join(map("".join, WRITTEN.findall(line)))) if n in self.tensors]
        used = [*used, *(self._seen(text) for text in SEEN.findall(line))] if targets else []
        scatters = re.search(r"(masked_scatter|scatter\w*|put|index_\w+)_\(|\] = ", line)
        if re.search(r"\b(v\d+)\.(add(mm|bmm|mv|r)|baddbmm)_\(.*\b\1\b", line):
            return True  # PyTorch scales what it is added to before it multiplies
        for a in targets:
            for b in used:
                if memory(a) is None or memory(a) != memory(b) or (a is b and not scatters):
                    continue
                if all(map(DENSE, (a, b))) and not re.search(r"masked_scatter|out=|\] = ", line):
                    continue  # what PyTorch refuses, where it matters
                if (scatters or "out=" in line or places(a) != places(b)) and {*places(a)} & {*places(b)}:
                    return True
        return False

    def _seen(self, text: str) -> torch.Tensor | None:
        try:
            return eval(text, dict(self.session.theirs))
        except Exception:
            return None

    # -- what lines are made of --------------------------------------------------------------------------------------------------

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return self.session.tensors()

    @property
    def writer(self) -> Writer:
        return Writer(self.random, self.tensors, self.theme)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def pick(self, wanted: Callable[[torch.Tensor], bool] | None = None) -> str | None:
        return self.writer.variable(wanted)

    def expression(self, itself: str | None = None) -> str | None:
        """A call of an operator that makes something new."""
        table = signatures(self.ops)
        for _ in range(20 if table else 0):
            signature = self.random.choice(table[self.random.choice([*table])])
            if (
                not signature.out
                and not signature.writes
                and (itself is None or signature.arguments and signature.arguments[0].kind == "Tensor")
            ):
                return self.writer.call(signature, itself)
        return None

    # -- kinds of lines ----------------------------------------------------------------------------------------------------------

    def create(self) -> str:
        w, r = self.writer, self.random
        shape, dtype = w.shape(), w.dtype()
        text = w.literal(shape, dtype)
        if ".requires_grad_()" not in text and len(shape) > 1 and r.random() < 0.3:
            text += r.choice((".mT", "[..., ::2]", ".transpose(0, -1)", "[1:]", ".contiguous()"))
        return f"{self.fresh()} = {text}"

    def operator(self) -> str | None:
        text = self.expression()
        return text and f"{self.fresh()} = {text}"

    def sample(self) -> str | None:
        """One of PyTorch's own samples, some tensors of it replaced by those of the program that have their shape."""
        r = self.random
        if not sampled(self.ops):
            return None
        op = r.choice(sampled(self.ops))
        if op.name in ("bucketize", "searchsorted"):
            return None  # in the samples, what they search is not sorted
        found = samples(op, getattr(torch, r.choices(("float64", "float32", "int64", "complex128", "bool"), (5, 4, 2, 1, 1))[0]))
        if not found:
            return None
        sample = r.choice(found)
        texts = [self._argument(x) for x in (sample.input, *sample.args)] + [
            text and f"{k}={text}" for k, v in sample.kwargs.items() for text in [self._argument(v)]
        ]
        if any(text is None for text in texts):
            return None
        text = f"{path(op)}({', '.join(t for t in texts if t)})"
        return f"{self.fresh()} = " + (
            f"seeded(lambda: {text})" if "multi_head_attention_forward" in text else text
        )  # it may draw a dropout

    def _argument(self, x: object) -> str | None:
        if isinstance(x, torch.Tensor) and x.layout is torch.strided:
            alike = [n for n, y in self.tensors.items() if y.shape == x.shape and y.dtype == x.dtype]
            if alike and (x.is_floating_point() or x.is_complex()) and self.random.random() < 0.4:
                return self.random.choice(alike)
            text = source(x)
            if text and (x.is_floating_point() or x.is_complex()):
                if x.ndim > 1 and self.random.random() < 0.15:
                    text = f"{text}.mT.contiguous().mT"
                text += self.random.choices(("", ".requires_grad_()", ".half()", ".double()", ".long()"), (50, 45, 2, 2, 1))[0]
            return text
        return source(x)

    def view(self) -> str | None:
        v = self.pick()
        if v is None:
            return None
        x, r = self.tensors[v], self.random
        w, n = self.writer, x.ndim
        forms = [
            f"{v}[...]",
            f"{v}.unsqueeze({r.randint(-n - 1, n)})",
            f"{v}.view({tuple(w.reshaped(x))})",
            f"{v}.detach()",
            f"{v}.view_as({v})",
            f"{v}.reshape(-1)",
            f"{v}.squeeze()",
        ]
        if n:
            d = r.randrange(n)
            forms += [f"{v}[0]", f"{v}[..., -1]", f"{v}[::2]", f"{v}[1:]", f"{v}.transpose({d}, {r.randint(-n, n - 1)})", f"{v}.diagonal()", f"{v}.unbind({d})", f"{v}.chunk(2, {d})",
                      f"{v}.expand({tuple(w.reshaped(x))})", f"{v}.narrow({d}, 0, 1)", f"{v}.flatten()", f"{v}.movedim({d}, 0)", f"{v}.select({d}, -1)", f"{v}.T",
                      f"{v}.unfold({d}, 1, 1)", f"{v}.split(1, {d})", f"{v}.permute({w.integers('dims', x)})", f"{v}.as_strided({tuple(x.shape[:1])}, (1,))", f"{v}[None, :]"]  # fmt: skip
        if x.is_complex():
            forms += [f"{v}.real", f"{v}.imag", f"T.view_as_real({v})", f"{v}.conj()", f"{v}.mH"]
        if x.dtype in (torch.float32, torch.float64) and n and x.shape[-1] == 2:
            forms.append(f"T.view_as_complex({v})")
        forms.append(f"{v}.view(T.{w.dtype()})")
        return self._unpacked(r.choice(forms))

    def _unpacked(self, text: str) -> str:
        """Several views at once are variables of their own, if there are two."""
        if text.endswith(")") and re.search(r"\.chunk\(2, ", text):
            return f"{self.fresh()}, {self.fresh()} = {text}"
        return f"{self.fresh()} = {text}"

    def write(self) -> str | None:
        """In place: an operator's own variant, an assignment to a part, or Python's augmented assignment."""
        r, v = self.random, self.pick()
        if v is None:
            return None
        w, x = self.writer, self.tensors[v]
        how = r.random()
        if how < 0.5:
            table = signatures(self.ops)
            name = r.choice([n for n in table if n.endswith("_")] or [*signatures()])
            text = w.call(r.choice(signatures()[name]), v)
            return text and (text if r.random() < 0.6 else f"{self.fresh()} = {text}")
        value = w.scalar(x) if r.random() < 0.4 else w.suiting(x, "other")
        if how < 0.75:
            return f"{v}[{self._index(x)}] = {value}"
        if how < 0.9:
            return f"{v} {r.choice(BINARY[:8])}= {value}" if r.random() < 0.9 else f"{v} {r.choice(BINARY[12:])}= {value}"
        return f"{v}.{r.choice(('copy_', 'add_', 'mul_', 'sub_', 'div_', 'fill_', 'zero_'))}({value})".replace("zero_(" + value, "zero_(")

    def _index(self, x: torch.Tensor) -> str:
        r, w = self.random, self.writer
        parts = []
        for n in x.shape:
            kind = r.random()
            if kind < 0.25:
                parts.append(":")
            elif kind < 0.45:
                parts.append(str(r.randint(-n, n - 1) if n and r.random() < 0.95 else n + 1))
            elif kind < 0.6:
                parts.append(r.choice(("1:", ":-1", "::2", ":0", "-2:", "5:", "0:1")))
            elif kind < 0.72:
                parts.append(r.choice(("None", "...", "True", "[0]", "[0, -1]")) if "..." not in parts else "None")
            elif kind < 0.85 and n:
                shape = r.choice(([2], [1], [2, 1], [], [0]))
                parts.append(w.literal(shape, "int64", n, False))
            elif kind < 0.92:
                parts.append(w.literal([n], "bool", None, False))
            else:
                break
        if x.ndim and r.random() < 0.08:
            return w.literal(list(x.shape), "bool", None, False)
        if r.random() < 0.04:
            return r.choice(("1.5", "'a'", "True", "None", "...", "()", "T.tensor(0)", "T.tensor([0.5])", "[True]", "[[0]]", "slice(None)"))
        return ", ".join(parts) or "..."

    def index(self) -> str | None:
        v = self.pick()
        return v and f"{self.fresh()} = {v}[{self._index(self.tensors[v])}]"

    def python(self) -> str | None:
        r, v = self.random, self.pick()
        if v is None:
            return None
        if r.random() < 0.15:
            return f"{self.fresh()} = {r.choice(('-{0}', '~{0}', 'abs({0})', '+{0}', 'round({0})')).format(v)}"
        w = self.writer
        other = w.scalar(self.tensors[v]) if r.random() < 0.45 else w.suiting(self.tensors[v], "other")
        left, right = (v, other) if r.random() < 0.7 else (other, v)
        return f"{self.fresh()} = {left} {r.choice(BINARY)} {right}"

    def convert(self) -> str | None:
        v = self.pick()
        return v and f"{self.fresh()} = {self.random.choice(CONVERSIONS).format(v)}"

    def cast(self) -> str | None:
        r, v = self.random, self.pick()
        if v is None:
            return None
        form = r.choice(
            (
                f"{v}.{r.choice(CASTS)}()",
                f"{v}.to(T.{self.writer.dtype()})",
                f"{v}.type(T.{self.writer.dtype()})",
                f"{v}.to({self.pick()})",
                f"{v}.clone()",
                f"T.tensor({v}.tolist())",
            )
        )
        return f"{self.fresh()} = {form}"

    def out(self) -> str | None:
        r, table = self.random, signatures(self.ops)
        with_out = [s for s in table[r.choice([*table])] if s.out] if table else []
        if not with_out:
            return None
        chosen: Signature = r.choice(with_out)
        text = self.writer.call(chosen._replace(method=None))
        if text is None:
            return None
        w = self.writer
        places = [
            self.pick(lambda x: not x.requires_grad)
            if r.random() < 0.6
            else w.literal(w.shape() if r.random() < 0.4 else [0], w.dtype(), grad=False)
            for _ in chosen.out
        ]
        if any(p is None for p in places):
            return None
        joined = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
        return f"{self.fresh()} = {text[:-1]}{'' if text.endswith('(') else '' if text.endswith('()') else ', '}out={joined})"

    def hook(self) -> str | None:
        r = self.random
        v = self.pick(lambda x: x.requires_grad) or self.pick()
        if v is None:
            return None
        return r.choice((f"{v}.retain_grad()", f"{v}.register_hook(lambda g: g * 2)", f"{v}.register_hook(lambda g: None)", f"{v}.register_hook(lambda g: g.mul(3).clone())",
                         f"{v}.requires_grad_()", f"{v}.requires_grad_(False)", f"{v}.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(2), None)[1])", f"{v}.grad = None"))  # fmt: skip

    def gradient(self) -> str | None:
        """The gradients of one variable in others; half of the time recorded, so that later lines go through them once more."""
        r = self.random
        v = self.pick(lambda x: x.requires_grad and x.grad_fn is not None) or self.pick(lambda x: x.requires_grad)
        if v is None:
            return None
        x = self.tensors[v]
        leaves = [n for n, y in self.tensors.items() if y.requires_grad and n != v]
        if not leaves:
            return None
        inputs = r.sample(leaves, min(len(leaves), r.randint(1, 3)))
        shape, dtype = list(x.shape), str(x.dtype)[6:]
        seed = (
            ""
            if not shape and r.random() < 0.7
            else f", {self.writer.literal(shape, dtype, grad=False)}"
            if x.numel() < 65
            else f", T.ones_like({v})"
        )
        mode = r.choice((", create_graph=True", ", retain_graph=True", "", ", materialize_grads=True"))
        if r.random() < 0.95 and "materialize" not in mode:
            mode += ", allow_unused=True"
        names = ", ".join(self.fresh() for _ in inputs)
        return (
            f"{names} = T.autograd.grad({v}, ({', '.join(inputs)},){seed}{mode})"
            if len(inputs) > 1
            else f"{names} = T.autograd.grad({v}, {inputs[0]}{seed}{mode})[0]"
        )

    def backward(self) -> str | None:
        v = self.pick(lambda x: x.requires_grad and x.grad_fn is not None)
        if v is None:
            return None
        x = self.tensors[v]
        seed = (
            ""
            if not x.ndim
            else self.writer.literal(list(x.shape), str(x.dtype)[6:], grad=False)
            if x.numel() < 65
            else f"T.ones_like({v})"
        )
        keep = self.random.choice(("retain_graph=True", "", "create_graph=True"))
        return f"{v}.backward({', '.join(t for t in (seed, keep) if t)})"

    def function(self) -> str | None:
        r, v = self.random, self.pick(lambda x: x.requires_grad) or self.pick()
        if v is None:
            return None
        if r.random() < 0.4:
            return f"{self.fresh()}, {self.fresh()} = Product.apply({v}, {self.writer.suiting(self.tensors[v], 'other')})"
        return f"{self.fresh()} = {r.choice(('Cube', 'Double'))}.apply({v}{r.choice(('.clone()', ' * 2'))})"

    def _body(self, argument: str, v: str) -> str | None:
        """An expression of one argument, drawn to suit variable `v`."""
        if self.random.random() < 0.35:
            return self.random.choice(FUNCTIONAL).format(argument)
        text = self.expression(v)
        return text and re.sub(rf"\b{v}\b", argument, text)

    def checkpoint(self) -> str | None:
        v = self.pick(lambda x: x.requires_grad) or self.pick()
        body = v and self._body("x", v)
        return body and f"{self.fresh()} = T.utils.checkpoint.checkpoint(lambda x: {body}, {v}, use_reentrant={self.random.random() < 0.4})"

    def transform(self) -> str | None:
        """vmap, and derivatives of functions."""
        r = self.random
        floating = r.random() < 0.8
        v = self.pick((lambda x: x.is_floating_point() and x.ndim > 0) if floating else (lambda x: x.ndim > 0))
        if v is None:
            return None
        x = self.tensors[v]
        if r.random() < 0.5:
            d = r.randint(-x.ndim, x.ndim - 1)
            inner = x.detach().select(d, 0) if x.shape[d] else x
            name = self.fresh()
            self.session.theirs[name] = inner  # the text is drawn for what the function will see
            body = self._body("x", name)
            del self.session.theirs[name]
            return body and f"{name} = T.func.vmap(lambda x: {body}, in_dims={d}{r.choice(('', '', ', out_dims=-1'))})({v})"
        body = self._body("x", v)
        if body is None:
            return None
        kind = r.choice(("grad", "jacrev", "jacfwd", "jvp", "vjp"))
        if kind == "jvp":
            return f"{self.fresh()} = T.func.jvp(lambda x: {body}, ({v},), (T.ones_like({v}),))"
        if kind == "vjp":
            return f"{self.fresh()} = (lambda y, f: (y, f(T.ones_like(y))))(*T.func.vjp(lambda x: {body}, {v}))"
        return f"{self.fresh()} = T.func.{kind}(lambda x: ({body}){'.sum()' if kind == 'grad' else ''})({v})"

    def autocast(self) -> str | None:
        text = self.expression(self.pick(lambda x: x.is_floating_point()))
        return text and f"with T.autocast('cpu', dtype=T.{self.random.choice(('bfloat16', 'float16'))}): {self.fresh()} = {text}"

    def threads(self) -> str | None:
        first, second = self.expression(), self.expression()
        return first and second and f"{self.fresh()} = together(lambda: {first}, lambda: {second})"

    def mode(self) -> str | None:
        text = self.expression()
        if text is not None and self.random.random() < 0.2 and (written := self.write()):
            return f"with T.no_grad(): {written}" if not re.match(r"v\d+ = ", written) else None
        return text and f"with T.{self.random.choice(('no_grad', 'enable_grad', 'inference_mode'))}(): {self.fresh()} = {text}"

    def saved(self) -> str | None:
        text = self.expression(self.pick(lambda x: x.requires_grad))
        return text and f"with T.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x): {self.fresh()} = {text}"
