"""Lines that belong together: modules and optimizers, double backward, chains of views and writes, `out=` that fits, hooks that come and go."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import torch
from fuzz.signatures import signatures
from fuzz.writer import Writer

if TYPE_CHECKING:
    from fuzz.session import Session

# modules by what their input may be: its dimensions and the size that the constructor is told
MODULES = (
    ("Linear(4, 3)", (None, 4)), ("Linear(4, 2, bias=False)", (4,)), ("Bilinear(4, 4, 2)", (None, 4)), ("LayerNorm(4)", (None, 4)), ("RMSNorm(4)", (None, 4)),
    ("Conv1d(4, 6, 2)", (None, 4, 5)), ("Conv1d(4, 4, 3, padding=1, groups=2)", (2, 4, 5)), ("Conv2d(4, 2, 3, stride=2, padding=1)", (2, 4, 5, 4)),
    ("Conv2d(4, 4, 2, dilation=2, padding='same', padding_mode='reflect')", (2, 4, 5, 5)), ("Conv3d(4, 2, 2)", (1, 4, 3, 3, 3)),
    ("ConvTranspose1d(4, 2, 3, stride=2)", (2, 4, 3)), ("ConvTranspose2d(4, 2, 2, stride=2, output_padding=1, groups=2)", (2, 4, 3, 3)),
    ("BatchNorm1d(4)", (3, 4)), ("BatchNorm1d(4, affine=False)", (3, 4, 2)), ("BatchNorm2d(4, momentum=None)", (2, 4, 3, 2)), ("BatchNorm2d(4, track_running_stats=False)", (2, 4, 3, 2)),
    ("GroupNorm(2, 4)", (2, 4, 3)), ("InstanceNorm1d(4, affine=True, track_running_stats=True)", (2, 4, 3)), ("InstanceNorm2d(4)", (2, 4, 3, 3)), ("LocalResponseNorm(2)", (2, 4, 3)),
    ("MaxPool1d(2)", (2, 4, 5)), ("MaxPool2d(2, 1, 1)", (2, 4, 3, 3)), ("MaxPool2d(3, 2, 1, ceil_mode=True)", (2, 4, 5, 4)), ("AvgPool1d(2)", (2, 4, 5)),
    ("AvgPool2d(2, ceil_mode=True, count_include_pad=False, padding=1)", (2, 4, 3, 3)), ("AdaptiveAvgPool2d((2, 3))", (2, 4, 5, 5)), ("AdaptiveMaxPool1d(2)", (2, 4, 5)),
    ("LPPool1d(2, 2)", (2, 4, 6)), ("Upsample(scale_factor=2, mode='bilinear')", (1, 4, 3, 2)), ("Upsample(scale_factor=1.5, mode='bicubic', align_corners=True)", (1, 2, 3, 4)),
    ("Upsample((3, 5), mode='nearest-exact')", (1, 2, 3, 4)), ("PixelShuffle(2)", (1, 4, 2, 3)), ("ReflectionPad2d(1)", (1, 4, 3, 2)), ("ReplicationPad1d((2, 1))", (2, 4, 3)), ("CircularPad1d(1)", (2, 4, 3)),
    ("PReLU(4)", (2, 4, 3)), ("GLU()", (None, 4)), ("Softmax(-1)", (None, 4)), ("Softmin(0)", (None, 4)), ("GELU('tanh')", (None, 4)), ("Hardtanh(inplace=True)", (None, 4)), ("SELU(inplace=True)", (None, 4)),
    ("RNN(4, 3)", (5, 2, 4)), ("GRU(4, 3, bidirectional=True)", (5, 2, 4)), ("LSTM(4, 3, 2, batch_first=True)", (2, 5, 4)), ("LSTM(4, 3, proj_size=2)", (5, 4)), ("GRUCell(4, 3)", (2, 4)), ("LSTMCell(4, 3)", (2, 4)),
    ("MultiheadAttention(4, 2)", (3, 2, 4)), ("MultiheadAttention(4, 2, bias=False, add_zero_attn=True)", (3, 4)), ("TransformerEncoderLayer(4, 2, 5, dropout=0.0)", (3, 2, 4)),
    ("TransformerEncoderLayer(4, 2, 5, dropout=0.0, norm_first=True, activation='gelu')", (3, 2, 4)), ("Unfold(2)", (1, 4, 3, 3)), ("Flatten()", (2, 4, 3)), ("ELU(0.5)", (None, 4)), ("Threshold(0.1, -2)", (None, 4)),
    ("Sequential(T.nn.Linear(4, 4), T.nn.ReLU(inplace=True), T.nn.LayerNorm(4), T.nn.Linear(4, 1))", (None, 4)), ("Sequential(T.nn.Conv1d(4, 4, 1), T.nn.BatchNorm1d(4), T.nn.Tanh())", (2, 4, 3)),
    ("utils.parametrizations.weight_norm(T.nn.Linear(4, 3))", (None, 4)),
)  # fmt: skip
LOSSES = ("mse_loss({0}, {1})", "l1_loss({0}, {1}, reduction='sum')", "smooth_l1_loss({0}, {1}, beta=0.3)", "huber_loss({0}, {1}, delta=0.5, reduction='none')", "kl_div({0}, {1}.softmax(-1), reduction='sum')",
          "binary_cross_entropy_with_logits({0}, {1}.sigmoid())", "cosine_similarity({0}, {1}, dim=-1)", "pairwise_distance({0}, {1})", "soft_margin_loss({0}, {1}.sign())", "poisson_nll_loss({0}, {1})",
          "gaussian_nll_loss({0}, {1}, {1}.exp())", "cross_entropy({0}, {1}.softmax(-1), label_smoothing=0.1)", "normalize({0}, dim=-1) * {1}", "layer_norm({0}, {0}.shape[-1:], None, {1}[..., :].reshape(-1)[:1].expand({0}.shape[-1:]))",
          "scaled_dot_product_attention({0}, {1}, {0})", "scaled_dot_product_attention({0}, {0}, {1}, is_causal=True)", "linear({0}, {1})", "softplus({0} * {1})", "logsigmoid({0}) - {1}", "gelu({0}) @ {1}.mT", "glu({0}, -1)", "cosine_embedding_loss({0}, {1}, T.ones({0}.shape[:1]))",
          "triplet_margin_loss({0}, {1}, {0} * 2, swap=True)", "multi_margin_loss({0}, {1}.argmax(-1))", "cross_entropy({0}, {1}.argmax(-1))", "nll_loss({0}.log_softmax(-1), {1}.argmax(-1))", "hinge_embedding_loss({0}, {1}.sign())")  # fmt: skip
OPTIMISERS = ("SGD({0}, lr=0.1)", "SGD({0}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)", "SGD({0}, lr=0.1, momentum=0.5, dampening=0.1, maximize=True)", "Adam({0}, lr=0.05)", "Adam({0}, lr=0.05, amsgrad=True, weight_decay=0.1)",
              "AdamW({0}, lr=0.05, betas=(0.5, 0.9))", "RMSprop({0}, centered=True, momentum=0.5)", "Adagrad({0}, lr=0.2, lr_decay=0.1)", "Adadelta({0}, rho=0.8)", "Adamax({0})", "NAdam({0})", "RAdam({0})", "ASGD({0})", "Rprop({0})")  # fmt: skip
PARTS = ("[0]", "[-1]", "[:1]", "[1:]", "[::2]", "[..., :1]", "[..., -1]", ".mT", ".T", ".unsqueeze(0)", ".reshape(-1)", ".flatten()", ".view(-1)", ".squeeze()", ".transpose(0, -1)", ".diagonal()", ".unfold(0, 2, 1)", ".expand(2, *{0}.shape)",
         ".narrow(-1, 0, 1)", ".unflatten(-1, (-1, 1))", ".movedim(0, -1)", ".swapaxes(0, -1)", ".select(0, 0)", ".split(1)[0]", ".unbind()[-1]", ".tensor_split(2)[0]", ".chunk(2, -1)[-1]", "[None]", "[...]", ".detach()", ".data", ".as_strided((2, 2), (1, 1))",
         ".as_strided((3,), (0,))", ".contiguous()", ".flip(0)", ".real", ".view_as({0})", ".T.flatten()", "[T.tensor([0, 0])]", "[T.tensor(True)]")  # fmt: skip
WRITES = ("{0}.mul_(2)", "{0}.add_({1})", "{0}.copy_({1})", "{0}.zero_()", "{0}[...] = {1}", "{0}[:1] = {1}", "{0} += {1}", "{0} *= 3", "{0}.sin_()", "{0}.div_(2)", "{0}.fill_(0.5)", "{0}.clamp_(-1, 1)", "{0}.relu_()", "{0}.sub_({1}, alpha=2)",
          "{0}.index_put_((T.tensor([0, 0]),), {0}[:1].clone(), accumulate=True)", "{0}[T.tensor([0, 0])] = {1}", "{0}[T.tensor([0, 0])] += {1}", "{0}[{0} > 0] = 0.25", "{0}.index_fill_(0, T.tensor([0]), 2)", "{0}.masked_fill_({0} < 0, 1.5)", "{0}.t_()", "{0}.squeeze_()", "{0}.unsqueeze_(0)", "{0}.transpose_(0, -1)",
          "{0}.addcmul_({0}, {0})", "{0}.lerp_({0}.detach() * 2, 0.5)", "{0}.pow_(2)", "{0}.exp_()", "{0}.index_add_(0, T.tensor([0, 0]), {0}[:1].clone().expand(2, *{0}.shape[1:]))", "{0}.cumsum_(0)", "{0}.tanh_()", "{0}.sigmoid_()", "{0}.fill_diagonal_(3)", "{0}.data.mul_(2)", "{0}.detach().add_(1)",
          "{0}.data = {0}.data * 2", "{0}.neg_()", "{0}.triu_()", "{0}.swapaxes_(0, -1)", "{0}.sqrt_()", "{0}.scatter_(0, T.zeros_like({0}, dtype=T.int64)[:1], 2)", "{0}.requires_grad_()", "{0}.detach_()", "{0}.nan_to_num_(1.0)", "{0}.where({0} > 0, {0}).mul_(2)")  # fmt: skip
HOOKS = ("lambda g: g * 2", "lambda g: g.clamp(-1, 1)", "lambda g: None", "lambda g: g.detach()", "lambda g: g.sign() * g")
HANDLES = ("{0}.register_hook({1})", "{0}.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(2), None)[1])", "{0}.grad_fn.register_hook(lambda i, o: tuple(g if g is None else g * 2 for g in i))", "{0}.grad_fn.register_prehook(lambda o: tuple(g if g is None else g * 3 for g in o))")  # fmt: skip
MAPPED = ("x * y", "(x @ y.mT).sum(-1)", "x.sin() + y", "T.maximum(x, y)", "T.where(x > y, x, y * 2)", "(x - y).square().mean()", "T.nn.functional.mse_loss(x, y)", "T.stack((x, y))", "T.cat((x, y), -1)", "x.index_select(0, T.tensor([0])) + y", "x.clone().mul_(y)", "x.mul_(y)", "(x.sin_(), x * y)[1]", "(y.add_(x), y * x)[1]", "(x[..., :1].mul_(2), x * y)[1]", "(x.zero_(), y * 2)[1]", "y.copy_(x)", "T.einsum('...i,...i->...', x, y)")  # fmt: skip
NESTED = ("T.func.vmap(T.func.grad(lambda x: ({0}).sum()))({1})", "T.func.jvp(T.func.vmap(lambda x: {0}), ({1},), (T.ones_like({1}),))", "T.func.vmap(T.func.jacrev(lambda x: {0}))({1})", "T.func.hessian(lambda x: ({0}).sum())({1})",
          "T.func.jacfwd(T.func.jacrev(lambda x: ({0}).sum()))({1})", "T.func.grad(lambda x: T.func.vmap(lambda x: {0})(x).sum())({1})", "T.func.vmap(lambda x: T.func.jvp(lambda x: {0}, (x,), (x,))[1])({1})", "T.func.grad(T.func.grad(lambda x: ({0}).sum().sin()))({1}.sum())",
          "T.func.grad_and_value(lambda x: ({0}).sum())({1})", "T.func.vmap(T.func.vmap(lambda x: {0}))({1})", "T.autograd.functional.hvp(lambda x: ({0}).sum(), {1}, T.ones_like({1}))", "T.autograd.functional.vjp(lambda x: {0}, {1}, T.ones_like({1}))")  # fmt: skip
BODIES = ("x.sin()", "x * x", "x.exp() / 3", "x.softmax(-1)", "(x * 1).mul_(2)", "x.clone().add_(x)", "x.relu()", "x.abs().sqrt()", "T.cumsum(x, -1)", "x.sum(-1, keepdim=True) * x", "x[..., :1] * 3", "T.nn.functional.layer_norm(x, x.shape[-1:])", "x.std(-1)", "x.norm()", "x.logsumexp(-1)", "x.prod(-1)", "x.max(-1)[0]", "x.sort(-1)[0]", "x.tanh().detach() * x", "x.flip(-1)", "x.roll(1, -1)")  # fmt: skip


class Scenes:
    """The kinds that draw several lines at once, or one that needs a look at what it will be run on."""

    random: Random
    ops: str
    session: Session
    writer: Writer
    tensors: dict[str, torch.Tensor]
    fresh: Any
    pick: Any
    expression: Any

    def _floating(self, x: torch.Tensor) -> bool:
        return x.is_floating_point() and x.dtype in (torch.float32, torch.float64) and x.ndim > 0 and 0 < x.numel() < 65

    def _beside(self, v: str) -> str:
        """A variable or number that can be written into a part of `v`."""
        r = self.random
        return r.choice((v, f"{v}[:1]", f"{v}.mT", "0.5", "2", self.pick() or "1", f"{v}.detach()"))

    def module(self) -> str:
        """A module made, run and asked for the gradients of its parameters; perhaps twice differentiated, perhaps evaluated or stepped."""
        r, m = self.random, f"m{self.random.randrange(10**6)}"
        made, shape = r.choice(MODULES)
        lead = [2] if shape[0] is None and r.random() < 0.6 else [3, 2] if shape[0] is None else []
        size = [*lead, *[n for n in shape if n is not None]]
        dtype = r.choices(("float32", "float64", "bfloat16"), (6, 3, 1))[0]
        x, y = self.fresh(), self.fresh()
        lines = [f"{m} = seeded(lambda: T.nn.{made}.to(T.{dtype}))", f"{x} = {self.writer.literal(size, dtype, grad=r.random() < 0.7)}" + (".clone(memory_format=T.channels_last)" if len(size) == 4 and r.random() < 0.3 else "")]  # fmt: skip
        if r.random() < 0.3:
            lines.append(f"{m}.eval()")
        given = (
            f"{x}, {x}, {x}"
            if made.startswith("Multihead")
            else f"{x}, {x}"
            if made.startswith("Bilinear")
            else f"{x} * 1"
            if "inplace" in made
            else x
        )
        lines.append(f"{y} = first({m}({given}))")
        wrapped = r.random()
        if wrapped < 0.1:
            lines[-1] = (
                f"{y} = T.utils.checkpoint.checkpoint(lambda x: first({m}({given.replace(x, 'x')})), {x}, use_reentrant={r.random() < 0.3})"
            )
        elif wrapped < 0.2:
            lines[-1] = f"with T.autocast('cpu', dtype=T.bfloat16): {lines[-1]}"
        elif wrapped < 0.3:
            lines[-1] = f"{y} = first(T.func.functional_call({m}, {{k: p * 0.5 for k, p in {m}.named_parameters()}}, ({given},)))"
        g, more = self.fresh(), self.fresh()
        if r.random() < 0.4:
            lines.append(f"{g} = list(T.autograd.grad(({y} * {y}).sum(), [{x}, *{m}.parameters()], create_graph=True, allow_unused=True))")
            lines.append(
                f"{more} = list(T.autograd.grad(sum((p * p).sum() for p in {g} if p is not None), [{x}, *{m}.parameters()], allow_unused=True))"
            )
        else:
            lines.append(f"({y} * {y}).sum().backward()")
            lines.append(f"{g} = [p.grad for p in {m}.parameters()]")
            if r.random() < 0.6:
                lines += self._steps(f"list({m}.parameters())", True)
                lines.append(f"{more} = list({m}.state_dict().values())")
        return "\n".join(lines)

    def _steps(self, parameters: str, plain: bool) -> list[str]:
        r, o = self.random, f"o{self.random.randrange(10**6)}"
        made = r.choice(OPTIMISERS[:3] if plain else OPTIMISERS).format(
            parameters
        )  # others make much of the least digit of a small gradient
        options = r.choice(("", "", ", foreach=True", ", foreach=False"))
        return [
            f"{o} = T.optim.{made[:-1]}{options})",
            f"{o}.step()",
            *([f"{o}.step()"] if r.random() < 0.5 else []),
            f"{o}.zero_grad(set_to_none={r.random() < 0.5})",
        ]

    def optimiser(self) -> str | None:
        """Steps of an optimizer on leaves of the program."""
        leaves = [n for n, x in self.tensors.items() if x.is_leaf and x.requires_grad and self._floating(x)]
        if not leaves:
            return None
        leaves = [*{id(self.tensors[n]): n for n in leaves}.values()]
        chosen = self.random.sample(leaves, min(len(leaves), 2))
        return "\n".join(
            [f"sum((p * p).sum().double() for p in ({', '.join(chosen)},)).backward()", *self._steps(f"[{', '.join(chosen)}]", False)]
        )

    def twice(self) -> str | None:
        """A loss, a normalization or one of the program's expressions, differentiated twice."""
        r = self.random
        a = self.pick(lambda x: self._floating(x) and x.requires_grad) or self.pick(self._floating)
        if a is None:
            return None
        x = self.tensors[a]
        b = self.pick(lambda y: self._floating(y) and y.shape == x.shape and y.dtype == x.dtype) or a
        y, g = self.fresh(), self.fresh()
        text = f"T.nn.functional.{r.choice(LOSSES).format(a, b)}" if r.random() < 0.6 else self.expression(a)
        if text is None:
            return None
        lines = [f"{y} = {text}", f"{g} = T.autograd.grad({y}, {a}, T.ones_like({y}), create_graph=True)[0]"]
        lines.append(
            f"{self.fresh()} = T.autograd.grad({g}, {r.choice((a, b))}, T.ones_like({g}), allow_unused=True{r.choice(('', ', create_graph=True', ', retain_graph=True'))})[0]"
        )
        return "\n".join(lines)

    def chain(self) -> str | None:
        """Views of views, and writes through some of them; where the writes are not recorded, too."""
        r, v = self.random, self.pick(lambda x: x.ndim > 0 and x.numel() > 0)
        if v is None:
            return None
        x, lines = self.tensors[v], []
        if x.is_leaf and x.requires_grad and r.random() < 0.7:
            v, base = self.fresh(), v
            lines.append(f"{v} = {base} * 1")
        names = [v]
        for _ in range(r.randint(2, 6)):
            of, kind = r.choice(names), r.random()
            if kind < 0.5:
                names.append(self.fresh())
                lines.append(f"{names[-1]} = {of}{r.choice(PARTS).format(of)}")
            elif kind < 0.85:
                text = r.choice(WRITES).format(of, self._beside(r.choice(names)))
                lines.append(f"with T.{r.choice(('no_grad', 'no_grad', 'inference_mode'))}(): {text}" if r.random() < 0.25 else text)
            elif kind < 0.92:
                lines.append(f"{of}.{r.choice(('retain_grad()', f'register_hook({r.choice(HOOKS)})', 'requires_grad_()'))}")
            else:
                names.append(self.fresh())
                lines.append(f"with T.no_grad(): {names[-1]} = {of}{r.choice(PARTS).format(of)}")
        used = r.choice(names)
        if r.random() < 0.6:
            lines.append(f"({used} * {used}).sum().backward(retain_graph=True)")
        return "\n".join(lines)

    def fitting(self) -> str | None:
        """`out=` of the right size, often not contiguous, with others seeing the memory."""
        r, table = self.random, signatures(self.ops)
        with_out = [s for s in table[r.choice([*table])] if len(s.out) == 1 and s.function] if table else []
        text = self.writer.call(r.choice(with_out)._replace(method=None)) if with_out else None
        if text is None:
            return None
        try:
            with torch.no_grad():
                found = eval(text, dict(self.session.theirs))
        except Exception:
            return None
        if not isinstance(found, torch.Tensor) or found.layout is not torch.strided or found.numel() > 64:
            return None
        size, dtype = list(found.shape), str(found.dtype)[6:]
        o, seen = self.fresh(), self.fresh()
        make = r.choice((f"T.zeros({size}, dtype=T.{dtype})", f"T.zeros({size[::-1]}, dtype=T.{dtype}).permute({[*range(len(size))][::-1]})", f"T.ones({[*size[:-1], 2 * size[-1]] if size else [2]}, dtype=T.{dtype}){'[..., ::2]' if size else '[0]'}",
                         f"T.ones({[2, *size]}, dtype=T.{dtype})[1]", f"T.zeros({size}, dtype=T.{r.choice(('float64', 'int64', 'complex128', 'float16', 'bool'))})"))  # fmt: skip
        return f"{o} = {make}\n{seen} = {o}.view_as({o})\n{self.fresh()} = {text[:-1]}{'' if text.endswith('()') else ', '}out={o})"

    def handle(self) -> str | None:
        """A hook that changes gradients and is perhaps taken away again."""
        r = self.random
        v = self.pick(lambda x: x.requires_grad)
        if v is None:
            return None
        h = f"h{r.randrange(10**6)}"
        lines = [f"{h} = {r.choice(HANDLES).format(v, r.choice(HOOKS))}"]
        if r.random() < 0.4:
            lines += [f"({v} * {v}).sum().abs().backward(retain_graph=True)", f"{h}.remove()"]
        lines.append(f"({v} * {v}).sum().abs().backward(retain_graph=True)")
        return "\n".join(lines)

    def mapped(self) -> str | None:
        """vmap over two arguments, transforms of transforms, a Jacobian of a batch."""
        r, v = self.random, self.pick(self._floating)
        if v is None:
            return None
        x = self.tensors[v]
        if r.random() < 0.4:
            other = self.pick(lambda y: self._floating(y) and y.dtype == x.dtype)
            y = self.tensors[other]
            dims = [r.choice((None, *range(-t.ndim, t.ndim))) for t in (x, y)]
            return f"{self.fresh()} = T.func.vmap(lambda x, y: {r.choice(MAPPED)}, in_dims={tuple(dims)}, out_dims={r.choice((0, 0, -1))})({v}, {other})"
        body = r.choice(BODIES)
        return f"{self.fresh()} = {r.choice(NESTED).format(body, v)}"

    def parallel(self) -> str | None:
        """Two threads that run backward into the same leaves."""
        v, w = (self.pick(lambda x: x.requires_grad and x.grad_fn is not None and self._floating(x)) for _ in range(2))
        if v is None or w is None:
            return None
        return f"together(lambda: ({v} * {v}).sum().backward(retain_graph=True), lambda: ({w} * 2).sum().backward(retain_graph=True))"

    def image(self) -> str:
        """A tensor of four or five dimensions whose channels are last in memory."""
        w, r = self.writer, self.random
        size = [r.randint(1, 2), r.randint(1, 3), *[r.randint(1, 3) for _ in range(r.choice((2, 2, 3)))]]
        dtype = r.choice(("float32", "float64", "complex64", "int64", "bfloat16"))
        return f"{self.fresh()} = {w.literal(size, dtype, grad=False)}.contiguous(memory_format=T.channels_last{'_3d' if len(size) == 5 else ''}){'.requires_grad_()' if 'float' in dtype and r.random() < 0.5 else ''}"

    def nested_autocast(self) -> str | None:
        a = self.pick(lambda x: x.is_floating_point() and x.ndim > 1)
        if a is None:
            return None
        r = self.random
        text = r.choice((f"{a} @ {a}.mT", f"({a} @ {a}.mT).exp()", f"T.nn.functional.linear({a}, {a}).softmax(-1)", f"T.nn.functional.layer_norm({a} @ {a}.mT, ({a}.shape[-2],))", f"T.nn.functional.mse_loss({a} @ {a}.mT, {a} @ {a}.mT * 2)", f"T.einsum('...ij,...kj->...ik', {a}, {a})", f"({a} @ {a}.mT) + {a}.sum()",
                         f"T.cat(({a} @ {a}.mT, {a} @ {a}.mT))", f"T.addmm({a} @ {a}.mT, {a}, {a}.mT)", f"T.nn.functional.cross_entropy({a} @ {a}.mT, {a}.sum(-1).argmax(-1, keepdim=True).expand({a}.shape[0]))", f"T.stack(({a}, {a} * 2))", f"({a} @ {a}.mT).norm()", f"({a} @ {a}.mT).cumsum(-1)", f"T.cosine_similarity({a} @ {a}.mT, {a} @ {a}.mT)"))  # fmt: skip
        inner = r.choice(("enabled=False", "dtype=T.float16", "dtype=T.bfloat16", "enabled=True"))
        y = self.fresh()
        lines = [f"with T.autocast('cpu', dtype=T.bfloat16), T.autocast('cpu', {inner}): {y} = {text}"]
        if self.tensors[a].requires_grad:
            lines.append(f"{self.fresh()} = T.autograd.grad({y}.sum(), {a}, retain_graph=True)[0]")
        return "\n".join(lines)
