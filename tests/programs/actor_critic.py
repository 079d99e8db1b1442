"""Advantage actor-critic on a two-armed chain: torch.distributions, entropy bonus, generalized advantages, shared body."""

import torch
from torch import nn
from torch.distributions import Categorical, Normal

torch.manual_seed(20)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
        self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)
        self.log_std = nn.Parameter(torch.zeros(1))
        self.mean = nn.Linear(16, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), Normal(self.mean(h).squeeze(-1), self.log_std.exp()), self.critic(h).squeeze(-1)


model = ActorCritic()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.95, centered=True)
losses = []
for update in range(20):
    state = torch.randn(8, 3)
    log_probs, values, rewards, entropies = [], [], [], []
    for t in range(6):
        choice, force, value = model(state)
        action, push = choice.sample(), force.sample()
        log_probs.append(choice.log_prob(action) + force.log_prob(push))
        entropies.append(choice.entropy() + force.entropy())
        values.append(value)
        state = torch.roll(state, shifts=1, dims=1) * 0.9 + 0.1 * push.unsqueeze(-1)
        rewards.append((action == state.argmax(dim=1)).to(state.dtype) - 0.05 * push**2)
    with torch.no_grad():
        following = model(state)[2]
    advantage, advantages = torch.zeros(8), []
    for t in reversed(range(6)):
        nextv = following if t == 5 else values[t + 1].detach()
        delta = rewards[t] + 0.95 * nextv - values[t].detach()
        advantage = delta + 0.95 * 0.9 * advantage
        advantages.insert(0, advantage)
    advantages, values = torch.stack(advantages), torch.stack(values)
    returns = advantages + values.detach()
    policy_loss = -(torch.stack(log_probs) * (advantages - advantages.mean()) / (advantages.std() + 1e-6)).mean()
    loss = policy_loss + 0.5 * (returns - values).pow(2).mean() - 0.01 * torch.stack(entropies).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    losses.append(loss.item())
print(model.log_std.item())
