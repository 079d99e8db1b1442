"""Hogwild: processes train one model in shared memory, without locks and without waiting for each other.

Each process adds its updates to the same weights while the others read and write them. An update can be lost or be computed from weights
that are half old; with small steps the training converges all the same. https://arxiv.org/abs/1106.5730
"""

import engine
import workbench as wb
from engine import multiprocessing as mp
from engine import nn

images, labels = wb.samples.digits()
images, labels = images[:1000].flatten(1).float(), labels[:1000]
loss_of = nn.CrossEntropyLoss()


def train(rank: int, ranks: int, model: nn.Module) -> None:
    """Train on every `ranks`-th image."""
    optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        for batch in engine.arange(rank, len(images), ranks).split(50):
            optimizer.zero_grad()
            loss_of(model(images[batch]), labels[batch]).backward()
            optimizer.step()  # writes into the memory that all processes share


if __name__ == "__main__":
    engine.manual_seed(0)
    model = nn.Linear(images.shape[1], 10)
    model.share_memory()  # before the processes start: they get the memory, not a copy
    before = loss_of(model(images), labels).item()
    mp.spawn(train, (2, model), nprocs=2)
    print(f"loss {before:.2f} before, {loss_of(model(images), labels).item():.2f} after")
