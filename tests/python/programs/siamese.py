"""Two towers with shared weights that say whether two pictures show the same thing."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=2, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True),
            nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )
        self.fc = nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))
        self.sigmoid = nn.Sigmoid()
        self.fc.apply(self.init_weights)

    def init_weights(self, m):
        if isinstance(m, nn.Linear):
            torch.nn.init.xavier_uniform_(m.weight)
            m.bias.data.fill_(0.01)

    def forward_once(self, x):
        output = self.features(x)
        return output.view(output.size()[0], -1)

    def forward(self, a, b):
        output = torch.cat((self.forward_once(a), self.forward_once(b)), 1)
        return self.sigmoid(self.fc(output))


class Pairs(Dataset):
    def __init__(self, count):
        self.data = torch.randn(count, 10, 10) * 0.2
        self.targets = torch.arange(count) % 3
        for image, target in zip(self.data, self.targets):
            image[int(target) * 3:int(target) * 3 + 3] += 1.0
        self.grouped = [torch.where(self.targets == i)[0] for i in range(3)]

    def __len__(self):
        return self.data.shape[0]

    def __getitem__(self, index):
        chosen = random.randint(0, 2)
        first = self.data[self.grouped[chosen][index % len(self.grouped[chosen])]].unsqueeze(0)
        other = chosen if index % 2 == 0 else (chosen + 1) % 3
        second = self.data[random.choice(self.grouped[other].tolist())].unsqueeze(0)
        return first.float(), second.float(), torch.tensor(float(index % 2 == 0))


random.seed(5)
torch.manual_seed(5)
model = SiameseNetwork()
loader = DataLoader(Pairs(60), batch_size=12, shuffle=True)
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
criterion = nn.BCELoss()
for epoch in range(1, 5):
    model.train()
    total = 0.0
    for a, b, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(a, b).squeeze(), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for a, b, targets in loader:
            pred = torch.where(model(a, b).squeeze() > 0.5, 1, 0)
            correct += pred.eq(targets.view_as(pred)).sum().item()
    print("epoch {} loss {:.4f} lr {:.4f}".format(epoch, total, scheduler.get_last_lr()[0]))
