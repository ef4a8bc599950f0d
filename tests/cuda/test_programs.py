"""Networks trained on the device lose what they lose on the CPU."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(16, 32), nn.Linear(32, 16)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.head(self.layer(self.embedding(x), src_mask=mask, is_causal=True))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(6, 10, num_layers=2, batch_first=True, bidirectional=True), nn.Linear(20, 1)

    def forward(self, x):
        return self.head(self.cells(x)[0])


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(128, 10))


@usable
class Training(CudaTest):
    def losses(self, device, make, optimizer, loss):
        torch.manual_seed(0)
        model = make().to(device)
        steps = optimizer(model.parameters())
        found = []
        for _ in range(4):
            steps.zero_grad()
            value = loss(model)
            value.backward()
            steps.step()
            found.append(value.item())
        state = {name: value.cpu() for name, value in model.state_dict().items()}
        return found, state

    def both(self, make, optimizer, loss):
        wanted, wanted_state = self.losses("cpu", make, optimizer, lambda model: loss(model, "cpu"))
        found, state = self.losses("cuda", make, optimizer, lambda model: loss(model, "cuda"))
        for one, other in zip(found, wanted):
            self.assertAlmostEqual(one, other, delta=1e-4)
        for name, value in wanted_state.items():
            self.assertTrue(torch.allclose(state[name].float(), value.float(), 1e-3, 1e-4), name)
        self.assertNotEqual(found[0], found[-1])

    def test_convolutions(self):
        images, labels = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))
        self.both(convolutions, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
                  lambda model, device: F.cross_entropy(model(images.to(device)), labels.to(device)))

    def test_transformer(self):
        text = torch.randint(0, 16, (2, 12))
        self.both(Gpt, lambda p: torch.optim.SGD(p, 0.1), lambda model, device: F.cross_entropy(
            model(text.to(device))[:, :-1].reshape(-1, 16), text.to(device)[:, 1:].reshape(-1)))

    def test_lstm(self):
        x = torch.randn(3, 7, 6)
        self.both(Lstm, lambda p: torch.optim.Adam(p, 1e-2), lambda model, device: (model(x.to(device)) ** 2).mean())


if __name__ == "__main__":
    unittest.main()
