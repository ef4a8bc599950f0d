"""REINFORCE and actor-critic on a walk along a line."""

from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Walk:
    def reset(self):
        self.place, self.steps = 0, 0
        return torch.tensor([0.0, 1.0])

    def step(self, action):
        self.place += 1 if action == 1 else -1
        self.steps += 1
        done = abs(self.place) == 3 or self.steps == 12
        return torch.tensor([self.place / 3, 1.0]), float(self.place == 3) - 0.01, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(2, 16)
        self.dropout = nn.Dropout(p=0.1)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


eps = torch.finfo(torch.float32).eps
for critic in (False, True):
    torch.manual_seed(543)
    policy, env = Policy(), Walk()
    optimizer = optim.Adam(policy.parameters(), lr=3e-2)
    running = 0.0
    for episode in range(1, 41):
        state, rewards, saved, total = env.reset(), [], [], 0.0
        for t in range(20):
            probs, value = policy(state)
            m = Categorical(probs)
            action = m.sample()
            saved.append(SavedAction(m.log_prob(action), value))
            state, reward, done = env.step(action.item())
            rewards.append(reward)
            total += reward
            if done:
                break
        running = 0.05 * total + 0.95 * running
        R, returns = 0, []
        for r in rewards[::-1]:
            R = r + 0.99 * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        if len(returns) > 1:
            returns = (returns - returns.mean()) / (returns.std() + eps)
        losses = []
        for (log_prob, value), R in zip(saved, returns):
            if critic:
                losses.append(-log_prob * (R - value.item()))
                losses.append(F.smooth_l1_loss(value, R.reshape(1)).sum())
            else:
                losses.append(-log_prob * R)
        optimizer.zero_grad()
        loss = torch.stack([item.reshape(()) for item in losses]).sum()
        loss.backward()
        optimizer.step()
        if episode % 10 == 0:
            print("critic {} episode {} running {:.4f} loss {:.4f}".format(
                critic, episode, running, loss.item()))
