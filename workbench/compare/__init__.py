"""Comparison of two recordings in one graph."""
