"""Calls that take short roads: what they give is what the general roads give."""

import math
import unittest

from module_under_test import torch


class ShortRoads(unittest.TestCase):
    """Calls that are answered without an iterator give what the general road gives."""

    def test_clamp_between_numbers(self):
        nan, inf = math.nan, math.inf
        for dtype in (torch.float32, torch.float64):
            x = torch.tensor([[-3.0, -0.5, 0.5], [3.0, nan, inf]], dtype=dtype)
            self.assertEqual(x.clamp(-1, 1)[0].tolist(), [-1.0, -0.5, 0.5])
            self.assertEqual(x.clamp(-1, 1)[1, ::2].tolist(), [1.0, 1.0])
            self.assertTrue(x.clamp(-1, 1)[1, 1].isnan())
            self.assertEqual(x.clamp(min=0)[1, ::2].tolist(), [3.0, inf])
            self.assertEqual(x.clamp(max=0.25)[0].tolist(), [-3.0, -0.5, 0.25])
            self.assertEqual(x.clamp(2, 1)[0].tolist(), [1.0, 1.0, 1.0])
            self.assertTrue(x.clamp(nan, 1).isnan().all())
            self.assertEqual(x.clamp(-1, 1).dtype, dtype)
        with self.assertRaisesRegex(RuntimeError, "At least one of 'min' or 'max' must not be None"):
            x.clamp()

    def test_clamp_in_place_and_beside_others(self):
        x = torch.tensor([[-3.0, 0.5], [2.0, -1.0]])
        whole = x.clone()
        self.assertIs(whole.clamp_(-1, 1), whole)
        self.assertEqual(whole.tolist(), [[-1.0, 0.5], [1.0, -1.0]])
        column = x.clone()
        column[:, 0].clamp_(min=0)
        self.assertEqual(column.tolist(), [[0.0, 0.5], [2.0, -1.0]])
        out = torch.empty(2, 2)
        self.assertIs(torch.clamp(x, 0, 1, out=out), out)
        self.assertEqual(out.tolist(), [[0.0, 0.5], [1.0, 0.0]])
        self.assertEqual(x.t().clamp(0, 1).stride(), (1, 2))
        self.assertEqual(torch.arange(4).clamp(0.5, 2.5).dtype, torch.float32)

    def test_clamp_passes_gradients_within_its_limits(self):
        x = torch.tensor([-2.0, 0.5, 2.0], requires_grad=True)
        x.clamp(-1, 1).sum().backward()
        self.assertEqual(x.grad.tolist(), [0.0, 1.0, 0.0])

    def test_copy_of_small_tensors(self):
        target, source = torch.zeros(2, 3), torch.arange(6.0).view(2, 3)
        self.assertIs(target.copy_(source), target)
        self.assertEqual(target.tolist(), source.tolist())
        self.assertEqual(target._version, 1)
        target.copy_(source.t().contiguous().t())
        self.assertEqual(target.tolist(), source.tolist())
        self.assertEqual(torch.empty(0).copy_(torch.empty(0)).numel(), 0)
        line = torch.arange(4.0)
        with self.assertRaisesRegex(RuntimeError, "refers to a single memory location"):
            line.expand(3, 4).copy_(torch.zeros(3, 4))

    def test_tensors_that_share_memory(self):
        line = torch.arange(5.0)
        line[1:].add_(line[:-1].clone())
        self.assertEqual(line.tolist(), [0.0, 1.0, 3.0, 5.0, 7.0])
        line.add_(line)
        self.assertEqual(line.tolist(), [0.0, 2.0, 6.0, 10.0, 14.0])
        with self.assertRaisesRegex(RuntimeError, "single memory location|memory"):
            line[1:].add_(line[:-1])

    def test_operators_on_parameters(self):
        seen = []

        class Watch(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(function)
                return function(*args, **(kwargs or {}))

        parameter = torch.nn.Parameter(torch.ones(2))
        result = parameter + 1
        self.assertIs(type(result), torch.Tensor)
        self.assertEqual(type(result.grad_fn).__name__, "AddBackward0")
        with Watch():
            parameter + parameter
            torch.exp(parameter)
        self.assertEqual(len(seen), 2)

        class Own(torch.nn.Parameter):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return "asked"

        self.assertEqual(Own(torch.ones(2)) + 1, "asked")
        self.assertEqual(torch.add(torch.ones(2), Own(torch.ones(2))), "asked")

    def test_views_of_views(self):
        base = torch.arange(24.0).view(2, 3, 4)
        self.assertEqual(base[1].stride(), (4, 1))
        self.assertEqual(base[:, 1].stride(), (12, 1))
        self.assertEqual(base[1, 2].tolist(), [20.0, 21.0, 22.0, 23.0])
        self.assertEqual(base[-1, -1, -1].item(), 23.0)
        self.assertEqual(base.view(4, -1).shape, (4, 6))
        self.assertIs(base[1]._base, base._base)
        turned = base.transpose(0, 2)
        self.assertEqual(turned[1].stride(), (4, 12))
        with self.assertRaisesRegex(RuntimeError, "view size is not compatible"):
            turned.view(24)
        with self.assertRaisesRegex(IndexError, "index 2 is out of bounds for dimension 0 with size 2"):
            base[2]
        for count in (6, 7):
            deep = torch.arange(64.0).view([2] * 6 + [1] * (count - 6))
            self.assertEqual(deep[1, 0, 1].flatten().tolist(), torch.arange(40.0, 48.0).tolist())

    def test_reductions_of_short_rows(self):
        x = torch.arange(1.0, 601.0).view(300, 2) / 300
        self.assertEqual(x.amax(1).tolist(), x[:, 1].tolist())
        self.assertEqual(x.amin(1, keepdim=True).shape, (300, 1))
        self.assertEqual(x.amin(1).tolist(), x[:, 0].tolist())
        torch.testing.assert_close(x.prod(1), x[:, 0] * x[:, 1])
        values, places = x.view(30, 10, 2).max(2)
        self.assertEqual(values.tolist(), x[:, 1].view(30, 10).tolist())
        self.assertTrue((places == 1).all())
        wide = x.view(3, 100, 2).transpose(0, 1)
        self.assertEqual(wide.amax(2).tolist(), wide[..., 1].tolist())
        self.assertEqual(wide.amax((0, 2)).tolist(), x.view(3, 200)[:, -1].tolist())
        self.assertEqual((x > 1).any(1).tolist(), (x[:, 1] > 1).tolist())
        self.assertEqual(x.to(torch.bfloat16).amax(1).dtype, torch.bfloat16)
        out = torch.empty(300, 2)[:, 0]
        torch.amax(x, 1, out=out)
        self.assertEqual(out.tolist(), x[:, 1].tolist())

    def test_reductions_of_everything(self):
        for dtype in (torch.float32, torch.float64, torch.int64):
            x = torch.arange(1, 25).view(2, 3, 4).to(dtype)
            for y in (x, x[1], x[:1], x.transpose(0, 2), x[:, ::2], x.view(24, 1)):
                numbers = y.flatten().tolist()
                self.assertEqual(y.sum().item(), sum(numbers))
                self.assertEqual(y.sum().shape, ())
                self.assertEqual(y.sum().dtype, dtype)
                self.assertEqual(y.max().item(), max(numbers))
                self.assertEqual(y.min().item(), min(numbers))
                self.assertEqual(y.amax().item(), max(numbers))
                self.assertEqual(y.argmax().item(), numbers.index(max(numbers)))
                small = y % 3 + 1
                self.assertEqual(small.prod().item(), math.prod(n % 3 + 1 for n in numbers))
                every = tuple(range(y.dim()))
                self.assertEqual(y.sum(every, keepdim=True).shape, (1,) * y.dim())
                self.assertEqual(y.sum(every, keepdim=True).item(), sum(numbers))
                self.assertEqual(y.sum(()).item(), sum(numbers))
                if dtype.is_floating_point:
                    self.assertEqual(y.mean().item(), sum(numbers) / len(numbers))
                    self.assertAlmostEqual(y.norm().item(), math.hypot(*numbers), places=4)
        self.assertEqual(torch.ones(1, 1).sum().item(), 1.0)
        self.assertEqual(torch.ones(0, 3).sum().item(), 0.0)
        self.assertEqual(torch.ones(6, 7, dtype=torch.bool).sum().item(), 42)
        self.assertEqual(torch.ones([2] * 7).sum().item(), 128.0)
        self.assertEqual(torch.ones(2, 3).sum(dtype=torch.float64).dtype, torch.float64)
        self.assertTrue(torch.tensor([[1.0, math.nan], [3.0, 4.0]]).max().isnan())
        out = torch.empty(())
        self.assertIs(torch.sum(torch.ones(2, 3), (0, 1), out=out), out)
        self.assertEqual(out.item(), 6.0)
        x = torch.ones(2, 3, requires_grad=True)
        (x.sum() * x.max()).backward()
        self.assertEqual(x.grad.tolist(), [[2.0] * 3] * 2)

    def test_items(self):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.int32, torch.int8, torch.bool):
            self.assertEqual(torch.ones(1, 1, dtype=dtype).item(), 1)
            self.assertEqual(torch.tensor([0, 1]).to(dtype)[1].item(), 1)
        self.assertEqual(torch.tensor([3 + 4j]).conj().item(), 3 - 4j)
        self.assertEqual(torch.tensor([3 + 4j]).conj().imag.item(), -4.0)
        self.assertIs(type(torch.ones(1, dtype=torch.int32).item()), int)
        with self.assertRaisesRegex(RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"):
            torch.ones(2).item()


if __name__ == "__main__":
    unittest.main()
