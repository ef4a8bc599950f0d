"""Passes over exported programs."""

from __future__ import annotations

import corten
from corten.utils._pytree import tree_map

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep, location):
    """Moves a program to another device, in place: its state, and the devices that it names.

    Args:
        ep: The program.
        location: A device, or a dictionary of devices by device.
    """

    def place(device):
        if isinstance(location, dict):
            found = location.get(str(device), location.get(corten.device(device)))
            return device if found is None else found
        return location

    for values in (ep.state_dict, ep.constants):
        for name, value in values.items():
            if isinstance(value, corten.nn.Parameter):
                moved = value.detach().to(place(value.device))
                values[name] = corten.nn.Parameter(moved, value.requires_grad)
            elif isinstance(value, corten.Tensor):
                values[name] = value.to(place(value.device))
    if ep.example_inputs is not None:
        ep._example_inputs = tree_map(
            lambda value: value.to(place(value.device)) if isinstance(value, corten.Tensor) else value,
            ep.example_inputs,
        )
    for module in ep.graph_module.modules():
        if isinstance(module, corten.fx.GraphModule):
            _move(module, place)
    ep.validate()
    return ep


def _move(module, place):
    for node in module.graph.nodes:
        if "device" in node.kwargs and node.kwargs["device"] is not None:
            node.kwargs = {**node.kwargs, "device": corten.device(place(node.kwargs["device"]))}
        node.args = tuple(
            corten.device(place(arg)) if isinstance(arg, corten.device) else arg for arg in node.args
        )
        node.meta["val"] = tree_map(lambda value: _moved(value, place), node.meta.get("val"))
    module.recompile()


def _moved(value, place):
    if not isinstance(value, corten.Tensor):
        return value
    from corten._subclasses.fake_tensor import FakeTensor

    if isinstance(value, FakeTensor):
        return FakeTensor(value.fake_mode, value._elem, corten.device(place(value.device)))
    return value
