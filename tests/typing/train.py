"""A training loop with types, as programs write it."""

from __future__ import annotations

import corten as torch
import corten.nn.functional as F
from corten import Tensor, nn, optim
from corten.utils.data import DataLoader, Dataset, TensorDataset


class Net(nn.Module):
    scale: Tensor

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 3, bias=False)
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(2)])
        self.weight = nn.Parameter(torch.zeros(width))
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        for layer in self.layers:
            x = x + layer(x)
        x = self.drop(self.norm(x)) * self.scale + self.weight
        return F.log_softmax(self.second(x), dim=-1)


class Squares(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(4), index % 3


def accuracy(out: Tensor, target: Tensor) -> float:
    return (out.argmax(dim=1) == target).float().mean().item()


def train(epochs: int = 1) -> list[float]:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(8).to(device)
    data = TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    losses: list[float] = []
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad(set_to_none=True)
            out = model(x)
            loss = F.nll_loss(out, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    model.eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.zeros_like(parameter), alpha=0.5)
            assert name and parameter.requires_grad
    torch.save(model.state_dict(), "/dev/null")
    return losses


if __name__ == "__main__":
    print(train(), len(Squares()))
