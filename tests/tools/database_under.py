"""PyTorch's operator database under everything that takes programs as data.

    PYTHONPATH=python PYTHON_WITH_TORCH tests/tools/database_under.py --jobs 2 --json found.jsonl
    PYTHONPATH=python PYTHON_WITH_TORCH tests/tools/database_under.py --json found.jsonl --failed
    PYTHONPATH=python PYTHON_WITH_TORCH tests/tools/database_under.py --ways fake,symbolic --ops add,nn.functional.gelu

Every sample that an operator takes eagerly is run once more under each way:

    compile      a compiled function; its second and third calls
    functional   `func.functionalize`; `copies` with views removed, too: results may be contiguous copies of views
    real, fake_graph, symbolic   the graph that `make_fx` records, run on the sample
    decomposed   the graph after `core_aten_decompositions`, in which no operator is left that PyTorch's table replaces;
                 values may differ by the rounding of operators that are computed in another order
    fake, sizes  under `FakeTensorMode`, with known and with symbolic sizes: shapes, dtypes, strides

The in-place form of an operator is run where it has one, and with `--gradients` the gradients of differentiable
samples. A sample under which the eager call raises is left out. What differs or raises here is tried with PyTorch's
own tool, so that refusals of both are told apart. Every operator runs in a process of its own.
"""

import argparse
import collections
import functools
import json
import multiprocessing
import os
import re
import signal
import sys
import time
import warnings

warnings.simplefilter("ignore")

import torch

import corten
import samples_of_torch as carried
from corten.utils import _pytree as pytree

WAYS = ("compile", "functional", "copies", "real", "decomposed", "fake_graph", "symbolic", "fake", "sizes")
#: How values differ that are computed in another order.
ROUNDS = "values: by rounding"
#: Operators whose results have no defined values.
NO_VALUES = re.compile(r"(new_)?empty(_like|_strided|_permuted)?|resize_(as_)?")


class Program:
    """A sample as a function of its tensors, in a library."""

    def __init__(self, library, tree, fn, args, kwargs, inplace, gradients):
        self.library, self.fn, self.inplace, self.gradients = library, fn, inplace, gradients
        self.tree = tree
        leaves, self.spec = tree.tree_flatten((args, kwargs))
        self.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, library.Tensor)]
        self.tensors = [leaves[place] for place in self.places]
        self.leaves = leaves

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = self.tree.tree_unflatten(leaves, self.spec)
        if self.inplace:
            target = args[0].clone() if self.gradients else args[0]
            args = (target, *args[1:])
        result = self.fn(*args, **kwargs)
        if self.gradients:
            return self._with_gradients(result, tensors)
        return result

    def _with_gradients(self, result, tensors):
        outs = [one for one in self.tree.tree_leaves(result) if isinstance(one, self.library.Tensor) and one.requires_grad]
        wanted = [one for one in tensors if one.requires_grad]
        if not outs or not wanted:
            return result
        weights = [self.library.full_like(one, 0.5).detach() for one in outs]
        grads = self.library.autograd.grad(outs, wanted, weights, allow_unused=True)
        return result, tuple(one for one in grads if one is not None)


def program_here(op, sample, variant, gradients):
    """A sample as a program of this library, with new tensors."""
    fn = carried.function(op.op if variant == "function" else op.inplace_variant)
    args, kwargs = carried.value(((sample.input, *sample.args), sample.kwargs), {})
    return Program(corten, pytree, fn, args, kwargs, variant == "inplace", gradients)


