"""Deep Q-learning on a small grid: replay memory, a target network, gather, smooth L1 loss, soft updates."""

import random
from collections import deque, namedtuple

import torch
from torch import nn, optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
MOVES = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])


class Grid:
    def reset(self):
        self.at = torch.tensor([0, 0])
        return self.at.to(torch.get_default_dtype()) / 3

    def step(self, action):
        self.at = torch.clamp(self.at + MOVES[action], 0, 3)
        done = bool((self.at == 3).all())
        return self.at.to(torch.get_default_dtype()) / 3, 1.0 if done else -0.05, done


torch.manual_seed(19)
random.seed(19)
make = lambda: nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))  # noqa: E731
policy_net, target_net = make(), make()
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
memory, env, losses = deque([], maxlen=200), Grid(), []
state = env.reset()
while len(losses) < 20:
    if random.random() < 0.5:
        action = random.randrange(4)
    else:
        with torch.no_grad():
            action = policy_net(state.unsqueeze(0)).max(1).indices.item()
    following, reward, done = env.step(action)
    memory.append(Transition(state[None], torch.tensor([[action]]), None if done else following[None], torch.tensor([reward])))
    state = env.reset() if done else following
    if len(memory) < 16:
        continue
    batch = Transition(*zip(*random.sample(memory, 16)))
    going_on = torch.tensor([s is not None for s in batch.next_state], dtype=torch.bool)
    next_states = torch.cat([s for s in batch.next_state if s is not None])
    values = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    next_values = torch.zeros(16)
    with torch.no_grad():
        next_values[going_on] = target_net(next_states).max(1).values
    expected = next_values * 0.95 + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    mine, theirs = target_net.state_dict(), policy_net.state_dict()
    for key in theirs:
        mine[key] = theirs[key] * 0.05 + mine[key] * 0.95
    target_net.load_state_dict(mine)
    losses.append(loss.item())
print(len(memory))
