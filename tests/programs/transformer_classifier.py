"""nn.TransformerEncoder as a classifier of sequences: sinusoidal positions, padding mask, mean pooling over what is not padding."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Classifier(nn.Module):
    def __init__(self, ntoken=20, d_model=16, nhead=4, nlayers=2):
        super().__init__()
        self.embedding = nn.Embedding(ntoken, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward=32, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, nlayers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, 2)
        self.d_model = d_model

    def forward(self, tokens):
        padding = tokens == 0
        x = self.pos_encoder(self.embedding(tokens) * math.sqrt(self.d_model))
        x = self.encoder(x, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1)
        return self.head((x * keep).sum(1) / keep.sum(1))


torch.manual_seed(11)
tokens = torch.randint(1, 20, (64, 12))
tokens[torch.arange(12) >= torch.randint(5, 13, (64, 1))] = 0
labels = (tokens == 7).any(dim=1).long()
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=20)
losses = []
for step in range(20):
    at = torch.arange(16) + 16 * (step % 4)
    loss = nn.functional.cross_entropy(model(tokens[at]), labels[at], weight=torch.tensor([1.0, 1.5]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
print(len(model.state_dict()), model.encoder.layers[0].self_attn.in_proj_weight.shape)
