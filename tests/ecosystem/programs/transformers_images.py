"""Pictures on their way into models: processors of transformers, transforms and a loader of timm, features of networks."""

import json

import numpy as np
import timm
import torch
from datasets import Dataset
from PIL import Image
from timm.data import create_loader, create_transform
from transformers import CLIPImageProcessor, DetrImageProcessor, ViTImageProcessor

rng = np.random.default_rng(0)
pixels = rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)
for kind in (ViTImageProcessor, CLIPImageProcessor, DetrImageProcessor):
    made = kind(size={"height": 32, "width": 32})(pixels, return_tensors="pt")["pixel_values"]
    print(
        json.dumps(
            {"processor": kind.__name__, "shape": list(made.shape), "size": made.abs().mean().item(), "row": made[0, 0, 5, :8].tolist()}
        )
    )
picture = Image.fromarray(pixels)
made = create_transform(32, is_training=False)(picture)
print(json.dumps({"transform": made.abs().mean().item(), "row": made[1, 3, :8].tolist()}))


class Pictures(torch.utils.data.Dataset):
    transform = None

    def __len__(self):
        return 6

    def __getitem__(self, i):
        picture = Image.fromarray(pixels[i:, i:])
        return (self.transform(picture) if self.transform else picture), i


for batch, labels in create_loader(Pictures(), (3, 32, 32), batch_size=3, num_workers=0, device=torch.device("cpu")):
    print(json.dumps({"batch": batch.mean().item(), "labels": labels.tolist()}))
torch.manual_seed(0)
for name in ("resnet18", "mobilenetv3_small_050"):
    network = timm.create_model(name, features_only=True).eval()
    print(json.dumps({"features": [f.abs().mean().item() for f in network(torch.randn(1, 3, 64, 64))]}))
rows = Dataset.from_dict({"a": [[1, 2], [3, 4], [5, 6]], "b": [0.5, 1.5, 2.5]}).with_format("torch")
for batch in torch.utils.data.DataLoader(rows, batch_size=2):
    print(json.dumps({"a": batch["a"].tolist(), "b": batch["b"].tolist()}))
