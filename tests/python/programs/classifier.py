"""A convolutional classifier of digits drawn as bars, trained, tested, saved and loaded."""

import argparse
import io

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 8, 3, 1)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(8 * 4 * 4, 16)
        self.fc2 = nn.Linear(16, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout(torch.flatten(x, 1))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def bars(count, generator):
    labels = torch.arange(count) % 4
    images = 0.1 * torch.randn(count, 1, 12, 12, generator=generator)
    for image, label in zip(images, labels):
        if label < 2:
            image[0, :, 3 + 5 * int(label)] += 1
        else:
            image[0, 3 + 5 * int(label - 2)] += 1
    return TensorDataset(images, labels)


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print("Train Epoch: {} Loss: {:.4f}".format(epoch, loss.item()))


def test(model, device, loader):
    model.eval()
    loss, correct = 0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print("Test: {:.4f}, {}/{}".format(loss / len(loader.dataset), correct, len(loader.dataset)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log-interval", type=int, default=4)
    parser.add_argument("--no-accel", action="store_true")
    args = parser.parse_args()
    use_accel = not args.no_accel and torch.accelerator.is_available()
    torch.manual_seed(1)
    device = torch.accelerator.current_accelerator() if use_accel else torch.device("cpu")
    generator = torch.Generator().manual_seed(2)
    loader = DataLoader(bars(64, generator), batch_size=8, shuffle=True)
    test_loader = DataLoader(bars(32, generator), batch_size=16)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, 4):
        train(args, model, device, loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file))
    test(model, device, test_loader)


if __name__ == "__main__":
    main()
