"""The tensor inspector, and pinned tensors side by side."""
