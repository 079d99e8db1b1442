"""What the public functions are about: the recording of a tensor, a module or a view, of the engine or of PyTorch."""
