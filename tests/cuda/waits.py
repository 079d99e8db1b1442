"""Why the host waits for the GPU where it does: a table of the ops, and one of the functions outside of them."""

from __future__ import annotations

OPS = {  # why -> the functions of the array interface, and ops, in which the host waits
    "the shape of the result depends on values": "count_integers getitem index_put mode put_zeros",
    "by default, the bounds are those of the data": "histogram",
    "cuSOLVER may fail, which is an error": "cholesky cofactor eigh inv pinv qr quotients solve_matrix svd",
    "computed on the host, for lack of a kernel": """
        cholesky_ex cholesky_inverse ctc eig lu_factor matrix_exp solve_triangle
    """,
    "the degree of a polynomial is how often the recurrence runs": "polynomial",
    "it copies to the host": "to_device",
}

FUNCTIONS = {  # why -> functions of the engine that a program calls
    "the program asks for a value": "Tensor.__bool__ Tensor.__format__ Tensor.__index__ Tensor.item Tensor.tolist _allclose",
    "a checkpoint is written on the host": "save",
    "finite differences are taken on the host": "gradcheck",
    "lengths are numbers on the host": "pack_padded_sequence pad_packed_sequence",
    "an index is a number on the host": "getitem.operate assign",
    "the arguments of a distribution are validated": """
        Categorical.__init__ Categorical.log_prob MixtureSameFamily.log_prob MultivariateNormal.__init__ MultivariateNormal.log_prob
        Normal.__init__ Normal.log_prob
    """,
    "L-BFGS stops by values": "Optimizer.step",
    "numbers are drawn again until they lie within the bounds": "trunc_normal_",
}


def names(table: dict[str, str]) -> set[str]:
    """The names in a table."""
    return {name for listed in table.values() for name in listed.split()}
