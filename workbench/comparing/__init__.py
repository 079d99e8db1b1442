"""Two recordings, or two tensors, held against one another."""
