"""Spiking networks: neurons of snntorch with their surrogate gradients, trained on made spikes with its losses."""

import json
import time

import snntorch as snn
import torch
from snntorch import functional as losses
from snntorch import spikegen, surrogate, utils
from torch import nn

started = time.perf_counter()
labels = torch.tensor([0, 1, 2])
neurons = {
    "Leaky": lambda: snn.Leaky(0.9, learn_beta=True, learn_threshold=True, spike_grad=surrogate.atan(), init_hidden=True),
    "Leaky to zero": lambda: snn.Leaky(0.9, reset_mechanism="zero", spike_grad=surrogate.fast_sigmoid(), init_hidden=True),
    "Synaptic": lambda: snn.Synaptic(0.8, 0.9, learn_alpha=True, spike_grad=surrogate.sigmoid(), init_hidden=True),
    "Alpha": lambda: snn.Alpha(0.9, 0.8, spike_grad=surrogate.triangular(), init_hidden=True),
}
for name, neuron in neurons.items():
    for loss_of in (losses.ce_rate_loss(), losses.mse_count_loss(), losses.ce_count_loss()):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 8), neuron(), nn.Linear(8, 3), neuron())
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            utils.reset(net)
            spikes = torch.stack([net(step * 4) for step in spikegen.rate(torch.rand(3, 5), num_steps=6)])
            loss = loss_of(spikes, labels)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            optimizer.step()
            accuracy = float(losses.accuracy_rate(spikes, labels))
            print(
                json.dumps({"neuron": name, "loss": loss.item(), "norm": norm.item(), "spikes": spikes.sum().item(), "accuracy": accuracy})
            )

torch.manual_seed(0)
cell = snn.SLSTM(5, 4)
spikes, state = [], cell.init_slstm()
for step in torch.rand(4, 2, 5):
    spike, *state = cell(step, *state)
    spikes.append(spike)
(torch.stack(spikes).sum() + sum(part.sum() for part in state)).backward()
print(json.dumps({"SLSTM": [part.sum().item() for part in state], "gradients": [p.grad.sum().item() for p in cell.parameters()]}))
print(json.dumps({"seconds": time.perf_counter() - started}))
