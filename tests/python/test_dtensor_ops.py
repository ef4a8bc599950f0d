"""Every rule of distributed tensors: values and gradients beside those of the same operator on whole tensors."""

from __future__ import annotations

import importlib
import itertools
import unittest

from module_under_test import torch

from dtensor_cases import CASES
from dtensor_world import run_ranks

dt = importlib.import_module(f"{torch.__name__}.distributed.tensor")
importlib.import_module(f"{torch.__name__}.distributed.tensor.experimental")


def inputs_of(case, seed=0):
    """Whole inputs of a case."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(one, dtype=torch.float64, generator=generator) if isinstance(one, tuple) else one.clone()
        for one in case[2]]


def spread(whole, mesh, placements):
    """A distributed tensor of a whole; terms of a sum are different on every rank."""
    plain = [dt.Replicate() if one.is_partial() else one for one in placements]
    made = dt.distribute_tensor(whole, mesh, plain, src_data_rank=None)
    if plain == list(placements):
        return made
    local = made.to_local()
    for i, one in enumerate(placements):
        if one.is_partial():
            rank, ranks = mesh.get_coordinate()[i], mesh.size(i)
            # One times 2 - n and n - 1 times 1 are 1.
            local = local * (2.0 - ranks if rank == 0 else 1.0) if ranks > 1 else local
    return dt.DTensor.from_local(local, mesh, placements, shape=whole.shape, stride=whole.stride())


def choices(whole):
    """Placements along one dimension of a mesh."""
    found = [dt.Replicate()] + [dt.Shard(dim) for dim in range(whole.ndim)]
    return found + [dt.Partial()] if whole.is_floating_point() else found


def all_placements(wholes, ndim, count):
    """About `count` choices of placements of the inputs along each dimension of a mesh."""
    along = list(itertools.product(*map(choices, wholes)))
    if ndim == 1:
        return [[(one,) for one in several] for several in selected(along, count)]
    pairs = selected(list(itertools.product(along, along)), count)
    return [[(a, b) for a, b in zip(*pair)] for pair in pairs]


def selected(several, count):
    """About `count` of many, with a step that no other count divides."""
    step = max(1, len(several) // count)
    return several[:: step + (step > 1 and step % 2 == 0)]


def compared(case, mesh, placements):
    """What differs between the distributed call and the whole one."""
    name, function, _ = case
    wholes = [one.requires_grad_() if one.is_floating_point() else one for one in inputs_of(case)]
    with_places = [spread(one.detach(), mesh, several) for one, several in zip(wholes, placements)]
    leaves = [one.detach().requires_grad_() if one.is_floating_point() else one for one in with_places]
    expected = function(*wholes)
    found = function(*leaves)
    value = found.full_tensor()
    if value.shape != expected.shape or found.shape != expected.shape:
        return f"{name} {placements}: shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    if not torch.allclose(value, expected, rtol=1e-9, atol=1e-10):
        return f"{name} {placements} -> {found.placements}: values"
    weights = torch.linspace(-1, 1, max(expected.numel(), 1), dtype=torch.float64)[:expected.numel()].reshape(
        expected.shape)
    if not expected.requires_grad:
        return None
    (expected * weights).sum().backward()
    (value * weights).sum().backward()
    for i, (whole, leaf) in enumerate(zip(wholes, leaves)):
        if not whole.requires_grad or whole.grad is None:
            continue
        if leaf.grad is None or not torch.allclose(leaf.grad.full_tensor(), whole.grad, rtol=1e-9, atol=1e-10):
            return f"{name} {placements}: gradient {i}"
    return None


def failures(shape, family, count):
    """What differs, over a family of cases with about `count` placements each."""
    torch.manual_seed(0)
    mesh = dt.init_device_mesh("cpu", shape)
    found = []
    with dt.experimental.implicit_replication():
        for case in CASES[family]:
            for placements in all_placements(inputs_of(case), len(shape), count):
                try:
                    wrong = compared(case, mesh, placements)
                except Exception as error:
                    where = error.__traceback__
                    while where.tb_next is not None:
                        where = where.tb_next
                    wrong = (f"{case[0]} {placements}: {type(error).__name__}: {error} "
                             f"({where.tb_frame.f_code.co_filename}:{where.tb_lineno})")
                if wrong:
                    found.append(wrong)
    return found


class Operators(unittest.TestCase):
    """Families of operators on two ranks."""

    def test_two_ranks(self):
        for family in CASES:
            with self.subTest(family):
                for found in run_ranks(2, lambda family=family: failures((2,), family, 8)):
                    self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
