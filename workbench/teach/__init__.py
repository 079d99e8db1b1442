"""Teaching: narrated lessons, questions about live tensors, seeded bugs, and forward against reverse mode. Knows nothing of Jupyter."""
