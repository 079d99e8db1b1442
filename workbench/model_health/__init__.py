"""How a model fares: its parameters and gradients, its activations, the samples of its batch."""
