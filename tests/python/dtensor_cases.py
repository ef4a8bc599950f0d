"""Operators whose results on distributed tensors are compared with those on whole ones: name, function, inputs.

An input is a shape of random numbers, or a tensor (of places, or of another dtype)."""

from __future__ import annotations

from module_under_test import torch

F = torch.nn.functional


def places(high, *shape):
    """Numbers of places, the same in every run."""
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count) * 7 % high).reshape(shape)


def positive(*shape):
    """Positive numbers, all different."""
    count = 1
    for size in shape:
        count *= size
    return ((torch.arange(count, dtype=torch.float64) * 37 % 101 + 1) / 50).reshape(shape)


POINTWISE = [
    ("add", lambda a, b: a + b, [(4, 6), (4, 6)]),
    ("add broadcast", lambda a, b: a + b, [(4, 6), (6,)]),
    ("add column", lambda a, b: torch.add(a, b, alpha=2), [(4, 6), (4, 1)]),
    ("sub", lambda a, b: a - b, [(4, 6), (4, 6)]),
    ("mul", lambda a, b: a * b, [(4, 6), (4, 6)]),
    ("div", lambda a, b: a / b, [(4, 6), positive(4, 6)]),
    ("scaled", lambda a: -a * 3.0 / 2.0, [(4, 6)]),
    ("shifted", lambda a: a + 1.5, [(4, 6)]),
    ("relu", torch.relu, [(5, 6)]),
    ("gelu", F.gelu, [(5, 6)]),
    ("silu", F.silu, [(5, 6)]),
    ("exp", torch.exp, [(3, 5)]),
    ("pow", lambda a: a ** 3, [(3, 5)]),
    ("where", lambda a, b: torch.where(a > 0, a, b), [(4, 6), (4, 6)]),
    ("masked_fill", lambda a: a.masked_fill(a > 0, 2.0), [(4, 6)]),
    ("clamp", lambda a: a.clamp(-0.5, 0.5), [(4, 6)]),
    ("lerp", lambda a, b: torch.lerp(a, b, 0.3), [(4, 6), (4, 6)]),
    ("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), [(4, 6), (4, 6), (6,)]),
    ("float and back", lambda a: a.float().double(), [(4, 6)]),
    ("promotion", lambda a, b: a * b, [(4, 6), places(5, 4, 6)]),
    ("clone", lambda a: a.clone(), [(4, 6)]),
    ("tanh", torch.tanh, [(4, 0)]),
    ("comparison", lambda a, b: (a > b).double() * a, [(4, 6), (4, 6)]),
    ("zeros_like", lambda a: torch.zeros_like(a) + a, [(4, 6)]),
    ("ones_like", lambda a: torch.ones_like(a) + a, [(4, 6)]),
    ("maximum", torch.maximum, [(4, 6), (4, 6)]),
    ("gates", lambda a, b: F.silu(a) * b, [(4, 6), (4, 6)]),
]

PRODUCTS = [
    ("mm", torch.mm, [(4, 6), (6, 8)]),
    ("mm uneven", torch.mm, [(5, 7), (7, 3)]),
    ("addmm", torch.addmm, [(8,), (4, 6), (6, 8)]),
    ("addmm whole", lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2.0), [(4, 8), (4, 6), (6, 8)]),
    ("bmm", torch.bmm, [(4, 3, 5), (4, 5, 6)]),
    ("baddbmm", torch.baddbmm, [(4, 3, 6), (4, 3, 5), (4, 5, 6)]),
    ("matmul", torch.matmul, [(2, 4, 6), (6, 8)]),
    ("matmul of batches", torch.matmul, [(2, 4, 3, 6), (2, 4, 6, 5)]),
    ("mv", torch.mv, [(4, 6), (6,)]),
    ("dot", torch.dot, [(8,), (8,)]),
    ("linear", F.linear, [(4, 6), (8, 6), (8,)]),
    ("linear of sequences", F.linear, [(2, 4, 6), (8, 6), (8,)]),
    ("linear without bias", F.linear, [(2, 4, 6), (8, 6)]),
    ("einsum", lambda a, b: torch.einsum("bij,kj->bik", a, b), [(2, 4, 6), (8, 6)]),
    ("attention", lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True),
     [(2, 4, 5, 3), (2, 4, 5, 3), (2, 4, 5, 3)]),
]

