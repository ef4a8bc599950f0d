"""Deep Q-learning of the pole on a cart (Barto, Sutton and Anderson, 1983)."""

import math

from common import Progress, arguments, save, torch

nn, F = torch.nn, torch.nn.functional


class Cart:
    """Place, speed, angle and its speed; a push to the left or to the right every 20 ms."""

    def reset(self):
        self.state, self.steps = [0.1 * x - 0.05 for x in torch.rand(4).tolist()], 0
        return self.state

    def step(self, action):
        x, speed, angle, turn = self.state
        force, sine, cosine = 10.0 if action == 1 else -10.0, math.sin(angle), math.cos(angle)
        push = (force + 0.05 * turn * turn * sine) / 1.1
        bend = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
        pull = push - 0.05 * bend * cosine / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * bend]
        self.steps += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095
        return self.state, fell, fell or self.steps == 200


def network():
    """Values of both actions in a state."""
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))


class Agent:
    """A network, the older copy that it learns from, and what has been seen."""

    def __init__(self, lr):
        self.net, self.target = network(), network()
        self.target.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.memory, self.cart, self.lengths = [], Cart(), []
        self.state = self.cart.reset()

    def act(self, exploration):
        """One step in the world: at random with probability `exploration`."""
        if torch.rand(1).item() < exploration:
            action = torch.randint(2, (1,)).item()
        else:
            with torch.no_grad():
                action = self.net(torch.tensor([self.state])).argmax(1).item()
        before = self.state
        self.state, fell, is_over = self.cart.step(action)
        self.memory.append((before, action, self.state, 0.0 if fell else 1.0))
        if is_over:
            self.lengths.append(self.cart.steps)
            self.state = self.cart.reset()

    def learn(self, batch):
        """One step of the optimizer on remembered transitions; returns the loss."""
        picked = [self.memory[i] for i in torch.randint(len(self.memory), (batch,)).tolist()]
        before, actions, after, alive = (torch.tensor(list(column)) for column in zip(*picked))
        with torch.no_grad():
            wanted = alive + 0.98 * alive * self.target(after).amax(1)
        values = self.net(before).gather(1, actions.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(values, wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def begin(argv=None):
    """Options and agent, all of seed 0."""
    args = arguments(__doc__, argv, steps=3000, lr=1e-3, batch=32)
    torch.manual_seed(0)
    return args, Agent(args.lr)


def train(agent, args, limit=None):
    """Acts and learns by turns, for `limit` steps at most; returns the losses."""
    for _ in range(64):
        agent.act(1.0)
    progress, losses = Progress(args.steps), []
    while len(losses) < min(args.steps, limit or args.steps):
        agent.act(max(0.05, 1.0 - len(losses) / 1000))
        losses.append(agent.learn(args.batch))
        if len(losses) % 100 == 0:
            agent.target.load_state_dict(agent.net.state_dict())
        progress.step(f"loss {losses[-1]:.4f}")
    return losses


def main():
    args, agent = begin()
    losses = train(agent, args)
    last = agent.lengths[-10:]
    print(f"the last {len(last)} episodes had {sum(last) / len(last):.1f} steps")
    save(agent.net, losses, args, "dqn")


if __name__ == "__main__":
    main()
