"""A bidirectional GRU tagger on sequences of different lengths: pad_sequence, packing, a loss that ignores the padding."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

torch.manual_seed(9)
sequences = [torch.randint(1, 12, (n,)) for n in (9, 4, 7, 5, 8, 3)]
tags = [(s % 3 == 0).long() + (s > 6).long() for s in sequences]  # of each number: how many of two things are true


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8, padding_idx=0)
        self.gru = nn.GRU(8, 10, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(20, 3)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        states, last = self.gru(packed)
        states, lengths = pad_packed_sequence(states, batch_first=True)
        assert last.shape == (4, len(x), 10)
        return self.out(states)


model = Tagger()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.005)
criterion = nn.CrossEntropyLoss(ignore_index=-1)
x, y = pad_sequence(sequences, batch_first=True), pad_sequence(tags, batch_first=True, padding_value=-1)
lengths = torch.tensor([len(s) for s in sequences])
losses = []
for step in range(20):
    logits = model(x, lengths)
    loss = criterion(logits.view(-1, 3), y.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
known = y != -1
print(
    f"{(logits.argmax(-1)[known] == y[known]).sum().item()} of {known.sum().item()} tags, padding row {model.embed.weight[0].abs().sum().item()}"
)
