"""Debugging checks: find mistakes in a recorded program, with the line, the reason why it matters, and a fix.

`look.look` runs the checks, one module per family; `witness` collects, during recording, events for which a recording has no rows;
`guard` stops a program at the op that makes a NaN; `fingerprint` compares a graph's structure in tests.
"""
