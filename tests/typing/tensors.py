"""Expressions on tensors with the types that checkers should find for them."""

from __future__ import annotations

import corten as torch
from corten import Tensor


def shapes(x: Tensor) -> tuple[int, int, torch.Size, int]:
    rows, cols = x.shape
    return rows, x.size(-1), x.size(), x.dim() + x.ndim + x.numel() + cols


def arithmetic(x: Tensor, y: Tensor) -> Tensor:
    z = x + y * 2 - 1 / (x**2 + 1)
    z = -z @ y.T
    z += 1
    z[0] = 5.0
    z[:, 1:] = z[:, :1]
    mask = (z > 0) & ~(z == 1) | (z <= -1)
    return z[mask].sum() + z.masked_fill(mask, 0.0).mean() + z.clamp(min=0, max=1).max()


def shaping(x: Tensor) -> Tensor:
    a = x.view(2, -1).view((2, -1)).reshape(-1, 2).reshape([-1, 2]).permute(1, 0).transpose(0, 1)
    b = a.unsqueeze(0).expand(2, -1, -1).flatten(1).contiguous().squeeze()
    values, indices = b.max(dim=0)
    top, _ = torch.topk(values, 2)
    parts = torch.split(b, 1, dim=0) + torch.chunk(b, 2)
    return torch.cat([torch.stack([values, values]), torch.cat(parts)[:2]], dim=1) + indices.sum() + top.sum()


def creation() -> list[Tensor]:
    return [
        torch.zeros(2, 3), torch.zeros((2, 3), dtype=torch.float16), torch.ones(2, requires_grad=True),
        torch.tensor([[1, 2], [3, 4]], dtype=torch.int64), torch.arange(10), torch.linspace(0, 1, 5),
        torch.rand(3, generator=torch.Generator().manual_seed(1)), torch.randn(2, 2, device="cpu"),
        torch.eye(3), torch.full((2,), 1.5), torch.empty(0), torch.randint(10, (3,)), torch.randperm(4),
        torch.zeros_like(torch.ones(2)), torch.where(torch.ones(2) > 0, 1.0, 0.0),
    ]


def functions(x: Tensor) -> Tensor:
    y = torch.exp(x).log().sqrt().sin() + torch.sigmoid(x) + torch.maximum(x, x.abs())
    y = y + torch.einsum("ij,jk->ik", x, x) + torch.matmul(x, x) + torch.linalg.norm(x)
    y = y + torch.fft.ifft(torch.fft.fft(x)).real + torch.special.erf(x)
    y = y + torch.nn.functional.softmax(x, dim=-1) + torch.nn.functional.pad(x, (0, 0))
    return torch.softmax(y, dim=-1).to(torch.float64).cpu().detach().clone()


def gradients(x: Tensor) -> Tensor:
    x.requires_grad_(True)
    (x * x).sum().backward()
    grad = x.grad
    assert grad is not None
    (again,) = torch.autograd.grad((x * x).sum(), [x])
    return grad + again


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return 2 * x * grad


if __name__ == "__main__":
    square = torch.ones(2, 2)
    print(shapes(square), arithmetic(square, square), shaping(torch.ones(4, 4)), functions(square))
    print(gradients(square), Square.apply(square), len(creation()))
