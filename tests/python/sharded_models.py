"""Small models for tests of training over several ranks: parameters are the same in every rank."""

from __future__ import annotations

from module_under_test import torch

nn, F = torch.nn, torch.nn.functional


class TransformerBlock(nn.Module):
    """A block of a transformer."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A language model whose last weight is that of its embedding."""

    def __init__(self, vocabulary=13, width=6, heads=2, layers=2, length=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([TransformerBlock(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Residual(nn.Module):
    """A block of a residual network."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return (x + self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))).relu()


class ResNet(nn.Module):
    """A residual network."""

    def __init__(self, channels=3, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList([Residual(channels) for _ in range(2)])
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def filled(model, seed=0):
    """The model in doubles, its parameters from numbers that every rank draws by itself."""
    model = model.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            norm = "norm" in name and name.endswith("weight")
            parameter.copy_(drawn * 0.3 + (1.0 if norm else 0.0))
    return model


def token_batches(steps, size, vocabulary=13, length=4):
    """Batches of tokens and the tokens that follow."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        drawn = torch.randint(0, vocabulary, (size, length + 1), generator=generator)
        yield drawn[:, :-1], drawn[:, 1:]


def image_batches(steps, size, classes=4):
    """Batches of images and classes."""
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        images = torch.randn(size, 3, 4, 4, generator=generator, dtype=torch.float64)
        yield images, torch.randint(0, classes, (size,), generator=generator)


def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
