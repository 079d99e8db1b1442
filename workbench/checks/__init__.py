"""Debugging aids: what is wrong with a recorded program, where, why it matters, and the line that mends it.

`look.look` runs the checks, one module for each family; `witness` notes, while code is recorded, what a recording has no rows for;
`guard` stops a program at the very op that makes a NaN; `fingerprint` pins a graph's structure in tests.
"""
