"""Ops that reduce dimensions: sums, means, extremes, norms."""

from ..op import Linear


class sum_(Linear):
    """Sum over the given dimensions, or over all."""
    inputs = ("input",)
    def forward(xp, input, dim=None, keepdim=False, dtype=None): return xp.sum(input, axis=dim, keepdims=keepdim)
    def d_input(xp, g, shape, dim, keepdim): return xp.broadcast_to(xp.reshape(g, kept(shape, dim)), shape)


def kept(shape, dim):
    """The shape after reducing `dim`, with the reduced dimensions kept as 1."""
    if dim is None: return (1,) * len(shape)
    dims = {d % len(shape) for d in ((dim,) if isinstance(dim, int) else dim)} if shape else ()
    return tuple(1 if i in dims else n for i, n in enumerate(shape))
