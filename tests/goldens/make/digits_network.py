"""Writes tests/goldens/digits_network.pt: a small network that PyTorch trained on the first 1,400 digits of
examples/data/digits.csv."""

from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[3]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = [[int(x) for x in line.split(",")] for line in (ROOT / "examples/data/digits.csv").read_text().split()]
    data = torch.tensor(rows)[:1400]
    x, y = data[:, :64].float().reshape(-1, 1, 8, 8) / 16, data[:, 64]
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(384, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _epoch in range(30):
        for part in torch.randperm(1400).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            optimizer.step()
    torch.save(model.state_dict(), ROOT / "tests/goldens/digits_network.pt")


if __name__ == "__main__":
    main()
