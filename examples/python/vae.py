"""A variational autoencoder of handwritten digits."""

from common import Progress, arguments, digits, save, torch

nn, F = torch.nn, torch.nn.functional


class VAE(nn.Module):
    """Pictures of 64 pixels to a normal distribution of `latent` numbers, and back."""

    def __init__(self, width=48, latent=6):
        super().__init__()
        self.encoder = nn.Linear(64, width)
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 64), nn.Sigmoid())

    def forward(self, x):
        hidden = torch.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(latent), mean, log_variance


def loss_of(net, x):
    """The negative evidence lower bound of one picture."""
    seen, mean, log_variance = net(x)
    error = F.binary_cross_entropy(seen, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean * mean - log_variance.exp()).sum()
    return (error + divergence) / x.shape[0]


def begin(argv=None):
    """Options, model and pictures, all of seed 0."""
    args = arguments(__doc__, argv, epochs=10, lr=3e-3)
    torch.manual_seed(0)
    return args, VAE(), *digits()


def train(net, data, args, limit=None):
    """Trains with Adam, for `limit` steps at most; returns the losses."""
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    progress, losses = Progress(args.epochs * len(loader)), []
    for epoch in range(args.epochs):
        for images, _ in loader:
            loss = loss_of(net, images.flatten(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            progress.step(f"epoch {epoch + 1}  loss {losses[-1]:.4f}")
            if len(losses) == limit:
                return losses
    return losses


def main():
    args, net, data, test = begin()
    losses = train(net, data, args)
    with torch.no_grad():
        images = torch.stack([image for image, _ in test]).flatten(1)
        print(f"bound of unseen digits {loss_of(net, images).item():.3f}")
    save(net, losses, args, "vae")


if __name__ == "__main__":
    main()
