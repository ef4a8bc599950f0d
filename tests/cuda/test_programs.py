"""Networks trained on the device lose what they lose on the CPU."""

import sys
import unittest
import warnings
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


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.c_attn(x).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.attn = SelfAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGpt(nn.Module):
    """A decoder with positions, pre-normalisation and tied weights."""

    def __init__(self, vocabulary=20, length=16, width=32, heads=4, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, bias=False)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0.0, 0.2)

    def forward(self, x):
        x = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def decayed(parameters):
    parameters = list(parameters)
    return torch.optim.AdamW([{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
                              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
                             lr=1e-3, betas=(0.9, 0.95))


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
    def setUp(self):
        # cuDNN's convolutions round to TF32 unless they are told not to.
        cudnn = torch.backends.cudnn
        self.addCleanup(setattr, cudnn, "allow_tf32", cudnn.allow_tf32)
        cudnn.allow_tf32 = False

    def losses(self, device, make, optimizer, loss, clipped=None):
        torch.manual_seed(0)
        model = make().to(device)
        steps = optimizer(model.parameters())
        found = []
        for _ in range(4):
            steps.zero_grad()
            value = loss(model)
            value.backward()
            if clipped is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clipped)
            steps.step()
            found.append(value.item())
        state = {name: value.cpu() for name, value in model.state_dict().items()}
        return found, state

    def both(self, make, optimizer, loss, clipped=None):
        wanted, wanted_state = self.losses("cpu", make, optimizer, lambda model: loss(model, "cpu"), clipped)
        found, state = self.losses("cuda", make, optimizer, lambda model: loss(model, "cuda"), clipped)
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

    def test_nanogpt(self):
        text = torch.randint(0, 20, (3, 17))

        def loss(model, device):
            logits = model(text[:, :-1].to(device))
            return F.cross_entropy(logits.view(-1, 20), text[:, 1:].to(device).reshape(-1))

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.both(NanoGpt, decayed, loss, clipped=1.0)

    def test_lstm(self):
        x = torch.randn(3, 7, 6)
        self.both(Lstm, lambda p: torch.optim.Adam(p, 1e-2), lambda model, device: (model(x.to(device)) ** 2).mean())


if __name__ == "__main__":
    unittest.main()
