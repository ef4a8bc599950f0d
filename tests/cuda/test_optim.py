"""Steps of optimizers in one launch on the device beside the CPU."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402


def trained(device, make, layouts=False, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    params = [torch.randn(sizes, generator=generator).to(device, dtype) for sizes in [(3, 4), (300,), (), (2, 3, 2)]]
    if layouts:
        params[0] = params[0].t()
    params = [p.requires_grad_() for p in params]
    optimizer = make(params)
    for step in range(3):
        for i, p in enumerate(params):
            grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(10 * step + i))
            p.grad = grad.to(device, dtype)
        optimizer.step()
    return [p.detach() for p in params]


@usable
class Steps(CudaTest):
    def compare(self, make, **settings):
        for found, wanted in zip(trained("cuda", make, **settings), trained("cpu", make, **settings)):
            self.same(found, wanted)

    def test_adam(self):
        for kind in (torch.optim.Adam, torch.optim.AdamW):
            for options in [{}, {"amsgrad": True}, {"maximize": True, "weight_decay": 0.1}]:
                self.compare(lambda params: kind(params, lr=0.05, fused=True, **options))
        self.compare(lambda params: torch.optim.Adam(params, fused=True), layouts=True)
        self.compare(lambda params: torch.optim.Adam(params, fused=True), dtype=torch.float64)

    def test_sgd(self):
        for options in [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
                        {"momentum": 0.5, "dampening": 0.2, "maximize": True}]:
            self.compare(lambda params: torch.optim.SGD(params, lr=0.05, fused=True, **options))

    def test_adadelta(self):
        self.compare(lambda params: torch.optim.Adadelta(params, weight_decay=0.1))

    def test_many_tensors(self):
        def many(device):
            params = [torch.full((5,), float(i), device=device).requires_grad_() for i in range(70)]
            for p in params:
                p.grad = torch.ones(5, device=device)
            torch.optim.SGD(params, lr=0.5, fused=True).step()
            return [p.detach() for p in params]
        for found, wanted in zip(many("cuda"), many("cpu")):
            self.same(found, wanted)


if __name__ == "__main__":
    unittest.main()
