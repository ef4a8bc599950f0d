"""The parameters of a module as one of one dimension, of which every process keeps a part.

The whole parameters are slices of one storage, which has no bytes while they are not used; see
Note [Storage of whole parameters]. Those of the flat one are in the order of the module's, without gaps, and zeros at the end make its
length a multiple of the number of processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import corten
import corten.distributed as dist
from corten import nn

from ._common_utils import FSDP_FLATTENED
from ._fully_shard._fsdp_common import FSDPMeshInfo
from ._fully_shard._fsdp_param import ShardedState, set_parameter

__all__ = ["FlatParameter", "FlatParamHandle"]

FLAT_PARAM = "_flat_param"


class _FlatParameterMeta(type(nn.Parameter)):
    def __instancecheck__(cls, instance):
        return isinstance(instance, corten.Tensor) and getattr(instance, "_is_flat_param", False)


class FlatParameter(nn.Parameter, metaclass=_FlatParameterMeta):
    """A process's part of several parameters, ``[elements]``."""

    def __new__(cls, data=None, requires_grad=True):
        made = nn.Parameter(data, requires_grad)
        made._is_flat_param = True
        return made


@dataclass
class ParamPlace:
    """One of the parameters: ``owners`` are the modules that have it with the name there, ``names`` what it is called
    in the dictionary of the module; ``begin`` is where it is in the flat one."""

    owners: list
    names: list
    size: Any
    numel: int
    begin: int
    requires_grad: bool
    attributes: dict = field(default_factory=dict)

    @property
    def fqn(self):
        """The first of its names."""
        return self.names[0]


def places_of(module, params):
    """The places of ``params``, which are parameters of ``module``, one after the other."""
    wanted, found = set(params), {}
    for prefix, inner in module.named_modules(remove_duplicate=False):
        for name, param in inner._parameters.items():
            if param is None or param not in wanted:
                continue
            if param not in found:
                attributes = dict(vars(param))
                found[param] = ParamPlace([], [], param.size(), param.numel(), 0, param.requires_grad, attributes)
            place = found[param]
            place.names.append(f"{prefix}.{name}" if prefix else name)
            if not any(one is inner and other == name for one, other in place.owners):
                place.owners.append((inner, name))
    begin = 0
    for place in found.values():
        place.begin = begin
        begin += place.numel
    return list(found.values()), list(found)


def _check_uniform(params, use_orig_params):
    dtypes = {param.dtype for param in params}
    if len(dtypes) > 1:
        raise ValueError(f"Must flatten tensors with uniform dtype but got {sorted(map(str, dtypes))}")
    if not params[0].dtype.is_floating_point:
        raise ValueError(f"Cannot flatten integer dtype tensors: {params[0].dtype}")
    if not use_orig_params and len({param.requires_grad for param in params}) > 1:
        raise ValueError("Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`")


