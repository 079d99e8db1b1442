"""One backward pass: steps forward and back, breakpoints, and what each step computes."""
