"""A small convolutional network that reads handwritten digits."""

from common import accuracy, arguments, digits, save, torch, train_classifier

nn = torch.nn


def model():
    """Two convolutions with batch normalisation and two linear layers: 42 thousand weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10),
    )


def begin(argv=None):
    """Options, model and data, all of seed 0."""
    args = arguments(__doc__, argv, epochs=12, lr=4e-3)
    torch.manual_seed(0)
    train, test = digits()
    return args, model(), train, test


def main():
    args, net, train, test = begin()
    losses = train_classifier(net, train, args)
    print(f"test accuracy {accuracy(net, test):.2%}")
    save(net, losses, args, "digits_cnn")


if __name__ == "__main__":
    main()
