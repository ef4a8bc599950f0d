"""The array API standard: names, signatures, types and values of ``corten.array_api``."""

import copy
import inspect
import itertools
import math
import operator
import pickle
import unittest
import warnings

from module_under_test import torch

try:
    import numpy as np
except ImportError:
    np = None

if not hasattr(torch.Tensor, "__array_namespace__"):
    raise unittest.SkipTest("the module has no namespace of the standard")

xp = torch.ones(1).__array_namespace__()

BOOL, SIGNED = ("bool",), ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS, REALS, COMPLEX = SIGNED + UNSIGNED, ("float32", "float64"), ("complex64", "complex128")
FLOATS = REALS + COMPLEX
NUMERIC = INTEGERS + FLOATS
ALL = BOOL + NUMERIC

#: Every function of the standard with its parameters.
SIGNATURES = {
    "(x, /)": """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
        isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign
        signbit sin sinh square sqrt tan tanh trunc matrix_transpose nonzero unique_all unique_counts
        unique_inverse unique_values linalg.matrix_transpose linalg.det linalg.slogdet linalg.eigh
        linalg.eigvalsh linalg.inv linalg.svdvals""",
    "(x1, x2, /)": """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
        copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp
        logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder
        subtract matmul linalg.matmul linalg.outer linalg.solve""",
    "(x, /, min=None, max=None)": "clip",
    "(start, /, stop=None, step=1, *, dtype=None, device=None)": "arange",
    "(obj, /, *, dtype=None, device=None, copy=None)": "asarray",
    "(shape, *, dtype=None, device=None)": "empty ones zeros",
    "(x, /, *, dtype=None, device=None)": "empty_like ones_like zeros_like",
    "(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)": "eye",
    "(x, /, *, device=None, copy=None)": "from_dlpack",
    "(shape, fill_value, *, dtype=None, device=None)": "full",
    "(x, /, fill_value, *, dtype=None, device=None)": "full_like",
    "(start, stop, /, num, *, dtype=None, device=None, endpoint=True)": "linspace",
    "(*arrays, indexing='xy')": "meshgrid",
    "(x, /, *, k=0)": "tril triu",
    "(x, dtype, /, *, copy=True, device=None)": "astype",
    "(*arrays)": "broadcast_arrays",
    "(x, /, shape)": "broadcast_to",
    "(from_, to, /)": "can_cast",
    "(type, /)": "finfo iinfo",
    "(dtype, kind)": "isdtype",
    "(*arrays_and_dtypes)": "result_type",
    "(x, indices, /, *, axis=None)": "take",
    "(x, indices, /, *, axis=-1)": "take_along_axis",
    "()": "__array_namespace_info__",
    "(x1, x2, /, *, axes=2)": "tensordot linalg.tensordot",
    "(x1, x2, /, *, axis=-1)": "vecdot linalg.vecdot linalg.cross",
    "(arrays, /, *, axis=0)": "concat stack",
    "(x, /, axis=0)": "expand_dims",
    "(x, /, *, axis=None)": "flip",
    "(x, source, destination, /)": "moveaxis",
    "(x, /, axes)": "permute_dims",
    "(x, repeats, /, *, axis=None)": "repeat",
    "(x, /, shape, *, copy=None)": "reshape",
    "(x, /, shift, *, axis=None)": "roll",
    "(x, /, axis)": "squeeze",
    "(x, repetitions, /)": "tile",
    "(x, /, *, axis=0)": "unstack",
    "(x, /, *, axis=None, keepdims=False)": "argmax argmin count_nonzero all any max mean min",
    "(x1, x2, /, *, side='left', sorter=None)": "searchsorted",
    "(condition, x1, x2, /)": "where",
    "(x, /, *, axis=-1, descending=False, stable=True)": "argsort sort",
    "(x, /, *, axis=None, dtype=None, include_initial=False)": "cumulative_prod cumulative_sum",
    "(x, /, *, axis=None, dtype=None, keepdims=False)": "prod sum",
    "(x, /, *, axis=None, correction=0.0, keepdims=False)": "std var",
    "(x, /, *, axis=-1, n=1, prepend=None, append=None)": "diff",
    "(x, /, *, upper=False)": "linalg.cholesky",
    "(x, /, *, offset=0)": "linalg.diagonal",
    "(x, /, *, keepdims=False, ord='fro')": "linalg.matrix_norm",
    "(x, n, /)": "linalg.matrix_power",
    "(x, /, *, rtol=None)": "linalg.matrix_rank linalg.pinv",
    "(x, /, *, mode='reduced')": "linalg.qr",
    "(x, /, *, full_matrices=True)": "linalg.svd",
    "(x, /, *, offset=0, dtype=None)": "linalg.trace",
    "(x, /, *, axis=None, keepdims=False, ord=2)": "linalg.vector_norm",
    "(x, /, *, n=None, axis=-1, norm='backward')": "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft",
    "(x, /, *, s=None, axes=None, norm='backward')": "fft.fftn fft.ifftn fft.rfftn fft.irfftn",
    "(n, /, *, d=1.0, dtype=None, device=None)": "fft.fftfreq fft.rfftfreq",
    "(x, /, *, axes=None)": "fft.fftshift fft.ifftshift",
}


def function(name):
    found = xp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def dtype(name):
    return getattr(xp, name)


def to_xp(value):
    """The arrays within a value as arrays of the namespace."""
    if isinstance(value, (np.ndarray, np.generic)):
        return xp.asarray(np.array(value), copy=True)
    if isinstance(value, (tuple, list)):
        return type(value)([to_xp(one) for one in value])
    return value


def elements(name, shape, rng, special=True):
    """Numbers of a data type, with the special ones among them."""
    count = math.prod(shape)
    kind = np.dtype(name).kind
    if kind == "b":
        return rng.integers(0, 2, count).astype(bool).reshape(shape)
    if kind in "iu":
        limits = np.iinfo(name)
        small = rng.integers(max(limits.min, -9), 10, count).astype(name)
        wide = rng.integers(limits.min, limits.max, count, dtype=name, endpoint=True)
        return np.where(rng.random(count) < 0.4, wide, small).astype(name).reshape(shape)
    if kind == "c":
        part = "float32" if name == "complex64" else "float64"
        made = np.empty(shape, dtype=name)
        made.real, made.imag = elements(part, shape, rng, False), elements(part, shape, rng, False)
        return made
    made = rng.standard_normal(count) * rng.choice([0.1, 1, 10], count)
    if special:
        chosen = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 1.5, 2.5, -3, 100], count)
        made = np.where(rng.random(count) < 0.5, chosen, made)
    return made.astype(name).reshape(shape)


class Case(unittest.TestCase):
    def setUp(self):
        if np is None:
            self.skipTest("numpy is not installed")
        self.rng = np.random.default_rng(3)
        # NumPy warns of what the special numbers give.
        for quiet in (np.errstate(all="ignore"), warnings.catch_warnings()):
            self.enterContext(quiet)
        warnings.simplefilter("ignore")

    def check(self, found, expected, tolerance=1e-5, signs=False):
        """That a result is the array, or the tuple of arrays, that NumPy gives."""
        if isinstance(expected, (tuple, list)):
            self.assertEqual(len(found), len(expected))
            for one, other in zip(found, expected):
                self.check(one, other, tolerance, signs)
            return
        expected = np.asarray(expected)
        self.assertIs(type(found), xp.Array)
        self.assertEqual(str(found.dtype).split(".")[-1], str(expected.dtype))
        self.assertEqual(tuple(found.shape), expected.shape)
        found = np.asarray(found.detach())
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected)
            return
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        if signs and expected.dtype.kind == "f":
            zeros = expected == 0
            np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))

    def same(self, name, *args, tolerance=1e-5, signs=False, **kwargs):
        """That a function gives what NumPy's of this name does."""
        with self.subTest(name, args=args, **kwargs):
            numpy = np
            for part in name.split("."):
                numpy = getattr(numpy, part)
            expected = numpy(*args, **kwargs)
            found = function(name)(*map(to_xp, args), **{key: to_xp(one) for key, one in kwargs.items()})
            self.check(found, expected, tolerance, signs)


