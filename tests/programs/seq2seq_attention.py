"""Sequence to sequence with Bahdanau attention: reversing digits, teacher forcing, GRU cells, masked attention."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SOS, VOCAB, HIDDEN = 0, 8, 16


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class BahdanauAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(VOCAB, HIDDEN), BahdanauAttention()
        self.cell, self.out = nn.GRUCell(2 * HIDDEN, HIDDEN), nn.Linear(HIDDEN, VOCAB)

    def forward(self, states, hidden, mask, target=None):
        token = torch.full((states.size(0),), SOS)
        hidden, outputs, maps = hidden.squeeze(0), [], []
        for t in range(states.size(1)):
            context, weights = self.attention(hidden.unsqueeze(1), states, mask)
            hidden = self.cell(torch.cat([self.embedding(token), context.squeeze(1)], dim=-1), hidden)
            logits = self.out(hidden)
            outputs.append(logits)
            maps.append(weights)
            token = target[:, t] if target is not None else logits.topk(1)[1].squeeze(-1).detach()
        return torch.stack(outputs, 1), torch.cat(maps, 1)


torch.manual_seed(10)
random.seed(10)
encoder, decoder = Encoder(), Decoder()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
losses = []
for step in range(20):
    lengths = torch.randint(3, 6, (16,))
    mask = torch.arange(5)[None, :] < lengths[:, None]
    x = torch.randint(1, VOCAB, (16, 5)) * mask
    y = x.flip(1)
    states, hidden = encoder(x)
    logits, attention = decoder(states, hidden, mask, y if random.random() < 0.5 else None)
    loss = F.cross_entropy(logits.transpose(1, 2), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(decoder.parameters(), max_norm=1.0)
    optimizer.step()
    losses.append(loss.item())
print(attention[0].sum(-1).tolist())
