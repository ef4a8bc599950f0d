"""Uses the operators of operators.c: python use_operators.py ./liboperators.so"""

import sys

import corten as torch

torch.ops.load_library(sys.argv[1])
torch.ops.load_library(sys.argv[1])  # The second time changes nothing.
softclip = torch.ops.example_c.softclip

x = torch.tensor([-3.0, -0.5, 0.25, 2.0], dtype=torch.float64, requires_grad=True)
y = softclip(x, 2.0)
expected = 2 * x / (2 + x.abs())
assert torch.allclose(y, expected), (y, expected)
(grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
(wanted,) = torch.autograd.grad(expected.sum(), x)
assert torch.allclose(grad, wanted), (grad, wanted)
assert torch.autograd.gradcheck(softclip, (x,))
assert torch.autograd.gradgradcheck(softclip, (x,))

half = softclip(torch.ones(3, 4, dtype=torch.float32).t()[1:])
assert half.dtype == torch.float32 and half.shape == (3, 3) and (half == 0.5).all()

try:
    softclip(x, -1.0)
except ValueError as error:
    assert "limit must be positive" in str(error), error
else:
    raise AssertionError("a negative limit was accepted")

print("softclip from C:", [round(value, 4) for value in y.tolist()])
