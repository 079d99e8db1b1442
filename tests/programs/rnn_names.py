"""A character RNN that tells the language of a name: one-hot letters, one sequence at a time, a hand-written update."""

import string
import unicodedata

import torch
import torch.nn as nn

NAMES = {"Italian": ["Rossi", "Ferrari", "Esposito", "Bianchi"], "Polish": ["Nowak", "Kowalski", "Wiśniewski", "Wójcik"],
         "Japanese": ["Sato", "Suzuki", "Takahashi", "Tanaka"]}  # fmt: skip
LETTERS = string.ascii_letters + " .,;'"


def to_ascii(s):
    return "".join(c for c in unicodedata.normalize("NFD", s) if unicodedata.category(c) != "Mn" and c in LETTERS)


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(LETTERS))
    for i, letter in enumerate(line):
        tensor[i][0][LETTERS.find(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = torch.tanh(self.i2h(torch.cat((input, hidden), 1)))
        return self.softmax(self.h2o(hidden)), hidden

    def init_hidden(self):
        return torch.zeros(1, self.hidden_size)


torch.manual_seed(7)
categories = list(NAMES)
rnn, criterion, learning_rate = RNN(len(LETTERS), 24, len(categories)), nn.NLLLoss(), 0.05
losses = []
for step in range(20):
    category = categories[step % 3]
    line = line_to_tensor(to_ascii(NAMES[category][step % 4]))
    hidden = rnn.init_hidden()
    rnn.zero_grad()
    for i in range(line.size(0)):
        output, hidden = rnn(line[i], hidden)
    loss = criterion(output, torch.tensor([categories.index(category)], dtype=torch.long))
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    losses.append(loss.item())
top, index = output.topk(2)
print(f"{categories[index[0][0].item()]} ({top[0][0].item():.2f})")
