"""Formulas of ops and of their derivative rules, written by the ops' own code."""
