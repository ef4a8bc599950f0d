"""What recording costs beside PyTorch: time per node, and bytes kept for the backward pass.

    PYTHONPATH=python python3 benches/autograd.py
"""

import statistics
import timeit

from suite import GROUPS, installed


def nodes(modules, rounds=31, calls=20000):
    """Nanoseconds that recording adds to a call on 4 elements, per operator and module."""
    # A leaf gets a node of its own with the first operator on it.
    cases = [("add", "x + b"), ("mul by a number", "x * 2.0"), ("exp", "x.exp()"),
             ("view", "x.view(2, 2)"), ("add, inner node", "y + b"),
             ("exp, inner node", "y.exp()")]
    print(f"\n{'recording one node':32}" + "".join(f"{m.__name__:>12} ns" for m in modules))
    for name, statement in cases:
        timers = []
        for module in modules:
            shared = {"b": module.ones(4)}
            plain = shared | {"x": module.ones(4), "y": module.ones(4)}
            leaf = module.ones(4, requires_grad=True)
            recorded = shared | {"x": leaf, "y": leaf * 1.0}
            timers.append([timeit.Timer(statement, globals=g) for g in (plain, recorded)])
        samples = [[] for _ in modules]
        for _ in range(rounds):
            for pair, taken in zip(timers, samples):
                plain, recorded = (timer.timeit(calls) / calls for timer in pair)
                taken.append((recorded - plain) * 1e9)
        medians = [statistics.median(taken) for taken in samples]
        print(_line(name, medians, "{:15.0f}"))


def saved_bytes(module, shared, preparation):
    """The bytes of the storages that the forward pass of a program keeps, parameters and inputs
    left out."""
    names = {"torch": module}
    module.manual_seed(0)
    exec(shared + "\n" + preparation, names)
    net, x, t = names["net"], names["x"], names["t"]
    ours = {tensor.untyped_storage().data_ptr() for tensor in (x, t, *net.parameters(), *net.buffers())}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ours:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with module.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = names["F"].cross_entropy(net(x), t)
    assert loss.requires_grad
    return sum(kept.values())


def memory(modules):
    """The bytes kept for the backward pass of the training steps of the suite."""
    shared, cases = GROUPS["training step"]
    print(f"\n{'kept for the backward pass':32}" + "".join(f"{m.__name__:>11} KiB" for m in modules))
    for name, _, preparation in cases:
        sizes = [saved_bytes(module, shared, preparation) / 1024 for module in modules]
        print(_line(name.partition(",")[0], sizes, "{:15.1f}"))


def _line(name, values, form):
    line = f"  {name:30}" + "".join(form.format(value) for value in values)
    return line + (f"{values[1] / values[0]:8.2f}x" if len(values) == 2 else "")


if __name__ == "__main__":
    modules = installed()
    for module in modules:
        module.set_num_threads(1)
    nodes(modules)
    memory(modules)
