"""torch.utils.data: datasets, samplers, loaders, collation, splits."""

from __future__ import annotations

from .case import case, fails

# fmt: off
U = "torch.utils.data."
SET = """
from_list = lambda xs: [list(map(lambda t: t.tolist() if hasattr(t, 'tolist') else t, batch)) for batch in xs]
class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 7
    def __getitem__(self, i):
        return torch.tensor(float(i * i)), i
data = Squares()
torch.manual_seed(3)
"""


def asked(names: str, *programs: str) -> None:
    case(" ".join(U + name for name in names.split()), [SET + program for program in programs])


asked("Dataset", "len(data), data[2]", "isinstance(data, torch.utils.data.Dataset)", "[x for x in torch.utils.data.ConcatDataset([data, data])][8]", "len(data + data)", "raised(torch.utils.data.Dataset().__getitem__, 0)")
asked("TensorDataset", "t = torch.utils.data.TensorDataset(torch.arange(6.).view(3, 2), torch.arange(3)); len(t), t[1]", "t = torch.utils.data.TensorDataset(torch.arange(4)); t[0], t[-1], t[1:3]", "torch.utils.data.TensorDataset(torch.ones(2)).tensors")
asked("Subset", "s = torch.utils.data.Subset(data, [5, 0]); len(s), s[0], s[1]", "torch.utils.data.Subset(data, range(3)).indices", "list(torch.utils.data.DataLoader(torch.utils.data.Subset(data, [1, 2]), 2))")
asked("random_split", "[s.indices for s in torch.utils.data.random_split(data, [4, 3])]", "a, b = torch.utils.data.random_split(range(10), [0.8, 0.2]); a.indices, b.indices", "[list(s.indices) for s in torch.utils.data.random_split(range(6), [2, 4], generator=torch.Generator().manual_seed(42))]", "[len(s) for s in torch.utils.data.random_split(range(10), [0.33, 0.33, 0.34])]")
for arguments in ("data", "data, batch_size=3", "data, 3, shuffle=True", "data, 3, drop_last=True", "data, batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(1)", "data, batch_size=None", "data, 3, sampler=[4, 2, 0]", "data, batch_sampler=[[0, 1], [6]]", "data, 2, collate_fn=lambda b: len(b)", "data, batch_size=4, pin_memory=False, num_workers=0", "data, sampler=torch.utils.data.RandomSampler(data), batch_size=3", "data, 3, sampler=torch.utils.data.SubsetRandomSampler([1, 3, 5])", "[1, 2, 3], 2", "torch.arange(5), 2", "torch.utils.data.TensorDataset(torch.arange(8.).view(4, 2), torch.arange(4)), 3, True"):
    asked("DataLoader", f"list(torch.utils.data.DataLoader({arguments}))", f"len(torch.utils.data.DataLoader({arguments}))")
asked("DataLoader", "l = torch.utils.data.DataLoader(data, 4, shuffle=True); [x.tolist() for x, _ in l], [x.tolist() for x, _ in l]", "next(iter(torch.utils.data.DataLoader(data, 2)))", "l = torch.utils.data.DataLoader(data, 2); l.batch_size, l.drop_last, l.num_workers, len(l.dataset), type(l.sampler).__name__, type(l.batch_sampler).__name__", "[b['a'] for b in torch.utils.data.DataLoader([{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}], 2)]", "for i, (x, k) in enumerate(torch.utils.data.DataLoader(data, 3)):\n    pass\ni, x, k")
asked("RandomSampler SubsetRandomSampler", "list(torch.utils.data.RandomSampler(data)), list(torch.utils.data.SubsetRandomSampler([3, 1, 4]))", "list(torch.utils.data.RandomSampler(data, replacement=True, num_samples=5)), list(torch.utils.data.SubsetRandomSampler(range(2)))", "len(torch.utils.data.RandomSampler(data, num_samples=3)), len(torch.utils.data.SubsetRandomSampler([1]))", "list(torch.utils.data.SequentialSampler(data)), list(torch.utils.data.RandomSampler(range(3), generator=torch.Generator().manual_seed(0))), torch.utils.data.SubsetRandomSampler is not None", "list(torch.utils.data.WeightedRandomSampler([0.1, 0.9, 0.5], 4)), torch.utils.data.RandomSampler is not None, torch.utils.data.SubsetRandomSampler is not None", "list(torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(data), 3, False)), torch.utils.data.RandomSampler is not None, torch.utils.data.SubsetRandomSampler is not None")
asked("DistributedSampler", "[list(torch.utils.data.DistributedSampler(data, 2, r, shuffle=False)) for r in (0, 1)]", "s = torch.utils.data.DistributedSampler(data, num_replicas=2, rank=1, seed=4); a = list(s); s.set_epoch(1); a, list(s), len(s)", "[list(torch.utils.data.DistributedSampler(data, 3, r, drop_last=True)) for r in range(3)]", "torch.utils.data.distributed.DistributedSampler is torch.utils.data.DistributedSampler")
asked("default_collate", "torch.utils.data.default_collate([1, 2])", "torch.utils.data.default_collate([1.5, 2.5])", "torch.utils.data.default_collate(['a', 'b'])", "torch.utils.data.default_collate([(1, torch.ones(2)), (2, torch.zeros(2))])", "torch.utils.data.default_collate([{'a': 1}, {'a': 2}])", "torch.utils.data.default_collate([np.ones(2), np.zeros(2)])", "torch.utils.data.default_collate([[1, 2], [3, 4]])", "torch.utils.data.default_collate([np.float64(1), np.float64(2)])", "torch.utils.data.default_collate([True, False])")
fails(f"{U}DataLoader {U}TensorDataset {U}random_split {U}Subset {U}default_collate", ["torch.utils.data.DataLoader([1], batch_size=0)", "torch.utils.data.DataLoader([1], num_workers=-1)", "torch.utils.data.DataLoader([1], shuffle=True, sampler=[0])", "torch.utils.data.DataLoader([1], batch_sampler=[[0]], batch_size=2)", "torch.utils.data.DataLoader([1], timeout=-1)", "torch.utils.data.DataLoader([])[0]", "torch.utils.data.TensorDataset(torch.ones(2), torch.ones(3))", "torch.utils.data.random_split([1, 2, 3], [1, 1])", "torch.utils.data.random_split([1, 2, 3], [0.5, 0.6])", "torch.utils.data.default_collate([torch.ones(2), torch.ones(3)])", "torch.utils.data.default_collate([object()])", "torch.utils.data.default_collate([[1], [2, 3]])", "torch.utils.data.Subset([1], [5])[0]", "list(torch.utils.data.DataLoader([torch.ones(1), torch.ones(2)], 2))", "torch.utils.data.DataLoader([], shuffle=True, batch_size=None, drop_last=True)", "next(iter(torch.utils.data.DataLoader([])))"])
fails(f"{U}RandomSampler {U}DistributedSampler {U}SubsetRandomSampler", ["torch.utils.data.RandomSampler([1], replacement='a')", "torch.utils.data.RandomSampler([1], num_samples=0)", "torch.utils.data.DistributedSampler([1], 2, 5)", "torch.utils.data.SubsetRandomSampler()"])
