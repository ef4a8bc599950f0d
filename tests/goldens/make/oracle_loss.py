"""tests/goldens/oracle/loss.txt"""
import torch

from oracle import write

KINDS = (torch.float32, torch.float32, torch.float64, torch.bfloat16)
SINGLE = (torch.float32, torch.float64)


def reduction(m):
    return m.rng.choice((0, 1, 2))


def classes(m, sizes, count, bad=0.04):
    """Class indices, some of them ignored, now and then one too large."""
    total = 1
    for size in sizes:
        total *= size
    values = [m.rng.choice((m.rng.randrange(count), m.rng.randrange(count), -100)) for _ in range(total)]
    if values and m.rng.random() < bad:
        values[0] = count
    dtype = torch.int64
    return torch.tensor(values, dtype=dtype).reshape(sizes)


def weights(m, count, dtype):
    if m.rng.random() < 0.5:
        return None
    return m.tensor((count if m.rng.random() < 0.95 else count + 1,), dtype).abs().contiguous().clone()


def nll(m):
    count, n = m.rng.randint(1, 4), m.rng.choice((0, 1, 2, 3))
    dtype = m.dtype(KINDS)
    single = m.rng.random() < 0.2
    x = m.tensor((count,) if single else (n, count), dtype)
    shape = m.rng.choice(((), (1,))) if single else ((n,) if m.rng.random() < 0.95 else (n + 1,))
    return [x, classes(m, shape, count), weights(m, count, dtype), reduction(m), -100]


def nll2d(m):
    count, n, h, w = (m.rng.randint(1, 3) for _ in range(4))
    dtype = m.dtype(KINDS)
    x = m.tensor((n, count, h, w), dtype)
    shape = (n, h, w) if m.rng.random() < 0.95 else (n, w + 1, h)
    return [x, classes(m, shape, count), weights(m, count, dtype), reduction(m), -100]


def nll_nd(m):
    count, n = m.rng.randint(1, 3), m.rng.randint(1, 3)
    space = [m.rng.randint(1, 3) for _ in range(m.rng.choice((0, 1, 1, 2, 3)))]
    dtype = m.dtype(KINDS)
    shape = (n, *space) if m.rng.random() < 0.93 else (n, *space, 2)
    return [m.tensor((n, count, *space), dtype), classes(m, shape, count), weights(m, count, dtype),
            reduction(m), -100]


def nll_backward(forward, op):
    def generate(m):
        x, target, weight, kind, ignored = forward(m)
        x = x.contiguous().clone()
        out, total = op(x, target, weight, kind, ignored)
        return [m.tensor(out.shape, x.dtype), x, target, weight, kind, ignored, total]
    return generate


def cross_entropy(m):
    smoothing = m.rng.choice((0.0, 0.0, 0.1, 0.5))
    if m.rng.random() < 0.4:
        sizes = m.sizes(m.rng.choice((1, 2, 2, 3)))
        dtype = m.dtype(KINDS)
        target = m.tensor(sizes, dtype).abs().contiguous().clone() / 8
        count = sizes[0] if len(sizes) == 1 else sizes[1]
        return [m.tensor(sizes, dtype), target, weights(m, count, dtype), reduction(m), -100, smoothing]
    return [*nll_nd(m), smoothing]


def pair(m, kinds=SINGLE, same=0.7):
    dtype, sizes = m.dtype(kinds), m.sizes()
    other = sizes if m.rng.random() < same else [1 if m.rng.random() < 0.4 else s for s in sizes]
    return m.tensor(sizes, dtype), m.tensor(other, dtype)


def plain(*more):
    def generate(m):
        return [*pair(m), reduction(m), *(m.rng.choice(choice) for choice in more)]
    return generate


def backward(*more):
    def generate(m):
        x, y = pair(m, same=1)
        kind = reduction(m)
        grad = m.tensor(x.shape if kind == 0 else (), x.dtype)
        return [grad, x, y, kind, *(m.rng.choice(choice) for choice in more)]
    return generate


def probabilities(m, sizes, dtype):
    x = m.tensor(sizes, torch.float64)
    return (x.abs() / 17).clamp(0, 1).to(dtype).contiguous().clone()


def bce(m):
    sizes, dtype = m.sizes(), m.dtype(KINDS)
    x, y = probabilities(m, sizes, dtype), probabilities(m, sizes, dtype)
    if m.rng.random() < 0.04 and x.numel():
        x = x + 1
    weight = m.tensor(sizes[m.rng.choice((0, 1)):], dtype) if m.rng.random() < 0.3 else None
    return [x, y, weight, reduction(m)]


