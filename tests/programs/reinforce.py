"""REINFORCE on a corridor: sampling actions, log-probabilities kept by hand, discounted and normalized returns."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Corridor:
    """Walk from the middle of nine places to the right end; each step costs a little."""

    def reset(self):
        self.at, self.time = 4, 0
        return self.seen()

    def seen(self):
        return F.one_hot(torch.tensor(self.at), 9).to(torch.get_default_dtype())

    def step(self, action):
        self.at += 1 if action == 1 else -1
        self.time += 1
        done = self.at in (0, 8) or self.time >= 15
        return self.seen(), 1.0 if self.at == 8 else -0.02, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.dropout, self.affine2 = nn.Linear(9, 16), nn.Dropout(p=0.2), nn.Linear(16, 2)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.dropout(self.affine1(x)))), dim=1)


torch.manual_seed(18)
policy, env = Policy(), Corridor()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
eps = torch.finfo(torch.get_default_dtype()).eps
losses = []
for episode in range(20):
    state, done = env.reset(), False
    while not done:
        probs = policy(state.unsqueeze(0))
        action = torch.multinomial(probs, 1).item()
        policy.saved_log_probs.append(torch.log(probs[0, action]))
        state, reward, done = env.step(action)
        policy.rewards.append(reward)
    R, returns = 0, []
    for r in policy.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns, dtype=torch.get_default_dtype())
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = torch.stack([-log_prob * R for log_prob, R in zip(policy.saved_log_probs, returns)]).sum()
    optimizer.zero_grad()
    policy_loss.backward()
    optimizer.step()
    losses.append(policy_loss.item())
    del policy.rewards[:]
    del policy.saved_log_probs[:]
print(env.at)
