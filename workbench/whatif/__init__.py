"""What if: another gradient, another value, and the derivative of one op by itself. Nothing here touches the user's tensors.

`fork` runs the rest of a backward pass on a changed gradient, `rerun` the recorded graph on changed values; `local_derivatives` is one
op's Jacobian, `check_rule` holds its rule against finite differences, `paths` says which path from the loss gave how much of a gradient.
"""
