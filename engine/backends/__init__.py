"""Array backends behind one namespace, which handle arrays and never tensors, and PyTorch's backend switches such as `backends.cudnn`."""

_LATER = frozenset({"cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum"})  # imported on first access
