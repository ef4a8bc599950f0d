"""Test cases that compare tensors, tests with parameters, and small helpers of tests."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import inspect
import os
import random
import socket
import sys
import tempfile
import unittest

import corten
from corten.autograd import gradcheck, gradgradcheck  # noqa: F401
from corten.testing._comparison import _compare, _is_array, _Mismatch, _Options
from corten.testing._creation import make_tensor  # noqa: F401

SEED = 1234
IS_WINDOWS, IS_LINUX, IS_MACOS = (sys.platform == name for name in ("win32", "linux", "darwin"))
IS_FBCODE = IS_SANDCASTLE = IS_REMOTE_GPU = False
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_TORCHDYNAMO = False
TEST_WITH_TORCHINDUCTOR = TEST_WITH_CROSSREF = TEST_CUDA = TEST_XPU = TEST_MPS = TEST_WITH_SLOW = False


class TestCase(unittest.TestCase):
    """A test case whose ``assertEqual`` compares tensors, arrays and containers of them, closely."""

    #: Tolerances that no comparison goes below.
    precision, rel_tol = 0, 0

    def setUp(self):
        set_rng_seed(SEED)

    def assertEqual(
        self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True,
        exact_device=False, exact_layout=False, exact_stride=False, exact_is_coalesced=False,
    ):
        """Values are close, by the tolerances of their dtypes where none are given."""
        if (atol is None) != (rtol is None):
            raise ValueError("atol and rtol must both be specified or both be unspecified")
        x, y = _as_tensors(x, y)
        options = _Options(
            allow_subclasses=True, rtol=rtol, atol=atol, equal_nan=equal_nan,
            check_device=exact_device, check_dtype=exact_dtype, check_layout=exact_layout,
            check_stride=exact_stride, check_coalesced=exact_is_coalesced,
            least=(self.rel_tol, self.precision),
        )
        try:
            _compare_all(x, y, options, ())
        except _Mismatch as found:
            text = found.message
            if found.at:
                places = "".join(f"[{key!r}]" for key in found.at)
                text += f"\n\nThe failure occurred for item {places}"
            if msg is not None:
                text = msg(text) if callable(msg) else f"{text}\n{msg}"
            kind = found.kind
        else:
            return
        raise kind(text)

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **kwargs):
        """Values are not close."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertEqualIgnoreType(self, *args, **kwargs):
        """Values are close, of whatever dtypes."""
        return self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertEqualBroadcasting(self, x, y, *args, **kwargs):
        """``x`` is close to ``y`` in its shape."""
        if not isinstance(y, corten.Tensor):
            y = corten.tensor(y) if isinstance(y, collections.abc.Iterable) else y
            y = corten.ones_like(x) * y
        return self.assertEqual(x, y, *args, **kwargs)

    def assertEqualTypeString(self, x, y):
        """Tensors have one dtype, device and layout."""
        self.assertEqual((x.device, x.dtype, x.is_sparse), (y.device, y.dtype, y.is_sparse))

    def assertObjectIn(self, obj, iterable):
        """The object itself, not one that is equal, is there."""
        if not any(obj is one for one in iterable):
            raise AssertionError("object not found in iterable")

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        """One warning of the category is given."""
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", category=category)
            yield
        found = [one for one in caught if issubclass(one.category, category)]
        self.assertEqual(len(found), 1, "exactly one warning expected")
        unittest.TestCase.assertRegex(self, str(found[0].message), regex)

    def assertNotWarn(self, callable, msg=""):
        """Calls a function that gives no warning."""
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            callable()
        unittest.TestCase.assertTrue(self, not caught, msg)


def _as_tensors(x, y):
    """A sequence of numbers beside a tensor is a tensor; others are as they are."""
    sequence = collections.abc.Sequence
    if isinstance(x, corten.Tensor) and isinstance(y, sequence):
        y = corten.as_tensor(y, dtype=x.dtype, device=x.device)
    elif isinstance(x, sequence) and isinstance(y, corten.Tensor):
        x = corten.as_tensor(x, dtype=y.dtype, device=y.device)
    return x, y


#: Numbers of Python are compared as closely as tensors of these dtypes.
_AS = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}


