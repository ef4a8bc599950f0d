"""The operators and programs whose kernels a pack has: common dtypes and layouts, training steps of common networks."""

import warnings

import corten as torch

F, nn = torch.nn.functional, torch.nn
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
UNARY = "exp log sqrt rsqrt abs neg sin cos tanh sigmoid relu floor ceil round square reciprocal erf sign".split()
BINARY = "add sub mul div pow maximum minimum eq ne lt le gt ge".split()


def layouts(dtype):
    x = torch.ones(6, 8, device="cuda").to(dtype)
    return [(x, x), (x, x[0]), (x.t(), x.t().contiguous())]


def attempt(*functions):
    """Calls functions; what one of them refuses, for its dtype for instance, says nothing about the others."""
    for function in functions:
        try:
            function()
        except (RuntimeError, TypeError, IndexError) as error:
            if "NVRTC" in str(error):
                raise
            warnings.warn(f"not in the pack: {error}"[:200])


def operators():
    for dtype in [*FLOATS, torch.int64, torch.bool]:
        for x, y in layouts(dtype):
            for name in BINARY:
                attempt(lambda: getattr(torch, name)(x, y))
                if name not in ("maximum", "minimum"):
                    attempt(lambda: getattr(torch, name)(x, 2))
            attempt(x.clone, lambda: x.to(torch.float32), lambda: torch.where(y > 0, x, y), lambda: torch.zeros_like(x).copy_(y))
        for name in "sum mean amax amin argmax argmin any all prod max min std var norm".split():
            attempt(lambda: getattr(x, name)(), lambda: getattr(x, name)(dim=1), lambda: getattr(x, name)(dim=0))
        index = torch.tensor([0, 1, 1, 0], device="cuda")
        attempt(lambda: x.logsumexp(1), lambda: x.cumsum(1), lambda: x.cumsum(0), lambda: x[index], lambda: x[:, index],
                lambda: torch.cat([x, y]), lambda: x.gather(1, index.expand(6, 4)), lambda: x.masked_fill(x > 0, 1),
                lambda: x.index_select(0, index), x.sort, lambda: x.topk(2), lambda: x.flip(0), lambda: torch.stack([x, y]),
                lambda: x.fill_(1))
    for dtype in FLOATS:
        for x, _ in layouts(dtype):
            attempt(*[lambda name=name: getattr(torch, name)(x) for name in UNARY])
            for name in "gelu silu leaky_relu elu softplus".split():
                attempt(lambda: getattr(F, name)(x.clone().requires_grad_()).sum().backward())
            attempt(lambda: F.softmax(x.clone().requires_grad_(), 1).sum().backward(), lambda: F.log_softmax(x, 1))
        attempt(lambda: x @ x.t(), lambda: torch.bmm(x[None], x.t()[None]), lambda: torch.rand_like(x), lambda: torch.randn_like(x))


def train(model, *inputs, classes=None, optimizer=torch.optim.AdamW):
    model = model.cuda()
    steps = optimizer(model.parameters(), 1e-3)
    for _ in range(2):
        steps.zero_grad()
        out = model(*inputs)
        out = out[0] if isinstance(out, tuple) else out
        loss = out.float().square().mean() if classes is None else F.cross_entropy(out.flatten(0, -2), classes.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()


def programs():
    words, images = torch.zeros(2, 8, dtype=torch.int64, device="cuda"), torch.ones(2, 3, 16, 16, device="cuda")
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    text = nn.Sequential(nn.Embedding(10, 16), layer, nn.LayerNorm(16), nn.Linear(16, 10))
    attempt(lambda: train(text, words, classes=words))
    picture = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 1),
                            nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8, 10))
    for optimizer in (torch.optim.SGD, torch.optim.Adam):
        attempt(lambda: train(picture, images, classes=words[:, 0], optimizer=optimizer))
    attempt(lambda: train(nn.LSTM(4, 8), torch.ones(3, 2, 4, device="cuda")))
    attempt(lambda: train(nn.GRU(4, 8), torch.ones(3, 2, 4, device="cuda")))
    for dtype in (torch.float16, torch.bfloat16):
        q = torch.ones(1, 2, 8, 16, device="cuda", dtype=dtype, requires_grad=True)
        attempt(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward())
        attempt(lambda: F.layer_norm(q, (16,)).sum().backward())


if __name__ == "__main__":
    operators()
    programs()
    torch.cuda.synchronize()
