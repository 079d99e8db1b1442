"""Comparison of two recordings or of tensors."""
