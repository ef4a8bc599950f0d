"""Calls with symbolic sizes beside the same calls with the sizes of the example.

Operators made of others decide by sizes on the way, and see the samples of symbols then (Note [Samples of
symbolic numbers] in `python/binding/src/symbolic.rs`). So every call of a program runs on numbers as well: where
it gives other sizes, or fails with samples alone, its symbols become the numbers that they are in the example,
with guards, and it runs again.
"""

from __future__ import annotations

import corten
from corten import Tensor
from corten.overrides import TorchFunctionMode
from corten.utils._python_dispatch import _disable_current_modes
from corten.utils._pytree import tree_leaves, tree_map

from . import _fake_errors as errors

_REFUSALS = (RuntimeError, ValueError, IndexError)
_OF_DATA = (
    errors.DataDependentOutputException, errors.DynamicOutputShapeException, errors.UnsupportedOperatorException,
    errors.UnsupportedFakeTensorException, NotImplementedError,
)


class HintChecks(TorchFunctionMode):
    """Compares the sizes of results to those that the example has."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _asks_for_value(func, args):
            return args[0].item()
        symbols = self._symbols(args, kwargs)
        if getattr(func, "__name__", "") == "narrow" and len(args) == 4 and isinstance(args[3], corten.SymInt):
            # Samples of what data tells lie outside.
            return corten.ops.aten.slice.Tensor(args[0], args[1], args[2], args[2] + args[3])
        if not symbols or getattr(func, "__name__", "") in _UNCHECKED or "autograd" in str(getattr(func, "__module__", "")):
            return func(*args, **kwargs)
        from corten.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

        with Floats() as at_hints:
            expected, refusal = self._at_hints(func, args, kwargs)
        recorded = _Recorded()
        try:
            with Floats() as at_samples:
                result = func(*args, **kwargs)
        except _OF_DATA:
            raise
        except _REFUSALS as error:
            if refusal is not None:
                raise refusal from error
            recorded.erase()
            return self._with_numbers(symbols, func, args, kwargs)
        if refusal is not None:
            raise refusal
        if expected is None or has_free_unbacked_symbols(result):
            return result
        if _described(result) != expected or at_samples.found - at_hints.found:
            recorded.erase()
            return self._with_numbers(symbols, func, args, kwargs)
        return result

    def _symbols(self, args, kwargs):
        """The symbols in the sizes of arguments; none where data tells one of them."""
        from corten._subclasses.fake_tensor import FakeTensor
        from corten.fx.experimental._symexpr import symbols_of

        found = set()
        leaves = tree_leaves((args, kwargs))
        for leaf in leaves:
            if isinstance(leaf, slice):
                leaves += [leaf.start, leaf.stop, leaf.step]
            elif isinstance(leaf, FakeTensor):
                geometry = leaf.__dict__.get("_symbolic")
                if geometry is not None:
                    for one in (*geometry.sizes, *geometry.strides):
                        symbols_of(geometry.env.replace(one), found)
            elif isinstance(leaf, (corten.SymInt, corten.SymFloat)):
                symbols_of(leaf.node.expr, found)
        return () if any(symbol.unbacked for symbol in found) else sorted(found, key=str)

    def _at_hints(self, func, args, kwargs):
        """What a call gives with the sizes of the example, or why it is refused."""
        from corten._subclasses.fake_tensor import FakeTensor, FakeTensorMode

        mode = FakeTensorMode(allow_non_fake_inputs=True)
        made = {}

        def number(leaf):
            if isinstance(leaf, FakeTensor):
                if id(leaf) not in made:
                    made[id(leaf)] = _stand_in(mode, leaf)
                return made[id(leaf)]
            if isinstance(leaf, (corten.SymInt, corten.SymFloat, corten.SymBool)):
                return leaf.node.hint
            if isinstance(leaf, slice):
                return slice(number(leaf.start), number(leaf.stop), number(leaf.step))
            return leaf

        try:
            with _disable_current_modes(), corten.no_grad():
                args, kwargs = tree_map(number, (args, kwargs))
                with mode:
                    return _described(func(*args, **kwargs)), None
        except _OF_DATA:
            return None, None
        except _REFUSALS as error:
            return None, error
        except Exception:  # pylint: disable=broad-exception-caught
            return None, None

    def _with_numbers(self, symbols, func, args, kwargs):
        for symbol in symbols:
            self.mode.shape_env.evaluate(symbol)
        return func(*args, **kwargs)


class ValueCalls(TorchFunctionMode):
    """Hands ``Tensor.item``, called as a function, to the tensor without data, which knows what its value is."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return args[0].item() if _asks_for_value(func, args) else func(*args, **(kwargs or {}))


def _asks_for_value(func, args):
    from corten._subclasses.fake_tensor import FakeTensor

    return getattr(func, "__name__", "") == "item" and len(args) == 1 and isinstance(args[0], FakeTensor)


class Floats:
    """A block in which the floats that operators get are kept: composite operators compute some of sizes."""

    #: The innermost block, or None where nothing is kept.
    active = None

    def __enter__(self):
        self.found, self.before = set(), Floats.active
        Floats.active = self
        return self

    def __exit__(self, *error):
        Floats.active = self.before

    def see(self, args, kwargs):
        """Keeps what is a float among arguments."""
        self.found.update(one for one in (*args, *kwargs.values()) if type(one) is float and one == one)


class _Recorded:
    """The nodes that a trace has before a call."""

    def __init__(self):
        from corten._ops import proxy_mode

        tracing = proxy_mode()
        self.graph = None if tracing is None else tracing.tracer.graph
        self.before = None if self.graph is None else len(self.graph.nodes)

    def erase(self):
        """Takes nodes of operators behind them out of the graph, but those that write to what was there before."""
        if self.graph is None:
            return
        nodes = list(self.graph.nodes)[self.before:]
        made = set(nodes)
        for node in reversed(nodes):
            if not node.users and _is_operator(node) and made.issuperset(_written_by(node)):
                self.graph.erase_node(node)
                made.discard(node)


def _is_operator(node):
    return node.op == "call_function" and isinstance(node.target, corten.ops.Overload) \
        and not node.target._qualified.startswith("aten::sym_")


def _written_by(node):
    arguments = node.target._schema.arguments
    for argument, value in zip(arguments, node.args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield value


#: Functions that write, or whose results are no matter of sizes.
_UNCHECKED = frozenset(("__get__", "__set__", "backward", "requires_grad_", "detach", "__len__", "dim", "size", "stride"))


def _stand_in(mode, fake):
    from corten._subclasses.fake_tensor import FakeTensor
    from corten.fx.experimental._symbolic_tensor import meta_of
    from corten.fx.experimental.symbolic_shapes import hint_int

    sizes, strides = map(hint_int, fake.shape), map(hint_int, fake.stride())
    elem = meta_of(fake.dtype, tuple(sizes), tuple(strides), hint_int(fake.storage_offset()))
    return FakeTensor(mode, elem.conj() if fake.is_conj() else elem, fake.device, constant=fake.constant)


def _described(result):
    """The sizes of tensors in a result, at the hints."""
    from corten.fx.experimental.symbolic_shapes import hint_int

    if type(result) not in (tuple, list) and not isinstance(result, (Tensor, tuple)):
        return None
    return [
        tuple(map(hint_int, leaf.shape)) if isinstance(leaf, Tensor) else None for leaf in tree_leaves(result)
    ]
