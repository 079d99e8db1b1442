"""torch_geometric: graph networks on a small graph and on batches of graphs."""

import json
import time

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, TransformerConv, global_add_pool, global_mean_pool
from torch_geometric.transforms import NormalizeFeatures
from torch_geometric.utils import add_self_loops, degree, to_dense_adj, to_undirected

torch.manual_seed(0)
edges = to_undirected(torch.randint(0, 20, (2, 40)))
graph = NormalizeFeatures()(Data(x=torch.rand(20, 6), edge_index=edges, y=torch.randint(0, 3, (20,))))
started = time.perf_counter()
for kind in (
    GCNConv,
    GATConv,
    SAGEConv,
    TransformerConv,
    lambda i, o: GINConv(torch.nn.Sequential(torch.nn.Linear(i, o), torch.nn.ReLU())),
):
    torch.manual_seed(1)
    first, second = kind(6, 8), kind(8, 3)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        out = second(F.dropout(first(graph.x, graph.edge_index).relu(), 0.5), graph.edge_index)
        loss = F.cross_entropy(out, graph.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps({"layer": type(first).__name__, "losses": losses}))
graphs = [Data(x=torch.rand(n, 6), edge_index=torch.randint(0, n, (2, 2 * n)), y=torch.tensor([n % 2])) for n in range(4, 12)]
torch.manual_seed(2)
conv = GCNConv(6, 4)
for batch in DataLoader(graphs, batch_size=4, shuffle=True):
    hidden = conv(batch.x, batch.edge_index)
    pooled = global_mean_pool(hidden, batch.batch) + global_add_pool(hidden, batch.batch)
    print(json.dumps({"pooled": pooled.sum(1).tolist(), "graphs": batch.num_graphs, "first": batch[0].num_nodes}))
print(json.dumps({
    "degree": degree(graph.edge_index[0], 20).tolist(), "adjacency": to_dense_adj(graph.edge_index).sum().item(), "loops": list(add_self_loops(graph.edge_index)[0].shape),
    "seconds": time.perf_counter() - started,
}))  # fmt: skip
