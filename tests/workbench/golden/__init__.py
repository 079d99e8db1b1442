"""Golden logs: programs, what their views and kernels said, and how to write that anew."""
