"""Rules of programs as data that samples of every operator showed: values, sizes and strides of eager calls."""

import unittest

import corten
from corten._decomp import core_aten_decompositions
from corten._subclasses.fake_tensor import FakeTensorMode
from corten.func import functionalize
from corten.fx.experimental.proxy_tensor import make_fx
from corten.fx.experimental.symbolic_shapes import ShapeEnv
from corten.nn import functional as F

CORE = core_aten_decompositions()
REPLACED = {str(op) for op in CORE}


def counted(*shape):
    return corten.arange(float(corten.Size(shape).numel())).view(shape).clone()


class StandIns(unittest.TestCase):
    """Tensors without data."""

    def test_conjugated_and_negated_views(self):
        z = corten.randn(3, 4, dtype=corten.complex64)
        for tensor in (z.conj(), z.t().conj(), z.conj().imag, z.real, z.conj().conj()):
            fake = FakeTensorMode().from_tensor(tensor)
            self.assertEqual((fake.is_conj(), fake.is_neg()), (tensor.is_conj(), tensor.is_neg()))
            self.assertEqual((fake.shape, fake.stride(), fake.dtype), (tensor.shape, tensor.stride(), tensor.dtype))

    def test_changes_of_geometry_in_place_with_symbolic_sizes(self):
        changes = (
            lambda x: x.squeeze_(), lambda x: x.squeeze_(0), lambda x: x.unsqueeze_(0), lambda x: x.t_(),
            lambda x: x.transpose_(0, 1), lambda x: x.as_strided_((2, 2), (2, 1), 1), lambda x: x.resize_(3, 2),
        )
        for change in changes:
            for shape in ((1, 8), (4, 8)):
                mode = FakeTensorMode(shape_env=ShapeEnv())
                fake = mode.from_tensor(counted(*shape))
                with mode:
                    result = change(fake)
                expected = change(counted(*shape))
                self.assertIs(result, fake)
                self.assertEqual((fake.shape, fake.stride()), (expected.shape, expected.stride()))

    def test_views_with_symbolic_sizes_share_memory(self):
        mode = FakeTensorMode(shape_env=ShapeEnv())
        fake = mode.from_tensor(counted(4, 8))
        with mode:
            view = fake.t()
        self.assertEqual(view.untyped_storage()._cdata, fake.untyped_storage()._cdata)

    def test_items_of_places_that_data_tells(self):
        mode = FakeTensorMode(shape_env=ShapeEnv())
        mode.shape_env.allow_dynamic_output_shape_ops = True
        with mode:
            rows, columns = corten.nonzero(mode.from_tensor(counted(4, 8)), as_tuple=True)
        self.assertEqual((rows.dim(), rows.dtype, columns.dim()), (1, corten.int64, 1))


class SymbolicTraces(unittest.TestCase):
    """Graphs of composite operators that decide by sizes, or compute numbers of them."""

    def check(self, function, *tensors):
        graph = make_fx(function, tracing_mode="symbolic")(*tensors)
        self.assertTrue(corten.equal(graph(*tensors), function(*tensors)))
        return [str(node.target) for node in graph.graph.nodes]

    def test_factors_of_sizes(self):
        query, key = corten.randn(4, 3, 8), corten.randn(4, 6, 8)
        self.check(lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), query, key)

    def test_what_samples_decided_is_not_in_the_graph(self):
        image, weight = corten.randn(1, 10, 11, 12), corten.randn(1, 1, 4, 4, 4)
        targets = self.check(lambda x, w: F.conv3d(x, w, padding="same", dilation=3), image, weight)
        self.assertEqual(targets.count("aten.convolution.default"), 1)

    def test_negative_circular_padding(self):
        self.check(lambda x: F.pad(x, (-1, 1, -2, 1), mode="circular"), counted(1, 3, 4, 4))


class SparseResults(unittest.TestCase):
    """Sparse tensors are put together of values of the trace, never kept as they were."""

    def test_of_dense_values(self):
        given, other = corten.tensor([[1.0, 0], [0, 2]]), corten.tensor([[5.0, 0], [0, 7]])
        for convert in (lambda x: x.to_sparse(), lambda x: x.to_sparse() * 2):
            made = make_fx(convert)(given)(other)
            self.assertEqual(made.layout, corten.sparse_coo)
            self.assertTrue(corten.equal(made.to_dense(), convert(other).to_dense()))

    def test_unknown_entries_are_refused(self):
        for mode in ("fake", "symbolic"):
            with self.assertRaisesRegex(RuntimeError, r"to_sparse: the entries of a tensor of shape"):
                make_fx(lambda x: x.to_sparse().to_dense(), tracing_mode=mode)(corten.eye(2))


