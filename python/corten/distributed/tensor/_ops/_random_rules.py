"""Operators that draw random numbers: those of the whole, of which each rank keeps its part."""

from __future__ import annotations

import corten
from corten.distributed.tensor._op_schema import Candidate, Decision
from corten.distributed.tensor._random import own_part, region
from corten.distributed.tensor._sharding_prop import choose, whole_rule
from corten.distributed.tensor.placement_types import Partial, Replicate, _Parts

__all__ = []


def _kept(call, mesh_dim):
    one = call.specs[0].placements[mesh_dim]
    if isinstance(one, Partial):
        return [Candidate([Replicate()] * len(call.results), [Replicate()] * len(call.specs))]
    return [Candidate([one] * len(call.results), [one] * len(call.specs))]


@whole_rule("normal_", "uniform_", "random_", "exponential_", "log_normal_", "geometric_", "cauchy_",
            "bernoulli_.float", "rand_like", "randn_like", "randint_like", "bernoulli.p")
def filled(call):
    """Random numbers that do not depend on elements."""
    decision = choose(call, _kept)
    shape, writes = tuple(call.specs[0].shape), bool(call.written)
    placements = decision.inputs[0]

    def run(func, args, kwargs, mesh):
        with region(mesh):
            if not any(isinstance(one, _Parts) for one in placements):
                return func(*args, **kwargs)
            whole = corten.empty(shape, dtype=args[0].dtype, device=args[0].device)
            found = own_part(func(whole, *args[1:], **kwargs), mesh, placements)
        return args[0].copy_(found) if writes else found

    decision.run = run
    return decision


@whole_rule("native_dropout", "_fused_dropout")
def dropout(call):
    """Elements set to zero at random."""
    decision = choose(call, _kept)
    shape, placements = tuple(call.specs[0].shape), decision.inputs[0]

    def run(func, args, kwargs, mesh):
        with region(mesh):
            if not any(isinstance(one, _Parts) for one in placements):
                return func(*args, **kwargs)
            ones = corten.ones(shape, dtype=args[0].dtype, device=args[0].device)
            factors, mask = func(ones, *args[1:], **kwargs)
        return args[0] * own_part(factors, mesh, placements), own_part(mask, mesh, placements)

    decision.run = run
    return decision


@whole_rule("multinomial", "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "poisson",
            "bernoulli.default", "bernoulli_.Tensor", "rrelu_with_noise", "binomial", "_standard_gamma",
            "_sample_dirichlet")
def drawn(call):
    """Random numbers that depend on elements: every rank draws for the whole."""
    decision = choose(call, lambda call, mesh_dim: [call.replicated()])

    def run(func, args, kwargs, mesh):
        with region(mesh):
            return func(*args, **kwargs)

    return Decision(decision.outputs, decision.inputs, run=run)
