"""Kernels at the places where their fast forms begin and end: borders, block sizes, whole images."""

import itertools
import unittest

from module_under_test import torch

F = torch.nn.functional


class Resampling(unittest.TestCase):
    def test_bytes_at_borders(self):
        # The taps that a border leads to one pixel are rounded together.
        image = torch.tensor([[[[149, 5, 211, 1], [172, 68, 187, 245]]]], dtype=torch.uint8)
        found = F.interpolate(image, size=(2, 6), mode="bicubic")
        self.assertEqual(found.tolist(), [[[[161, 58, 26, 197, 125, 0], [181, 109, 75, 163, 227, 250]]]])

    def test_channels_last(self):
        image = torch.arange(24.0).reshape(1, 2, 3, 4)
        wanted = F.interpolate(image, size=(5, 2), mode="bilinear")
        found = F.interpolate(image.to(memory_format=torch.channels_last), size=(5, 2), mode="bilinear")
        self.assertTrue(found.is_contiguous(memory_format=torch.channels_last))
        self.assertTrue(torch.equal(found, wanted))


class Points(unittest.TestCase):
    def test_blocks_of_points(self):
        # A sample at the places of the pixels gives the image back, whatever the number of points.
        for height, width in ((3, 5), (8, 8), (9, 31), (13, 10)):
            image = torch.arange(2.0 * 3 * height * width).reshape(2, 3, height, width)
            axes = [torch.linspace(-1, 1, n) for n in (height, width)]
            y, x = torch.meshgrid(*axes, indexing="ij")
            grid = torch.stack((x, y), dim=-1).expand(2, -1, -1, -1)
            for mode in ("bilinear", "nearest", "bicubic"):
                found = F.grid_sample(image, grid, mode=mode, align_corners=True)
                torch.testing.assert_close(found, image, rtol=1e-4, atol=1e-3)

    def test_outside(self):
        # What lies outside counts for nothing, not even as zero times infinity.
        image = torch.full((1, 2, 2, 2), float("inf"))
        grid = torch.full((1, 1, 70, 2), 3.0)
        found = F.grid_sample(image, grid, padding_mode="zeros", align_corners=False)
        self.assertEqual(found.abs().sum().item(), 0.0)

    def test_coordinates_that_are_no_numbers(self):
        # Values of PyTorch: NaN stays NaN in two dimensions, unless padding moves it to a border.
        nan, inf = float("nan"), float("inf")
        for dtype in (torch.float32, torch.float64):
            image = torch.arange(1, 10, dtype=dtype).reshape(1, 1, 3, 3)
            grid = torch.zeros(1, 1, 20, 2, dtype=dtype)
            cube = torch.arange(1, 28, dtype=dtype).reshape(1, 1, 3, 3, 3)
            places = torch.zeros(1, 1, 1, 20, 3, dtype=dtype)
            for x, zeros, border, reflected, far in (
                (nan, nan, 4.0, 4.0, 15.0), (inf, nan, 6.0, 4.0, 15.0), (-inf, nan, 4.0, 4.0, 13.0),
                (1e20, 0.0, 6.0, None, 15.0), (1.25, 0.75, 6.0, 6.0, 15.0),
            ):
                grid[..., 0] = places[..., 0] = x
                for padding, wanted in (("zeros", zeros), ("border", border), ("reflection", reflected)):
                    found = F.grid_sample(image, grid, padding_mode=padding, align_corners=False)
                    if wanted is not None:
                        wanted = torch.full_like(found, wanted)
                        torch.testing.assert_close(found, wanted, equal_nan=True, msg=f"{x} {padding}")
                found = F.grid_sample(cube, places, padding_mode="border", align_corners=False)
                self.assertTrue((found == far).all(), f"{x} in three dimensions")

    def test_counts_of_bins(self):
        values = torch.cat([torch.arange(0, 700.0).repeat(3), torch.tensor([float("nan"), 700.0, -1.0, 701.0])])
        for dtype in (torch.float32, torch.float64):
            found = torch.histc(values.to(dtype), bins=7, min=0, max=700)
            self.assertEqual(found.tolist(), [300.0] * 6 + [301.0])
            self.assertEqual(found.dtype, dtype)
        # Counting on by one ends where one more is rounded away.
        self.assertEqual(torch.histc(torch.ones(1000, dtype=torch.bfloat16), 1, 0, 2).item(), 256.0)


class Ranges(unittest.TestCase):
    def test_parts_of_ranges(self):
        # Every element is its place, wherever vectors and threads begin and end.
        for n in (0, 1, 7, 15, 16, 17, 33, 40_000, 100_003):
            self.assertTrue(torch.equal(torch.arange(n, dtype=torch.float32).long(), torch.arange(n)))
            self.assertTrue(torch.equal(torch.arange(n, dtype=torch.float64).long(), torch.arange(n)))
        spread = torch.zeros(40)[::2]
        torch.arange(0, 20.0, out=spread)
        self.assertEqual(spread.tolist(), list(range(20)))

    def test_lines(self):
        for n in (1, 2, 5, 1001):
            found = torch.linspace(-3, 5, n, dtype=torch.float64)
            wanted = [-3 + 8 * i / max(n - 1, 1) for i in range(n)]
            torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))