class FlatParamHandle:
    """A flat parameter. It is to :class:`FSDPParamGroup` what one :class:`FSDPParam` is.

    Args:
        params: The parameters, of one dtype.
        module: The module that they are in.
        mesh_info: Over which processes they are sharded.
        device: Where they are used.
        mixed_precision: In which dtypes.
        offload: Whether the parts are kept on the CPU.
        use_orig_params: Whether the parts are registered under the names of the parameters, instead of one
            ``_flat_param``.
    """

    dim = 0
    _tp_spec = None

    def __init__(self, params, module, mesh_info, device, mixed_precision, offload, use_orig_params):
        _check_uniform(params, use_orig_params)
        self.places, params = places_of(module, params)
        self.module, self.mesh_info, self.device = module, mesh_info, device
        self.offload_to_cpu, self.use_orig_params = offload, use_orig_params
        self.mixed_precision, self.mp_policy = mixed_precision, mixed_precision
        self.orig_dtype = params[0].dtype
        is_sharded = isinstance(mesh_info, FSDPMeshInfo)
        self.world_size = mesh_info.shard_mesh_size if is_sharded else 1
        self.rank = mesh_info.shard_mesh_rank if is_sharded else 0
        self.group = mesh_info.shard_process_group if is_sharded else None
        self.numel = sum(place.numel for place in self.places)
        self.padded_numel = -(-self.numel // self.world_size)
        self._orig_size = corten.Size((self.padded_numel * self.world_size,))
        self._param_fqn, self.keep_unsharded_storage = None, False
        self.sharded_state = ShardedState.SHARDED
        self._storage = self._unsharded = None
        self.unsharded_accumulated_grad = None
        self._init_flat_param(params)

    def _init_flat_param(self, params):
        with corten.no_grad():
            flat = corten.cat([param.detach().reshape(-1) for param in params])
            padding = self._orig_size[0] - self.numel
            if padding:
                flat = corten.cat([flat, flat.new_zeros(padding)])
            part = flat.narrow(0, self.rank * self.padded_numel, self.padded_numel)
            part = part.clone() if self.world_size > 1 else part
            part = part.cpu() if self.offload_to_cpu else part.to(self.device)
        self.flat_param = FlatParameter(part, any(place.requires_grad for place in self.places))
        self.flat_param._fqns = [place.fqn for place in self.places]
        self.flat_param._shapes = [place.size for place in self.places]
        self.flat_param._numels = [place.numel for place in self.places]
        self._pieces = None
        for place in self.places:
            for module, name in place.owners:
                module._parameters.pop(name, None)
        if self.use_orig_params:
            self._make_pieces()
            self._register(self._pieces)
        else:
            self.module.register_parameter(FLAT_PARAM, self.flat_param)
            self._init_unsharded()
            self._free()

    def span(self, place):
        """Where the part of a parameter that is here begins and ends, in this process's part."""
        shift = self.rank * self.padded_numel
        begin = min(max(place.begin - shift, 0), self.padded_numel)
        end = min(max(place.begin + place.numel - shift, 0), self.padded_numel)
        return begin, end

    def _make_pieces(self):
        self._pieces = []
        for place in self.places:
            piece = nn.Parameter(self._piece_of(self.flat_param.detach(), place), place.requires_grad)
            vars(piece).update(place.attributes)
            setattr(piece, FSDP_FLATTENED, True)
            self._pieces.append(piece)

    def _piece_of(self, part, place):
        begin, end = self.span(place)
        piece = part.narrow(0, begin, end - begin)
        return piece.view(place.size) if self.world_size == 1 else piece

    @property
    def pieces(self):
        """The parts of the parameters that are here, or nothing where there is one flat one."""
        return self._pieces

    @property
    def sharded_param(self):
        """The flat parameter, this process's part of it."""
        return self.flat_param

    @property
    def unsharded_param(self):
        """The whole parameters, or nothing."""
        return self._unsharded

    def _register(self, params):
        """Registers parameters under the names that they had."""
        for place, param in zip(self.places, params):
            for module, name in place.owners:
                vars(module).pop(name, None)
                set_parameter(module, name, param)

    def _attach(self, params):
        """Lets modules have tensors that are not registered."""
        for place, param in zip(self.places, params):
            for module, name in place.owners:
                module._parameters.pop(name, None)
                vars(module)[name] = param

    def reset_sharded_param(self):
        """Takes the parameters that the modules have now: they may have been moved or cast."""
        if self.use_orig_params:
            self._take_pieces()
        else:
            found = self.module._parameters[FLAT_PARAM]
            if found is not self.flat_param:
                found._is_flat_param = True
                self.flat_param = found
        if self.flat_param.dtype != self.orig_dtype:
            self.orig_dtype = self.flat_param.dtype
            self._storage = self._unsharded = None

    @corten.no_grad()
    def _take_pieces(self):
        found = [place.owners[0][0]._parameters[place.owners[0][1]] for place in self.places]
        size = self.flat_param.element_size()
        begin = self.flat_param.data_ptr()
        moved = any(
            piece.dtype != self.flat_param.dtype
            or piece.numel() and piece.data_ptr() != begin + size * self.span(place)[0]
            for place, piece in zip(self.places, found)
        )
        self._pieces = found
        if not moved:
            return
        flat = corten.zeros(self.padded_numel, dtype=found[0].dtype, device=found[0].device)
        for place, piece in zip(self.places, found):
            target = self._piece_of(flat, place)
            target.copy_(piece)
            piece.data = target
        self.flat_param.data = flat

    @property
    def gathered_dtype(self):
        """The dtype of the whole parameters."""
        return self.mixed_precision.param_dtype or self.orig_dtype

    def local_part(self):
        """This process's part."""
        return self.flat_param.detach()

    def all_gather_input(self):
        """What is sent to the others: one dimension, in the dtype of use."""
        return self.local_part().to(self.device, self.gathered_dtype)

    def _init_unsharded(self):
        if self._storage is None:
            self._storage = corten.empty(self._orig_size, dtype=self.gathered_dtype, device=self.device)
            self._unsharded = []
            for place in self.places:
                whole = self._storage.narrow(0, place.begin, place.numel).view(place.size)
                whole = nn.Parameter(whole, requires_grad=place.requires_grad)
                vars(whole).update(place.attributes)
                self._unsharded.append(whole)
            if not self.use_orig_params:
                self._attach(self._unsharded)
        elif self._storage.untyped_storage().nbytes() == 0:
            self._storage.untyped_storage().resize_(self._storage.numel() * self._storage.element_size())
        flat = self.flat_param if self._pieces is None else None
        for i, whole in enumerate(self._unsharded):
            whole.requires_grad_((self._pieces[i] if flat is None else flat).requires_grad)

    def fill(self, gathered):
        """Takes the parts of all processes, ``[processes, elements of a part]``."""
        self._init_unsharded()
        # See Note [Storage of whole parameters]: `data` counts writes for itself.
        self._storage.data.view(gathered.size()).copy_(gathered)

    def to_unsharded(self):
        """Registers the whole parameters, where parameters have their names."""
        if self.use_orig_params:
            self._register(self._unsharded)
        self.sharded_state = ShardedState.UNSHARDED

    def to_sharded(self):
        """Registers the parts, and frees the whole parameters."""
        if self.sharded_state == ShardedState.UNSHARDED:
            if self.use_orig_params:
                self._register(self._pieces)
            self._free()
        self.sharded_state = ShardedState.SHARDED

    def _free(self):
        if not self.keep_unsharded_storage:
            self._storage.untyped_storage().resize_(0)

    def take_unsharded_grad(self):
        """The gradients of the whole parameters as one, which they do not keep; nothing if there are none."""
        kept, self.unsharded_accumulated_grad = self.unsharded_accumulated_grad, None
        grads = [whole.grad for whole in self._unsharded or ()]
        if all(grad is None for grad in grads):
            return kept
        if kept is None:
            kept = corten.zeros(self._orig_size, dtype=self.gathered_dtype, device=self.device)
        for place, whole, grad in zip(self.places, self._unsharded, grads):
            if grad is not None:
                kept.narrow(0, place.begin, place.numel).view(place.size).add_(grad)
                whole.grad = None
        return kept

    def keep_unsharded_grad(self):
        """Adds the gradient up without the others, for a reduction that comes later."""
        self.unsharded_accumulated_grad = self.take_unsharded_grad()

    def accumulate_sharded_grad(self, part):
        """Adds this process's part of the gradient to what there is."""
        part = part.view(-1)
        if part.dtype != self.orig_dtype:
            part = part.to(self.orig_dtype)
        elif part.untyped_storage().nbytes() > part.numel() * part.element_size():
            part = part.clone()
        part = part.cpu() if self.offload_to_cpu else part
        if not self.use_orig_params:
            _accumulate(self.flat_param, part)
            return
        for place, piece in zip(self.places, self._pieces):
            if piece.requires_grad and piece.numel():
                _accumulate(piece, self._piece_of(part, place))

    @corten.no_grad()
    def gather(self, part):
        """The parts of all processes, ``[elements]`` each, as one tensor without padding."""
        part = part.to(self.device)
        if self.world_size > 1:
            whole = part.new_empty(self._orig_size)
            dist.all_gather_into_tensor(whole, part.contiguous(), group=self.group)
            part = whole
        return part.narrow(0, 0, self.numel)

    def sharded_grads(self):
        """The gradient of this process's part; nothing if there is none."""
        if not self.use_orig_params:
            return self.flat_param.grad
        grads = [piece.grad for piece in self._pieces]
        flat = corten.zeros_like(self.flat_param)
        for place, grad in zip(self.places, grads):
            if grad is not None:
                self._piece_of(flat, place).copy_(grad)
        return flat


def _accumulate(param, part):
    if param.grad is None:
        param.grad = part
    else:
        param.grad.add_(part)
    for hook in list((getattr(param, "_post_accumulate_grad_hooks", None) or {}).values()):
        hook(param)