class Functionalised(unittest.TestCase):
    """What is left in arguments, and results with further values."""

    def test_geometry_changed_in_place(self):
        for change in (lambda x: x.as_strided_((2, 2), (1, 1)), lambda x: x.as_strided_((2, 2), (2, 1), 1),
                       lambda x: x.t_()):
            given, expected = counted(2, 4), counted(2, 4)
            result = functionalize(change)(given)
            change(expected)
            self.assertTrue(corten.equal(given, expected) and corten.equal(result, expected))
            self.assertEqual((given.stride(), given.storage_offset()), (expected.stride(), expected.storage_offset()))

    def test_noise_is_no_result(self):
        x = corten.randn(20)
        corten.manual_seed(1)
        expected = F.rrelu(x, 0.0, 1.0, training=True)
        corten.manual_seed(1)
        self.assertTrue(corten.equal(functionalize(lambda x: F.rrelu(x, 0.0, 1.0, training=True))(x), expected))


class Decompositions(unittest.TestCase):
    """Operands that are Booleans, complex, or have no dimensions."""

    def check(self, function, *tensors):
        graph = make_fx(function, CORE)(*tensors)
        found, expected = graph(*tensors), function(*tensors)
        self.assertEqual((found.dtype, found.shape, found.stride()), (expected.dtype, expected.shape, expected.stride()))
        corten.testing.assert_close(found, expected, equal_nan=True)
        self.assertEqual({str(node.target) for node in graph.graph.nodes} & REPLACED, set())

    def test_spaced_numbers(self):
        for dtype in (corten.int64, corten.complex64):
            for steps in (0, 1, 7):
                self.check(lambda: corten.linspace(1.5, 7.25, steps, dtype=dtype))
                self.check(lambda: corten.logspace(0.5, 2.75, steps, 2.5, dtype=dtype))
        self.check(lambda: corten.linspace(2j, 5, 4))
        self.check(lambda end: corten.linspace(0, end, 4, dtype=corten.int64), corten.tensor(3.7))
        self.check(lambda end: corten.logspace(0, end, 4, 2.0), corten.tensor(3.0 + 1j))

    def test_complex_operands(self):
        z = corten.tensor([[1 + 2j, float("inf") + 1j], [complex("nan"), -3j]])
        one = corten.randn(2, 2, dtype=corten.complex64)
        self.check(lambda x: corten.logaddexp(x, x.flip(0)), one)
        self.check(lambda x: corten.logsumexp(x, 1), one)
        for order in (0, 2, 3, float("inf"), float("-inf")):
            self.check(lambda x: corten.linalg.vector_norm(x, order), one)
        self.check(lambda x: corten.nan_to_num(x, 1.0), z)
        self.check(corten.isfinite, z)
        self.check(corten.diag_embed, one)

    def test_booleans(self):
        row, square = corten.tensor([True, False]), corten.tensor([[True, False], [True, True]])
        self.check(corten.clamp_max, row, row.flip(0))
        self.check(corten.clamp_min, row, row.flip(0))
        for function in (corten.triu, corten.tril, corten.diag_embed, corten.isfinite):
            self.check(function, square)
        for beta in (False, True):
            for alpha in (False, True):
                self.check(lambda m, x, y: corten.addr(m, x, y, beta=beta, alpha=alpha), square, row, row)

    def test_fractions_for_integers(self):
        x = corten.arange(8).view(2, 2, 2)
        self.check(lambda x: corten.baddbmm(x, x, x, beta=0.6, alpha=1.2), x)

    def test_layout_of_unpooled_images(self):
        image = corten.randn(2, 2, 6, 4).to(memory_format=corten.channels_last)
        pooled, places = F.max_pool2d(image, 2, return_indices=True)
        self.check(lambda x, i: F.max_unpool2d(x, i, 2), pooled, places)

    def test_no_dimensions(self):
        x, place = corten.tensor(3.0), corten.tensor([0])
        self.check(lambda x, i: corten.index_copy(x, 0, i, x + 1), x, place)
        self.check(lambda x, i: corten.index_fill(x, 0, i, 5), x, place)
        self.check(lambda x, i: corten.index_add(x, 0, i, x), x, place)
        self.check(lambda x, i: x.clone().index_fill_(0, i, 5).index_copy_(0, i, x), x, place)


if __name__ == "__main__":
    unittest.main()
