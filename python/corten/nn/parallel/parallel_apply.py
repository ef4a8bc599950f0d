"""Modules that run at the same time on several GPUs."""

from __future__ import annotations

import threading

import corten
from corten._utils import ExceptionWrapper
from corten.cuda._utils import _get_device_index

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
    """A tensor of a structure, or ``None``."""
    if isinstance(obj, corten.Tensor):
        return obj
    if isinstance(obj, (list, tuple)):
        return next(filter(lambda found: found is not None, map(get_a_var, obj)), None)
    if isinstance(obj, dict):
        return get_a_var(list(obj.values()))
    return None


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """What each module returns for its own arguments, each in a thread with its GPU current.

    Args:
        modules: The modules.
        inputs: The positional arguments of each.
        kwargs_tup: The named ones.
        devices: The GPU of each; where its arguments are if it is ``None``.
    """
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    named = kwargs_tup if kwargs_tup is not None else ({},) * len(modules)
    devices = [None] * len(modules) if devices is None else [_get_device_index(device, True) for device in devices]
    if len(devices) != len(modules):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of devices {len(devices)}")
    streams = [corten.cuda.current_stream(device) if device is not None else None for device in devices]
    state = (corten.is_grad_enabled(), corten.is_autocast_enabled("cuda"), corten.get_autocast_dtype("cuda"))
    results = [None] * len(modules)

    def run(place):
        try:
            results[place] = _run(modules[place], inputs[place], named[place], devices[place], streams[place], state)
        except Exception:
            results[place] = ExceptionWrapper(where=f"in replica {place} on device {devices[place]}")

    if len(modules) == 1:
        run(0)
    else:
        threads = [threading.Thread(target=run, args=(place,)) for place in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results


def _run(module, given, named, device, stream, state):
    recorded, autocast, dtype = state
    if device is None:
        found = get_a_var(given)
        if found is None:
            found = get_a_var(named)
        if found is None:
            raise ValueError(
                "no device was given, and the arguments have no tensor that tells it. Did you forget to provide "
                "`devices`?")
        device = found.get_device()
    if not isinstance(given, (list, tuple)):
        given = (given,)
    with corten.set_grad_enabled(recorded), corten.cuda.device(device), corten.cuda.stream(stream), \
            corten.autocast("cuda", dtype, enabled=autocast):
        return module(*given, **named)
