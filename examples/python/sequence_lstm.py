"""Two layers of LSTM that learn to continue sine waves."""

from common import Progress, arguments, save, torch

nn, F = torch.nn, torch.nn.functional


class Continuation(nn.Module):
    """At each place of a wave, its next value."""

    def __init__(self, width=24):
        super().__init__()
        self.lstm = nn.LSTM(1, width, num_layers=2, batch_first=True)
        self.next = nn.Linear(width, 1)

    def forward(self, x):
        seen, _ = self.lstm(x)
        return self.next(seen)


def waves(count, length):
    """Sine waves of random phase and frequency: (count, length, 1)."""
    phase, frequency = torch.rand(count, 1) * 6.0, torch.rand(count, 1) * 0.2 + 0.1
    return torch.sin(phase + frequency * torch.arange(length)).unsqueeze(-1)


def begin(argv=None):
    """Options and model, all of seed 0."""
    args = arguments(__doc__, argv, steps=200, lr=1e-2, length=32, batch=16)
    torch.manual_seed(0)
    return args, Continuation()


def train(net, args, limit=None):
    """Trains with Adam and a cosine schedule, for `limit` steps at most; returns the losses."""
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    progress, losses = Progress(args.steps), []
    while len(losses) < min(args.steps, limit or args.steps):
        x = waves(args.batch, args.length + 1)
        loss = F.mse_loss(net(x[:, :-1]), x[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress.step(f"loss {losses[-1]:.4f}")
    return losses


def main():
    args, net = begin()
    losses = train(net, args)
    with torch.no_grad():
        x = waves(64, args.length + 1)
        print(f"mean square error of unseen waves {F.mse_loss(net(x[:, :-1]), x[:, 1:]).item():.4f}")
    save(net, losses, args, "sequence_lstm")


if __name__ == "__main__":
    main()
