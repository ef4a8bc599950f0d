"""A polynomial fitted by a fully connected layer."""

from itertools import count

import torch
import torch.nn.functional as F

torch.manual_seed(3)
DEGREE = 4
W_target = torch.randn(DEGREE, 1) * 5
b_target = torch.randn(1) * 5


def make_features(x):
    x = x.unsqueeze(1)
    return torch.cat([x ** i for i in range(1, DEGREE + 1)], 1)


def f(x):
    return x.mm(W_target) + b_target.item()


def poly_desc(W, b):
    result = "y = "
    for i, w in enumerate(W):
        result += "{:+.2f} x^{} ".format(w, i + 1)
    return result + "{:+.2f}".format(b[0])


def get_batch(batch_size=32):
    x = make_features(torch.randn(batch_size))
    return x, f(x)


fc = torch.nn.Linear(W_target.size(0), 1)
for batch_idx in count(1):
    batch_x, batch_y = get_batch()
    fc.zero_grad()
    output = F.smooth_l1_loss(fc(batch_x), batch_y)
    loss = output.item()
    output.backward()
    for param in fc.parameters():
        param.data.add_(-0.1 * param.grad)
    if loss < 5e-3 or batch_idx == 300:
        break
print("Loss: {:.4f} after {} batches".format(loss, batch_idx))
print("==> Learned:\t" + poly_desc(fc.weight.view(-1), fc.bias))
print("==> Actual:\t" + poly_desc(W_target.view(-1), b_target))