def bce_backward(m):
    x, y, weight, kind = bce(m)
    return [m.tensor(x.shape if kind == 0 else (), x.dtype), x, y, weight, kind]


def bce_logits(m):
    sizes, dtype = m.sizes(), m.dtype(KINDS)
    x, y = m.tensor(sizes, dtype), probabilities(m, sizes, dtype)
    weight = m.tensor(sizes, dtype) if m.rng.random() < 0.3 else None
    positive = m.tensor(sizes[-1:], dtype) if m.rng.random() < 0.4 else None
    return [x, y, weight, positive, reduction(m)]


def kl(m):
    x, y = pair(m)
    y = (y.abs() / 9).contiguous().clone()
    return [x, y, reduction(m), m.rng.random() < 0.4]


def signs(m, sizes, dtype):
    return (m.tensor(sizes, dtype) > 3).to(dtype).mul(2).sub(1).contiguous().clone()


def signed(*more):
    def generate(m):
        sizes, dtype = m.sizes(), m.dtype(SINGLE)
        return [m.tensor(sizes, dtype), signs(m, sizes, dtype), *(m.rng.choice(c) for c in more), reduction(m)]
    return generate


def signed_backward(m):
    x, y, kind = signed()(m)
    return [m.tensor(x.shape if kind == 0 else (), x.dtype), x, y, kind]


def ranking(m):
    sizes, dtype = m.sizes(), m.dtype(SINGLE)
    return [m.tensor(sizes, dtype), m.tensor(sizes, dtype), signs(m, sizes, dtype),
            m.rng.choice((0.0, 0.5)), reduction(m)]


def cosine(m):
    x, y = pair(m, SINGLE)
    return [x, y, m.dim(x.dim()), 1e-8]


def cosine_embedding(m):
    n, d, dtype = m.rng.randint(1, 3), m.rng.randint(1, 3), m.dtype(SINGLE)
    x, y = m.tensor((n, d), dtype), m.tensor((n, d), dtype)
    return [x, y, signs(m, (n,), dtype), m.rng.choice((0.0, 0.3)), reduction(m)]


def distance(m):
    x, y = pair(m, SINGLE)
    return [x, y, m.rng.choice((2.0, 1.0, 3.0)), 1e-6, m.rng.random() < 0.5]


def triplet(m):
    sizes, dtype = m.sizes(m.rng.choice((1, 2, 3))), m.dtype(SINGLE)
    return [m.tensor(sizes, dtype), m.tensor(sizes, dtype), m.tensor(sizes, dtype).flip(0).contiguous().clone(),
            m.rng.choice((1.0, 0.5)), 2.0, 1e-6, m.rng.random() < 0.5, reduction(m)]


def poisson(m):
    x, y = pair(m)
    x, y = (x.abs() / 4).contiguous().clone(), y.abs().contiguous().clone()
    return [x, y, m.rng.random() < 0.5, m.rng.random() < 0.5, 1e-8, reduction(m)]


aten = torch.ops.aten
write("loss", [
    ("nll_loss", nll), ("nll_loss_forward", nll), ("nll_loss2d", nll2d), ("nll_loss2d_forward", nll2d),
    ("nll_loss_backward", nll_backward(nll, aten.nll_loss_forward)),
    ("nll_loss2d_backward", nll_backward(nll2d, aten.nll_loss2d_forward)),
    ("nll_loss_nd", nll_nd), ("cross_entropy_loss", cross_entropy), ("mse_loss", plain()),
    ("mse_loss_backward", backward()), ("l1_loss", plain()), ("smooth_l1_loss", plain((1.0, 0.5, 3.0))),
    ("smooth_l1_loss_backward", backward((1.0, 0.5, 3.0))), ("huber_loss", plain((1.0, 0.5, 3.0, 0.0))),
    ("huber_loss_backward", backward((1.0, 0.5, 3.0))), ("binary_cross_entropy", bce),
    ("binary_cross_entropy_backward", bce_backward), ("binary_cross_entropy_with_logits", bce_logits),
    ("kl_div", kl), ("soft_margin_loss", signed()), ("soft_margin_loss_backward", signed_backward),
    ("hinge_embedding_loss", signed((1.0, 2.5))), ("margin_ranking_loss", ranking),
    ("cosine_similarity", cosine), ("cosine_embedding_loss", cosine_embedding),
    ("pairwise_distance", distance), ("triplet_margin_loss", triplet), ("poisson_nll_loss", poisson),
], per_case=25)
