"""The GPU backend: CuPy, and CUDA kernels of our own; `namespace` needs CuPy installed."""
