"""Teaching, independent of Jupyter: narrated lessons, questions about live tensors, seeded bugs, and forward against reverse mode."""
