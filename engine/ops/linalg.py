"""Matrix products and what is made of them."""

from ..op import Linear


class matmul(Linear):
    """Matrix product; 1-d operands are vectors, leading dimensions broadcast."""
    operator, types = "matmul", "same"
    samples = (((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 2)))
    def forward(xp, input, other): return xp.matmul(input, other)
    def d_input(xp, g, input, other): return xp.matmul(g, xp.matrix_transpose(other))
    def d_other(xp, g, input, other): return xp.matmul(xp.matrix_transpose(input), g)
    def why(a, b): return f"the inner sizes must agree, {a[-1]} != {b[-2 if len(b) > 1 else 0]}" if a and b else "both operands need at least one dimension"
