"""Calls of operators with distributed tensors: the placements that the rules choose, the operator on the parts of
this rank, and its results as distributed tensors."""

from __future__ import annotations

import threading

import corten
from corten.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from corten.distributed.tensor._op_schema import operator_name
from corten.distributed.tensor._redistribute import redistribute_local_tensor
from corten.distributed.tensor._sharding_prop import Propagator
from corten.distributed.tensor.placement_types import Replicate
from corten.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["OpDispatcher"]


class _Switches(threading.local):
    implicit_replication = False


def _is_list(value):
    return isinstance(value, (list, tuple))


class OpDispatcher:
    """Runs calls. Operators that are no computation of parts have a function of their own in
    :attr:`_custom_op_handlers`."""

    def __init__(self, tensor_class):
        self._tensor_class = tensor_class
        self.sharding_propagator = Propagator()
        self._switches = _Switches()
        self._custom_op_handlers = {}

    @property
    def _allow_implicit_replication(self):
        return self._switches.implicit_replication

    @_allow_implicit_replication.setter
    def _allow_implicit_replication(self, allowed):
        self._switches.implicit_replication = allowed

    def dispatch(self, func, args, kwargs):
        """The results of a call of an operator."""
        handler = self._custom_op_handlers.get(func)
        if handler is not None:
            return handler(func, args, kwargs)
        return self.dispatch_by_rule(func, args, kwargs)

    def dispatch_by_rule(self, func, args, kwargs):
        """The results of a call of an operator on the parts that its rule chooses."""
        flat, tree = tree_flatten((list(args), kwargs))
        mesh = self._mesh_of(func, flat)
        specs = [self._spec_of(func, one, mesh) for one in flat]
        spec_args, spec_kwargs = tree_unflatten(specs, tree)
        decision, call = self.sharding_propagator.propagate(func, spec_args, spec_kwargs, mesh)
        results = self._run(func, flat, tree, specs, decision, mesh)
        return self._wrapped(results, decision, call, args, kwargs, mesh)

    def _mesh_of(self, func, flat):
        mesh = None
        for one in flat:
            if not isinstance(one, self._tensor_class):
                continue
            if mesh is None:
                mesh = one._spec.mesh
            elif mesh is not one._spec.mesh and mesh != one._spec.mesh:
                raise NotImplementedError(
                    f"{operator_name(func)}: DTensor does not support cross-mesh operation yet! "
                    f"Got meshes: {mesh} {one._spec.mesh}. Please make sure all the arguments have the same "
                    "DeviceMesh.")
        if mesh is None:
            raise RuntimeError(f"found no DeviceMesh from dtensor args for {operator_name(func)}!")
        return mesh

    def _spec_of(self, func, one, mesh):
        if isinstance(one, self._tensor_class):
            return one._spec
        if not isinstance(one, corten.Tensor):
            return one
        if one.numel() == 1 or self._allow_implicit_replication:
            meta = TensorMeta(corten.Size(one.shape), tuple(one.stride()), one.dtype)
            return DTensorSpec(mesh, [Replicate()] * mesh.ndim, meta)
        raise RuntimeError(
            f"{operator_name(func)} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
            "before calling distributed operators!")

    def _run(self, func, flat, tree, specs, decision, mesh):
        """What the operator gives on the parts of this rank; None on ranks outside of the mesh."""
        if mesh.get_coordinate() is None:
            return None
        local, wanted = [], iter(decision.inputs)
        for one, spec in zip(flat, specs):
            if not isinstance(spec, DTensorSpec):
                local.append(one)
                continue
            part = one._local_tensor if isinstance(one, self._tensor_class) else one
            placements = next(wanted)
            if placements != spec.placements:
                part = redistribute_local_tensor(part, spec, spec.replaced(placements))
            local.append(part)
        args, kwargs = tree_unflatten(local, tree)
        if decision.changes:
            names = [one.name for one in func._schema.arguments]
            for name, value in decision.changes.items():
                place = names.index(name)
                value = value(mesh.get_coordinate()) if callable(value) else value
                if place < len(args):
                    args[place] = value
                else:
                    kwargs[name] = value
        if decision.run is not None:
            return decision.run(func, args, kwargs, mesh)
        return func(*args, **kwargs)

    def _wrapped(self, results, decision, call, args, kwargs, mesh):
        if call.written:
            return self._written(call, args, kwargs, results, decision, mesh)
        if not call.func._schema.returns:
            return None
        outputs, metas = iter(decision.outputs), iter(call.results)
        absent = results is None and mesh.get_coordinate() is None

        def wrap(one):
            placements, meta = next(outputs, None), next(metas, None)
            if meta is None or placements is None:
                return one
            if one is None:
                one = corten.empty((0,), dtype=meta.dtype, device=mesh.device_type)
            return self._tensor_class(one, DTensorSpec(mesh, placements, meta), requires_grad=False)

        if absent:
            results = [None] * len(call.results)
            wrapped = [wrap(one) for one in results]
            return wrapped[0] if len(wrapped) == 1 else wrapped
        if not _is_list(results):
            return wrap(results)
        made = [[wrap(each) for each in one] if _is_list(one) else wrap(one) for one in results]
        return made if isinstance(results, list) else tuple(made)

    def _written(self, call, args, kwargs, results, decision, mesh):
        """What was written to, as the results of operators that write."""
        given = dict(zip((one.name for one in call.func._schema.arguments), args)) | kwargs
        written = [given[one.name] for one in call.func._schema.arguments if one.name in call.written
                   and given.get(one.name) is not None]
        if not call.func._schema.returns:
            return None
        aliased = [one.alias_info is not None for one in call.func._schema.returns]
        if not all(aliased):
            raise NotImplementedError(f"{operator_name(call.func)}: results beside what is written to")
        if call.results and call.results[0] is not None and isinstance(written[0], self._tensor_class):
            self._reshaped(written[0], call.results[0], decision)
        return written[0] if len(aliased) == 1 else tuple(written)

    def _reshaped(self, tensor, meta, decision):
        """Gives a tensor that an operator changed in place, such as ``transpose_``, its new shape."""
        spec = tensor._spec
        if meta.shape == spec.shape and meta.stride == spec.stride:
            return
        if meta.shape == spec.shape and decision.outputs[0] == spec.placements and meta.dtype == spec.dtype:
            return
        raise NotImplementedError(
            "DTensor does not change the shape of a tensor in place; use the form of the operator that gives a result")
