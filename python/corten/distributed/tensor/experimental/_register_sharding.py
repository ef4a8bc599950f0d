"""Rules of operators from outside."""

from __future__ import annotations

from corten.distributed.tensor._dtensor_spec import DTensorSpec
from corten.distributed.tensor._op_schema import Candidate
from corten.distributed.tensor._sharding_prop import _RULES

__all__ = ["register_sharding"]


def _key(op):
    namespace, _, name = op.name().partition("::")
    name = name if "." in name else f"{name}.default"
    return name if namespace == "aten" else f"{namespace}::{name}"


def register_sharding(op):
    """A decorator for a rule of one operator or of a list of them. It is called with the arguments of the operator,
    with specs in place of tensors, and gives the choices for one dimension of a mesh: pairs of lists, the placements
    of the results and those of the arguments (None for what is no tensor)."""

    def register(function):
        def candidates(call, mesh_dim):
            found = []
            for outputs, inputs in function(*call.args, **call.kwargs):
                given = [*call.args, *call.kwargs.values()]
                placements = [
                    one for value, one in zip(given, inputs) if isinstance(value, DTensorSpec)]
                found.append(Candidate(list(outputs), placements))
            return found

        for one in op if isinstance(op, (list, tuple)) else [op]:
            _RULES[_key(one)] = candidates
        from corten.distributed.tensor._api import DTensor

        DTensor._op_dispatcher.sharding_propagator._decide.cache_clear()
        return function

    return register
