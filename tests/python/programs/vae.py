"""A variational autoencoder of small pictures."""

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(1)


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(36, 24)
        self.fc21 = nn.Linear(24, 4)
        self.fc22 = nn.Linear(24, 4)
        self.fc3 = nn.Linear(4, 24)
        self.fc4 = nn.Linear(24, 36)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 36))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 36), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


pictures = torch.zeros(40, 1, 6, 6)
for i in range(40):
    pictures[i, 0, i % 6, :] = 1.0
    pictures[i, 0, :, i // 6 % 6] = 1.0
loader = torch.utils.data.DataLoader(pictures, batch_size=10, shuffle=True)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(1, 6):
    model.train()
    total = 0
    for data in loader:
        optimizer.zero_grad()
        loss = loss_function(*model(data)[:1], data, *model(data)[1:])
        loss.backward()
        total += loss.item()
        optimizer.step()
    print("Epoch: {} loss: {:.3f}".format(epoch, total / len(pictures)))
with torch.no_grad():
    print("sample mean {:.4f}".format(model.decode(torch.randn(16, 4)).mean().item()))
