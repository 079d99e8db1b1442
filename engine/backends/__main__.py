"""`python -m engine.backends` compiles the CPU's kernels with Numba, if it is installed, and says what computes compound ops."""

from . import fused

if fused.installed():
    fused.build()
print(fused.status())
