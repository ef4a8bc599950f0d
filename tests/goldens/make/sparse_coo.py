"""Writes tests/goldens/sparse_coo.txt: results and gradients of operators on coordinate tensors, for
crates/corten/tests/all/sparse.rs. Needs PyTorch."""

from pathlib import Path

import torch

S = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).coalesce()
U = torch.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], [1.0, 2.0, 3.0], (2, 3))
H = torch.sparse_coo_tensor([[0, 2, 2]], torch.arange(1.0, 7.0).reshape(3, 2), (3, 2))
Z = torch.sparse_coo_tensor([[0, 1], [1, 2]], [1 + 2j, 3 - 1j], (2, 3)).coalesce()
B = torch.sparse_coo_tensor([[0, 0, 1], [0, 1, 1], [2, 0, 1]], [1.0, 2.0, 3.0], (2, 2, 3)).coalesce()
D = torch.arange(1.0, 7.0).reshape(2, 3)
M = torch.arange(1.0, 7.0).reshape(3, 2)
W = torch.arange(1.0, 13.0).reshape(2, 3, 2)

CASES = {
    "add": lambda: S + U, "add_same": lambda: S + S, "add_dense": lambda: D + U,
    "sub": lambda: S - U, "sub_alpha": lambda: torch.sub(S, U, alpha=2),
    "mul": lambda: S * U, "mul_dense": lambda: S * D, "mul_dense_left": lambda: D * U,
    "mul_number": lambda: U * 2.5, "mul_row": lambda: S * torch.tensor([1.0, 2.0, 3.0]),
    "div": lambda: U / 4, "div_floor": lambda: torch.div(U, 2, rounding_mode="floor"),
    "neg": lambda: -U, "abs": lambda: (-U).abs(), "sin": lambda: torch.sin(U), "sqrt": lambda: S.sqrt(),
    "relu": lambda: (-S).relu(), "isnan": lambda: torch.isnan(U), "sign": lambda: (-S).sign(),
    "expm1": lambda: torch.expm1(S), "square": lambda: U.pow(2), "pow": lambda: S.pow(-1),
    "sum": lambda: U.sum(), "sum0": lambda: S.sum(0), "sum1": lambda: U.sum(1), "sum_all": lambda: S.sum((0, 1)),
    "sum_hybrid": lambda: H.sum(0), "sum_hybrid_dense": lambda: H.sum(1),
    "sum_keep": lambda: S.sum(1, keepdim=True), "any": lambda: S.any(), "norm": lambda: U.norm(),
    "vector_norm": lambda: torch.linalg.vector_norm(S),
    "mm": lambda: S.mm(M), "mm_left": lambda: M.mm(S), "mm_sparse": lambda: S.mm(U.t()),
    "mv": lambda: S.mv(torch.tensor([1.0, 2.0, 3.0])), "matmul": lambda: U @ M,
    "addmm": lambda: torch.addmm(torch.ones(2, 2), S, M, beta=2, alpha=3), "bmm": lambda: B.bmm(W),
    "hspmm": lambda: torch.hspmm(S, M), "smm": lambda: torch.smm(S, M),
    "sspaddmm": lambda: torch.sspaddmm(S.mm(U.t()), S, M, beta=2, alpha=3),
    "sparse_mm": lambda: torch.sparse.mm(S, M),
    "transpose": lambda: U.t(), "permute": lambda: U.permute(1, 0), "unsqueeze": lambda: S.unsqueeze(1),
    "unsqueeze_hybrid": lambda: H.unsqueeze(2), "select": lambda: S.select(0, 1),
    "select_hybrid": lambda: H.select(0, 2), "select_dense": lambda: H.select(1, 1),
    "narrow": lambda: S.narrow_copy(1, 1, 2), "index_select": lambda: S.index_select(1, torch.tensor([2, 0, 2])),
    "cat": lambda: torch.cat([S, U], 0), "cat_hybrid": lambda: torch.cat([H, H], 1),
    "stack": lambda: torch.stack([S, U]), "zeros_like": lambda: torch.zeros_like(S),
    "clone": lambda: U.clone(), "to_double": lambda: U.to(torch.float64), "to_dense": lambda: U.to_dense(),
    "to_dense_hybrid": lambda: H.to_dense(), "to_sparse": lambda: D.to_sparse(), "to_sparse1": lambda: D.to_sparse(1),
    "sparse_mask": lambda: D.sparse_mask(S), "sparse_mask_sparse": lambda: U.sparse_mask(S),
    "softmax": lambda: torch.sparse.softmax(S, 1), "log_softmax": lambda: torch.sparse.log_softmax(S, 0),
    "conj": lambda: Z.conj(), "real": lambda: Z.real, "imag": lambda: Z.imag, "coalesce": lambda: U.coalesce(),
}


