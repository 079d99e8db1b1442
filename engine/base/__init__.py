"""The ground floor: dtypes and promotion, errors, memory formats, the observer slot, and PyTorch's module paths. Imports nothing above."""
