"""A small transformer that reads handwritten digits as 16 patches of 2 x 2 pixels."""

from common import accuracy, arguments, digits, save, torch, train_classifier

nn = torch.nn


class Reader(nn.Module):
    """Patches to vectors, positions added, two encoder layers, the mean, ten classes."""

    def __init__(self, width=48, heads=4, layers=2):
        super().__init__()
        self.patches = nn.Conv2d(1, width, kernel_size=2, stride=2)
        self.positions = nn.Parameter(torch.randn(16, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, dim_feedforward=2 * width, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.classes = nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.classes(self.encoder(x).mean(dim=1))


def begin(argv=None):
    """Options, model and data, all of seed 0."""
    args = arguments(__doc__, argv, epochs=24, lr=5e-3)
    torch.manual_seed(0)
    train, test = digits()
    return args, Reader(), train, test


def main():
    args, net, train, test = begin()
    losses = train_classifier(net, train, args)
    print(f"test accuracy {accuracy(net, test):.2%}")
    save(net, losses, args, "digits_transformer")


if __name__ == "__main__":
    main()
