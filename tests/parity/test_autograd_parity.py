"""Names of nodes beside PyTorch's for what classrooms print, and the arguments of gradcheck, jacobian and their like."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import numpy
import pytest

import engine

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

X, Z = numpy.random.default_rng(5).uniform(0.1, 0.9, (2, 3, 4))
NAMED = """2**x;x**2;x**y;x**2.5;x%2;x%y;x-1;x/2;x.sqrt();x[0];x[0:2];x[:,0];x[None];x[...];x[0,1:];x[1:,0];x[[0,1]];x[x>0.5];x[0,0];x[:,None]
x[...,0];x[::2];x[:,:2];x[0,:,None];x.T;x.mT;x.view(-1);x.reshape(-1);x.flatten();x.max(0).values;x.min(1).values;x.amax(0);x.std();x.var(0)
x.norm();x.mean();x.mean(0);x.sum();x.sum(1);x.prod();x.prod(0);x.clamp(0,1);x.masked_fill(x>0.5,0.);t.where(x>0,x,y);x.unsqueeze(0)
x.squeeze();x.squeeze(0);x.expand(2,3,4);x.repeat(2,1);t.cat([x,y]);t.stack([x,y]);x@y.t();x@v;v@v;t3@t3.mT;t3@w.t();t.mm(x,y.t());t.mv(x,v)
t.dot(v,v);t.outer(v,v);F.linear(x,w,b);F.linear(x,w);F.linear(t3,w,b);F.linear(t3,w);F.relu(x);x.sigmoid();x.tanh();F.softmax(x,1)
F.log_softmax(x,1);F.gelu(x);F.elu(x);F.leaky_relu(x);F.silu(x);F.softplus(x);F.dropout(x);F.mse_loss(x,z);F.l1_loss(x,z);F.huber_loss(x,z)
F.cross_entropy(x,t.tensor([0,1,2]));F.nll_loss(x,t.tensor([0,1,2]));F.binary_cross_entropy(x,z);F.binary_cross_entropy_with_logits(x,z)
F.layer_norm(x,(4,));F.batch_norm(x,None,None,training=True);F.group_norm(x,2);F.embedding(t.tensor([0]),w);x.clone();x.float();x.abs();-x
x.exp();x.log();x.cumsum(0);x.sort().values;x.topk(2).values;x.gather(0,t.zeros(1,4,dtype=t.long));x.index_select(0,t.tensor([0]));x.tril()
x.permute(1,0);x.transpose(0,1);x.flip(0);x.roll(1);x.square();x.rsqrt();x.reciprocal();x.logsumexp(0);x.log1p();x+1;x+y;1+x;x-y;x*2;x*y;x/y
x.lerp(y,0.5);x.lerp(y,y);x.atan2(y);t.maximum(x,y);F.pad(x,(1,1));F.conv2d(x[None,None],k);F.max_pool2d(x[None,None],2)
F.avg_pool2d(x[None,None],2);F.interpolate(x[None,None],scale_factor=2,mode='bilinear');t.det(x[:,:3]);t.linalg.svd(x).S;t.hstack([x,y])
x.view_as(y);(x*y).sum()*3;x.mean()**0.5;t.exp(x).sum();t.log(x).mean();t.abs(x-y).sum();x.to(t.float32);1-x;1/x;2/x;x.t();x.max();x.min()
t.bmm(t3,t3.mT);t.addmm(b,x,w.t());t.addmv(v[:3],x,v);x.chunk(2)[0];x.split(2)[1];x.split([1,2])[0];x.unbind()[0];x.median();x.median(0).values
x.nanmedian();t.cdist(x,y);t.einsum('ij,kj->ik',x,y);t.einsum('ij->',x);t.trace(x);t.diag(v);t.std_mean(x)[0]
t.dist(x,y);x.take(t.tensor([0,1]));x.masked_select(x>0.5);t3@v;F.conv2d(x[None],k[:,0:1]);F.cross_entropy(t3,t.zeros(2,4,dtype=t.long))
F.cross_entropy(x,t.tensor([0,1,2]),label_smoothing=0.1);F.l1_loss(x,z,reduction='none');F.l1_loss(x,z,reduction='sum');F.glu(x)
F.adaptive_avg_pool2d(t3,1);F.adaptive_avg_pool2d(t3,(2,2));F.avg_pool1d(t3,2);F.adaptive_avg_pool1d(t3,2);F.adaptive_max_pool2d(t3,2)
F.max_pool2d(t3[None],2,return_indices=True)[0];F.pad(t3,(1,1),'reflect');F.pad(t3,(1,1),'replicate');F.pad(t3,(1,1),'circular')
F.batch_norm(x,t.zeros(4).double(),t.ones(4).double());F.pixel_shuffle(t.stack([t3,t3],1).reshape(1,4,3,4),2);F.pairwise_distance(x,y)
F.cosine_similarity(x,y);F.multi_margin_loss(x,t.tensor([0,1,2]));F.grid_sample(t3[None],t3[None,...,:2]);F.embedding_bag(t.zeros(1,2,dtype=t.long),w)
t.fft.fft(x);t.fft.rfft(x);t.fft.irfft(t.fft.rfft(x));t.fft.fft2(x);t.fft.ifft(t.complex(x,y));t.linalg.solve(x[:,:3],y);t.kron(x,y)
t.linalg.cross(x[:,:3],y[:,:3]);x.rot90();x.nansum();t.block_diag(x,y);t.polar(x,y);x.index_fill(0,t.tensor([0]),1.);x.aminmax().max
x.as_strided((2,2),(1,1));t.renorm(x,2,0,1.);x.scatter_reduce(0,t.zeros(1,4,dtype=t.long),y,'sum')
t.nn.LSTM(4,2).double()(t3)[0];t.nn.GRU(4,2,2).double()(t3)[0];t.nn.RNN(4,2,batch_first=True).double()(t3)[0]
t.nn.LSTM(4,2)(t3.float())[0];t.nn.LSTM(4,2,batch_first=True)(t3.float())[1][0];t.nn.GRU(4,2,bidirectional=True)(t3.float())[0]"""
IN_PLACE = """x[0]=1;x[0]=v;x[x>0.5]=0;x[:,1]=v[:3];x.copy_(y);x[0].add_(1);x+=1;x*=y;x.clamp_(0,1);x.masked_fill_(x>0.5,0.);x.exp_()"""


def name_of(t: Any, text: str) -> str:
    x, y = (t.tensor(a, requires_grad=True) for a in (X, Z))
    z, v, w, b = t.tensor(Z), x[0].detach().requires_grad_(), t.tensor(X[:2], requires_grad=True), t.tensor(X[0, :2], requires_grad=True)
    t3, k = t.tensor(numpy.stack([X, Z]), requires_grad=True), t.tensor(X[None, None, :2, :2], requires_grad=True)
    scope = {"t": t, "F": t.nn.functional, "x": x, "y": y, "z": z, "v": v, "w": w, "b": b, "t3": t3, "k": k}
    return told(eval(text, scope).grad_fn)


def told(node: Any) -> tuple[str, str]:
    return node.name(), type(node).__name__


@pytest.mark.parametrize("text", NAMED.replace("\n", ";").split(";"))
def test_names_of_nodes(text: str) -> None:
    assert name_of(engine, text) == name_of(torch, text)


@pytest.mark.parametrize("text", IN_PLACE.split(";"))
def test_names_of_nodes_of_writes(text: str) -> None:
    def name_of(t: Any) -> tuple[str, str]:
        x, y = (t.tensor(a, requires_grad=True) * 1 for a in (X, Z))
        scope = {"x": x, "y": y, "v": y.detach()[0]}
        exec(text, scope)
        return told(scope["x"].grad_fn)

    assert name_of(engine) == name_of(torch)


def test_types_of_nodes() -> None:
    """As programs that draw the graph ask for them."""

    def types(t: Any) -> list:
        class Double(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        x = t.ones(2, requires_grad=True)
        y = Double.apply(x * 1)
        found, at = [], (y.sin() + 1).sum().grad_fn
        while at is not None:
            found.append((type(at).__name__, isinstance(at, t.autograd.graph.Node)))
            at = at.next_functions[0][0] if at.next_functions else None
        return [*found, type((x + 1).grad_fn) is type((x + 2).grad_fn), str(type((x + 1).grad_fn)), str(type(y.grad_fn))]

    ours, theirs = types(engine), types(torch)
    assert ours == theirs


@pytest.mark.parametrize(
    "home", ["autograd.functional", "autograd.graph", "autograd.forward_ad", "autograd.gradcheck", "func", "utils.checkpoint"]
)
def test_arguments_have_pytorch_s_names_and_order(home: str) -> None:
    theirs, ours = (importlib.import_module(f"{top}.{home}") for top in ("torch", "engine"))
    for name, there in vars(theirs).items():
        here = getattr(ours, name, None)
        if (
            not inspect.isfunction(there)
            or not inspect.isfunction(here)
            or name.startswith("_")
            or not there.__module__.startswith("torch")
        ):
            continue
        a, b = ([(p.name, p.kind) for p in inspect.signature(f).parameters.values()] for f in (there, here))
        assert b == a, name


def real(t: Any, *shape: int) -> Any:
    return t.tensor(numpy.random.default_rng(len(shape)).uniform(0.2, 0.8, shape), requires_grad=True)


def imaginary(t: Any, *shape: int) -> Any:
    rng = numpy.random.default_rng(1)
    return t.tensor(rng.uniform(0.2, 0.8, shape) + 1j * rng.uniform(0.2, 0.8, shape), requires_grad=True)


CHECKS = {
    "real": lambda t, A: A.gradcheck(lambda x, y: (x * y).sin(), (real(t, 2, 3), real(t, 3))),
    "complex": lambda t, A: A.gradcheck(lambda x, y: (x * y).sin(), (imaginary(t, 2), imaginary(t, 2))),
    "complex to real": lambda t, A: A.gradcheck(lambda x: x.abs(), (imaginary(t, 3),), check_forward_ad=True),
    "real to complex": lambda t, A: A.gradcheck(lambda x: t.complex(x, x * 2) ** 2, (real(t, 3),), check_forward_ad=True),
    "mixed": lambda t, A: A.gradcheck(lambda x, y: x * y, (real(t, 3), imaginary(t, 3))),
    "all ways": lambda t, A: A.gradcheck(
        lambda x, y: (x @ y).tanh(), (real(t, 2, 3), real(t, 3, 2)), check_forward_ad=True, check_batched_grad=True
    ),
    "not analytic": lambda t, A: A.gradcheck(lambda x: x * x.abs(), (imaginary(t, 2),), check_forward_ad=True),
    "forward alone": lambda t, A: A.gradcheck(lambda x: x.tanh(), (real(t, 2),), check_forward_ad=True, check_backward_ad=False),
    "fast": lambda t, A: A.gradcheck(lambda x: x.tanh(), (real(t, 2),), fast_mode=True),
    "no inputs": lambda t, A: A.gradcheck(lambda x: x * 2, (t.ones(2),)),
    "nothing to check": lambda t, A: A.gradcheck(lambda x: x * 2, (real(t, 2),), check_backward_ad=False),
    "several": lambda t, A: A.gradcheck(lambda x: (x * 2, x.sin()), (real(t, 2),)),
    "independent": lambda t, A: A.gradcheck(lambda x: x.detach() * 2, (real(t, 2),)),
    "second": lambda t, A: A.gradgradcheck(lambda x, y: (x * y).sin(), (real(t, 2), real(t, 2)), check_fwd_over_rev=True),
    "second, complex": lambda t, A: A.gradgradcheck(lambda x: (x * x).sin(), (imaginary(t, 2),)),
    "strict": lambda t, A: A.functional.jacobian(lambda x: t.ones(2), real(t, 2), strict=True),
    "strict, two": lambda t, A: A.functional.jacobian(lambda x, y: x * 2, (real(t, 2), real(t, 2)), strict=True),
    "strict, recorded": lambda t, A: A.functional.jacobian(lambda x: x * 2, real(t, 2), strict=True, create_graph=True),
    "strict, vectorized": lambda t, A: A.functional.jacobian(lambda x: x * 2, real(t, 2), strict=True, vectorize=True),
    "strategy": lambda t, A: A.functional.jacobian(lambda x: x * 2, real(t, 2), strategy="a"),
    "no tensor": lambda t, A: A.functional.jacobian(lambda x: 3, real(t, 2)),
    "vector": lambda t, A: A.functional.vjp(lambda x: x, real(t, 2), t.ones(3)),
    "no vector": lambda t, A: A.functional.vjp(lambda x: x, real(t, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_checks(name: str) -> None:
    found = []
    for t in (torch, engine):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(str(CHECKS[name](t, t.autograd)))
            except Exception as error:
                found.append(next(k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins"))
    assert found[1] == found[0]


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobians_and_hessians(vectorize: bool) -> None:
    def both(t: Any) -> list:
        x, y = real(t, 2), real(t, 3, 2)
        many = t.autograd.functional.jacobian(lambda a, b: (a.sin() * b, b.sum() * a), (x, y), vectorize=vectorize)
        curved = t.autograd.functional.hessian(lambda a, b: (a.sin() * b**3).sum(), (x, y), vectorize=vectorize)
        recorded = t.autograd.functional.jacobian(lambda a: a**3, x, create_graph=True, vectorize=vectorize)
        recorded.sum().backward()
        rows = [j for row in (*many, *curved) for j in row]
        if vectorize:
            rows.append(t.autograd.functional.jacobian(lambda a: a**3, x, vectorize=True, strategy="forward-mode"))
        return [r.detach().numpy() for r in (*rows, recorded, x.grad)]

    for a, b in zip(both(engine), both(torch), strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
