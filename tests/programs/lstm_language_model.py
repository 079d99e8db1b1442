"""A word LSTM language model: truncated backpropagation with carried hidden states, gradient clipping, tied weights, sampling."""

import torch
import torch.nn as nn

TEXT = """the cat sat on the mat . the dog sat on the log . the cat saw the dog . the dog saw the cat on the mat .
a bird sang on the log . the cat saw a bird . a bird saw the dog . the mat sat on a log .""".split()
words = sorted(set(TEXT))
index = {w: i for i, w in enumerate(words)}


def repackage_hidden(h):
    """New tensors of the hidden states, cut off from their history."""
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.1):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.nlayers, self.nhid = nlayers, nhid

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output))
        return decoded.view(-1, decoded.size(2)), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid)


torch.manual_seed(8)
data = torch.tensor([index[w] for w in TEXT])
data = data.narrow(0, 0, len(data) // 4 * 4).view(4, -1).t().contiguous()
model = RNNModel(len(words), 16, 16, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses, hidden, bptt = [], model.init_hidden(4), 5
for step in range(20):
    i = (step * bptt) % (data.size(0) - bptt - 1)
    x, y = data[i : i + bptt], data[i + 1 : i + 1 + bptt].reshape(-1)
    hidden = repackage_hidden(hidden)
    output, hidden = model(x, hidden)
    loss = nn.functional.cross_entropy(output, y)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    losses.append(loss.item())

model.eval()
word, hidden, said = torch.zeros(1, 1, dtype=torch.long), model.init_hidden(1), []
with torch.no_grad():
    for _ in range(8):
        output, hidden = model(word, hidden)
        weights = output.squeeze().div(0.8).exp()
        word.fill_(torch.multinomial(weights, 1)[0])
        said.append(words[word.item()])
print(" ".join(said))