class Margins(unittest.TestCase):
    @staticmethod
    def by_definition(x, target):
        rows = []
        for values, labels in zip(x, target.tolist()):
            chosen = list(itertools.takewhile(lambda label: label >= 0, labels))
            others = [j for j in range(len(labels)) if j not in chosen]
            pairs = [(1 - values[i] + values[j]).clamp(min=0) for i in chosen for j in others]
            rows.append(sum(pairs, torch.zeros((), dtype=x.dtype)) / len(labels))
        return torch.stack(rows)

    def test_several_labels(self):
        torch.manual_seed(0)
        x = torch.randn(4, 19, dtype=torch.float64, requires_grad=True)
        target = torch.randint(-1, 19, (4, 19))
        found = F.multilabel_margin_loss(x, target, reduction="none")
        wanted = self.by_definition(x, target)
        torch.testing.assert_close(found, wanted)
        weights = torch.rand(4, dtype=torch.float64)
        slopes = [torch.autograd.grad((loss * weights).sum(), x)[0] for loss in (found, wanted)]
        torch.testing.assert_close(*slopes)

    def test_what_is_not_a_number(self):
        # Comparisons with it are false, so that its pairs count for nothing.
        x = torch.tensor([0.0, float("nan"), 0.5, 0.25])
        loss = F.multilabel_margin_loss(x, torch.tensor([0, -1, 0, 0]))
        self.assertEqual(loss.item(), (1.5 + 1.25) / 4)

    def test_no_samples(self):
        x, target = torch.zeros(0, 4), torch.zeros(0, 4, dtype=torch.long)
        self.assertEqual(F.multilabel_margin_loss(x, target).shape, ())
        self.assertEqual(F.multilabel_margin_loss(x, target, reduction="none").shape, (0,))

    def test_bytes_are_no_labels_of_images(self):
        with self.assertRaisesRegex(RuntimeError, "Long"):
            F.nll_loss(torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 2, dtype=torch.uint8))


class Triangles(unittest.TestCase):
    def test_systems(self):
        torch.manual_seed(0)
        for n, columns in ((1, 1), (31, 2), (32, 33), (33, 5), (65, 40), (130, 3)):
            for upper, left in itertools.product((False, True), repeat=2):
                a = torch.rand(n, n, dtype=torch.float64) / n + torch.eye(n, dtype=torch.float64)
                b = torch.rand(*((n, columns) if left else (columns, n)), dtype=torch.float64)
                x = torch.linalg.solve_triangular(a, b, upper=upper, left=left)
                half = a.triu() if upper else a.tril()
                torch.testing.assert_close(half @ x if left else x @ half, b)

    def test_inverse_of_a_factor(self):
        torch.manual_seed(0)
        for n in (1, 64, 65, 150):
            a = torch.rand(2, n, n, dtype=torch.float64)
            a = a @ a.mT + n * torch.eye(n, dtype=torch.float64)
            for upper in (False, True):
                inverse = torch.cholesky_inverse(torch.linalg.cholesky(a, upper=upper), upper=upper)
                torch.testing.assert_close(a @ inverse, torch.eye(n, dtype=torch.float64).expand(2, n, n))

    def test_least_squares(self):
        torch.manual_seed(0)
        a, b = torch.rand(20, 5, dtype=torch.float64), torch.rand(20, 2, dtype=torch.float64)
        for driver in ("gels", "gelsy", "gelsd"):
            found = torch.linalg.lstsq(a, b, driver=driver)
            torch.testing.assert_close(a.mT @ (a @ found.solution - b), torch.zeros(5, 2, dtype=torch.float64))
        # The smallest of many solutions, where the rank is not full.
        flat = a[:, :1] @ torch.ones(1, 5, dtype=torch.float64)
        found = torch.linalg.lstsq(flat, b)
        self.assertEqual(found.rank.item(), 1)
        torch.testing.assert_close(found.solution, found.solution[:1].expand(5, 2))


