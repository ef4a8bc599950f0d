"""Branches, loops and scans: operators whose arguments are graphs."""

from __future__ import annotations

from corten.onnx._graph import BOOL, INT64, Value


def _kind(target):
    return getattr(target, "__name__", str(target)).rpartition(".")[2]


def find(target):
    """What writes an operator of graphs, or ``None``."""
    return _WRITERS.get(_kind(target))


def _flag(g, value):
    """A truth value without dimensions."""
    if not isinstance(value, Value):
        return g.scalar(bool(value), BOOL)
    if value.shape != ():
        value = g.op("Reshape", value, g.graph.constant([], INT64, (0,)), shape=())
    return g.cast(value, BOOL)


def _own(g, value):
    """A value that a node of the graph within makes, as its outputs must be."""
    made = any(value is output for node in g.graph.nodes for output in node.outputs)
    if not isinstance(value, Value):
        return value
    return value if made else g.op("Identity", value, shape=value.shape)


def _tensors(lowering, values):
    """Operands as values: numbers become constants."""
    g = lowering.g
    found = []
    for value in values:
        if not isinstance(value, Value):
            value = g.scalar(value, BOOL if isinstance(value, bool) else INT64 if isinstance(value, int) else 1)
        elif value.is_size:
            value = g.op("Squeeze", value, g.vector([0]), shape=())
        found.append(value)
    return found


def _branch(lowering, name, module, operands):
    g = lowering.g
    with g.within(name) as graph:
        results = lowering.inline(module, operands)
        graph.outputs = [_own(g, value) for value in _tensors(lowering, results)]
    return graph


def _cond(lowering, node, predicate, true_graph, false_graph, operands=()):
    g = lowering.g
    branches = [_branch(lowering, name, module, operands)
                for name, module in (("then_branch", true_graph), ("else_branch", false_graph))]
    count = len(branches[0].outputs)
    found = g.op("If", _flag(g, predicate), outputs=count, then_branch=branches[0], else_branch=branches[1])
    return _typed(found if count > 1 else (found,), branches[0].outputs)


def _typed(values, examples):
    for value, example in zip(values, examples):
        value.dtype, value.shape = example.dtype, example.shape
    return tuple(values)


def _inputs(graph, examples, name):
    """Inputs of a graph within, one for each example."""
    found = [graph.value(f"{name}_{i}", example.dtype, example.shape) for i, example in enumerate(examples)]
    graph.inputs.extend(found)
    return found


def _while_loop(lowering, node, cond_fn, body_fn, carried, additional=()):
    g = lowering.g
    carried = _tensors(lowering, carried)
    start = _flag(g, lowering.inline(cond_fn, [*carried, *additional])[0])
    with g.within("loop_body") as graph:
        step, going = graph.value("iteration", INT64, ()), graph.value("condition", BOOL, ())
        graph.inputs.extend([step, going])
        states = _inputs(graph, carried, "carried")
        results = _tensors(lowering, lowering.inline(body_fn, [*states, *additional]))
        again = _flag(g, lowering.inline(cond_fn, [*results, *additional])[0])
        graph.outputs = [_own(g, value) for value in (again, *results)]
    found = g.op("Loop", None, start, *carried, outputs=len(carried), body=graph)
    return _typed(found if len(carried) > 1 else (found,), graph.outputs[1:])


def _scanned(lowering, body, states, sequences, additional):
    """Runs a body over the first dimension of sequences: the last states, and the results of all steps."""
    g = lowering.g
    states, sequences = _tensors(lowering, states), _tensors(lowering, sequences)
    with g.within("scan_body") as graph:
        before = _inputs(graph, states, "state")
        slices = [graph.value(f"element_{i}", part.dtype, part.shape[1:]) for i, part in enumerate(sequences)]
        graph.inputs.extend(slices)
        results = _tensors(lowering, lowering.inline(body, [*before, *slices, *additional]))
        graph.outputs = [_own(g, value) for value in results]
    count = len(results)
    found = g.op("Scan", *states, *sequences, outputs=count, body=graph, num_scan_inputs=len(sequences))
    found = found if count > 1 else (found,)
    for i, (value, example) in enumerate(zip(found, graph.outputs)):
        value.dtype = example.dtype
        stacked = i >= len(states)
        value.shape = (sequences[0].shape[0], *example.shape) if stacked and example.shape is not None else example.shape
    return tuple(found)


def _scan(lowering, node, combine_fn, init, xs, additional=()):
    return _scanned(lowering, combine_fn, init, xs, additional)


def _map(lowering, node, body, xs, additional=()):
    return _scanned(lowering, body, [], xs, additional)


def _wrapped(position):
    def write(lowering, node, *arguments, **options):
        return lowering.inline(arguments[position], list(arguments[position + 1 :]))

    return write


_WRITERS = {
    "cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map, "map": _map,
    "wrap_with_set_grad_enabled": _wrapped(1), "wrap_with_autocast": _wrapped(4), "wrap": _wrapped(0),
    "tag_activation_checkpoint": _wrapped(0), "wrap_activation_checkpoint": _wrapped(0), "invoke_subgraph": _wrapped(0),
    "strict_mode": _wrapped(0),
}
