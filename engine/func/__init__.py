"""Function transforms with PyTorch's names: derivatives, `vmap`, and calling modules as functions of their parameters."""

from ..autograd.mapping import vmap
from .modules import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .transforms import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
