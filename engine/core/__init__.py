"""The core: the tensor, what an op is, the tape and the one executor that walks it, in-place writes, devices, and how tensors are made."""
