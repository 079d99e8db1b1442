"""The lowest layer: dtypes and promotion, errors, memory formats, the observer, and PyTorch's module paths. Imports no other layer."""
