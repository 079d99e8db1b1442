"""The program that XLA runs for a compiled step, as a graph."""