VIEWS = [
    ("view flat", lambda a: a.view(-1), [(4, 6)]),
    ("view of uneven parts", lambda a: a.view(-1), [(5, 6)]),
    ("flatten the front", lambda a: a.flatten(0, 1), [(2, 4, 6)]),
    ("flatten and unflatten", lambda a: (a.flatten(0, 1) * 2).unflatten(0, (2, 4)), [(2, 4, 6)]),
    ("unflatten", lambda a: a.unflatten(1, (4, 2)), [(3, 8)]),
    ("unflatten uneven", lambda a: a.unflatten(1, (3, 2)), [(3, 6)]),
    ("other groups", lambda a: a.view(8, 3), [(4, 6)]),
    ("heads", lambda a: a.view(2, 3, 4, 2).transpose(1, 2), [(2, 3, 8)]),
    ("heads joined", lambda a: a.transpose(1, 2).reshape(2, 3, 8), [(2, 4, 3, 2)]),
    ("ones in shapes", lambda a: a.view(1, 4, 1, 6), [(4, 6)]),
    ("ones out of shapes", lambda a: a.view(4, 6), [(1, 4, 1, 6)]),
    ("transpose", lambda a: a.t(), [(4, 6)]),
    ("permute", lambda a: a.permute(2, 0, 1), [(4, 6, 3)]),
    ("movedim", lambda a: a.movedim(0, -1), [(4, 6, 3)]),
    ("unsqueeze", lambda a: a.unsqueeze(1), [(4, 6)]),
    ("squeeze", lambda a: a.squeeze(1), [(4, 1, 6)]),
    ("squeeze where parts have one element", lambda a: a.squeeze(), [(2, 1, 3)]),
    ("squeeze of a long dimension", lambda a: a.squeeze(0), [(2, 3)]),
    ("as_strided", lambda a: a.as_strided((2, 2), (1, 3), 1), [(4, 3)]),
    ("expand", lambda a: a.expand(4, 5), [(4, 1)]),
    ("expand in front", lambda a: a.expand(3, 4, 5), [(4, 5)]),
    ("slice", lambda a: a[1:3], [(4, 6)]),
    ("slice of columns", lambda a: a[:, 1:5:2], [(4, 6)]),
    ("select", lambda a: a[1], [(4, 6)]),
    ("select of columns", lambda a: a[:, -1], [(4, 6)]),
    ("split", lambda a: a.split(2, 0)[1], [(4, 6)]),
    ("split of columns", lambda a: a.split([2, 4], 1)[1], [(4, 6)]),
    ("chunk", lambda a: a.chunk(3, -1)[1], [(4, 6)]),
    ("unbind", lambda a: a.unbind(0)[1], [(3, 4)]),
    ("cat", lambda a, b: torch.cat([a, b], 0), [(4, 6), (3, 6)]),
    ("cat of columns", lambda a, b: torch.cat([a, b], 1), [(4, 6), (4, 2)]),
    ("stack", lambda a, b: torch.stack([a, b], 1), [(4, 6), (4, 6)]),
    ("repeat", lambda a: a.repeat(1, 2), [(4, 3)]),
    ("flip", lambda a: a.flip(0), [(4, 6)]),
    ("roll", lambda a: a.roll(1, 1), [(4, 6)]),
    ("tril", torch.tril, [(3, 4, 4)]),
    ("pad", lambda a: F.pad(a, (1, 0)), [(4, 6)]),
    ("reshape of a copy", lambda a: a.t().reshape(-1), [(4, 6)]),
    ("diagonal", lambda a: a.diagonal(dim1=1, dim2=2), [(4, 3, 3)]),
]

REDUCTIONS = [
    ("sum", torch.sum, [(5, 6)]),
    ("sum of rows", lambda a: a.sum(0), [(5, 6)]),
    ("sum kept", lambda a: a.sum(1, keepdim=True), [(5, 6)]),
    ("mean", torch.mean, [(4, 8)]),
    ("mean of uneven parts", torch.mean, [(5, 6)]),
    ("mean of rows", lambda a: a.mean(-1), [(5, 8)]),
    ("amax", lambda a: a.amax(0), [(5, 6)]),
    ("amax of few", lambda a: a.amax(1), [(4, 2)]),
    ("max", torch.max, [(5, 6)]),
    ("min", torch.min, [(5, 6)]),
    ("max with places", lambda a: a.max(1)[0], [(5, 6)]),
    ("prod", torch.prod, [(2, 4)]),
    ("var", lambda a: a.var(1), [(5, 6)]),
    ("std", lambda a: a.std(0), [(5, 6)]),
    ("norm", lambda a: torch.linalg.vector_norm(a), [(5, 6)]),
    ("norm of rows", lambda a: torch.linalg.vector_norm(a, dim=1), [(5, 6)]),
    ("norm 1", lambda a: torch.linalg.vector_norm(a, 1), [(5, 6)]),
    ("norm 3", lambda a: torch.linalg.vector_norm(a, 3), [(5, 6)]),
    ("norm inf", lambda a: torch.linalg.vector_norm(a, float("inf")), [(5, 6)]),
    ("norm of norms", lambda a, b: torch.linalg.vector_norm(
        torch.stack([torch.linalg.vector_norm(a), torch.linalg.vector_norm(b)])), [(5, 6), (3,)]),
    ("logsumexp", lambda a: a.logsumexp(1), [(5, 6)]),
    ("softmax", lambda a: a.softmax(-1), [(5, 6)]),
    ("softmax of rows", lambda a: a.softmax(0), [(5, 6)]),
    ("log_softmax", lambda a: a.log_softmax(-1), [(2, 5, 6)]),
    ("cumsum", lambda a: a.cumsum(0), [(5, 6)]),
    ("sort", lambda a: a.sort(1)[0], [(5, 6)]),
    ("topk", lambda a: a.topk(2, 1)[0], [(5, 6)]),
    ("argmax", lambda a: a.argmax(1).double() + a.sum(1), [(5, 6)]),
    ("any", lambda a: (a > 0).any(1).double() + a.sum(1), [(5, 6)]),
]

