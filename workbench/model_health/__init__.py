"""Health checks of a model: its parameters and gradients, its activations, and per-sample gradients."""
