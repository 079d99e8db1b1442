"""The core: tensors, the base classes of ops, the call path, the tape and the backward pass, views and in-place writes, devices, factories.

Where to start: `tensor` (what a tensor holds), `op` (what an op is), `call` (what runs when an op is called), `tape` (the recorded graph
and the backward pass), `inplace` (views and in-place writes). `engine.base.observe` defines the observer, which is notified of them all.
"""