class Windows(unittest.TestCase):
    def test_maxima(self):
        torch.manual_seed(0)
        for kernel, stride, padding, dilation in itertools.product((1, 2, 3, 5), (1, 2, 3, 4), (0, 1), (1, 2)):
            if padding > kernel // 2:
                continue
            x = torch.randn(2, 1, 40)
            x[0, 0, 11] = float("nan")
            values, places = F.max_pool1d(x, kernel, stride, padding, dilation, return_indices=True)
            padded = F.pad(x, (padding, padding), value=float("-inf"))
            reach = dilation * (kernel - 1) + 1
            wanted = padded.unfold(2, reach, stride)[..., ::1][..., torch.arange(0, reach, dilation)].amax(-1)
            torch.testing.assert_close(values, wanted, equal_nan=True, rtol=0, atol=0)
            torch.testing.assert_close(x.gather(2, places), values, equal_nan=True, rtol=0, atol=0)

    def test_maxima_of_two_by_two(self):
        torch.manual_seed(0)
        nan, low = float("nan"), float("-inf")
        for width, height, dtype in itertools.product((1, 3, 4, 7, 8, 12, 16, 21, 40), (1, 5), (torch.float32, torch.float64, torch.bfloat16, torch.int32)):
            for extra, stride in ((0, 2), (1, 2), (1, (1, 2))):
                x = torch.randint(-3, 4, (2, 3, 2 * height, 2 * width + extra)).to(dtype)
                if dtype.is_floating_point:
                    x[0, 0, 0, :2], x[0, 0, 1, 1], x[1, 1] = nan, 9.0, low
                values, places = F.max_pool2d(x, 2, stride, return_indices=True)
                windows = x.unfold(2, 2, 1 if stride == (1, 2) else 2).unfold(3, 2, 2).flatten(4)
                # The first of equal elements; the last NaN.
                wanted = windows.to(torch.float64).amax(-1)
                torch.testing.assert_close(values.to(torch.float64), wanted, equal_nan=True, rtol=0, atol=0)
                rank = (windows.to(torch.float64) == wanted[..., None]).to(torch.int64) * torch.tensor([4, 3, 2, 1])
                rank += windows.isnan() * torch.tensor([1, 2, 3, 4])
                best = rank.argmax(-1)
                rows, columns = torch.arange(values.shape[2])[:, None], torch.arange(values.shape[3])
                step = 1 if stride == (1, 2) else 2
                own = (rows * step + best // 2) * x.shape[3] + columns * 2 + best % 2
                self.assertTrue(torch.equal(places, own))


class Convolutions(unittest.TestCase):
    def test_kernels_without_elements(self):
        for sizes in ((3, 2, 0, 3), (3, 2, 3, 0)):
            with self.assertRaisesRegex(RuntimeError, "kernel size should be greater than zero"):
                F.conv2d(torch.ones(1, 2, 5, 5), torch.ones(sizes))

    def test_an_output_padding_of_single_pixels(self):
        # There are more positions than pixels, so that patches are not the image itself.
        x, weight = torch.ones(2, 3, 4, 5), torch.full((3, 2, 1, 1), 2.0)
        for memory_format in (torch.contiguous_format, torch.channels_last):
            image = x.to(memory_format=memory_format).requires_grad_()
            found = F.conv_transpose2d(image, weight, output_padding=1, dilation=2)
            expected = F.pad(torch.full((2, 2, 4, 5), 6.0), (0, 1, 0, 1))
            self.assertTrue(torch.equal(found, expected))
            (grad,) = torch.autograd.grad(found.sum(), image)
            self.assertTrue(torch.equal(grad, torch.full((2, 3, 4, 5), 4.0)))

    def test_borders_far_larger_than_images(self):
        # Only one position looks at the image; nothing as large as the border is made.
        image = torch.arange(9.0).reshape(1, 1, 3, 3).requires_grad_()
        weight = torch.ones(1, 1, 3, 3, requires_grad=True)
        found = F.conv2d(image, weight, padding=2**33, stride=2**33)
        self.assertEqual(found.shape, (1, 1, 3, 3))
        self.assertEqual(found.sum().item(), 36.0)
        found.sum().backward()
        self.assertEqual(image.grad.sum().item(), 9.0)
        self.assertEqual(weight.grad.sum().item(), 36.0)

    def test_kernels_as_large_as_images(self):
        torch.manual_seed(0)
        for padding in (0, 1):
            x = torch.randn(3, 2, 5, 6, dtype=torch.float64, requires_grad=True)
            weight = torch.randn(4, 2, 5, 6, dtype=torch.float64, requires_grad=True)
            bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
            found = F.conv2d(x, weight, bias, padding=padding)
            patches = F.unfold(x, (5, 6), padding=padding)
            wanted = (weight.flatten(1) @ patches + bias[:, None]).reshape(found.shape)
            torch.testing.assert_close(found, wanted)
            grad = torch.randn_like(found)
            ours = torch.autograd.grad(found, (x, weight, bias), grad)
            theirs = torch.autograd.grad(wanted, (x, weight, bias), grad)
            for a, b in zip(ours, theirs):
                torch.testing.assert_close(a, b)


    def test_lines_of_channels(self):
        # Channels that lie side by side: whole rows of the image against rows of the kernel.
        torch.manual_seed(0)
        last = torch.channels_last
        for channels, features, kernel, stride, padding, dilation in (
            (16, 32, 3, 1, 1, 1), (3, 16, (5, 7), 2, 3, 1), (8, 16, 3, 1, (0, 2), (2, 1)), (32, 16, (1, 3), 1, 0, 1),
            (16, 16, 3, (1, 2), (2, 0), 1), (32, 48, (3, 1), 1, (1, 0), 1),
        ):
            for dtype, batch in itertools.product((torch.float32, torch.float64), (1, 3)):
                x = torch.randn(batch, channels, 21, 36, dtype=dtype)
                weight = torch.randn(features, channels, *torch.nn.modules.utils._pair(kernel), dtype=dtype)
                bias = torch.randn(features, dtype=dtype) if batch > 1 else None
                wide = [t.to(torch.float64).requires_grad_() for t in (x, weight)]
                wanted = F.conv2d(*wide, None if bias is None else bias.double(), stride, padding, dilation)
                own = [t.to(memory_format=last).requires_grad_() for t in (x, weight)]
                found = F.conv2d(*own, bias, stride, padding, dilation)
                self.assertTrue(found.is_contiguous(memory_format=last))
                torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)
                grad = torch.randn_like(wanted)
                ours = torch.autograd.grad(found, own, grad.to(dtype).to(memory_format=last))
                theirs = torch.autograd.grad(wanted, wide, grad)
                for a, b in zip(ours, theirs):
                    torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-3)

    def test_depthwise_weight_gradients_in_both_formats(self):
        cases = [
            # channels, size, kernel, stride, padding, dilation
            (3, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
            (40, (16, 16), (7, 7), (1, 1), (3, 3), (1, 1)),
            (17, (2, 2), (7, 7), (1, 1), (3, 3), (1, 1)),
            (33, (9, 30), (3, 5), (2, 3), (0, 4), (2, 1)),
            (16, (40, 50), (3, 3), (1, 2), (2, 0), (1, 2)),
            (5, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
        ]
        formats = (torch.contiguous_format, torch.channels_last)
        for dtype in (torch.float32, torch.float64):
            for channels, size, kernel, stride, padding, dilation in cases:
                with self.subTest(dtype=dtype, channels=channels, size=size):
                    torch.manual_seed(0)
                    x = torch.randn(3, channels, *size, dtype=dtype)
                    weight = torch.randn(channels, 1, *kernel, dtype=dtype, requires_grad=True)
                    options = {"stride": stride, "padding": padding, "dilation": dilation}
                    # One channel at a time is no depthwise convolution.
                    expected = torch.cat([
                        F.conv2d(x[:, c:c + 1], weight[c:c + 1], **options) for c in range(channels)
                    ], 1)
                    gradient = torch.randn_like(expected)
                    expected_grad, = torch.autograd.grad(expected, weight, gradient)
                    for of_input in formats:
                        for of_gradient in formats:
                            out = F.conv2d(x.contiguous(memory_format=of_input), weight, groups=channels, **options)
                            given = gradient.contiguous(memory_format=of_gradient)
                            grad, = torch.autograd.grad(out, weight, given)
                            torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-4)


class Products(unittest.TestCase):
    def test_halves_are_scaled_and_added_with_one_rounding(self):
        def matrix(*values):
            return torch.tensor([values], dtype=torch.bfloat16)

        a = matrix(-0.443359375, -0.10498046875, 0.43359375, -0.416015625)
        b = matrix(0.359375, -0.41015625, -0.1357421875, -0.2216796875)
        c = matrix(0.283203125)
        for rows in (1, 3, 8, 33):
            left, right, old = a.expand(rows, 4), b.expand(rows, 4).t(), c.expand(rows, rows)
            self.assertEqual(
                torch.addmm(old, left, right, beta=0.3).unique().tolist(), [0.0020599365234375]
            )

    def test_a_row_added_to_a_product(self):
        a, b = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4)
        row = torch.tensor([1.0, -1.0, 0.5, torch.inf])
        wanted = [[21.0, 22.0, 26.5, torch.inf], [57.0, 67.0, 80.5, torch.inf]]
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            x, y, z = a.to(dtype), b.to(dtype), row.to(dtype)
            self.assertEqual(torch.addmm(z, x, y).tolist(), wanted)
            self.assertEqual(torch.addmm(z, x.t().contiguous().t(), y).tolist(), wanted)
            self.assertEqual(torch.nn.functional.linear(x, y.t(), z).tolist(), wanted)
            self.assertEqual(torch.addmm(z, x[:, :0], y[:0]).tolist(), [z.tolist()] * 2)
            self.assertEqual(torch.addmm(z, x[:0], y).shape, (0, 4))
            one = torch.addmm(z[:1], x[:1], y[:, :1])
            self.assertEqual(one.tolist(), [[21.0]])
        self.assertEqual(torch.addmm(row, a, b, beta=2)[0, :3].tolist(), [22.0, 21.0, 27.0])

    def test_a_row_added_to_a_product_in_parts(self):
        # Each of several threads adds its part of the row.
        for rows, depth, cols in ((1, 700, 900), (900, 40, 30), (30, 40, 900), (300, 64, 300)):
            x = (torch.arange(rows * depth) % 7).reshape(rows, depth)
            weight = (torch.arange(cols * depth) % 5).reshape(cols, depth) - 2
            bias = torch.arange(cols)
            wanted = x @ weight.T + bias
            for dtype in (torch.float32, torch.float64):
                found = F.linear(x.to(dtype), weight.to(dtype), bias.to(dtype))
                self.assertTrue(torch.equal(found, wanted.to(dtype)))

    def test_activations_of_products(self):
        # Whatever the shape and the order of the factors, every sum goes through the activation once.
        for rows, depth, cols in ((1, 5, 3), (2, 1100, 70), (40, 30, 900), (130, 1300, 200), (7, 0, 4), (0, 3, 2)):
            x = torch.sin(torch.arange(float(rows * depth))).reshape(rows, depth)
            weight = torch.cos(torch.arange(float(depth * cols))).reshape(depth, cols)
            row = torch.linspace(-1, 1, cols)
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                a, b, bias = x.to(dtype), weight.to(dtype), row.to(dtype)
                for left, right in ((a, b), (a.t().contiguous().t(), b.t().contiguous().t())):
                    sums = torch.addmm(bias, left, right)
                    found = torch._addmm_activation(bias, left, right)
                    self.assertTrue(torch.equal(found, sums.relu()))
                    found = torch._addmm_activation(bias, left, right, use_gelu=True)
                    torch.testing.assert_close(found, F.gelu(sums))
                    scaled = torch._addmm_activation(bias, left, right, beta=0.5, alpha=2)
                    self.assertTrue(torch.equal(scaled, torch.addmm(bias, left, right, beta=0.5, alpha=2).relu()))
        whole = torch._addmm_activation(torch.tensor([-9, 1]), torch.eye(2).long(), torch.eye(2).long())
        self.assertEqual(whole.tolist(), [[0, 1], [0, 2]])
        with self.assertRaisesRegex(RuntimeError, "same dtype"):
            torch._addmm_activation(row.double(), a.float(), b.float())
        with self.assertRaisesRegex(RuntimeError, "derivative for aten::_addmm_activation is not implemented"):
            torch._addmm_activation(torch.ones(2, requires_grad=True), torch.eye(2), torch.eye(2)).sum().backward()


