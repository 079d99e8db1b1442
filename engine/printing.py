"""How tensors are written as text."""

def tensor_text(t):
    return f"tensor({t.array})"
