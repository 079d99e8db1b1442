"""Array libraries behind one set of names; they know arrays, never tensors. Beside them PyTorch's switches: `backends.cudnn` and others."""

_LATER = frozenset({"cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum"})  # imported when first named