class Threads(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())

    def test_parts_of_convolutions(self):
        # Threads share positions, samples or features, by what each would read twice.
        cases = [(1, 24, 20, 24, 3, 1, 1), (1, 100, 7, 120, 3, 1, 1), (3, 40, 9, 70, 3, 2, 1),
                 (1, 8, 70, 33, 5, 1, 1), (2, 64, 14, 300, 1, 1, 1), (5, 12, 15, 18, 3, 1, 3),
                 (1, 64, 24, 48, 3, 1, 1), (3, 32, 10, 64, 3, 1, 1), (9, 48, 7, 64, 3, 1, 1),
                 (1, 3, 40, 32, 7, 2, 1), (2, 2, 32, 16, 9, 1, 1), (3, 9, 32, 16, 7, 1, 1)]
        for samples, channels, size, features, kernel, stride, groups in cases:
            x = (torch.arange(samples * channels * size * size) % 7).reshape(samples, channels, size, size).float()
            weight = torch.arange(features * (channels // groups) * kernel**2) % 5 - 2
            weight = weight.reshape(features, channels // groups, kernel, kernel).float()
            bias = torch.arange(features).float()
            wanted = F.conv2d(x.double(), weight.double(), bias.double(), stride, kernel // 2, 1, groups).float()
            for threads in (1, 2, 3, 5):
                torch.set_num_threads(threads)
                for layout in (torch.contiguous_format, torch.channels_last):
                    own = x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout)
                    found = F.conv2d(*own, bias, stride, kernel // 2, 1, groups)
                    self.assertTrue(torch.equal(found, wanted), (samples, channels, threads, layout))

    def test_few_features(self):
        # Sums in registers: rows of the image in one to three dimensions, in parts and whole.
        cases = [((2, 5, 300), (7, 5, 3), {"padding": 2}), ((1, 3, 5000), (4, 3, 9), {"stride": 3}),
                 ((1, 12, 40, 24), (33, 12, 3, 3), {"padding": 1, "dilation": (2, 1)}),
                 ((3, 3, 31, 26), (18, 3, 3, 5), {"stride": 2, "padding": (1, 0)}),
                 ((1, 70, 60, 9), (6, 70, 5, 3), {"stride": (3, 1), "dilation": (1, 2)}),
                 ((2, 4, 9, 12, 10), (8, 4, 3, 3, 3), {"padding": 1}), ((1, 2, 5, 6, 40), (5, 2, 2, 3, 1), {})]
        for sizes, of_weight, settings in cases:
            x = (torch.arange(torch.Size(sizes).numel()) * 7919 % 13 - 6).reshape(sizes).float()
            weight = (torch.arange(torch.Size(of_weight).numel()) * 31 % 9 - 4).reshape(of_weight).float()
            convolve = (F.conv1d, F.conv2d, F.conv3d)[len(sizes) - 3]
            turn = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(sizes) - 3]
            turned = weight.transpose(0, 1).contiguous()
            bias = torch.arange(of_weight[0]).float()
            wanted = [convolve(x.double(), weight.double(), bias.double(), **settings),
                      turn(x.double(), turned.double(), **settings)]
            for threads in (1, 2, 5):
                torch.set_num_threads(threads)
                found = [convolve(x, weight, bias, **settings), turn(x, turned, **settings)]
                for a, b in zip(found, wanted):
                    self.assertTrue(torch.equal(a, b.float()), (sizes, of_weight, threads))


class Special(unittest.TestCase):
    def test_logarithm_of_gamma(self):
        # Zeros at 1 and 2, the ends of the series, poles and what is no number.
        x = torch.tensor([1.0, 2.0, 0.5, 2.5, 8.0, 1e-300, 1e300, 0.0, -1.0, -0.5, float("nan")], dtype=torch.float64)
        inf = float("inf")
        wanted = torch.tensor([0.0, 0.0, 0.5723649429247001, 0.2846828704729192, 8.525161361065415,
                               690.7755278982137, 6.897755278982137e302, inf, inf, 1.265512123484645, float("nan")],
                              dtype=torch.float64)
        torch.testing.assert_close(torch.lgamma(x), wanted, rtol=1e-14, atol=0, equal_nan=True)


class Refused(unittest.TestCase):
    def test_an_index_behind_the_end_leaves_everything_as_it_was(self):
        for sizes, dim in (((3, 40), 1), ((40, 3), 0), ((2, 30, 5), 1)):
            x = torch.arange(torch.Size(sizes).numel()).reshape(sizes).float()
            index = torch.zeros(sizes, dtype=torch.long)
            index.view(-1)[-1] = sizes[dim]
            said = f"index {sizes[dim]} is out of bounds for dimension {dim} with size {sizes[dim]}"
            for form in (lambda x: x.gather(dim, index), lambda x: x.scatter(dim, index, x + 1),
                         lambda x: x.scatter(dim, index, 2.0), lambda x: x.scatter_add(dim, index, x + 1),
                         lambda x: x.scatter_(dim, index, x + 1), lambda x: x.scatter_add_(dim, index, x + 1),
                         lambda x: x.scatter_(dim, index, 2.0)):
                own = x.clone()
                with self.assertRaisesRegex(RuntimeError, said):
                    form(own)
                self.assertTrue(torch.equal(own, x))

    def test_factors_of_outer_products(self):
        a, u = torch.ones(2, 2), torch.ones(2)
        for name in ("alpha", "beta"):
            with self.assertRaisesRegex(RuntimeError, "value cannot be converted to type float without overflow"):
                torch.addr(a, u, u, **{name: 1j})
            with self.assertRaisesRegex(RuntimeError, f"Boolean {name} only supported for Boolean results"):
                torch.addr(a, u, u, **{name: True})
            with self.assertRaisesRegex(RuntimeError, f"argument {name} must not be a floating point number"):
                torch.addr(a.long(), u.long(), u.long(), **{name: 2.5})
        self.assertEqual(torch.addr(a, u, u, alpha=1 + 0j).tolist(), [[2, 2], [2, 2]])
        self.assertEqual(torch.addr(a.long(), u.long(), u.long(), beta=2, alpha=3).tolist(), [[5, 5], [5, 5]])
        self.assertEqual(torch.addr(a.bool(), u.bool(), u.bool(), beta=True, alpha=True).tolist(), [[True] * 2] * 2)

    def test_an_index_into_nothing(self):
        index = torch.zeros(3, 2, dtype=torch.long)
        for form in (lambda x: x.gather(1, index), lambda x: x.scatter(1, index, 2.0),
                     lambda x: x.scatter(1, index, torch.ones(3, 2)), lambda x: x.scatter_add(1, index, torch.ones(3, 2)),
                     lambda x: x.scatter_(1, index, 2.0)):
            with self.assertRaisesRegex(RuntimeError, "index 0 is out of bounds for dimension 1 with size 0"):
                form(torch.ones(3, 0))


class Columns(unittest.TestCase):
    def test_many_columns_beside_their_rows(self):
        # Blocks of columns are as wide as their states have room; each form must meet its ends.
        for rows, columns in ((3, 5000), (9, 2048), (2, 2049), (40, 300)):
            numbers = torch.arange(rows * columns).reshape(rows, columns) * 7919 % 1009 - 500
            for dtype in (torch.float32, torch.float64, torch.int16, torch.int64, torch.bfloat16):
                x = numbers.to(dtype)
                turned = x.t().contiguous()
                self.assertTrue(torch.equal(x.amax(0), turned.amax(1)))
                self.assertTrue(torch.equal(x.amin(0), turned.amin(1)))
                self.assertTrue(torch.equal((x > 0).any(0), (turned > 0).any(1)))
                for found, wanted in zip(x.max(0), turned.max(1)):
                    self.assertTrue(torch.equal(found, wanted))
                self.assertTrue(torch.equal(x.argmin(0), turned.argmin(1)))
            signs = numbers.sign().double()
            self.assertTrue(torch.equal(signs.prod(0), signs.t().contiguous().prod(1)))
            x = torch.zeros(rows, columns)
            x[rows - 1, columns - 1] = float("nan")
            self.assertEqual(x.amax(0).isnan().nonzero().tolist(), [[columns - 1]])


class Picks(unittest.TestCase):
    def test_index_and_values_in_the_storage_of_the_target(self):
        calls = {
            "scatter_": lambda to, at, x: to.scatter_(0, at, x),
            "scatter_add_": lambda to, at, x: to.scatter_add_(0, at, x),
            "scatter_reduce_": lambda to, at, x: to.scatter_reduce_(0, at, x, "prod"),
            "index_add_": lambda to, at, x: to.index_add_(0, at, x),
            "index_copy_": lambda to, at, x: to.index_copy_(0, at, x),
            "index_fill_": lambda to, at, x: to.index_fill_(0, at, 9),
            "put_": lambda to, at, x: to.put_(at, x),
        }
        for name, call in calls.items():
            for parts in ((slice(0, 4), slice(4, 6), slice(6, 8)), (slice(0, 8, 2), slice(1, 4, 2), slice(5, 8, 2))):
                shared = torch.tensor([5, 1, 7, 3, 2, 3, 6, 4])
                apart = [shared[part].clone() for part in parts]
                expected = call(*apart)
                rest = [shared[part].clone() for part in parts[1:]]
                call(*(shared[part] for part in parts))
                self.assertEqual(shared[parts[0]].tolist(), expected.tolist(), name)
                for part, before in zip(parts[1:], rest):
                    self.assertEqual(shared[part].tolist(), before.tolist(), name)

    def test_slices_that_are_picked_far_apart_and_again(self):
        torch.manual_seed(0)
        for rows, cols in ((40, 15), (40, 16), (3, 300), (1000, 70)):
            to, values = torch.randn(2, rows, cols), torch.randn(2, 50, cols)
            at = torch.randint(0, rows, (50,))
            expected = to.clone()
            for pick, row in enumerate(at.tolist()):
                expected[:, row] += values[:, pick]
            self.assertTrue(torch.equal(to.index_add(1, at, values), expected), (rows, cols))


class Attention(unittest.TestCase):
    def test_blocks_of_queries_and_keys(self):
        # More of both than a block has, and numbers of them that leave rests.
        torch.manual_seed(3)
        for queries, keys, masked in itertools.product((70, 530), (70, 1100), (None, "causal", "bias")):
            sizes = (queries, keys, keys)
            q, k, v = (torch.randn(1, 2, n, 8, dtype=torch.float64).requires_grad_() for n in sizes)
            bias = torch.zeros(queries, keys, dtype=torch.float64)
            if masked == "causal":
                bias.masked_fill_(torch.ones(queries, keys).triu(1) != 0, -torch.inf)
            elif masked == "bias":
                bias = torch.randn(queries, keys, dtype=torch.float64)
            options = {"is_causal": True} if masked == "causal" else {"attn_mask": bias if masked else None}
            found = F.scaled_dot_product_attention(q, k, v, **options)
            wanted = (q @ k.mT / 8 ** 0.5 + bias).softmax(-1) @ v
            torch.testing.assert_close(found, wanted)
            grad = torch.randn_like(wanted)
            pairs = zip(*(torch.autograd.grad(out, (q, k, v), grad) for out in (found, wanted)))
            for one, other in pairs:
                torch.testing.assert_close(one, other)
            single = F.scaled_dot_product_attention(*(x.detach().float() for x in (q, k, v)), **{
                name: value.float() if torch.is_tensor(value) else value for name, value in options.items()})
            torch.testing.assert_close(single, wanted.detach().float(), rtol=1e-4, atol=1e-5)

    def test_nothing_to_attend_to(self):
        for queries, keys, width in ((3, 0, 4), (0, 3, 4), (0, 0, 4), (3, 3, 0)):
            q, k = torch.ones(1, 2, queries, width), torch.ones(1, 2, keys, width)
            out, logs = torch._scaled_dot_product_flash_attention_for_cpu(q, k, k)
            self.assertTrue(torch.equal(out, torch.zeros_like(q)))
            self.assertTrue(torch.equal(logs, torch.full((1, 2, queries), 0.0 if keys else -torch.inf)))
            backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
            for grad, like in zip(backward(q, q, k, k, out, logs, 0.0, False), (q, k, k)):
                self.assertTrue(torch.equal(grad, torch.zeros_like(like)), (queries, keys, width))

    def test_threads_and_layouts_change_no_digit(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.manual_seed(4)
        for heads, queries, keys, causal in ((1, 650, 700, False), (1, 650, 650, True), (9, 130, 70, False)):
            apart = [torch.randn(1, n, heads, 24).transpose(1, 2) for n in (queries, keys, keys)]
            grad = torch.randn(1, heads, queries, 24)
            results = []
            for threads, layout in itertools.product((1, 2, 3), (torch.Tensor.clone, torch.Tensor.contiguous)):
                torch.set_num_threads(threads)
                q, k, v = (layout(x).requires_grad_() for x in apart)
                out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                results.append([out.detach(), *torch.autograd.grad(out, (q, k, v), grad)])
            for other in results[1:]:
                for one, two in zip(results[0], other):
                    self.assertTrue(torch.equal(one, two), (heads, queries, causal))


class Rows(unittest.TestCase):
    """Short rows, of which many are computed side by side, beside the columns of the matrix turned."""

    LENGTHS = [*range(1, 20), 31, 32, 33, 48, 49, 63, 64, 65, 100]

    def test_reductions(self):
        for length, rows in itertools.product(self.LENGTHS, (1, 9, 700)):
            numbers = (torch.arange(rows * length) * 7919 % 1009).reshape(rows, length) - 500
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int32, torch.int64):
                x = (numbers % 100).to(dtype)
                if dtype.is_floating_point:
                    x[rows // 2, length // 2] = float("nan")
                for matrix in (x, x[::2], x.repeat(1, 2)[:, :length]):
                    turned = matrix.t().contiguous()
                    for name in ("amax", "amin", "argmax", "argmin"):
                        found, wanted = getattr(matrix, name)(1), getattr(turned, name)(0)
                        self.assertTrue(torch.equal(found.nan_to_num(99), wanted.nan_to_num(99)), (name, length, dtype))
                    for found, wanted in zip(matrix.max(1), turned.max(0)):
                        self.assertTrue(torch.equal(found.nan_to_num(99), wanted.nan_to_num(99)))
                    self.assertTrue(torch.equal((matrix > 0).all(1), (turned > 0).all(0)))
                    if not dtype.is_floating_point:
                        self.assertTrue(torch.equal(matrix.sum(1), turned.sum(0)))
                        self.assertTrue(torch.equal(matrix.prod(1), turned.prod(0)))
                    else:
                        near = (matrix / 500 + 1).nan_to_num(1)
                        found, wanted = near.double().prod(1), near.t().contiguous().double().prod(0)
                        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
                        tolerance = 1e-2 if dtype == torch.bfloat16 else length * torch.finfo(dtype).eps
                        found = near.prod(1).double()
                        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=0)
        x = torch.full((20, 5), -torch.inf)
        self.assertEqual(x.argmax(1).unique().tolist(), [0])
        self.assertTrue(torch.isneginf(x.amax(1)).all())

    def test_both_ends_are_the_least_and_the_greatest(self):
        torch.manual_seed(0)
        for shape in ((3, 700), (700, 3), (2, 300, 5), (5, 1), (40, 2100), (30000,)):
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.uint8, torch.bool):
                x = (torch.rand(shape) * 100).to(dtype)
                inputs = [x, x.t()] if len(shape) == 2 else [x]
                if dtype.is_floating_point:
                    holes = x.clone()
                    holes[..., -1] = float("nan")
                    inputs += [holes, -x]
                for each in inputs:
                    for dim in [None, *range(each.dim())]:
                        found = torch.aminmax(each, dim=dim)
                        wanted = (each.amin(() if dim is None else dim), each.amax(() if dim is None else dim))
                        for end, other in zip(found, wanted):
                            torch.testing.assert_close(end, other, rtol=0, atol=0, equal_nan=True)

    def test_products_have_the_range_of_their_dtype(self):
        x = torch.tensor([1e30, 1e30])
        self.assertEqual(x.prod().item(), torch.inf)
        self.assertEqual(x.repeat(9, 1).prod(1).tolist(), [torch.inf] * 9)
        self.assertAlmostEqual(x.double().prod().item() / 1e60, 1, places=6)
        self.assertEqual(torch.full((3,), 300.0, dtype=torch.float16).prod().item(), torch.inf)

    def test_clamped_rows(self):
        nan, inf = torch.nan, torch.inf
        x = torch.tensor([nan, -inf, -2.0, -0.0, 0.0, 0.5, 2.0, inf]).repeat(5)[:37]
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            for count in (1, 3, 8, 9, 16, 37):
                row = x[:count].to(dtype)
                wanted = [v if v != v else min(max(v, -1.0), 1.0) for v in row.tolist()]
                self.assertEqual(str(row.clamp(-1, 1).tolist()), str(wanted))
                bounds = torch.tensor(-1.0, dtype=dtype), torch.ones(count, dtype=dtype)
                self.assertEqual(str(row.clamp(*bounds).tolist()), str(wanted))
                self.assertTrue(row.clamp(-1, nan).isnan().all() and row.clamp(nan, 1).isnan().all())
        self.assertEqual(torch.arange(-20, 20).clamp(-3, 5).unique().tolist(), list(range(-3, 6)))

    def test_softmax(self):
        torch.manual_seed(0)
        for length, rows in itertools.product(self.LENGTHS, (1, 9, 700)):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                x = torch.randn(rows, length, dtype=dtype)
                grad = torch.randn(rows, length, dtype=dtype)
                rough = {"atol": 3e-2, "rtol": 3e-2} if dtype == torch.bfloat16 else {}
                for function in (F.softmax, F.log_softmax):
                    ours, theirs = x.clone().requires_grad_(), x.t().contiguous().requires_grad_()
                    found, wanted = function(ours, 1), function(theirs, 0)
                    torch.testing.assert_close(found, wanted.t(), **rough)
                    found.backward(grad)
                    wanted.backward(grad.t().contiguous())
                    torch.testing.assert_close(ours.grad, theirs.grad.t(), **rough)
                torch.testing.assert_close(x.logsumexp(1), x.t().contiguous().logsumexp(0), **rough)
        x = torch.tensor([[0.0, -torch.inf], [torch.inf, 0.0], [torch.nan, 0.0]] * 8)
        self.assertEqual(x.softmax(1)[0].tolist(), [1.0, 0.0])
        self.assertTrue(x.softmax(1)[1:3].isnan().all())


class Front(unittest.TestCase):
    def test_the_greatest_and_the_least(self):
        for length in (1, 9, 33, 316, 700, 5000):
            x = ((torch.arange(3 * length) * 7919) % 100003).reshape(3, length).float()
            for dtype in (torch.float32, torch.float64, torch.int32):
                y = x.to(dtype)
                for k in {1, min(10, length), min(32, length), min(40, length)}:
                    for largest in (True, False):
                        values, places = y.topk(k, largest=largest)
                        wanted, _ = y.sort(1, descending=largest)
                        self.assertTrue(torch.equal(values, wanted[:, :k]))
                        self.assertTrue(torch.equal(y.gather(1, places), values))

    def test_equal_integers_of_long_vectors_keep_their_order(self):
        for length, kept in ((32767, False), (32768, True)):
            for dtype in (torch.int64, torch.int32, torch.uint8):
                x = (torch.arange(length) * 7919 % 100).to(dtype)
                for descending in (False, True):
                    stable = x.sort(stable=True, descending=descending)
                    found = x.sort(descending=descending)
                    self.assertTrue(torch.equal(found.values, stable.values))
                    self.assertEqual(torch.equal(found.indices, stable.indices), kept and not descending)

    def test_not_a_number_is_the_greatest(self):
        x = torch.arange(100.0)
        x[40] = float("nan")
        values, places = x.topk(3)
        self.assertEqual(places.tolist(), [40, 99, 98])
        self.assertEqual(x.topk(2, largest=False)[1].tolist(), [0, 1])

    def test_equal_elements(self):
        # Which of equal elements are found follows from the algorithm.
        x = torch.tensor([3.0, 1.0, 3.0, 2.0, 3.0, 1.0, 2.0, 3.0, 0.0, 3.0] * 4)
        values, places = x.topk(10)
        self.assertEqual(values.tolist(), [3.0] * 10)
        self.assertEqual(len(set(places.tolist())), 10)
        self.assertEqual(places.tolist(), [27, 14, 17, 19, 0, 22, 24, 37, 34, 32])


class Joins(unittest.TestCase):
    def test_slices_of_rows(self):
        # Parts whose rows lie apart in memory are joined as copies of them are.
        x = torch.arange(5 * 6 * 7 * 4).reshape(5, 6, 7, 4)
        parts = (
            lambda t: t[..., 1:3], lambda t: t[:, 1:3], lambda t: t[1:2], lambda t: t[:, :, ::2],
            lambda t: t.flip(2), lambda t: t[:, :1].expand(5, 3, 7, 4), lambda t: t.transpose(0, 1)[:5, :5],
            lambda t: t[:, :, 2:3], lambda t: t[::2], lambda t: t[:, :0],
        )
        for dtype in (torch.int64, torch.float32, torch.uint8, torch.bool):
            given = x.to(dtype)
            for one in parts:
                for dim in range(4):
                    part = one(given)
                    halves = (part, part.narrow(dim, 0, part.size(dim) // 2), part.clone())
                    copies = [half.contiguous() for half in halves]
                    self.assertTrue(torch.equal(torch.cat(halves, dim), torch.cat(copies, dim)))

    def test_a_join_of_parts_of_itself(self):
        x = torch.arange(200000.0)
        parts = (x[150000:], x[:3], x[100:100100])
        self.assertTrue(torch.equal(torch.cat(parts), torch.tensor([v for p in parts for v in p.tolist()])))

    def test_rolls(self):
        x = torch.arange(4 * 5 * 6).reshape(4, 5, 6)
        for dim, size in enumerate(x.shape):
            for shift in (-7, -1, 0, 1, 3, size):
                index = (torch.arange(size) - shift) % size
                self.assertTrue(torch.equal(x.roll(shift, dim), x.index_select(dim, index)))


class RowsOfImages(unittest.TestCase):
    def test_strides_and_channels_last(self):
        # Rows in pieces, and rows sorted by the stride, beside sums over patches.
        torch.manual_seed(0)
        cases = [(3, 40, 7, 2, 3), (3, 16, 7, 2, 3), (8, 32, 3, 1, 1), (4, 16, 5, 2, 0), (3, 48, 3, 2, 1), (2, 16, 9, 3, 4)]
        for channels, features, kernel, stride, padding in cases:
            x = torch.randn(2, channels, 40, 37)
            w, b = torch.randn(features, channels, kernel, kernel), torch.randn(features)
            columns = F.unfold(x.double(), kernel, padding=padding, stride=stride)
            sums = w.double().flatten(1) @ columns + b.double()[:, None]
            for layout in (torch.contiguous_format, torch.channels_last):
                made = F.conv2d(x.to(memory_format=layout), w.to(memory_format=layout), b, stride, padding)
                torch.testing.assert_close(made.flatten(2).double(), sums, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