def _is_comparable(value):
    return isinstance(value, (corten.Tensor, bool, int, float, complex)) or _is_array(value) \
        or type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _compare_all(x, y, options, at):
    containers = (collections.abc.Sequence, collections.abc.Mapping)
    if isinstance(x, corten.Tensor) and x.is_nested:
        x = x.unbind()
    if isinstance(y, corten.Tensor) and y.is_nested:
        y = y.unbind()
    if not isinstance(x, (str, bytes)) and isinstance(x, containers) and isinstance(y, containers):
        if isinstance(x, collections.abc.Mapping) and isinstance(y, collections.abc.Mapping):
            _compare({key: None for key in x}, {key: None for key in y}, options, at)
            pairs = ((key, x[key], y[key]) for key in x)
        else:
            _compare([None] * len(x), [None] * len(y), options, at)
            pairs = ((place, *pair) for place, pair in enumerate(zip(x, y)))
        for key, one, other in pairs:
            _compare_all(one, other, options, (*at, key))
    elif _is_comparable(x) and _is_comparable(y):
        _compare_values(x, y, options, at)
    elif not (type(x) is type(y) and x is y or bool(x == y)):
        raise _Mismatch(AssertionError, f"{type(x).__name__} comparison failed: {x!r} != {y!r}", at)


def _compare_values(x, y, options, at):
    """Compares tensors, arrays and numbers, of which one may stand for the other."""
    both = isinstance(x, corten.Tensor), isinstance(y, corten.Tensor)
    numbers = [type(value) in _AS for value in (x, y)]
    x, y = (_tensor(value) for value in (x, y))
    if any(numbers) and x.numel() == y.numel() == 1:
        x, y = x.reshape(()), y.reshape(())
    rtol, atol = options.rtol, options.atol
    if rtol is None:
        from corten.testing._comparison import default_tolerances

        rtol, atol = default_tolerances(x, y)
    rtol, atol = (max(value, least) for value, least in zip((rtol, atol), options.least))
    check = options.check_dtype and not any(numbers)
    fields = {**vars(options), "rtol": rtol, "atol": atol, "check_dtype": check}
    if options.check_coalesced and all(both) and x.is_sparse and x.is_coalesced() != y.is_coalesced():
        raise _Mismatch(AssertionError, "one tensor is coalesced, the other is not", at)
    _compare(x, y, _Options(**fields), at)


def _tensor(value):
    if isinstance(value, corten.Tensor):
        return value
    name = _AS.get(type(value))
    return corten.as_tensor(value) if name is None else corten.tensor(value, dtype=getattr(corten, name))


def run_tests(argv=None):
    """Runs the tests of the program."""
    unittest.main(argv=argv)


class subtest:
    """One choice of values of `parametrize`, with a name and decorators of its own."""

    __test__ = False

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


class parametrize:
    """A decorator: a test runs for each choice of values of its arguments.

    `instantiate_parametrized_tests` makes the tests.
    """

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.arg_names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.arg_values, self.name_fn = list(arg_values), name_fn

    def __call__(self, function):
        function.__dict__.setdefault("_parameters", []).insert(0, self)
        return function

    def choices(self):
        """Ends of names, values of arguments and decorators."""
        for place, one in enumerate(self.arg_values):
            wrapped = one if isinstance(one, subtest) else subtest(one)
            values = wrapped.arg_values if len(self.arg_names) > 1 else (wrapped.arg_values,)
            if wrapped.name is not None:
                name = wrapped.name
            elif self.name_fn is not None:
                name = self.name_fn(*values)
            else:
                name = "_".join(
                    f"{argument}_{_short(value, place)}" for argument, value in zip(self.arg_names, values)
                )
            yield name, dict(zip(self.arg_names, values)), wrapped.decorators


def _short(value, place):
    """What a name has for a value: the value where it is short, else its place."""
    if isinstance(value, corten.dtype):
        return str(value).partition(".")[2]
    if isinstance(value, (bool, int, float, str)):
        return str(value).replace(".", "_").replace("-", "_")
    return getattr(value, "__name__", None) or str(place)


def instantiate_parametrized_tests(generic_cls):
    """Makes the tests of functions with :class:`parametrize`, in a class."""
    for name, function in list(vars(generic_cls).items()):
        parameters = getattr(function, "_parameters", None)
        if not parameters:
            continue
        delattr(generic_cls, name)
        made = [((), {}, ())]
        for one in parameters:
            made = [
                ((*ends, end), {**values, **more}, (*marks, *decorators))
                for ends, values, marks in made for end, more, decorators in one.choices()
            ]
        for ends, values, marks in made:
            setattr(generic_cls, "_".join((name, *ends)), _with_values(function, values, marks))
    return generic_cls


