"""PyTorch compatibility: modules at PyTorch's paths, switches without effect, and installing the engine as `torch`."""
