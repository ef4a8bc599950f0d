"""Random numbers of distributed tensors.

Every rank draws the numbers of the whole and keeps its part, so that they are those of one process and do not depend
on the placements. For that the generators of the ranks have to agree: before the first draw of a mesh they take the
state of its first rank; :func:`manual_seed` gives them a state of their own."""

from __future__ import annotations

import contextlib
import threading
import weakref

import corten
from corten.distributed.tensor._dtensor_spec import resolved, shard_order

__all__ = ["is_rng_supported_mesh", "manual_seed"]


class _Generators(threading.local):
    """The states of the devices' generators that were seeded here, and the meshes whose ranks agree."""

    def __init__(self):
        self.states = {}
        self.agreed = weakref.WeakSet()


_generators = _Generators()
#: The default generator is one for all threads, while another state is in it.
_exchange = threading.RLock()


def is_rng_supported_mesh(device_mesh):
    """Whether there are generators for the devices of a mesh."""
    return device_mesh.device_type in ("cpu", "cuda")


def manual_seed(seed, device_mesh):
    """Seeds the random numbers of distributed tensors of a mesh's devices. All ranks have to give the same seed."""
    if not is_rng_supported_mesh(device_mesh):
        raise NotImplementedError(f"DTensor randomness only support cpu and cuda device type, but got "
                                  f"{device_mesh.device_type}")
    device = device_mesh.device_type
    with _exchange:
        before = _get(device)
        _seed(device, seed)
        _generators.states[device] = _get(device)
        _set(device, before)
    _generators.agreed.add(device_mesh)


def _get(device):
    return corten.cuda.get_rng_state() if device == "cuda" else corten.get_rng_state()


def _set(device, state):
    (corten.cuda.set_rng_state if device == "cuda" else corten.set_rng_state)(state)


def _seed(device, seed):
    (corten.cuda.manual_seed if device == "cuda" else corten.manual_seed)(seed)


def _agree(mesh):
    """Gives all ranks of a mesh the state of its first one."""
    from corten.distributed.tensor._collective_utils import broadcast_from

    state = _get(mesh.device_type)
    held = state.to(mesh.device_type)
    for i in range(mesh.ndim):
        held = broadcast_from(held, mesh, i)
    _set(mesh.device_type, held.to(state.device))
    _generators.agreed.add(mesh)


@contextlib.contextmanager
def region(mesh):
    """A block whose random numbers are those of distributed tensors of a mesh."""
    device = mesh.device_type
    own = _generators.states.get(device)
    if own is None:
        if mesh not in _generators.agreed:
            _agree(mesh)
        yield
        return
    with _exchange:
        before = _get(device)
        _set(device, own)
        try:
            yield
        finally:
            _generators.states[device] = _get(device)
            _set(device, before)


def own_part(whole, mesh, placements):
    """This rank's part of a tensor that it holds as a whole."""
    sizes, coordinate = tuple(mesh.shape), mesh.get_coordinate()
    for dim in range(whole.ndim):
        for i in shard_order(placements, sizes, dim):
            whole = resolved(placements, sizes, i)._replicate_to_shard(whole, mesh, i, coordinate[i])
    return whole