class Names(unittest.TestCase):
    def test_every_function_has_the_parameters_of_the_standard(self):
        for signature, names in SIGNATURES.items():
            for name in names.split():
                with self.subTest(name):
                    self.assertEqual(str(inspect.signature(function(name))), signature)

    def test_every_name_is_listed(self):
        names = {name for group in SIGNATURES.values() for name in group.split()}
        for extension in ("linalg", "fft"):
            inside = {name.split(".")[1] for name in names if name.startswith(extension + ".")}
            self.assertEqual(set(function(extension).__all__), inside)
        constants = {"e", "inf", "nan", "newaxis", "pi", "__array_api_version__", "linalg", "fft"}
        self.assertEqual(set(xp.__all__), {n for n in names if "." not in n} | constants | set(ALL))
        self.assertEqual(len(xp.__all__), len(set(xp.__all__)))
        self.assertTrue(all(hasattr(xp, name) for name in xp.__all__))

    def test_functions_know_their_names(self):
        for name in (name for group in SIGNATURES.values() for name in group.split()):
            found = function(name)
            self.assertEqual((found.__name__, bool(found.__doc__)), (name.split(".")[-1], True))

    def test_constants(self):
        self.assertEqual((xp.e, xp.pi, xp.inf, xp.newaxis), (math.e, math.pi, math.inf, None))
        self.assertTrue(math.isnan(xp.nan))
        self.assertEqual(xp.__array_api_version__, "2024.12")

    def test_methods_of_arrays(self):
        x = xp.ones((2, 3))
        binary = """add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"""
        for name in binary.split():
            for form in ("", "r", "i"):
                method = getattr(x, f"__{form}{name}__")
                self.assertEqual(str(inspect.signature(method)), "(other, /)")
        for name in ("eq", "ne", "lt", "le", "gt", "ge"):
            self.assertEqual(str(inspect.signature(getattr(x, f"__{name}__"))), "(other, /)")
        for name in ("abs", "neg", "pos", "invert", "bool", "int", "float", "complex", "index"):
            self.assertEqual(str(inspect.signature(getattr(x, f"__{name}__"))), "()")
        for name, signature in {
            "__array_namespace__": "(*, api_version=None)", "__getitem__": "(key, /)",
            "__setitem__": "(key, value, /)", "to_device": "(device, /, *, stream=None)",
            "__dlpack__": "(*, stream=None, max_version=None, dl_device=None, copy=None)",
            "__dlpack_device__": "()",
        }.items():
            self.assertEqual(str(inspect.signature(getattr(x, name))), signature)

    def test_attributes_of_arrays(self):
        x = xp.zeros((2, 3))
        self.assertEqual((x.ndim, x.size, x.shape, x.dtype), (2, 6, (2, 3), xp.float32))
        self.assertIsInstance(x.size, int)
        self.assertEqual((x.size(), x.size(1), x.T.shape, x.mT.shape), ((2, 3), 3, (3, 2), (3, 2)))
        self.assertEqual((str(x.device), pickle.loads(pickle.dumps(x.size))), ("cpu", 6))
        for shape in ((), (3,), (2, 3, 4)):
            with self.assertRaises(ValueError):
                xp.zeros(shape).T
        with self.assertRaises(ValueError):
            xp.zeros(3).mT

    def test_namespace_of_every_tensor(self):
        for tensor in (torch.ones(2), xp.ones(2), torch.nn.Parameter(torch.ones(2))):
            for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
                self.assertIs(tensor.__array_namespace__(api_version=version), xp)
            for version in ("2020.01", "2099.12", 2024):
                with self.assertRaises(ValueError):
                    tensor.__array_namespace__(api_version=version)
        self.assertIs(torch.array_api, xp)

    def test_devices(self):
        x = torch.ones(2)
        self.assertIs(x.to_device("cpu"), x)
        self.assertEqual(x.to_device("meta").device.type, "meta")
        self.assertIs(type(xp.ones(2).to_device(xp.ones(1).device)), xp.Array)
        with self.assertRaises(ValueError):
            x.to_device("cpu", stream=1)


class Inspection(unittest.TestCase):
    info = xp.__array_namespace_info__()

    def test_capabilities(self):
        found = self.info.capabilities()
        self.assertEqual((found["boolean indexing"], found["data-dependent shapes"]), (True, True))
        self.assertGreaterEqual(found["max dimensions"], 32)

    def test_devices(self):
        self.assertIn(self.info.default_device(), self.info.devices())
        for device in self.info.devices():
            self.assertEqual(self.info.default_dtypes(device=device), {
                "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64,
                "indexing": xp.int64,
            })

    def test_dtypes(self):
        kinds = {
            "bool": BOOL, "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": INTEGERS,
            "real floating": REALS, "complex floating": COMPLEX, "numeric": NUMERIC, None: ALL,
            ("bool", "real floating"): BOOL + REALS, ("bool",): BOOL,
        }
        for kind, names in kinds.items():
            self.assertEqual(self.info.dtypes(kind=kind), {name: dtype(name) for name in names})
            for name in ALL if kind else ():
                self.assertEqual(xp.isdtype(dtype(name), kind), name in names)
        for function_of in (lambda kind: self.info.dtypes(kind=kind), lambda k: xp.isdtype(xp.bool, k)):
            with self.assertRaises(ValueError):
                function_of("integer")
        self.assertTrue(xp.isdtype(xp.int8, (xp.bool, xp.int8)))
        self.assertFalse(xp.isdtype(xp.int8, xp.uint8))
        with self.assertRaises(TypeError):
            xp.isdtype(xp.int8, 3)


class Types(Case):
    def test_promotion(self):
        for one, other in itertools.product(ALL, ALL):
            kinds = {np.dtype(one).kind, np.dtype(other).kind}
            defined = kinds <= set("iu") and not ({one, other} & {"uint64"} and kinds == set("iu"))
            if not (defined or kinds <= set("fc") or one == other):
                continue
            expected = dtype(str(np.result_type(one, other)))
            array = xp.zeros(1, dtype=dtype(other))
            self.assertEqual(xp.result_type(dtype(one), dtype(other)), expected)
            self.assertEqual(xp.result_type(dtype(one), array, dtype(one)), expected)
            self.assertEqual(xp.can_cast(dtype(one), dtype(other)), expected == dtype(other))
            self.assertEqual(xp.can_cast(array, dtype(one)), expected == dtype(one))
            for shape in ((), (2,)):
                sums = xp.equal(xp.zeros(shape, dtype=dtype(one)), array)
                self.assertEqual(sums.dtype, xp.bool)
                if one != "bool":
                    total = xp.zeros(shape, dtype=dtype(one)) + xp.zeros((), dtype=dtype(other))
                    self.assertEqual(total.dtype, expected)
        with self.assertRaises(TypeError):
            xp.result_type(xp.uint64, xp.int8)

    def test_numbers_take_the_type_of_arrays(self):
        for name, numbers in {
            "bool": (True,), "int8": (True, 3), "uint64": (2,), "float32": (True, 1, 2.5),
            "float64": (1, 2.5), "complex64": (1, 2.5, 1j), "complex128": (1j,),
        }.items():
            for number in numbers:
                self.assertEqual(xp.result_type(dtype(name), number), dtype(name))
                self.assertEqual(xp.result_type(number, xp.ones(2, dtype=dtype(name))), dtype(name))
        self.assertEqual(xp.result_type(xp.int8, 1.5), xp.float32)
        self.assertEqual(xp.result_type(xp.float64, 1j), xp.complex128)
        self.assertEqual(xp.result_type(xp.int64, 1j), xp.complex64)
        for wrong in ((), (1, 2.5)):
            with self.assertRaises(ValueError):
                xp.result_type(*wrong)
        with self.assertRaises(TypeError):
            xp.result_type("float32")

    def test_limits(self):
        for name in FLOATS:
            expected = np.finfo(name)
            for given in (dtype(name), xp.ones(1, dtype=dtype(name))):
                found = xp.finfo(given)
                for attribute in ("eps", "max", "min", "smallest_normal"):
                    self.assertIs(type(getattr(found, attribute)), float)
                    self.assertEqual(getattr(found, attribute), float(getattr(expected, attribute)))
                self.assertEqual((found.bits, found.dtype), (expected.bits, dtype(str(expected.dtype))))
        for name in INTEGERS:
            expected = np.iinfo(name)
            for given in (dtype(name), xp.ones((), dtype=dtype(name))):
                found = xp.iinfo(given)
                self.assertEqual((found.bits, found.max, found.min, found.dtype), (
                    expected.bits, expected.max, expected.min, dtype(name)
                ))
        with self.assertRaises(TypeError):
            xp.finfo(xp.int8)
        with self.assertRaises(TypeError):
            xp.iinfo(xp.float32)

    def test_astype(self):
        for one, other in itertools.product(ALL, ALL):
            x = np.clip(elements(one, (3, 2), self.rng, False).real, 0, 100).astype(one)
            if one in COMPLEX and other not in COMPLEX + BOOL:
                with self.assertRaises(TypeError):
                    xp.astype(to_xp(x), dtype(other))
                continue
            self.check(xp.astype(to_xp(x), dtype(other)), x.astype(other))
        x = xp.ones(3)
        self.assertIs(xp.astype(x, x.dtype, copy=False), x)
        self.assertIsNot(xp.astype(x, x.dtype), x)
        self.assertEqual(xp.astype(x, xp.int8, device="meta").device.type, "meta")


