"""What exists only because PyTorch has it: modules at its paths, switches without effect, and the engine in its place."""
