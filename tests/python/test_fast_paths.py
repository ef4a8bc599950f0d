"""Calls that take fast paths: what they give is what the general paths give."""

import math
import unittest

from module_under_test import torch


class ShortRoads(unittest.TestCase):
    """Calls that are answered without an iterator give what the general path gives."""

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

    def test_long_operands_are_computed_as_their_parts(self):
        """Beyond what one thread takes at once, at every distance from a line of memory."""
        count, at_once = 70_000, 500
        numbers = ((torch.arange(4 * count + 64) * 7919) % 1013 - 506).to(torch.float64) / 64
        for dtype in (torch.float32, torch.float64):
            all_numbers = numbers.to(dtype)
            for shift in (0, 1, 5, 15):
                x = all_numbers[shift : shift + count]
                y = all_numbers[count + 2 * shift :][:count]
                row = all_numbers[3 * count + shift :][:1000]
                out = torch.empty(count + 16, dtype=dtype)[shift:][:count]
                whole = torch.empty(count + 16, dtype=dtype)[shift:][:count].copy_(x)
                calls = {
                    "add": lambda x, y: x + y,
                    "of a number": lambda x, y: 1.5 - x,
                    "of one element": lambda x, y: x * all_numbers[7],
                    "relu": lambda x, y: torch.relu(x),
                    "addcmul": lambda x, y: torch.addcmul(x, y, y),
                    "greater": lambda x, y: x > y,
                }
                for name, call in calls.items():
                    with self.subTest(name, dtype=dtype, shift=shift):
                        parts = zip(x.split(at_once), y.split(at_once))
                        expected = torch.cat([call(*part) for part in parts])
                        self.assertTrue(torch.equal(call(x, y), expected))
                expected = torch.cat([a - b for a, b in zip(x.split(at_once), y.split(at_once))])
                self.assertTrue(torch.equal(torch.sub(x, y, out=out), expected))
                self.assertTrue(torch.equal(whole.sub_(y), expected))
                rows = x.view(70, 1000)
                self.assertTrue(torch.equal(rows + row, torch.stack([r + row for r in rows])))
                self.assertTrue(torch.equal(row - rows, torch.stack([row - r for r in rows])))

    def test_long_division_by_zero(self):
        x, y = torch.arange(80_000), torch.ones(80_000, dtype=torch.int64)
        self.assertTrue(torch.equal(x // y, x))
        for place in (0, 40_001, 79_999):
            y[place] = 0
            with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
                x // y
            y[place] = 1
        self.assertTrue(torch.equal(x // y, x))

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

    def test_fills(self):
        x = torch.arange(24.0).view(2, 3, 4)
        part = x[1, 0]
        self.assertIs(part.fill_(7), part)
        self.assertEqual(x[1].flatten().tolist(), [7.0] * 4 + [float(i) for i in range(16, 24)])
        x[0, 2, 3] = -1
        self.assertEqual((x[0, 2].tolist(), x._version), ([8.0, 9.0, 10.0, -1.0], 2))
        x[:, 1, ::2].fill_(0.5)
        self.assertEqual(x[:, 1].tolist(), [[0.5, 5.0, 0.5, 7.0], [0.5, 17.0, 0.5, 19.0]])
        row = torch.zeros(3)
        row.expand(2, 3).fill_(2)
        self.assertEqual(row.tolist(), [2.0] * 3)
        self.assertEqual(torch.empty(0, 2).fill_(1).shape, (0, 2))
        self.assertEqual(torch.full((), 3).fill_(4).item(), 4)
        number = torch.zeros(2, dtype=torch.complex64)
        number.conj().fill_(1 + 2j)
        self.assertEqual(number.tolist(), [1 - 2j] * 2)
        with self.assertRaisesRegex(RuntimeError, "cannot be converted to type uint8_t"):
            torch.zeros(2, dtype=torch.uint8).fill_(300)

    def test_conversions_keep_strides(self):
        shapes = {(2, 3): (3, 1), (3, 2): (1, 3), (1, 3): (7, 1), (0, 3): (7, 1), (): ()}
        for sizes, strides in shapes.items():
            x = torch.empty_strided(sizes, strides).fill_(1.5)
            for to in (torch.float64, torch.float16, torch.int64):
                y = x.to(to)
                self.assertEqual((y.dtype, y.stride(), y.shape), (to, strides, sizes))
                self.assertTrue((y == (1 if to == torch.int64 else 1.5)).all())
        x = torch.ones(2, 3, requires_grad=True)
        x.double().sum().backward()
        self.assertEqual((x.grad.dtype, x.grad.tolist()), (torch.float32, [[1.0] * 3] * 2))
        z = torch.ones(2, dtype=torch.complex64).mul_(1j).conj().to(torch.complex128)
        self.assertEqual((z.is_conj(), z.tolist()), (False, [-1j, -1j]))
        self.assertEqual(torch.ones(2).to("meta", torch.float64).device.type, "meta")

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


class Rows(unittest.TestCase):
    """Elementwise operators on a tensor and what repeats along its first dimensions."""

    SHAPES = [
        ((4, 4), (4,)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 4)), ((20, 3), (3,)), ((20, 70), (70,)),
        ((2, 1, 4), (4,)), ((2, 3, 4), (1, 4)), ((3, 4), (1,)), ((0, 4), (4,)), ((2, 2, 2, 2), (2, 2)),
    ]

    def test_values_and_strides(self):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.float16):
            for whole, part in self.SHAPES:
                a = torch.arange(math.prod(whole)).to(dtype).reshape(whole)
                b = torch.arange(math.prod(part)).to(dtype).reshape(part) + 1
                full = b.expand(whole).contiguous()
                for run in (torch.add, torch.sub, torch.mul, torch.eq, torch.lt):
                    for x, y, wanted in ((a, b, run(a, full)), (b, a, run(full, a))):
                        found = run(x, y)
                        self.assertEqual(found.tolist(), wanted.tolist(), (run, whole, part))
                        self.assertEqual(found.dtype, wanted.dtype)
                        self.assertEqual(found.stride(), wanted.stride())

    def test_three_operands_and_outputs(self):
        a, row = torch.arange(12.0).view(3, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])
        self.assertEqual(
            torch.addcmul(a, row, row).tolist(), (a + (row * row).expand(3, 4)).tolist()
        )
        self.assertEqual(
            torch.addcmul(row, a, a[0]).tolist(), (row + a * a[0].expand(3, 4)).tolist()
        )
        out = torch.empty(3, 4)
        self.assertIs(torch.add(a, row, out=out), out)
        self.assertEqual(out.tolist(), (a + row.expand(3, 4).clone()).tolist())
        a += row
        self.assertEqual(a.tolist(), out.tolist())
        with self.assertRaisesRegex(RuntimeError, "output with shape"):
            row += a
        with self.assertRaisesRegex(RuntimeError, "must match the size"):
            a + torch.ones(3)

    def test_a_row_of_the_tensor_itself(self):
        a = torch.arange(6.0).view(2, 3)
        a += a[1].clone()
        self.assertEqual(a.tolist(), [[3.0, 5.0, 7.0], [6.0, 8.0, 10.0]])
        with self.assertRaisesRegex(RuntimeError, "refer(s)? to a single memory location|overlap"):
            a.add_(a[1])

    def test_gradients_are_summed(self):
        a = torch.ones(3, 4, requires_grad=True)
        row = torch.ones(4, requires_grad=True)
        (a * row).sum().backward()
        self.assertEqual(row.grad.tolist(), [3.0] * 4)
        self.assertEqual(a.grad.tolist(), [[1.0] * 4] * 3)

    def test_integers_divide_by_zero_with_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
            torch.ones(2, 3, dtype=torch.int64) // torch.tensor([1, 0, 1])


class Calls(unittest.TestCase):
    """Calls that the argument parser does not see."""

    def test_factories(self):
        for made, shape in [
            (torch.zeros(2, 3), (2, 3)), (torch.ones((2, 3)), (2, 3)), (torch.empty([4]), (4,)),
            (torch.rand(0), (0,)), (torch.randn(2, 0), (2, 0)), (torch.zeros(()), ()),
            (torch.zeros(torch.Size([2])), (2,)),
        ]:
            self.assertEqual((tuple(made.shape), made.dtype), (shape, torch.float32))
        self.assertEqual(torch.zeros(2, dtype=torch.int64).tolist(), [0, 0])
        self.assertTrue(torch.ones(2, requires_grad=True).requires_grad)
        self.assertEqual(torch.arange(3).tolist(), [0, 1, 2])
        self.assertEqual(torch.arange(3.0).dtype, torch.float32)
        torch.set_default_dtype(torch.float64)
        try:
            self.assertEqual(torch.zeros(2).dtype, torch.float64)
            self.assertEqual(torch.randn(2).dtype, torch.float64)
        finally:
            torch.set_default_dtype(torch.float32)
        for wrong in (lambda: torch.zeros(-1), lambda: torch.ones((2, -3)), lambda: torch.arange(-1)):
            with self.assertRaises(RuntimeError):
                wrong()
        for wrong in (lambda: torch.zeros("a"), lambda: torch.empty(1.5), lambda: torch.zeros(2, None)):
            with self.assertRaises(TypeError):
                wrong()

    def test_random_numbers_are_the_same_by_either_road(self):
        torch.manual_seed(3)
        short = [torch.randn(5), torch.rand(2, 2)]
        torch.manual_seed(3)
        general = [torch.randn(5, dtype=None), torch.rand(2, 2, dtype=None)]
        for one, other in zip(short, general):
            self.assertEqual(one.tolist(), other.tolist())

    def test_joins(self):
        a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
        self.assertEqual(torch.cat([a, b]).tolist(), [1.0, 2.0, 3.0, 4.0])
        self.assertEqual(torch.cat((a, b), -1).tolist(), [1.0, 2.0, 3.0, 4.0])
        self.assertEqual(torch.stack([a, b]).tolist(), [[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(torch.stack((a, b), 1).tolist(), [[1.0, 3.0], [2.0, 4.0]])
        self.assertEqual(torch.cat([a, torch.tensor([5])]).dtype, torch.float32)
        leaf = a.clone().requires_grad_()
        torch.cat([leaf, b]).sum().backward()
        self.assertEqual(leaf.grad.tolist(), [1.0, 1.0])
        for wrong, error in [
            (lambda: torch.cat([]), (RuntimeError, ValueError)), (lambda: torch.cat([a, 1]), TypeError),
            (lambda: torch.stack([a, torch.ones(3)]), RuntimeError),
            (lambda: torch.cat([a, b], 3), IndexError), (lambda: torch.cat(a, 0), TypeError),
        ]:
            with self.assertRaises(error):
                wrong()

    def test_chosen_and_normalised(self):
        a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]])
        chosen = torch.where(a > b - 2.5, a, b)
        self.assertEqual(chosen.tolist(), [[1.0, 2.0], [4.0, 2.0]])
        self.assertEqual(torch.where(torch.tensor([True, False]), 1.0, 2.0).tolist(), [1.0, 2.0])
        self.assertEqual(torch.softmax(a, 0).tolist(), [[1.0, 1.0]])
        self.assertEqual(a.log_softmax(0).tolist(), [[0.0, 0.0]])
        self.assertEqual(torch.softmax(a, 1, dtype=torch.float64).dtype, torch.float64)
        with self.assertRaises(IndexError):
            torch.softmax(a, 2)

    def test_outputs(self):
        a, b, out = torch.tensor([6.0, 8.0]), torch.tensor([2.0, 4.0]), torch.empty(2)
        for run, wanted in [
            (torch.add, [8.0, 12.0]), (torch.sub, [4.0, 4.0]), (torch.mul, [12.0, 32.0]),
            (torch.div, [3.0, 2.0]),
        ]:
            self.assertIs(run(a, b, out=out), out)
            self.assertEqual(out.tolist(), wanted)
            self.assertEqual(run(a, b, out=None).tolist(), wanted)
        self.assertEqual(torch.add(a, b, out=torch.empty(0)).tolist(), [8.0, 12.0])
        self.assertEqual(torch.add(a, b, alpha=2).tolist(), [10.0, 16.0])
        with self.assertRaises(TypeError):
            a.add(b, out=out)
        with self.assertRaises(RuntimeError):
            torch.add(a.requires_grad_(), b, out=out)
        with self.assertRaises(RuntimeError):
            torch.add(b, b, out=torch.empty(2, dtype=torch.int64))

    def test_what_is_contiguous_stays_itself(self):
        a = torch.ones(2, 3)
        self.assertIs(a.contiguous(), a)
        turned = a.t()
        self.assertIsNot(turned.contiguous(), turned)
        self.assertEqual(turned.contiguous().stride(), (2, 1))
        with self.assertRaises(TypeError):
            a.contiguous(1, 2)

    def test_results_have_names(self):
        for _ in range(2):
            found = torch.tensor([[1.0, 3.0], [4.0, 2.0]]).max(1)
            self.assertEqual(found.values.tolist(), [3.0, 4.0])
            self.assertEqual(found.indices.tolist(), [1, 0])
            self.assertIn("torch.return_types.max(", repr(found))
        values, indices = torch.empty(2), torch.empty(2, dtype=torch.int64)
        found = torch.max(torch.ones(2, 2), 1, out=(values, indices))
        self.assertIs(found[0], values)
        self.assertIn("max_out", type(found).__name__)
        with self.assertRaisesRegex(IndexError, "max\\(\\): Expected reduction dim 1 to have non-zero"):
            torch.ones(2, 0).max(1)

    def test_lists(self):
        self.assertEqual(torch.arange(6).view(2, 3).t().tolist(), [[0, 3], [1, 4], [2, 5]])
        self.assertEqual(torch.empty(2, 0).tolist(), [[], []])
        self.assertEqual(torch.tensor([True, False]).tolist(), [True, False])

    def test_functions_of_one_object(self):
        self.assertTrue(torch.is_tensor(torch.ones(1)))
        self.assertFalse(torch.is_tensor([1.0]))
        with self.assertRaises(TypeError):
            torch.is_tensor()

    def test_parameters_are_found_once_and_in_order(self):
        nn = torch.nn
        shared = nn.Linear(2, 2)
        net = nn.Sequential(shared, nn.ReLU(), nn.Sequential(nn.Linear(2, 3), shared), nn.Linear(3, 1))
        named = [value for _, value in net.named_parameters()]
        self.assertTrue(all(a is b for a, b in zip(net.parameters(), named, strict=True)))
        named = [value for _, value in net.named_modules()]
        self.assertTrue(all(a is b for a, b in zip(net.modules(), named, strict=True)))
        self.assertEqual(list(net.parameters(recurse=False)), [])

        class Hidden(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(2, 2)

            def named_parameters(self, *args, **kwargs):
                yield "only", self.inner.bias

            def named_modules(self, memo=None, prefix="", remove_duplicate=True):
                yield prefix, self

        self.assertEqual(len(list(Hidden().parameters())), 1)
        self.assertEqual(len(list(nn.Sequential(Hidden(), nn.ReLU()).modules())), 3)
        self.assertEqual(len(list(nn.Sequential(Hidden()).parameters())), 0)


class ViewsWithoutGraph(unittest.TestCase):
    """Views that nothing was recorded for know their base, and join a graph when it gets one."""

    def test_base(self):
        base = torch.zeros(2, 3)
        for view in (base[0], base.view(6), base[:, 1:], base[0][1:], base.t()[1], base[None]):
            self.assertTrue(view._is_view())
            self.assertIs(view._base, base)
            self.assertTrue(view.is_leaf)
            self.assertIsNone(view.grad_fn)
            self.assertFalse(view.requires_grad)
            view.add_(1)
        self.assertEqual(base._version, 6)
        self.assertEqual(base.tolist(), [[3.0, 6.0, 5.0], [2.0, 4.0, 3.0]])

    def test_the_base_outlives_its_name(self):
        base = torch.zeros(4)
        base.mark = "kept"
        view = base[1:]
        del base
        self.assertEqual(view._base.mark, "kept")
        inner = view[1:]
        del view
        self.assertEqual(inner._base.mark, "kept")

    def test_a_base_that_is_written_with_history(self):
        base, weight = torch.ones(2, 3), torch.full((3,), 2.0, requires_grad=True)
        view, inner = base[1], base[1][:2]
        base.mul_(weight)
        for found in (view, inner):
            self.assertTrue(found.requires_grad)
            self.assertFalse(found.is_leaf)
            self.assertIn("AsStrided", found.grad_fn.name())
        inner.sum().backward()
        self.assertEqual(weight.grad.tolist(), [1.0, 1.0, 0.0])

    def test_a_base_that_requires_a_gradient_later(self):
        base = torch.ones(4)
        view = base[:2]
        base.requires_grad_()
        self.assertTrue(view.requires_grad)
        with self.assertRaisesRegex(RuntimeError, "a view of a leaf Variable that requires grad"):
            view.add_(1)

    def test_writes_with_history_reach_the_base(self):
        base, weight = torch.zeros(3), torch.tensor(2.0, requires_grad=True)
        view = base[:2]
        view.add_(weight)
        self.assertTrue(base.requires_grad)
        base.sum().backward()
        self.assertEqual(weight.grad.item(), 2.0)

    def test_views_made_without_recording(self):
        base = torch.ones(3, requires_grad=True) * 1
        with torch.no_grad():
            view = base[:2]
            inner = view[:1]
        self.assertIs(inner._base, base)
        for found in (view, inner):
            with self.assertRaisesRegex(RuntimeError, "A view was created in no_grad mode"):
                found.add_(1)
        with torch.no_grad():
            view.add_(1)
        self.assertEqual(base.tolist(), [2.0, 2.0, 1.0])

    def test_versions_beyond_what_a_view_can_note(self):
        base = torch.zeros(2)
        for _ in range(1 << 16):
            base.zero_()
        view = base[:1]
        self.assertIs(view._base, base)
        self.assertEqual(view._version, 1 << 16)

    def test_detached_views_have_no_base(self):
        base = torch.zeros(4)
        self.assertIsNone(base[1:].detach()._base)
        self.assertIs(base.detach()[1:]._base._base, None)
        view = base.detach()[1:]
        view.add_(1)
        self.assertEqual(base._version, 1)

    def test_many_objects_come_and_go(self):
        import gc
        import weakref

        base = torch.zeros(300)
        for _ in range(3):
            views = [base[i] for i in range(300)]
            refs = [weakref.ref(view) for view in views]
            views[7].note = views
            del views
            gc.collect()
            self.assertTrue(all(ref() is None for ref in refs))
            fresh = [base[i] for i in range(300)]
            self.assertFalse(any(hasattr(view, "note") for view in fresh))
            self.assertTrue(gc.is_tracked(base[0]))


if __name__ == "__main__":
    unittest.main()