def program_there(op, sample, variant, gradients):
    """A sample as a program of PyTorch."""
    from torch.utils import _pytree

    def copied(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    fn = op.op if variant == "function" else op.inplace_variant
    args, kwargs = _pytree.tree_map(copied, ((sample.input, *sample.args), sample.kwargs))
    return Program(torch, _pytree, fn, args, kwargs, variant == "inplace", gradients)


def run(program, call=None):
    """The results of a program and what it left in its tensors."""
    program.library.manual_seed(42)
    result = (call or program)(*program.tensors)
    return program.tree.tree_leaves(result) + list(program.tensors) * program.inplace


def graph_of(library, program, mode):
    """The graph that `make_fx` records of a program; "decomposed" is a real one by operators of the core set."""
    from importlib import import_module

    table = None
    if mode == "decomposed":
        mode, table = "real", import_module(f"{library.__name__}._decomp").core_aten_decompositions()

    make_fx = import_module(f"{library.__name__}.fx.experimental.proxy_tensor").make_fx
    library.manual_seed(42)
    made = make_fx(program, table, mode, True)(*program.tensors)
    if table is not None:
        left = sorted({str(node.target) for node in made.graph.nodes} & decomposed_by_pytorch())
        if left:
            raise AssertionError(f"left in the graph: {' '.join(left)}")
    return made


@functools.cache
def decomposed_by_pytorch():
    """The operators that PyTorch's table of the core set has functions for."""
    from torch._decomp import core_aten_decompositions

    return {str(op) for op in core_aten_decompositions()}


def without_data(library, program, symbolic):
    """The results of a program on tensors without data."""
    from importlib import import_module

    fakes = import_module(f"{library.__name__}._subclasses.fake_tensor")
    env = import_module(f"{library.__name__}.fx.experimental.symbolic_shapes").ShapeEnv() if symbolic else None
    with fakes.FakeTensorMode(shape_env=env, allow_non_fake_inputs=True) as mode:
        known = {}
        program.tensors = [
            known.setdefault(id(one), None) or known.update({id(one): mode.from_tensor(one)}) or known[id(one)]
            for one in program.tensors
        ]
        return run(program)


def under(way, make):
    """The results of a program under a way, each in a list."""
    program = make()
    library = program.library
    if way == "compile":
        compiled = library.compile(program.__call__)
        run(program, compiled)
        return [run(make(), lambda *t: compiled(*t)) for _ in range(2)] if library is corten else []
    if way in ("functional", "copies"):
        remove = "mutations" if way == "functional" else "mutations_and_views"
        return [run(program, library.func.functionalize(program.__call__, remove=remove))]
    if way in ("fake", "sizes"):
        return [without_data(library, program, way == "sizes")]
    graph = graph_of(library, program, "fake" if way == "fake_graph" else way)
    return [run(make(), graph)]


def geometry(tensor):
    """What is known of a tensor without its data."""
    if tensor.layout != corten.strided:
        return tuple(map(known, tensor.shape)), tensor.dtype, tensor.layout
    shape = tuple(map(known, tensor.shape))
    return shape, tensor.dtype, tuple(map(known, tensor.stride())), tensor.is_conj(), tensor.is_neg()


def known(size):
    """A size as a number; -1 for one that depends on data."""
    if isinstance(size, corten.SymInt) and not size.node.has_hint():
        return -1
    return int(size)


def differ(one, other):
    """Whether facts differ; sizes that depend on data may be any."""
    if isinstance(one, tuple) and isinstance(other, tuple) and -1 in other:
        return len(one) != len(other) or any(a != b and b != -1 for a, b in zip(one, other))
    return one != other


def difference(want, got, way, values):
    """How results differ, or None."""
    if len(want) != len(got):
        return f"{len(got)} results for {len(want)}"
    for one, two in zip(want, got):
        if not isinstance(one, corten.Tensor):
            if isinstance(two, corten.Tensor):
                return f"a tensor for {type(one).__name__}"
            if way in ("fake", "sizes") or not values:
                continue
            if one != two and (one == one or two == two):
                return f"a number differs: {two!r} for {one!r}"
            continue
        if not isinstance(two, corten.Tensor):
            return f"{type(two).__name__} for a tensor"
        for name, a, b in zip(("shape", "dtype", "strides", "conj", "neg"), geometry(one), geometry(two)):
            if way == "copies" and name in ("strides", "conj", "neg") and is_plain(two):
                continue
            if differ(a, b) and (name != "strides" or one.numel() and -1 not in geometry(two)[0]):
                return f"{name}: {b} for {a}"
        if way not in ("fake", "sizes") and values and one.device.type != "meta":
            found = unequal(one.detach(), two.detach())
            if found:
                return found
    return None


def is_plain(tensor):
    """Whether a tensor is as operators leave it that copy a view."""
    return not tensor.is_conj() and not tensor.is_neg() and tensor.is_contiguous()


def unequal(one, two):
    """How the values of two tensors of one geometry differ, or None."""
    if one.layout != corten.strided:
        one, two = one.to_dense(), two.to_dense()
    one, two = one.resolve_conj().resolve_neg(), two.resolve_conj().resolve_neg()
    if one.dtype.is_floating_point or one.dtype.is_complex:
        wide = corten.complex128 if one.dtype.is_complex else corten.float64
        one, two = one.to(wide), two.to(wide)
        if corten.equal(one, two) or corten.allclose(one, two, rtol=0, atol=0, equal_nan=True):
            return None
        if corten.allclose(one, two, rtol=2e-5, atol=1e-6, equal_nan=True):
            return ROUNDS
        return "values"
    return None if corten.equal(one, two) else "values"


def text_of(error):
    """The class and the first line of an error."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]


def refusal_there(way, op, sample, variant, gradients):
    """How PyTorch refuses a sample under a way, or None."""
    if way == "compile":
        return None
    try:
        under(way, lambda: program_there(op, sample, variant, gradients))
    except Exception as error:
        return text_of(error)
    return None


def check(op, dtype, options, note):
    """The outcomes of the samples of one entry in one dtype."""
    gradients = options.gradients
    try:
        found = carried.samples(op, dtype, gradients, options.samples)
    except Exception:
        return
    variants = ["function"] + ["inplace"] * (op.inplace_variant is not None)
    for place, sample in found:
        for variant in variants:
            if variant == "inplace" and gradients and not getattr(op, "supports_inplace_autograd", False):
                continue
            check_sample(op, dtype, place, sample, variant, options, note)


def check_sample(op, dtype, place, sample, variant, options, note):
    """The outcomes of one sample."""
    def make():
        return program_here(op, sample, variant, options.gradients)

    try:
        want = run(make())
    except carried.NotCarried as error:
        note("eager", variant, str(dtype), place, "not carried", str(error), None)
        return
    except Exception as error:
        note("eager", variant, str(dtype), place, "raises", text_of(error), None)
        return
    values = NO_VALUES.fullmatch(op.name) is None
    for way in options.ways:
        there = None
        try:
            why = next(filter(None, (difference(want, got, way, values) for got in under(way, make))), None)
            outcome = "equal" if why is None else "rounds" if why == ROUNDS else "differs"
        except Exception as error:
            outcome, why = "raises", text_of(error)
            if options.verbose:
                import traceback

                traceback.print_exc()
        if outcome == "raises":
            there = refusal_there(way, op, sample, variant, options.gradients)
        note(way, variant, str(dtype), place, outcome, why, there)


def one_entry(number, options, pipe):
    """Runs an entry and sends its outcomes."""
    op = OPS[number]
    torch.set_num_threads(1)
    corten.set_num_threads(1)
    wanted = [getattr(torch, name) for name in options.dtypes.split(",")]
    supported = op.supported_backward_dtypes("cpu") if options.gradients else op.supported_dtypes("cpu")
    chosen = [dtype for dtype in wanted if dtype in supported]
    if not chosen:
        chosen = sorted(supported, key=str)[:1]
    if options.gradients and not op.supports_autograd:
        chosen = []

    def note(*outcome):
        pipe.send(outcome)

    for dtype in chosen:
        pipe.send(("at", str(dtype)))
        check(op, dtype, options, note)
    pipe.send(None)


def prepare():
    """Imports and makes what every entry's process would have to."""
    from importlib import import_module

    for library in ("corten", "torch"):
        for name in ("fx.experimental.proxy_tensor", "fx.experimental.symbolic_shapes", "_subclasses.fake_tensor",
                     "_subclasses.functional_tensor", "_decomp", "func"):
            import_module(f"{library}.{name}")
    import_module("corten._decomp").core_aten_decompositions()
    decomposed_by_pytorch()
    carried.function(torch.add)


def run_all(options):
    """The outcomes of all entries: lists of (entry, way, variant, dtype, sample, outcome, why, how PyTorch refuses)."""
    context = multiprocessing.get_context("fork")
    known = kept(options)
    waiting = [number for number in range(len(OPS)) if to_run(known.get(OPS[number].full_name), options)][::-1]
    running = []
    if waiting:
        prepare()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            running.append(Entry(context, waiting.pop(), options))
        for entry in [one for one in running if one.finished(options)]:
            running.remove(entry)
            known[entry.name] = entry.outcomes
            keep(entry, options)
            if options.progress:
                print(entry.name, file=sys.stderr, flush=True)
    return [(name, *outcome) for name, outcomes in known.items() for outcome in outcomes]


class Entry:
    """An entry that runs in a process of its own, and what that has sent."""

    def __init__(self, context, number, options):
        self.name, self.outcomes, self.begun = OPS[number].full_name, [], time.monotonic()
        self.receive, send = context.Pipe(False)
        self.process = context.Process(target=one_entry, args=(number, options, send), daemon=True)
        self.process.start()
        send.close()

    def finished(self, options):
        """Takes what has come; whether the process has ended, or has taken too long and is ended."""
        while self.receive.poll(0.02):
            try:
                got = self.receive.recv()
            except EOFError:
                self.process.join()
                self.outcomes.append(("process", "", "", 0, "died", f"exit {self.process.exitcode}", None))
                return True
            if got is None:
                self.process.join()
                return True
            if got[0] != "at":
                self.outcomes.append(got)
        if time.monotonic() - self.begun <= options.timeout:
            return False
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        self.outcomes.append(("process", "", "", 0, "died", "timeout", None))
        return True


def kept(options):
    """The outcomes by entry that the file has, the newest of each."""
    if not options.json or not os.path.exists(options.json):
        return {}
    with open(options.json) as file:
        return {name: list(map(tuple, outcomes)) for name, outcomes in map(json.loads, file)}


def keep(entry, options):
    """Adds what an entry gave to the file."""
    if options.json:
        with open(options.json, "a") as file:
            file.write(json.dumps([entry.name, entry.outcomes]) + "\n")


def fails(outcome):
    """Whether an outcome is neither equality nor a refusal by both; without the name of its entry."""
    way, _, _, _, found, _, there = outcome
    holds = found == "equal" or found == "rounds" and way == "decomposed" or found == "raises" and there
    return way == "process" or way != "eager" and not holds


def to_run(outcomes, options):
    """Whether an entry with these outcomes is run (again)."""
    if options.report:
        return False
    return outcomes is None or options.failed and any(map(fails, outcomes))


def general(why):
    """A reason without the numbers of its case."""
    why = re.sub(r"\[[^\]]*\]|\([^()]*\)", "..", why or "")
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", why)[:110]


def report(outcomes, options):
    """Prints the figures by way, and what fails, most frequent first."""
    for way in options.ways:
        mine = [one for one in outcomes if one[1] == way]
        equal = [one for one in mine if one[5] == "equal"]
        rounds = sum(one[5] == "rounds" for one in mine)
        both = [one for one in mine if one[5] == "raises" and one[7]]
        bad = [one for one in mine if fails(one[1:])]
        entries, failing = {one[0] for one in mine}, {one[0] for one in bad}
        refusing = {one[0] for one in both} - failing
        share = 100 * (len(mine) - len(bad)) / max(1, len(mine))
        print(
            f"{way:11} samples {len(mine)}: equal {len(equal)}, by rounding {rounds}, refused by both {len(both)}, fail {len(bad)} ({share:.2f} % hold); "
            f"entries {len(entries)}: fail {len(failing)} ({100 - 100 * len(failing) / max(1, len(entries)):.2f} % hold), "
            f"refused by both {len(refusing)}"
        )
    print("died:", [one for one in outcomes if one[1] == "process"])
    for way in options.ways:
        kinds = collections.defaultdict(list)
        for one in outcomes:
            if one[1] == way and fails(one[1:]):
                kinds[one[5], general(one[6])].append(one)
        for (outcome, why), found in sorted(kinds.items(), key=lambda kind: -len(kind[1]))[:options.kinds]:
            names = sorted({one[0] for one in found})
            print(f"  {way:10} {len(found):5} {outcome:8} {why}   {len(names)}: {' '.join(names[:8])}")


def main():
    """Runs the database as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--ops", default="")
    parser.add_argument("--dtypes", default="float32,int64,bool,complex64")
    parser.add_argument("--samples", type=int, default=0, help="at most so many of each entry and dtype")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--kinds", type=int, default=25)
    parser.add_argument("--json", help="a file of outcomes, an entry a line; entries that it has are not run again")
    parser.add_argument("--failed", action="store_true", help="runs entries again that fail in the file")
    parser.add_argument("--report", action="store_true", help="runs nothing: the figures of the file")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    options.ways = options.ways.split(",")
    OPS.extend(carried.database(set(filter(None, options.ops.split(",")))))
    report(run_all(options), options)


OPS = []

if __name__ == "__main__":
    main()
