"""einops: functions, layers inside a network that is trained, einsum and packing."""

import json
import time

import torch
from einops import asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8, requires_grad=True)
model = nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), EinMix("b t c -> b t c2", weight_shape="c c2", bias_shape="c2", c=48, c2=8),
    nn.LayerNorm(8), nn.GELU(), Reduce("b t c -> b c", "mean"), nn.Linear(8, 4),
)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
started = time.perf_counter()
for _ in range(3):
    loss = nn.functional.cross_entropy(model(x), torch.tensor([1, 3]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(json.dumps({"loss": loss.item(), "gradient": x.grad.norm().item()}))
packed, shapes = pack([torch.ones(2, 3), torch.zeros(2, 4, 5)], "b *")
out = einsum(x, x, "b c h w, b c h2 w -> b h h2")
print(json.dumps({
    "packed": list(packed.shape), "unpacked": [list(u.shape) for u in unpack(packed, shapes, "b *")], "einsum": out.sum().item(),
    "repeat": repeat(x, "b c h w -> b (h r) w c", r=2).shape[1], "parsed": parse_shape(x, "b c _ w"), "numpy": float(asnumpy(x.detach()).sum()),
    "max": reduce(x, "b c h w -> c", "max").tolist(), "list": list(rearrange([x, x], "n b ... -> b n ...").shape), "script": repr(model[0]),
    "seconds": time.perf_counter() - started,
}))  # fmt: skip
