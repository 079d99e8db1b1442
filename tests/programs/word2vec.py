"""Skip-gram word vectors with negative sampling: two embeddings, multinomial draws by frequency, logsigmoid, nearest words."""

from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = """we are about to study the idea of a computational process . computational processes are abstract beings that inhabit
computers . as they evolve , processes manipulate other abstract things called data . the evolution of a process is directed by a
pattern of rules called a program . people create programs to direct processes . in effect , we conjure the spirits of the computer
with our spells .""".split()


class SkipGram(nn.Module):
    def __init__(self, vocabulary, dim):
        super().__init__()
        self.centre, self.context = nn.Embedding(vocabulary, dim), nn.Embedding(vocabulary, dim)
        nn.init.uniform_(self.centre.weight, -0.5 / dim, 0.5 / dim)
        nn.init.zeros_(self.context.weight)

    def forward(self, centre, context, negatives):
        v, u, n = self.centre(centre), self.context(context), self.context(negatives)
        positive = F.logsigmoid((v * u).sum(dim=1))
        negative = F.logsigmoid(-torch.bmm(n, v.unsqueeze(2)).squeeze(2)).sum(dim=1)
        return -(positive + negative).mean()


torch.manual_seed(25)
counts = Counter(TEXT)
vocabulary = [w for w, _ in counts.most_common()]
ids = {w: i for i, w in enumerate(vocabulary)}
pairs = torch.tensor([(ids[w], ids[TEXT[j]]) for i, w in enumerate(TEXT) for j in range(max(0, i - 2), min(len(TEXT), i + 3)) if j != i])
noise = torch.tensor([counts[w] for w in vocabulary]).pow(0.75)
model = SkipGram(len(vocabulary), 12)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
losses = []
for step in range(20):
    batch = pairs[torch.randint(len(pairs), (64,))]
    negatives = torch.multinomial(noise, 64 * 5, replacement=True).view(64, 5)
    loss = model(batch[:, 0], batch[:, 1], negatives)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
vectors = F.normalize(model.centre.weight.detach(), dim=1)
near = (vectors @ vectors[ids["process"]]).argsort(descending=True)[:3]
print([vocabulary[i] for i in near])
