"""Kernels of every family once, small: what compute-sanitizer runs (on_gpu.py). Prints the families that ran."""

import sys

import corten as torch

F, nn = torch.nn.functional, torch.nn


def pointwise(x):
    return x + x.t().contiguous().t(), (x * 2).half() + 1, torch.where(x > 0, x, x[0]), x[:, ::2].exp()


def reductions(x):
    return x.sum(), x.sum(0), x.mean(1), x.amax(0), x.var(), x.argmax(1), x.norm(), (x > 0).any()


def products(x):
    return x @ x.t(), x.half() @ x.half().t(), torch.bmm(x[None], x.t()[None])


def rows(x):
    y = x.clone().requires_grad_()
    (F.softmax(y, 1).sum() + F.log_softmax(y, 0).sum() + F.layer_norm(y, y.shape[-1:]).sum()).backward()
    return y.grad


def selections(x):
    index = torch.tensor([0, 2, 1, 2], device="cuda")
    put = torch.zeros_like(x).index_put_((index,), x[:4], accumulate=True)
    return x[index], x.gather(1, index.expand(x.shape[0], 4)), put, x[x > 0], torch.cat([x, x]), x.scatter(1, index[None], 1.0)


def ordering(x):
    return x.sort(), x.topk(3), x.flatten().sort(), x.long().unique(), x.cumsum(1), torch.searchsorted(x[0].sort()[0], x)


def random(x):
    return torch.rand_like(x), torch.randn_like(x), F.dropout(x), torch.randint_like(x, 9)


def images(x):
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1),
                          nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 3)).cuda()
    loss = F.cross_entropy(model(x[:4].reshape(2, 2, 8, 8)), torch.tensor([0, 2], device="cuda"))
    loss.backward()
    torch.optim.AdamW(model.parameters()).step()
    return loss


def sequences(x):
    q = x[:10].reshape(1, 2, 20, 16).clone().requires_grad_()
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    words = torch.tensor([[1, 2, 2]], device="cuda")
    table = nn.Embedding(5, 8).cuda()
    nn.LSTM(8, 4).cuda()(table(words))[0].sum().backward()
    return q.grad


FAMILIES = [pointwise, reductions, products, rows, selections, ordering, random, images, sequences]

if __name__ == "__main__":
    wanted = sys.argv[1:]
    numbers = torch.linspace(-1, 1, 37 * 64).reshape(37, 64).cuda()
    for family in FAMILIES:
        if not wanted or family.__name__ in wanted:
            family(numbers)
            torch.cuda.synchronize()
            print(family.__name__, flush=True)
