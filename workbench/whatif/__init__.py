"""What-ifs: changed gradients, changed values, and the derivative of a single op. The user's tensors are not touched.

`fork` runs the rest of a backward pass on a changed gradient, `rerun` the recorded graph on changed values; `local_derivatives` computes
one op's Jacobian, `check_rule` checks its rule against finite differences, `paths` splits a gradient among the paths from the loss.
"""

from .ask import check_rule, fork, local_jacobian, paths, rerun

__all__ = ["check_rule", "fork", "local_jacobian", "paths", "rerun"]