def _with_values(function, values, decorators):
    @functools.wraps(function)
    def test(self, *args, **kwargs):
        return function(self, *args, **values, **kwargs)

    # Runners of tests ask for the arguments of the test itself.
    del test.__wrapped__
    test.__dict__.pop("_parameters", None)
    for decorate in decorators:
        test = decorate(test)
    return test


def set_rng_seed(seed=None):
    """Seeds the generators of the package, of Python and, where it is loaded, of NumPy."""
    seed = SEED if seed is None else seed
    corten.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


@contextlib.contextmanager
def freeze_rng_state():
    """Random numbers go on afterwards as if none had been drawn."""
    state = corten.get_rng_state()
    try:
        yield
    finally:
        corten.set_rng_state(state)


@contextlib.contextmanager
def set_default_dtype(dtype):
    """A default dtype for a while."""
    before = corten.get_default_dtype()
    corten.set_default_dtype(dtype)
    try:
        yield
    finally:
        corten.set_default_dtype(before)


@contextlib.contextmanager
def set_default_tensor_type(tensor_type):
    """A default type of tensors for a while."""
    before = corten.get_default_dtype()
    corten.set_default_tensor_type(tensor_type)
    try:
        yield
    finally:
        corten.set_default_dtype(before)


@contextlib.contextmanager
def disable_gc():
    """No collections of garbage for a while."""
    import gc

    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextlib.contextmanager
def TemporaryFileName(*args, **kwargs):
    """The name of a file that is removed afterwards."""
    file = tempfile.NamedTemporaryFile(*args, **{**kwargs, "delete": False})
    try:
        file.close()
        yield file.name
    finally:
        if os.path.exists(file.name):
            os.unlink(file.name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix=None):
    """The name of a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(suffix=suffix) as name:
        yield name


@contextlib.contextmanager
def set_cwd(path):
    """Another working directory for a while."""
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def find_free_port():
    """A port of this machine that nobody listens at."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


def noncontiguous_like(t):
    """A tensor of equal elements that is not contiguous, where there are two or more."""
    if not t.is_contiguous() or t.numel() < 2:
        return t
    wide = t.detach().new_empty((*t.shape, 2))
    wide.fill_(float("nan") if t.dtype.is_floating_point or t.dtype.is_complex else 1)
    result = wide[..., 0]
    result.copy_(t.detach())
    return result.requires_grad_(t.requires_grad)


def is_iterable(obj):
    """Whether something can be gone through."""
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def is_iterable_of_tensors(iterable, include_empty=False):
    """Whether something is a collection of nothing but tensors."""
    if isinstance(iterable, corten.Tensor) or not is_iterable(iterable):
        return False
    items = list(iterable)
    return all(isinstance(one, corten.Tensor) for one in items) if items else include_empty


def dtype_name(dtype):
    """``float32`` for ``torch.float32``."""
    return str(dtype).partition(".")[2]


def suppress_warnings(fn):
    """A decorator: the test gives no warnings."""
    import warnings

    @functools.wraps(fn)
    def quiet(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs)

    return quiet


def _unless(condition, reason):
    return lambda function: unittest.skipIf(not condition, reason)(function)


def skipIfNoSciPy(fn):
    """A decorator: the test needs SciPy."""
    from importlib.util import find_spec

    return _unless(find_spec("scipy"), "test require SciPy, but SciPy not found")(fn)


def _as_it_is(function=None, **_reason):
    """A decorator for what this package does not have to skip."""
    return function if inspect.isfunction(function) or inspect.isclass(function) else _as_it_is


skipIfRocm = skipIfXpu = skipIfHpu = skipIfMPS = skipIfTorchDynamo = skipIfTorchInductor = _as_it_is
skipIfCrossRef = skipIfNoLapack = skipIfCompiledWithoutNumpy = serialTest = _as_it_is


def slowTest(fn):
    """A decorator: the test runs where ``PYTORCH_TEST_WITH_SLOW`` is 1."""
    return _unless(os.environ.get("PYTORCH_TEST_WITH_SLOW") == "1", "test is slow")(fn)
