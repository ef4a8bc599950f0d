"""A small convolutional network that reads handwritten digits."""

from common import arguments, digits, save, torch, train_classifier

nn = torch.nn


def model():
    """Two convolutions with batch normalisation and two linear layers: 42 thousand weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10),
    )


def main():
    args = arguments(__doc__, epochs=12, lr=4e-3)
    torch.manual_seed(0)
    train, test = digits()
    net = model()
    losses, right = train_classifier(net, train, test, args)
    print(f"test accuracy {right:.2%}")
    save(net, losses, args, "digits_cnn")


if __name__ == "__main__":
    main()
