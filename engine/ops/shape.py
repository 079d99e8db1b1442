"""Ops that rearrange elements: views of the same memory, joins and repeats."""

from ..op import Linear, Op, sum_to


class View(Linear):
    """The result is the input's own memory under another shape, whenever NumPy can express it."""
    view = True


class reshape(View):
    """The same elements under another shape; one size may be -1."""
    varargs = True
    inputs = ("input",)
    def forward(xp, input, shape): return xp.reshape(input, shape)
    def d_input(xp, g, shape): return xp.reshape(g, shape)


class write_view(Op):
    """The base of a view after the view was written: `input` with the place that `path` leads to replaced by `other`."""
    home = ""
    def forward(xp, input, other, path=()): return xp.write_through(input, other, path)
    def d_input(xp, g, path): return xp.write_through(g, 0, path)
    def d_other(xp, g, path): return xp.read_through(g, path)