def shown(x):
    if x.dtype == torch.bool:
        x = x.to(torch.float32) if x.layout == torch.strided else torch.sparse_coo_tensor(
            x._indices(), x._values().float(), x.shape)
    kind = "dense"
    if x.layout == torch.sparse_coo:
        x, kind = x.coalesce(), f"sparse{x.sparse_dim()}"
        kind += " " + ",".join(map(str, x.indices().flatten().tolist()))
        dense, values = x, x.values()
    else:
        dense, values = x, x
    values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    numbers = " ".join(repr(v) for v in values.double().flatten().tolist())
    return f"{','.join(map(str, dense.shape))}|{kind}|{numbers}"


GRADIENTS = {
    "to_dense": lambda x: (x.to_dense() * D).sum(), "sum": lambda x: x.sum(),
    "mm": lambda x: (x.mm(M) * torch.arange(1.0, 5.0).reshape(2, 2)).sum(),
    "sparse_mm": lambda x: (torch.sparse.mm(x, M) * torch.arange(1.0, 5.0).reshape(2, 2)).sum(),
    "add": lambda x: ((x + x).to_dense() * D).sum(), "mul": lambda x: (x * x).to_dense().sum(),
    "mul_dense": lambda x: (x * D).to_dense().sum(), "neg": lambda x: ((-x).to_dense() * D).sum(),
    "softmax": lambda x: (torch.sparse.softmax(x, 1).to_dense() * D).sum(),
    "transpose": lambda x: (x.t().to_dense() * M).sum(),
    "sparse_sum": lambda x: (torch.sparse.sum(x, 0).to_dense() * torch.arange(1.0, 4.0)).sum(),
}


def gradient(function):
    x = S.detach().clone().requires_grad_()
    function(x).backward()
    return shown(x.grad)


def values_gradient():
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    made = torch.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], values, (2, 3))
    (made.to_dense() * D).sum().backward()
    return shown(values.grad)


def lookup(bag):
    weight = torch.arange(1.0, 9.0).reshape(4, 2).requires_grad_()
    indices = torch.tensor([1, 3, 1, 0])
    if bag:
        out = torch.nn.functional.embedding_bag(indices, weight, torch.tensor([0, 3]), mode="mean", sparse=True)
    else:
        out = torch.nn.functional.embedding(indices, weight, padding_idx=0, sparse=True)
    (out * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
    return shown(weight.grad)


def gather():
    x = D.clone().requires_grad_()
    index = torch.tensor([[0, 2], [1, 1]])
    (torch.gather(x, 1, index, sparse_grad=True) * torch.arange(1.0, 5.0).reshape(2, 2)).sum().backward()
    return shown(x.grad)


def optimized(make):
    weight = torch.arange(1.0, 9.0).reshape(4, 2).requires_grad_()
    optimizer = make([weight])
    for step in range(3):
        optimizer.zero_grad()
        rows = torch.nn.functional.embedding(torch.tensor([1, 3, 1, step]), weight, sparse=True)
        (rows * rows).sum().backward()
        optimizer.step()
    return shown(weight.detach())


def main():
    lines = [f"{name}|{shown(case())}" for name, case in CASES.items()]
    lines += [f"grad {name}|{gradient(case)}" for name, case in GRADIENTS.items()]
    lines += [f"grad values|{values_gradient()}", f"grad embedding|{lookup(False)}",
              f"grad embedding_bag|{lookup(True)}", f"grad gather|{gather()}"]
    lines += [
        f"step sparse_adam|{optimized(lambda p: torch.optim.SparseAdam(p, lr=0.1))}",
        f"step sgd|{optimized(lambda p: torch.optim.SGD(p, lr=0.01))}",
        f"step sgd_momentum|{optimized(lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9))}",
        f"step sgd_maximize|{optimized(lambda p: torch.optim.SGD(p, lr=0.01, maximize=True))}",
    ]
    target = Path(__file__).parents[1] / "sparse_coo.txt"
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
