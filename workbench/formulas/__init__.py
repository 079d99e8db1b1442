"""Typeset formulas of ops and of their derivative rules, derived by running the ops' own code on symbols."""
