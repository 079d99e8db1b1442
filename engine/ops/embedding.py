"""Table lookups: embedding, the transposes for its derivatives, and one-hot vectors."""

from __future__ import annotations

import numpy

from ..backends.batch import Batched
from ..base import dtypes
from ..core import inplace
from ..core.arguments import parsed
from ..core.create import made
from ..core.devices import namespace, require
from ..core.op import RULES_ONLY, Op, composite
from ..core.tape import mode
from ..core.tensor import Tensor
from .front import refuse_complex_gradients


class embedding(Op):
    """Rows of `weight` at the indices in `input`."""
    home, inputs, exact = "", ("input", "weight"), True
    samples = (([[0, 2], [1, 2]], (4, 3)), ([2], (4, 3)))
    def forward(xp, input, weight, padding_idx=None, scale_grad_by_freq=False, sparse=False): return xp.rows(weight, input)
    def d_weight(xp, g, input, shape, padding_idx, scale_grad_by_freq, sparse): return (xp.sparse_rows if sparse else xp.add_rows)(g, input, shape[0], padding_idx, scale_grad_by_freq)
    def t_weight(xp, t, input): return xp.rows(t, input)  # as in PyTorch, padding_idx and scale_grad_by_freq apply to gradients only


class add_rows(Op):
    """Zeros with rows added where `embedding` reads them."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input", "index"), True
    examples = ((((2, 2, 3), [[0, 2], [1, 2]]), {"count": 4}), (((4, 3), [0, 2, 2, 1]), {"count": 4, "padding_idx": 1, "scale": True}))
    def forward(xp, input, index, count, padding_idx=None, scale=False): return xp.add_rows(input, index, count, padding_idx, scale)
    def d_input(xp, g, index, count, padding_idx, scale): return xp.read_rows(g, index, count, padding_idx, scale)


class read_rows(Op):
    """The transpose of `add_rows`: rows read, zeros for the padding index, divided with `scale` by how often each index occurs."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input", "index"), True
    examples = ((((4, 3), [[0, 2], [1, 2]]), {"count": 4}), (((4, 3), [0, 2, 2, 1]), {"count": 4, "padding_idx": 1, "scale": True}))
    def forward(xp, input, index, count, padding_idx=None, scale=False): return xp.read_rows(input, index, count, padding_idx, scale)
    def d_input(xp, g, index, count, padding_idx, scale): return xp.add_rows(g, index, count, padding_idx, scale)


@composite(home="nn.functional")
def embedding_(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:
    """Rows of `weight` (n, d) at the indices in `input` (*): (*, d). Raises IndexError for indices outside [0, n).

    The row `padding_idx` gets no gradient; `max_norm` first shrinks, in place, rows in use that are longer; `scale_grad_by_freq` divides
    gradients by how often a row is used. With `sparse` the gradient of a leaf is a sparse tensor of the rows that were read (a dense one if
    the backward pass is recorded, for second derivatives).
    """
    if padding_idx is not None:
        n = weight.size(0)
        if not -n <= padding_idx < n:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= n
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, but has {weight.ndim} dimensions")
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {input.dtype.name} instead (while checking arguments for embedding)")
    if max_norm is not None and not weight.is_meta:
        _renormed(weight, input, max_norm, norm_type)
    refuse_complex_gradients("embedding", weight)
    if sparse and weight.requires_grad and weight.is_leaf and mode.grad:
        if scale_grad_by_freq:
            raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
        if weight.dtype.itemsize < 4:
            raise NotImplementedError(f"embedding: sparse gradients are for float32 and float64, not {weight.dtype.name}")
        return embedding(input, weight, padding_idx, False, True)
    return embedding(input, weight, padding_idx, scale_grad_by_freq)


def _renormed(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Shrink rows in use that are longer than `max_norm`, in place."""
    array, xp = weight.array, namespace(weight.array)
    used = xp.unique(index.array)
    rows = array[used]
    norms = (abs(rows) ** norm_type).sum(-1) ** (1 / norm_type) if norm_type != numpy.inf else abs(rows).max(-1)
    scale = xp.where(norms > max_norm, max_norm / (norms + 1e-7), 1)
    array[used] = rows * scale[:, None].astype(array.dtype)
    inplace.note_write_to(weight, "embedding")


@composite(home="nn.functional")
@parsed
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """One-hot int64 vectors of the class indices, as a new last dimension."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype.name}.")
    array = tensor.array
    while array.__class__ is Batched:  # the values of all samples under vmap
        array = array.inner
    if array.size == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if array.size:
        require(array >= 0, RuntimeError, "Class values must be non-negative.")
    n = int(array.max()) + 1 if num_classes == -1 else num_classes
    if array.size and num_classes != -1:
        require(array < n, RuntimeError, "Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == made(namespace(array).arange(n), tensor.device)).to(dtypes.int64)
