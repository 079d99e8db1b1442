"""Array libraries behind one set of names. Backends know arrays, never tensors."""