LAYERS = [
    ("layer_norm", lambda a, w, b: F.layer_norm(a, [6], w, b), [(2, 4, 6), (6,), (6,)]),
    ("layer_norm without weight", lambda a: F.layer_norm(a, [6]), [(5, 6)]),
    ("rms_norm", lambda a, w: F.rms_norm(a, [6], w), [(2, 4, 6), (6,)]),
    ("embedding", lambda w: F.embedding(places(9, 4, 3), w), [(9, 6)]),
    ("embedding of distributed places", lambda i, w: F.embedding(i, w), [places(9, 4, 3), (9, 6)]),
    ("gather", lambda a, i: a.gather(1, i), [(4, 6), places(6, 4, 3)]),
    ("gather of rows", lambda a, i: a.gather(0, i), [(4, 6), places(4, 3, 6)]),
    ("index_select", lambda a, i: a.index_select(0, i), [(5, 6), places(5, 4)]),
    ("index", lambda a, i: a[i], [(5, 6), places(5, 4)]),
    ("index of columns", lambda a, i: a[:, i], [(5, 6), places(6, 4)]),
    ("index of both", lambda a, i, j: a[i, j], [(5, 6), places(5, 4), places(6, 4)]),
    ("scatter", lambda a, i, b: a.scatter(1, i, b), [(4, 6), places(6, 4, 1), (4, 1)]),
    ("scatter_add", lambda a, i, b: a.scatter_add(1, i, b), [(4, 6), places(6, 4, 3), (4, 3)]),
    ("index_add", lambda a, i, b: a.index_add(0, i, b), [(4, 6), places(4, 3), (3, 6)]),
    ("cross_entropy", lambda a, t: F.cross_entropy(a, t), [(4, 6), places(6, 4)]),
    ("cross_entropy of uneven parts", lambda a, t: F.cross_entropy(a, t, ignore_index=0), [(5, 6), places(6, 5)]),
    ("cross_entropy sum", lambda a, t: F.cross_entropy(a, t, reduction="sum"), [(5, 6), places(6, 5)]),
    ("cross_entropy none", lambda a, t: F.cross_entropy(a, t, reduction="none"), [(5, 6), places(6, 5)]),
    ("cross_entropy of sequences", lambda a, t: F.cross_entropy(a.view(-1, 6), t.view(-1)),
     [(2, 4, 6), places(6, 2, 4)]),
    ("mse_loss", F.mse_loss, [(4, 6), (4, 6)]),
    ("mse_loss of uneven parts", F.mse_loss, [(5, 7), (5, 7)]),
    ("mse_loss sum", lambda a, b: F.mse_loss(a, b, reduction="sum"), [(5, 6), (5, 6)]),
    ("binary_cross_entropy", lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid()), [(4, 6), (4, 6)]),
    ("conv2d", F.conv2d, [(4, 2, 5, 5), (4, 2, 3, 3), (4,)]),
    ("max_pool2d", lambda a: F.max_pool2d(a, 2), [(4, 2, 4, 4)]),
    ("avg_pool2d", lambda a: F.avg_pool2d(a, 2), [(4, 2, 4, 4)]),
    ("glu", lambda a: F.glu(a, -1), [(4, 6)]),
    ("group_norm", lambda a: F.group_norm(a, 2), [(4, 4, 3)]),
]

#: By family.
CASES = {"pointwise": POINTWISE, "products": PRODUCTS, "views": VIEWS, "reductions": REDUCTIONS, "layers": LAYERS}
