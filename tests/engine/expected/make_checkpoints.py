"""Writes the checkpoints that test_checkpoints.py reads, with PyTorch: `python tests/engine/expected/make_checkpoints.py`."""

from __future__ import annotations

import pathlib

import numpy
import torch

HERE = pathlib.Path(__file__).parent / "checkpoints"


def main() -> None:
    torch.manual_seed(0)
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "base": base, "view": base.t()[1:], "parameter": torch.nn.Parameter(torch.ones(2)), "scalar": torch.tensor(5), "none": torch.zeros(0, 3),
        "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "float16": torch.tensor([0.5], dtype=torch.float16), "bool": base > 3,
        "complex64": torch.complex(base, base), "conj": torch.complex(base, base).conj(), "int8": torch.tensor([-3], dtype=torch.int8),
        "float64": base.double(), "uint16": torch.tensor([65535, 1], dtype=torch.uint16), "uint64": torch.tensor([7], dtype=torch.uint64),
    }  # fmt: skip
    plain = {"size": torch.Size([2, 3]), "device": torch.device("cpu"), "dtype": torch.float16, "set": {1, 2}, "n": (1, 2.5, b"\xff")}
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    opt = torch.optim.Adam(net.parameters(), lr=0.25)
    net(torch.randn(2, 1, 4, 4)).sum().backward()
    opt.step()
    everything = {"tensors": tensors, "plain": plain, "net": net.state_dict(), "opt": opt.state_dict()}
    torch.save(everything, HERE / "zip.pt")
    torch.save(everything, HERE / "legacy.pt", _use_new_zipfile_serialization=False)
    values = {k: (t.float() if t.dtype is torch.bfloat16 else t).detach().resolve_conj().numpy() for k, t in tensors.items()}
    numpy.savez_compressed(HERE / "values.npz", **values)
    whole = torch.nn.Sequential(*net, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)).eval()
    x = torch.randn(2, 1, 4, 4)
    torch.save(whole, HERE / "module.pt")
    numpy.savez_compressed(HERE / "module.npz", x=x.numpy(), y=whole(x).detach().numpy(), keys=list(whole.state_dict()))
    torch.save(torch.tensor([1.0, 2.0]), HERE / "cuda.pt")
    elsewhere(HERE / "cuda.pt")


def elsewhere(path: pathlib.Path) -> None:
    """Says in the file that its storage was on a GPU: the legacy format has no checksum to mend."""
    torch.save(torch.tensor([1.0, 2.0]), path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    old, new = b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


if __name__ == "__main__":
    main()
