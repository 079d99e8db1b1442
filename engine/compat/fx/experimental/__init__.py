"""PyTorch's address of what a trace knows of itself; no trace is ever running here."""