SHAPES = ((), (0,), (4,), (2, 3))
PAIRS = (((), ()), ((), (3,)), ((2, 1), (3,)), ((25,), (25,)))


class Elementwise(Case):
    def test_one_operand(self):
        kinds = {
            NUMERIC: "abs conj isfinite isinf isnan positive real round sign square",
            FLOATS: """acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal
                sin sinh sqrt tan tanh""",
            INTEGERS + REALS: "ceil floor trunc", BOOL + INTEGERS: "bitwise_invert", BOOL: "logical_not",
            SIGNED + FLOATS: "negative", REALS: "signbit", COMPLEX: "imag",
        }
        for names, functions in kinds.items():
            for name, one, shape in itertools.product(functions.split(), names, ((), (0,), (40,))):
                self.same(name, elements(one, shape, self.rng), tolerance=2e-5, signs=one in REALS)

    def test_unsigned_integers_are_negated_modulo_their_bits(self):
        for name in UNSIGNED:
            x = np.array([0, 1, 5, np.iinfo(name).max], dtype=name)
            self.same("negative", x)

    def operands(self, name, one, other, shapes):
        x, y = elements(one, shapes[0], self.rng), elements(other, shapes[1], self.rng)
        if "shift" in name:
            y = self.rng.integers(0, 70, shapes[1]).astype(other)
        if name == "pow" and one in INTEGERS:
            y = self.rng.integers(0, 4, shapes[1]).astype(other)
            x = self.rng.integers(0, 9, shapes[0]).astype(one)
        if name in ("floor_divide", "remainder"):
            if other in INTEGERS:
                y = np.where((y == 0) | (y == np.array(-1).astype(other)), np.array(1, other), y)
            elif name == "floor_divide":
                x, y = np.where(np.isinf(x), np.array(2, one), x), np.where(np.isinf(y), np.array(3, other), y)
        return x, y

    binary = {
        NUMERIC: "add subtract multiply pow", ALL: "equal not_equal", FLOATS: "divide",
        REALS: "atan2 copysign hypot logaddexp nextafter",
        INTEGERS + REALS: """floor_divide greater greater_equal less less_equal maximum minimum
            remainder""",
        BOOL + INTEGERS: "bitwise_and bitwise_or bitwise_xor", BOOL: "logical_and logical_or logical_xor",
        INTEGERS: "bitwise_left_shift bitwise_right_shift",
    }
    operators = {
        "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "pow": operator.pow,
        "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
        "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
        "greater": operator.gt, "greater_equal": operator.ge, "bitwise_and": operator.and_,
        "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
        "bitwise_left_shift": operator.lshift, "bitwise_right_shift": operator.rshift,
    }

    def pairs(self, names):
        for one, other in itertools.product(names, names):
            kinds = {np.dtype(one).kind, np.dtype(other).kind}
            if kinds <= set("iu") and not ("uint64" in (one, other) and kinds == set("iu")):
                yield one, other
            elif kinds <= set("fc") or kinds == {"b"}:
                yield one, other

    def test_two_operands(self):
        for names, functions in self.binary.items():
            for name in functions.split():
                for (one, other), shapes in itertools.product(self.pairs(names), PAIRS):
                    if name == "pow" and "c" in np.dtype(one).kind + np.dtype(other).kind:
                        continue
                    x, y = self.operands(name, one, other, shapes)
                    signs = one in REALS and name not in ("maximum", "minimum")
                    self.same(name, x, y, tolerance=1e-4, signs=signs)

    def test_operators(self):
        for names, functions in self.binary.items():
            for name in functions.split():
                if name not in self.operators:
                    continue
                compute = self.operators[name]
                for one, other in self.pairs(names):
                    if name == "pow" and "c" in np.dtype(one).kind + np.dtype(other).kind:
                        continue
                    x, y = self.operands(name, one, other, ((6,), ()))
                    expected = getattr(np, name)(x, y)
                    self.check(compute(to_xp(x), to_xp(y)), expected, 1e-4)
                    # A plain tensor on one side: the array decides.
                    self.check(compute(torch.asarray(x.copy()), to_xp(y)), expected, 1e-4)
                    if expected.dtype == x.dtype and expected.dtype.kind != "b":
                        in_place = getattr(operator, "i" + compute.__name__.strip("_"))
                        array = to_xp(x)
                        self.assertIs(in_place(array, to_xp(y)), array)
                        self.check(array, expected, 1e-4)

    def test_numbers_on_either_side(self):
        numbers = {"b": (True, False), "i": (1, 3), "u": (1, 3), "f": (2, 1.5), "c": (2, 1.5, 1 + 2j)}
        for names, functions in self.binary.items():
            for name, one in itertools.product(functions.split(), names):
                for number in numbers[np.dtype(one).kind]:
                    if name == "pow" and one in COMPLEX:
                        continue
                    scalar = np.array(number, dtype=one)
                    x, _ = self.operands(name, one, one, ((5,), ()))
                    if "shift" in name:
                        x = np.arange(5).astype(one)
                    if name in ("floor_divide", "remainder", "pow"):
                        x = np.arange(1, 6).astype(one)
                    for args, arrays in (((x, number), (x, scalar)), ((number, x), (scalar, x))):
                        expected = getattr(np, name)(*arrays)
                        self.check(function(name)(*map(to_xp, args)), expected, 1e-4)
                        if name in self.operators:
                            self.check(self.operators[name](*map(to_xp, args)), expected, 1e-4)
        self.check(2 ** xp.asarray([1, 3]), np.array([2, 8]))
        for wrong in (lambda: xp.add(1, 2), lambda: xp.add(xp.ones(1), "a"), lambda: xp.add(xp.ones(1), None)):
            with self.assertRaises(TypeError):
                wrong()

    def test_infinities_and_zeros_of_division(self):
        """The standard's table; NumPy and PyTorch give NaN for infinities."""
        inf, nan = math.inf, math.nan
        quotients = (
            (inf, 2.0, inf), (inf, -2.0, -inf), (-inf, 2.0, -inf), (-inf, -2.0, inf), (inf, inf, nan),
            (2.0, inf, 0.0), (2.0, -inf, -0.0), (-2.0, inf, -0.0), (-2.0, -inf, 0.0), (0.0, 0.0, nan),
            (0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, -0.0), (-0.0, -2.0, 0.0), (1.0, 0.0, inf),
            (1.0, -0.0, -inf), (-1.0, 0.0, -inf), (-1.0, -0.0, inf), (7.0, 2.0, 3.0), (-7.0, 2.0, -4.0),
            (nan, 1.0, nan), (1.0, nan, nan),
        )
        remainders = (
            (inf, 2.0, nan), (-inf, 2.0, nan), (inf, -inf, nan), (2.0, inf, 2.0), (2.0, -inf, -inf),
            (-2.0, inf, inf), (-2.0, -inf, -2.0), (0.0, 2.0, 0.0), (-0.0, 2.0, 0.0), (0.0, -2.0, -0.0),
            (-0.0, -2.0, -0.0), (1.0, 0.0, nan), (0.0, 0.0, nan), (4.0, 2.0, 0.0), (4.0, -2.0, -0.0),
            (-7.0, 2.0, 1.0), (7.0, -2.0, -1.0),
        )
        for table, name in ((quotients, "floor_divide"), (remainders, "remainder")):
            for x, y, expected in table:
                for one in REALS:
                    arrays = xp.asarray([x], dtype=dtype(one)), xp.asarray([y], dtype=dtype(one))
                    in_place = xp.asarray(arrays[0], copy=True)
                    in_place = getattr(operator, {"floor_divide": "ifloordiv"}.get(name, "imod"))(
                        in_place, arrays[1]
                    )
                    found = function(name)(*arrays), self.operators[name](*arrays), in_place
                    with self.subTest(name, x=x, y=y):
                        self.assertEqual({repr(one.item()) for one in found}, {repr(expected)})
        # Tensors keep PyTorch's.
        self.assertTrue(math.isnan((torch.tensor(inf) // 2).item()))

    def test_powers_of_a_half(self):
        """They are no square roots, whatever the shapes; those by a number are, in PyTorch."""
        expected = {(-math.inf, 0.5): math.inf, (-0.0, 0.5): 0.0, (-math.inf, -0.5): 0.0, (-0.0, -0.5): math.inf}
        for (x, y), value in expected.items():
            for shapes in itertools.product(((), (1,), (40,)), repeat=2):
                for one in REALS:
                    base, exponent = (xp.full(shape, v, dtype=dtype(one)) for shape, v in zip(shapes, (x, y)))
                    found = xp.pow(base, exponent), base**exponent, base**y, x**exponent, xp.pow(base, y), (
                        torch.pow(torch.full(shapes[0], x), torch.full(shapes[1], y))
                    )
                    self.assertEqual({repr(one.reshape(-1)[-1].item()) for one in found}, {repr(value)})
        roots = torch.tensor([-math.inf, -0.0]) ** 0.5
        self.assertTrue(math.isnan(roots[0]) and math.copysign(1, roots[1]) < 0)

    def test_sign_of_nan(self):
        self.check(xp.sign(xp.asarray([math.nan, -0.0, 3.0])), np.array([math.nan, 0, 1], dtype="float32"))

    def test_division_of_the_largest_integers(self):
        top = 2**64 - 1
        dividends = [0, 1, 7, 2**63 - 1, 2**63, 2**63 + 1, top - 1, top]
        divisors = [1, 2, 3, 10, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 1, top]
        x, y = np.array(dividends, dtype="uint64")[:, None], np.array(divisors, dtype="uint64")
        self.same("floor_divide", x, y)
        self.same("remainder", x, y)
        self.same("greater", x, y)
        self.same("bitwise_right_shift", x, np.arange(64, dtype="uint64"))

    def test_clip(self):
        for name in INTEGERS + REALS:
            x = elements(name, (20,), self.rng)
            low, high = np.array(1, dtype=name), np.arange(2, 22).astype(name)
            for bounds in ((low, high), (low, None), (None, high)):
                self.check(xp.clip(to_xp(x), *map(to_xp, bounds)), np.clip(x, *bounds))
            self.check(xp.clip(to_xp(x)), x)
            self.check(xp.clip(to_xp(x), 1, max=5), np.clip(x, low, np.array(5, dtype=name)))
        x = xp.asarray([-200, 3], dtype=xp.int16)
        self.assertEqual(xp.clip(x, -(2**40), math.inf).tolist(), [-200, 3])
        self.assertEqual(xp.clip(x, xp.asarray([0, 9])).dtype, xp.int16)


class Indexing(Case):
    keys = (
        0, -1, slice(None), slice(None, None, -1), slice(2, 0, -1), slice(None, None, -2), (0, 1),
        (slice(None, None, -1), 0), (..., slice(None, None, -1)), (None, slice(None, None, -1), ..., 0),
        ..., slice(5, 1), (0, ..., 1), (slice(None), slice(None, None, -3)), (),
        (1, slice(3, None, -2), None, slice(None, None, -1)), slice(None, 0, -1), (slice(-9, 9, -1),),
    )

    def test_slices(self):
        for name, key in itertools.product(ALL, self.keys):
            x = elements(name, (3, 4, 2), self.rng)
            with self.subTest(name, key=key):
                self.check(to_xp(x)[key], x[key])

    def test_slices_are_assigned_to(self):
        for name, key in itertools.product(ALL, self.keys):
            x = elements(name, (3, 4, 2), self.rng)
            for value in (elements(name, x[key].shape, self.rng), elements(name, (), self.rng)):
                expected, found = x.copy(), to_xp(x)
                expected[key], found[key] = value, to_xp(value)
                with self.subTest(name, key=key):
                    self.check(found, expected)
        x = xp.zeros(2, dtype=xp.uint64)
        x[1] = 2**64 - 1
        self.assertEqual(x.tolist(), [0, 2**64 - 1])
        with self.assertRaises(IndexError):
            xp.zeros((2, 3))[xp.asarray([0]), ::-1] = 1

    def test_masks(self):
        x = elements("int16", (3, 4), self.rng)
        for mask in (x > 2, x[:, 0] > 2, np.zeros((3, 4), bool), np.array(True), np.array(False)):
            self.check(to_xp(x)[to_xp(mask)], x[mask])
        for shape in ((0,), (3, 0), (0, 4)):
            self.assertEqual(to_xp(x)[xp.zeros(shape, dtype=xp.bool)].size, 0)
        for shape in ((2,), (3, 0, 1), (0, 3)):
            with self.assertRaises(IndexError):
                to_xp(x)[xp.zeros(shape, dtype=xp.bool)]

    def test_arrays_of_any_integers(self):
        x = elements("float64", (3, 4), self.rng)
        for name in INTEGERS:
            rows, columns = np.array([0, 2, 1, 1], dtype=name), np.array([[3], [0]], dtype=name)
            self.check(to_xp(x)[to_xp(rows)], x[rows])
            self.check(to_xp(x)[to_xp(rows), to_xp(columns)], x[rows, columns])
            self.check(to_xp(x)[to_xp(rows), 1], x[rows, 1])

    def test_python_numbers(self):
        for name in ALL:
            x = xp.ones((), dtype=dtype(name))
            if name not in COMPLEX:
                self.assertEqual((bool(x), int(x), float(x)), (True, 1, 1.0))
            self.assertEqual(complex(x), 1)
            if name in INTEGERS:
                self.assertEqual((operator.index(x), [5, 7][x]), (1, 7))
            else:
                with self.assertRaises(TypeError):
                    operator.index(x)
        with self.assertRaises(TypeError):
            operator.index(xp.ones(1, dtype=xp.int8))

    def test_take(self):
        x = elements("int32", (3, 4), self.rng)
        for axis, name in itertools.product((0, 1, -1), ("int64", "uint8", "int16")):
            indices = np.array([0, 2, 2], dtype=name)
            self.same("take", x, indices, axis=axis)
        self.same("take", x, np.array([-1, 0]), axis=1)
        self.check(xp.take(to_xp(x[0]), to_xp(np.array([1]))), x[0][[1]])
        with self.assertRaises(ValueError):
            xp.take(to_xp(x), to_xp(np.array([1])))
        for axis in (0, 1, -1):
            self.same("take_along_axis", x, self.rng.integers(-3, 3, (3, 4)), axis=axis)
        self.same("take_along_axis", x, np.array([[1], [0], [-1]]), axis=1)
        self.same("take_along_axis", x, np.array([[1, 0]]), axis=1)
        with self.assertRaises(ValueError):
            xp.take_along_axis(to_xp(x), to_xp(np.array([0])))


class Creation(Case):
    def test_asarray(self):
        for value in (True, 3, [True, False], [1, 2], (1, 2), [[1, 2], [3, 4]], [True, 1], np.arange(3)):
            self.check(xp.asarray(value), np.asarray(value))
        for value, name in ((1.5, "float32"), ([], "float32"), ([1, 2.5], "float32"), (1j, "complex64"),
                            ([[1j, 2]], "complex64"), (np.float64(2), "float64")):
            self.check(xp.asarray(value), np.asarray(value, dtype=name))
        for name in ALL:
            self.check(xp.asarray([[1, 0], [1, 1]], dtype=dtype(name)), np.array([[1, 0], [1, 1]], dtype=name))
        for name in INTEGERS:
            limits = np.iinfo(name)
            for value in ([limits.max, limits.min], limits.max):
                self.check(xp.asarray(value, dtype=dtype(name)), np.array(value, dtype=name))
        self.assertEqual(xp.asarray([2**64 - 1, 1]).dtype, xp.uint64)
        x = xp.asarray([1.0, 2.0], dtype=xp.float64)
        self.check(xp.asarray([x, x]), np.array([[1.0, 2], [1, 2]]))
        self.check(xp.asarray([[x[0], 3], [1, x[1]]]), np.array([[1.0, 3], [1, 2]]))
        self.check(xp.asarray(np.arange(6).reshape(2, 3)[:, ::-1]), np.arange(6).reshape(2, 3)[:, ::-1])
        with self.assertRaises(ValueError):
            xp.asarray([[1], [1, 2]])

    def test_copies(self):
        x = xp.asarray([1, 2])
        tensor = torch.tensor([1, 2])
        for source in (x, tensor):
            for wanted in (None, False):
                shared = xp.asarray(source, copy=wanted)
                self.assertIs(type(shared), xp.Array)
                self.assertEqual(shared.data_ptr(), source.data_ptr())
            self.assertNotEqual(xp.asarray(source, copy=True).data_ptr(), source.data_ptr())
            for wrong in ({"dtype": xp.int8}, {"device": "meta"}):
                with self.assertRaises(ValueError):
                    xp.asarray(source, copy=False, **wrong)
        for source in (1, [1, 2], (1.5,)):
            with self.assertRaises(ValueError):
                xp.asarray(source, copy=False)
        with self.assertRaises(ValueError):
            xp.asarray(torch.tensor([1j]).conj(), copy=False)

    def test_dlpack(self):
        for name in NUMERIC:
            source = elements(name, (2, 3), self.rng, False)
            found = xp.from_dlpack(source)
            self.check(found, source)
            self.assertEqual(found.data_ptr(), source.ctypes.data)
            self.assertNotEqual(xp.from_dlpack(source, copy=True).data_ptr(), source.ctypes.data)
            self.check(xp.from_dlpack(to_xp(source), device="cpu", copy=False), source)
            np.testing.assert_array_equal(np.from_dlpack(to_xp(source)), source)
        self.assertEqual(xp.ones(1).__dlpack_device__(), (1, 0))
        self.assertEqual(xp.from_dlpack(np.ones(2), device="meta").device.type, "meta")
        with self.assertRaises(ValueError):
            xp.from_dlpack(np.ones(2), device="meta", copy=False)
        with self.assertRaises(BufferError):
            xp.from_dlpack(np.ones(3)[::-1])

    def test_arange(self):
        for args in ((5,), (1, 5), (0, 10, 3), (5, 0), (5, 0, -2), (0, -3), (3, 3)):
            self.check(xp.arange(*args), np.arange(*args, dtype="int64"))
            for name in INTEGERS + REALS:
                if name[0] == "u" and min(args) < 0:
                    continue
                self.check(xp.arange(*args, dtype=dtype(name)), np.arange(*args).astype(name))
        for args in ((5.5,), (0.5, 3), (0, 1, 0.25), (1.0, 0.0, -0.3), (1.0, 0.0)):
            self.check(xp.arange(*args), np.arange(*args, dtype="float32"))
        top = 2**64 - 1
        self.assertEqual(xp.arange(top - 2, top, dtype=xp.uint64).tolist(), [top - 2, top - 1])
        self.assertEqual(xp.arange(-(2**63), 2**63 - 1, 2**63).tolist(), [-(2**63), 0])
        with self.assertRaises(ValueError):
            xp.arange(0, 3, 0)

    def test_linspace(self):
        for num, endpoint in itertools.product((0, 1, 2, 7), (True, False)):
            for start, stop in ((0, 1), (-2.5, 7), (5, 5), (3, -1e30)):
                for name in REALS:
                    found = xp.linspace(start, stop, num, endpoint=endpoint, dtype=dtype(name))
                    self.check(found, np.linspace(start, stop, num, endpoint=endpoint, dtype=name))
            found = xp.linspace(1 + 1j, 2 - 3j, num, endpoint=endpoint)
            self.check(found, np.linspace(1 + 1j, 2 - 3j, num, endpoint=endpoint, dtype="complex64"))
        self.assertEqual(xp.linspace(-1.7e308, 1.7e308, 3, dtype=xp.float64).tolist(), [-1.7e308, 0, 1.7e308])
        with self.assertRaises(ValueError):
            xp.linspace(0, 1, -1)

    def test_filled(self):
        for name, shape in itertools.product(ALL, ((), 3, (2,), (0, 2))):
            self.check(xp.zeros(shape, dtype=dtype(name)), np.zeros(shape, name))
            self.check(xp.ones(shape, dtype=dtype(name)), np.ones(shape, name))
            self.check(xp.full(shape, True, dtype=dtype(name)), np.full(shape, True, name))
            x = xp.ones(shape, dtype=dtype(name))
            self.check(xp.zeros_like(x), np.zeros(shape, name))
            self.check(xp.full_like(x, 2, dtype=xp.int8), np.full(shape, 2, "int8"))
            self.assertEqual(xp.empty(shape, dtype=dtype(name)).shape, np.empty(shape).shape)
            self.assertEqual(xp.empty_like(x).dtype, dtype(name))
        for value, name in ((True, "bool"), (1, "int64"), (1.5, "float32"), (1j, "complex64")):
            self.assertEqual(xp.full(2, value).dtype, dtype(name))
        self.assertEqual(xp.zeros(2).dtype, xp.float32)

    def test_numbers_beyond_the_type_are_infinite(self):
        for value in (1e300, -1e300):
            infinite = np.array([value, value]).astype("float32")
            self.check(xp.full(2, value), infinite)
            self.check(xp.asarray(value), infinite[0])
            self.check(xp.asarray([value, value]), infinite)
            self.check(xp.ones(2) * value, infinite)
            self.assertEqual((xp.ones(2) < value).tolist(), [value > 0] * 2)
        with self.assertRaises(RuntimeError):
            xp.ones(2, dtype=xp.int8) + 300

    def test_default_device(self):
        with torch.device("meta"):
            made = xp.full(2, 1.5), xp.zeros(2), xp.arange(3), xp.linspace(0, 1, 3), xp.asarray([1]), xp.asarray(1)
            self.assertEqual({one.device.type for one in made}, {"meta"})
        self.assertEqual(xp.add(xp.ones(2, device="meta"), 1).device.type, "meta")

    def test_matrices(self):
        for k in (-10**20, -9, -1, 0, 1, 2, 9, 10**20):
            near = max(-99, min(99, k))
            self.check(xp.eye(3, k=k, dtype=xp.uint16), np.eye(3, k=near, dtype="uint16"))
            self.check(xp.eye(3, 4, k=k), np.eye(3, 4, k=near, dtype="float32"))
            x = elements("int64", (2, 3, 4), self.rng)
            self.check(xp.tril(to_xp(x), k=k), np.tril(x, near))
            self.check(xp.triu(to_xp(x), k=k), np.triu(x, near))
        with self.assertRaises(ValueError):
            xp.tril(xp.ones(3))

    def test_meshgrid(self):
        vectors = [np.arange(3), np.arange(4)]
        for indexing, count in itertools.product(("xy", "ij"), range(3)):
            found = xp.meshgrid(*map(to_xp, vectors[:count]), indexing=indexing)
            self.assertIs(type(found), list)
            self.check(found, list(np.meshgrid(*vectors[:count], indexing=indexing)))
        with self.assertRaises(ValueError):
            xp.meshgrid(xp.ones(2), indexing="ab")


class Manipulation(Case):
    def test_every_axis(self):
        for name, shape in itertools.product(("bool", "uint16", "float32"), SHAPES + ((2, 1, 3),)):
            x = elements(name, shape, self.rng)
            for axis in range(-len(shape), len(shape)):
                for one in ("flip", "concat", "stack"):
                    self.same(one, x if one == "flip" else [x, x], axis=axis)
                self.same("roll", x, 1, axis=axis)
                self.same("repeat", x, 2, axis=axis)
                counts = self.rng.integers(0, 3, shape[axis])
                for integers in ("int64", "int8", "uint8", "uint32"):
                    self.same("repeat", x, counts.astype(integers), axis=axis)
                self.check(xp.unstack(to_xp(x), axis=axis), tuple(np.unstack(x, axis=axis)))
                if shape[axis] == 1:
                    self.same("squeeze", x, axis)
                else:
                    with self.assertRaises(ValueError):
                        xp.squeeze(to_xp(x), axis)
            for axis in range(-len(shape) - 1, len(shape) + 1):
                self.same("expand_dims", x, axis)
            self.same("flip", x)
            self.same("roll", x, -2)
            self.same("repeat", x, 3)
            self.same("concat", [x, x], axis=None)
            for axis in (len(shape), -len(shape) - 1):
                for one in (xp.flip, xp.unstack):
                    with self.assertRaises(IndexError):
                        one(to_xp(x), axis=axis)
            for counts in ((), (2,), (2, 3), (1, 2, 2, 1), (0,)):
                self.same("tile", x, counts)

    def test_several_axes(self):
        x = elements("int8", (2, 3, 4), self.rng)
        for axes in itertools.permutations(range(3)):
            self.same("permute_dims", x, axes)
        self.same("permute_dims", x, (-1, 0, 1))
        self.same("moveaxis", x, (0, 1), (-1, 0))
        self.same("moveaxis", x, 0, -1)
        self.same("flip", x, axis=(0, -1))
        self.same("roll", x, (1, 2), axis=(0, 2))
        self.same("roll", x, 3, axis=(0, 1))
        self.same("squeeze", x[:1, :, :1], (0, 2))
        with self.assertRaises(ValueError):
            xp.flip(to_xp(x), axis=(0, -3))

    def test_joined_types_are_promoted(self):
        x, y = np.ones(2, dtype="uint16"), np.ones(3, dtype="int8")
        self.same("concat", [x, y])
        self.same("stack", [x, np.zeros((), "int8") + y[:2]])

    def test_reshape(self):
        x = xp.asarray(np.arange(6).reshape(2, 3))
        self.check(xp.reshape(x, (3, -1)), np.arange(6).reshape(3, 2))
        self.check(xp.reshape(x, 6), np.arange(6))
        self.assertEqual(xp.reshape(x, (6,), copy=False).data_ptr(), x.data_ptr())
        self.assertNotEqual(xp.reshape(x, (6,), copy=True).data_ptr(), x.data_ptr())
        with self.assertRaises(ValueError):
            xp.reshape(x.T, (6,), copy=False)

    def test_broadcast(self):
        x, y = np.ones((2, 1), dtype="int8"), np.zeros(3)
        found = xp.broadcast_arrays(to_xp(x), to_xp(y))
        self.check(found, list(np.broadcast_arrays(x, y)))
        self.same("broadcast_to", x, (4, 2, 3))
        with self.assertRaises(ValueError):
            xp.broadcast_to(xp.ones((2, 3)), (3,))
        with self.assertRaises(RuntimeError):
            xp.broadcast_to(xp.ones(2), (3,))


class Searching(Case):
    def test_positions(self):
        for name, shape in itertools.product(INTEGERS + REALS, ((), (4,), (2, 3))):
            x = np.nan_to_num(elements(name, shape, self.rng))
            for axis, keepdims in itertools.product((None, *range(-len(shape), len(shape))), (False, True)):
                self.same("argmax", x, axis=axis, keepdims=keepdims)
                self.same("argmin", x, axis=axis, keepdims=keepdims)
        x = np.array([[0, 1, 2], [0, 0, 3]])
        for axis, keepdims in itertools.product((None, 0, -1, (0, 1), ()), (False, True)):
            expected = np.count_nonzero(x, axis=axis, keepdims=keepdims) if axis != () else (x != 0).astype(int)
            self.check(xp.count_nonzero(to_xp(x), axis=axis, keepdims=keepdims), np.asarray(expected))
        self.same("nonzero", x)
        with self.assertRaises(ValueError):
            xp.nonzero(xp.ones(()))

    def test_searchsorted(self):
        for name in ALL[:-2]:
            x = np.sort(np.nan_to_num(elements(name, (6,), self.rng)))
            y = elements(name, (2, 3), self.rng, False)
            order = np.argsort(self.rng.permutation(6))
            for side in ("left", "right"):
                self.same("searchsorted", x, y, side=side)
                self.same("searchsorted", x, y[0, 0], side=side)
                self.same("searchsorted", x[np.argsort(order)], y, side=side, sorter=order)
        self.assertEqual(xp.searchsorted(xp.asarray([1, 3, 5]), 4).item(), 2)
        with self.assertRaises(ValueError):
            xp.searchsorted(xp.ones(2), xp.ones(1), side="middle")

    def test_where(self):
        for name in ALL:
            x, y = elements(name, (2, 3), self.rng), elements(name, (3,), self.rng)
            chosen = elements("bool", (2, 1), self.rng)
            self.same("where", chosen, x, y)
            self.check(xp.where(to_xp(chosen), to_xp(x), True), np.where(chosen, x, np.array(1, name)))
            self.check(xp.where(to_xp(chosen), True, to_xp(y)), np.where(chosen, np.array(1, name), y))
        self.same("where", np.array([True, False]), np.array(1, "int8"), np.array([1, 2], "uint16"))
        self.assertEqual(xp.where(xp.asarray([True, False]), 1, 2).tolist(), [1, 2])

    def test_order(self):
        for name, shape in itertools.product(INTEGERS + REALS, ((5,), (2, 3), (0,))):
            x = np.nan_to_num(elements(name, shape, self.rng, False))
            for axis in range(-len(shape), len(shape)):
                self.same("sort", x, axis=axis, stable=True)
                self.same("argsort", x, axis=axis, stable=True)
                found = xp.sort(to_xp(x), axis=axis, descending=True)
                self.check(found, np.flip(np.sort(x, axis=axis), axis=axis))
        x = xp.asarray([1, 0, 1, 0])
        self.assertEqual(xp.argsort(x, descending=True).tolist(), [0, 2, 1, 3])
        self.check(xp.sort(xp.asarray(3)), np.array(3))

    def test_sets(self):
        for name, shape in itertools.product(ALL, SHAPES):
            x = np.round(elements(name, shape, self.rng, False)) if name in FLOATS else elements(name, shape, self.rng)
            for one in ("unique_all", "unique_counts", "unique_inverse"):
                self.same(one, x)
            self.check(xp.unique_values(to_xp(x)), np.sort(np.unique_values(x)))
        found = xp.unique_all(xp.asarray([math.nan, 1, math.nan, -0.0, 0.0]))
        self.assertEqual(found._fields, ("values", "indices", "inverse_indices", "counts"))
        self.assertEqual((found.counts.tolist(), found.indices.tolist()), ([2, 1, 1, 1], [3, 1, 0, 2]))
        self.assertEqual(xp.unique_counts(xp.ones(2))._fields, ("values", "counts"))
        self.assertEqual(xp.unique_inverse(xp.ones(2))._fields, ("values", "inverse_indices"))


class Statistics(Case):
    axes = (None, 0, -1, (0, 1), (-1,), ())

    def test_reductions(self):
        for name, axis, keepdims in itertools.product(ALL, self.axes, (False, True)):
            options = {"axis": axis, "keepdims": keepdims}
            x = elements(name, (2, 3), self.rng, False)
            for one in ("all", "any"):
                self.same(one, x, **options)
            if name != "bool":
                self.same("sum", x, **options)
                self.same("prod", x, tolerance=1e-4, **options)
            if name not in BOOL + COMPLEX:
                self.same("max", x, **options)
                self.same("min", x, **options)
            if name in FLOATS:
                self.same("mean", x, **options)
            if name in REALS:
                for correction in (0, 1, 0.5, 2.5):
                    self.same("var", x, correction=correction, tolerance=1e-4, **options)
                    self.same("std", x, correction=correction, tolerance=1e-4, **options)

    def test_empty(self):
        x = xp.zeros((0,))
        self.assertEqual((xp.sum(x).item(), xp.prod(x).item()), (0, 1))
        for one in (xp.mean, xp.var, xp.std):
            self.assertTrue(math.isnan(one(x).item()))
        self.assertEqual((xp.all(x).item(), xp.any(x).item()), (True, False))

    def test_nan_is_passed_on(self):
        x = xp.asarray([1.0, math.nan])
        for one in (xp.max, xp.min, xp.mean, xp.prod, xp.std, xp.sum, xp.var):
            self.assertTrue(math.isnan(one(x).item()))

    def test_type_of_sums(self):
        for one in (xp.sum, xp.prod, xp.cumulative_sum, xp.cumulative_prod):
            for names, expected in ((SIGNED, xp.int64), (UNSIGNED, xp.uint64)):
                for name in names:
                    self.assertEqual(one(xp.ones(2, dtype=dtype(name))).dtype, expected)
            for name in FLOATS:
                self.assertEqual(one(xp.ones(2, dtype=dtype(name))).dtype, dtype(name))
            self.assertEqual(one(xp.ones(2, dtype=xp.int8), dtype=xp.float64).dtype, xp.float64)
        self.assertEqual(xp.sum(xp.full(2, 2**63, dtype=xp.uint64)).item(), 0)

    def test_running(self):
        for name, initial in itertools.product(NUMERIC, (False, True)):
            x = elements(name, (2, 3), self.rng, False)
            for axis in (0, 1, -1):
                for one in ("cumulative_sum", "cumulative_prod"):
                    self.same(one, x, axis=axis, include_initial=initial, tolerance=1e-4)
            self.same("cumulative_sum", x[0], include_initial=initial, tolerance=1e-4)
        with self.assertRaises(ValueError):
            xp.cumulative_sum(xp.ones((2, 2)))

    def test_diff(self):
        for name, n, axis in itertools.product(ALL, range(4), (0, -1)):
            x = elements(name, (2, 4), self.rng, False)
            self.same("diff", x, n=n, axis=axis, tolerance=1e-3)
            self.same("diff", x, axis=axis, prepend=x, append=x, tolerance=1e-3)


class Linear(Case):
    def test_products(self):
        shapes = (
            ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
            ((5, 2, 3), (5, 3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 2)),
        )
        for name in NUMERIC:
            for one, other in shapes:
                x, y = elements(name, one, self.rng, False), elements(name, other, self.rng, False)
                self.same("matmul", x, y, tolerance=1e-4)
                self.check(to_xp(x) @ to_xp(y), x @ y, 1e-4)
            x, y = elements(name, (2, 3, 4), self.rng, False), elements(name, (4, 3, 5), self.rng, False)
            self.same("tensordot", x, y, axes=((1, 2), (1, 0)), tolerance=1e-4)
            self.same("tensordot", x, y, axes=1, tolerance=1e-4)
            self.same("tensordot", x[0], y[0], axes=0, tolerance=1e-4)
            self.same("vecdot", x, y[0, 0, :4], tolerance=1e-4)
            self.same("vecdot", x, x, axis=-2, tolerance=1e-4)
            self.same("linalg.cross", x[:, :, 0], x[0, :, 1], tolerance=1e-4)
            self.same("linalg.outer", x[0, 0], y[0, 0], tolerance=1e-4)
        self.same("matmul", np.ones((2, 3), "int8"), np.ones((3, 2), "uint16"))
        x = xp.ones((2, 2), dtype=xp.int8)
        same = x
        x @= x
        self.assertIs(x, same)
        self.assertEqual(x.tolist(), [[2, 2], [2, 2]])

    def test_refused_shapes(self):
        for wrong in (
            lambda: xp.matmul(xp.ones(()), xp.ones(2)), lambda: xp.vecdot(xp.ones(1), xp.ones(3)),
            lambda: xp.tensordot(xp.ones((2, 3)), xp.ones((2, 3)), axes=1),
            lambda: xp.linalg.cross(xp.ones(4), xp.ones(4)), lambda: xp.linalg.outer(xp.ones(()), xp.ones(1)),
            lambda: xp.matrix_transpose(xp.ones(2)), lambda: xp.linalg.qr(xp.ones((2, 2)), mode="r"),
            lambda: xp.linalg.matrix_rank(xp.ones(2)),
        ):
            with self.assertRaises(ValueError):
                wrong()
        with self.assertRaises(IndexError):
            xp.vecdot(xp.ones((2, 3)), xp.ones((2, 3)), axis=0)

    def matrix(self, name, *shape):
        return elements(name, shape, self.rng, False) / 8

    def test_functions_of_matrices(self):
        for name, batch in itertools.product(FLOATS, ((), (2,), (0,))):
            x = self.matrix(name, *batch, 3, 3)
            positive = (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(3)).astype(name)
            for one in ("cholesky", "det", "inv", "slogdet", "eigvalsh", "svdvals", "pinv"):
                self.same("linalg." + one, positive, tolerance=1e-3)
            self.same("linalg.cholesky", positive, upper=True, tolerance=1e-3)
            for power in (-1, 0, 1, 3):
                self.check(
                    xp.linalg.matrix_power(to_xp(positive), power), np.linalg.matrix_power(positive, power),
                    1e-3,
                )
            for ord, keepdims in itertools.product(("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf), (0, 1)):
                self.same("linalg.matrix_norm", x, ord=ord, keepdims=bool(keepdims), tolerance=1e-3)
            self.same("linalg.matrix_rank", positive)
            for offset in (-9, -1, 0, 2, 9):
                self.same("linalg.diagonal", x, offset=offset)
                self.same("linalg.trace", x, offset=offset)
        self.assertEqual(xp.linalg.trace(xp.ones((2, 2), dtype=xp.int8)).dtype, xp.int64)

    def test_decompositions(self):
        for name, batch in itertools.product(FLOATS, ((), (2,))):
            x = to_xp(self.matrix(name, *batch, 4, 3))
            tall = xp.linalg.qr(x, mode="complete")
            self.assertEqual((tall._fields, tall.Q.shape[-2:], tall.R.shape[-2:]), (("Q", "R"), (4, 4), (4, 3)))
            u, s, vh = xp.linalg.svd(x, full_matrices=False)
            self.assertEqual(xp.linalg.svd(x).U.shape[-2:], (4, 4))
            square = x.mT @ xp.conj(x)
            found = xp.linalg.eigh(square)
            q, r = xp.linalg.qr(x)
            back = found.eigenvectors * xp.astype(found.eigenvalues, x.dtype)[..., None, :]
            back = back @ xp.conj(found.eigenvectors).mT
            for one, expected in ((q @ r, x), (tall.Q @ tall.R, x), (u * xp.astype(s, x.dtype)[..., None, :] @ vh, x),
                                  (back, square)):
                self.check(one, np.asarray(expected), 1e-4)

    def test_solve(self):
        for name in FLOATS:
            x = self.matrix(name, 2, 3, 3) + 2 * np.eye(3, dtype=name)
            for other in ((3,), (3, 2), (2, 3, 2), (5, 1, 3, 3)):
                self.same("linalg.solve", x, self.matrix(name, *other), tolerance=1e-3)
        # Not a batch of vectors, though the shapes would allow it.
        self.same("linalg.solve", np.ones((3, 2, 2)) + np.eye(2), np.ones((2, 2)), tolerance=1e-4)

    def test_tolerances(self):
        x = np.diag([1.0, 1e-3, 1e-9])
        for rtol, rank in ((None, 3), (1e-6, 2), (0.5, 1)):
            self.assertEqual(xp.linalg.matrix_rank(to_xp(x), rtol=rtol).item(), rank)
        rtol = xp.asarray([1e-6, 0.5], dtype=xp.float64)
        self.assertEqual(xp.linalg.matrix_rank(to_xp(np.stack([x, x])), rtol=rtol).tolist(), [2, 1])
        self.check(xp.linalg.pinv(to_xp(x), rtol=1e-6), np.linalg.pinv(x, rcond=1e-6))

    def test_vector_norm(self):
        for name, axis, keepdims in itertools.product(FLOATS, (None, 0, -1, (0, 1)), (False, True)):
            x = elements(name, (2, 3), self.rng, False)
            for ord in (2, 1, 0, -1, 3, np.inf, -np.inf):
                options = {"axis": axis, "keepdims": keepdims, "ord": ord}
                self.same("linalg.vector_norm", x, tolerance=1e-4, **options)
        for ord in (2, 1, 0, -1, -2):
            self.same("linalg.vector_norm", np.zeros((2, 0), "complex64"), axis=1, ord=ord)
        self.check(xp.linalg.vector_norm(xp.asarray([3.0, -4.0]), axis=()), np.array([3, 4], "float32"))
        self.check(xp.linalg.vector_norm(xp.asarray(-2.0)), np.array(2, "float32"))


class Fourier(Case):
    def test_along_one_axis(self):
        for name, axis, norm in itertools.product(FLOATS, (0, -1), ("backward", "ortho", "forward")):
            x = elements(name, (4, 5), self.rng, False)
            options = {"axis": axis, "norm": norm, "tolerance": 1e-3}
            for n in (None, 2, 8):
                for one in ("fft", "ifft", *(("rfft", "ihfft") if name in REALS else ("irfft", "hfft"))):
                    self.same("fft." + one, x, n=n, **options)

    def test_along_several_axes(self):
        for name, norm in itertools.product(FLOATS, ("backward", "ortho", "forward")):
            x = elements(name, (3, 4, 5), self.rng, False)
            for one in ("fftn", "ifftn", "rfftn" if name in REALS else "irfftn"):
                self.same("fft." + one, x, norm=norm, tolerance=1e-3)
                self.same("fft." + one, x, axes=(0, -1), norm=norm, tolerance=1e-3)
                self.same("fft." + one, x, axes=(1, 2), s=(3, 8), norm=norm, tolerance=1e-3)
        self.assertEqual(xp.fft.fftn(xp.ones((2, 3, 4), dtype=xp.complex64), s=(5, 6)).shape, (2, 5, 6))

    def test_frequencies(self):
        for n in (1, 2, 5, 8):
            for one in ("fftfreq", "rfftfreq"):
                found = getattr(xp.fft, one)(n, d=0.5, dtype=xp.float64)
                self.check(found, getattr(np.fft, one)(n, d=0.5))
                self.assertEqual(getattr(xp.fft, one)(n).dtype, xp.float32)
        x = elements("float64", (3, 4), self.rng, False)
        for axes in (None, 0, (1,), (0, -1)):
            self.same("fft.fftshift", x, axes=axes)
            self.same("fft.ifftshift", x, axes=axes)


class Arrays(unittest.TestCase):
    """Arrays of the namespace are tensors."""

    def test_kind_of_results(self):
        x, tensor = xp.ones(3), torch.ones(3)
        for found in (x + 1, 1 - x, x * tensor, tensor * x, tensor + x, x[0], x[None], -x, x == 1, x.mean, xp.sin(tensor)):
            if isinstance(found, torch.Tensor):
                self.assertIs(type(found), xp.Array)
        self.assertIs(type(torch.exp(x)), torch.Tensor)
        self.assertIs(type(tensor + 1), torch.Tensor)
        self.assertFalse(x == "text")
        self.assertEqual(len({x: 1}), 1)

    def test_gradients(self):
        weight = torch.tensor([1.0, 2.0], requires_grad=True)
        loss = xp.sum(xp.pow(xp.asarray(weight), 2) * 2 + xp.square(weight) - xp.clip(weight, 0.5) / 2)
        loss.backward()
        self.assertEqual(weight.grad.tolist(), [5.5, 11.5])

    def test_modules_take_them(self):
        self.assertEqual(torch.nn.Linear(3, 2)(xp.ones((4, 3))).shape, (4, 2))

    def test_copies_and_pickles(self):
        x = xp.asarray([1, 2], dtype=xp.uint16)
        for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            self.assertIs(type(made), xp.Array)
            self.assertEqual((made.tolist(), made.dtype), ([1, 2], xp.uint16))

    def test_in_place_keeps_type_and_shape(self):
        x = xp.ones(2, dtype=xp.int8)
        for wrong, error in ((xp.ones(2), TypeError), (xp.ones((3, 2), dtype=xp.int8), ValueError)):
            with self.assertRaises(error):
                x += wrong
        x += xp.ones((), dtype=xp.int8)
        self.assertEqual(x.tolist(), [2, 2])

    def test_conjugates_are_in_memory(self):
        tensor = torch.tensor([1 + 2j]).conj()
        self.assertFalse(xp.asarray(tensor).is_conj())
        self.assertFalse(xp.conj(xp.asarray([1j])).is_conj())
        self.assertEqual(xp.imag(tensor).tolist(), [-2.0])


class Repeats(unittest.TestCase):
    """``repeat_interleave`` takes counts of any signed integers and bytes."""

    def test_positions_beyond_the_type_of_the_counts(self):
        x = torch.arange(300.0)
        for name in ("int8", "uint8", "int16", "int32", "int64"):
            counts = torch.ones(300, dtype=getattr(torch, name))
            self.assertEqual(x.repeat_interleave(counts)[-2:].tolist(), [298, 299])
            self.assertEqual(torch.repeat_interleave(counts[:3]).dtype, counts.dtype)

    def test_refused_types(self):
        for name in ("bool", "float32"):
            with self.assertRaises(NotImplementedError):
                torch.arange(3).repeat_interleave(torch.ones(3, dtype=getattr(torch, name)))


if __name__ == "__main__":
    unittest.main()
