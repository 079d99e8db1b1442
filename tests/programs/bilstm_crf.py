"""A bidirectional LSTM with a conditional random field: the partition function by logsumexp, Viterbi decoding."""

import torch
import torch.nn as nn

TAGS, START, STOP = 3, 3, 4


class BiLSTM_CRF(nn.Module):
    def __init__(self, words, embedding=6, hidden=8):
        super().__init__()
        self.hidden_dim = hidden
        self.word_embeds = nn.Embedding(words, embedding)
        self.lstm = nn.LSTM(embedding, hidden // 2, num_layers=1, bidirectional=True)
        self.hidden2tag = nn.Linear(hidden, 5)
        self.transitions = nn.Parameter(torch.randn(5, 5))
        self.transitions.data[START, :] = -10000
        self.transitions.data[:, STOP] = -10000

    def _features(self, sentence):
        hidden = (torch.zeros(2, 1, self.hidden_dim // 2), torch.zeros(2, 1, self.hidden_dim // 2))
        out, _ = self.lstm(self.word_embeds(sentence).view(len(sentence), 1, -1), hidden)
        return self.hidden2tag(out.view(len(sentence), self.hidden_dim))

    def _forward_alg(self, feats):
        alphas = torch.full((5,), -10000.0)
        alphas[START] = 0.0
        for feat in feats:
            alphas = torch.logsumexp(alphas.unsqueeze(0) + self.transitions + feat.unsqueeze(1), dim=1)
        return torch.logsumexp(alphas + self.transitions[STOP], dim=0)

    def _score_sentence(self, feats, tags):
        score = torch.zeros(1)
        tags = torch.cat([torch.tensor([START], dtype=torch.long), tags])
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return score + self.transitions[STOP, tags[-1]]

    def neg_log_likelihood(self, sentence, tags):
        feats = self._features(sentence)
        return self._forward_alg(feats) - self._score_sentence(feats, tags)

    @torch.no_grad()
    def forward(self, sentence):
        backpointers, scores = [], torch.full((5,), -10000.0).index_fill_(0, torch.tensor([START]), 0.0)
        for feat in self._features(sentence):
            best, where = (scores.unsqueeze(0) + self.transitions).max(dim=1)
            scores = best + feat
            backpointers.append(where)
        last = (scores + self.transitions[STOP]).argmax().item()
        path = [last]
        for where in reversed(backpointers):
            path.append(where[path[-1]].item())
        return path[-2::-1]


torch.manual_seed(37)
sentences = [torch.randint(0, 12, (n,)) for n in (5, 7, 4, 6)]
tags = [s.remainder(TAGS) for s in sentences]
model = BiLSTM_CRF(12)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
losses = []
for step in range(20):
    model.zero_grad()
    loss = model.neg_log_likelihood(sentences[step % 4], tags[step % 4])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(model(sentences[0]))
