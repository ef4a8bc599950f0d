"""Styles: how the parameters of a module are split, and what its inputs and outputs are."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod

import corten
from corten import nn
from corten.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from corten.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
           "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel"]


class ParallelStyle(ABC):
    """What :func:`parallelize_module` does to one module."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module, device_mesh):
        """Distributes the module over a mesh, and gives it back."""


def _as_distributed(tensor, mesh, layouts):
    """A tensor of this rank as a distributed one; what is distributed already stays as it is."""
    return tensor if isinstance(tensor, DTensor) else DTensor.from_local(tensor, mesh, layouts, run_check=False)


def _moved(tensor, layouts):
    return tensor if tensor.placements == tuple(layouts) else tensor.redistribute(placements=layouts, async_op=True)


class _SplitWeights(ParallelStyle):
    """Styles of modules with a weight that is split."""

    _kinds = ""

    def __init__(self, input_layouts, output_layouts, use_local_output):
        super().__init__()
        self.input_layouts, self.output_layouts = (input_layouts,), (output_layouts,)
        self.use_local_output = use_local_output

    def _set(self, module, name, mesh, placements):
        one = module._parameters.get(name)
        if one is not None:
            made = distribute_tensor(one, mesh, placements, src_data_rank=self.src_data_rank)
            module.register_parameter(name, nn.Parameter(made, requires_grad=one.requires_grad))

    @staticmethod
    def _prepare_input_fn(input_layouts, desired_input_layouts, module, inputs, mesh):
        first = _as_distributed(inputs[0], mesh, input_layouts)
        return (_moved(first, desired_input_layouts), *inputs[1:])

    @staticmethod
    def _prepare_output_fn(output_layouts, use_local_output, module, outputs, mesh):
        outputs = _moved(outputs, output_layouts)
        return outputs.to_local() if use_local_output else outputs

    def _distributed(self, module, mesh, partition, desired):
        return distribute_module(
            module, mesh, partition,
            functools.partial(self._prepare_input_fn, self.input_layouts, desired),
            functools.partial(self._prepare_output_fn, self.output_layouts, self.use_local_output))


class ColwiseParallel(_SplitWeights):
    """Splits what a `Linear` or an `Embedding` gives: the rows of a linear weight and its bias, the columns of a
    table. The input is replicated, the output in parts along its last dimension, unless layouts say otherwise; with
    ``use_local_output`` the module gives the part of this rank."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)
        self.desired_input_layouts = (Replicate(),)

    @staticmethod
    def _prepare_output_fn(output_layouts, use_local_output, module, outputs, mesh):
        ends = tuple(
            Shard(one.dim + outputs.ndim) if isinstance(one, Shard) and one.dim < 0 else one
            for one in output_layouts)
        return _SplitWeights._prepare_output_fn(ends, use_local_output, module, outputs, mesh)

    def _partition_linear_fn(self, name, module, device_mesh):
        for one in list(module._parameters):
            self._set(module, one, device_mesh, [Shard(0)])

    def _partition_embedding_fn(self, name, module, device_mesh):
        for one in list(module._parameters):
            self._set(module, one, device_mesh, [Shard(1)])

    def _apply(self, module, device_mesh):
        if isinstance(module, nn.Linear):
            partition = self._partition_linear_fn
        elif isinstance(module, nn.Embedding):
            partition = self._partition_embedding_fn
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")
        return self._distributed(module, device_mesh, partition, self.desired_input_layouts)


class RowwiseParallel(_SplitWeights):
    """Splits what a `Linear` or an `Embedding` sees: the columns of a linear weight, the rows of a table. The input is
    in parts along its last dimension (replicated for an `Embedding`), the output replicated, unless layouts say
    otherwise."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    @staticmethod
    def _prepare_input_fn(input_layouts, desired_input_layouts, module, inputs, mesh):
        def counted(layouts):
            ndim = inputs[0].ndim
            return tuple(
                Shard(one.dim + ndim) if isinstance(one, Shard) and one.dim < 0 else one for one in layouts)

        return _SplitWeights._prepare_input_fn(
            counted(input_layouts), counted(desired_input_layouts), module, inputs, mesh)

    def _partition_linear_fn(self, name, module, device_mesh):
        self._set(module, "weight", device_mesh, [Shard(1)])
        self._set(module, "bias", device_mesh, [Replicate()])

    def _partition_embedding_fn(self, name, module, device_mesh):
        for one in list(module._parameters):
            self._set(module, one, device_mesh, [Shard(0)])

    def _apply(self, module, device_mesh):
        if isinstance(module, nn.Linear):
            partition, self.desired_input_layouts = self._partition_linear_fn, (Shard(-1),)
        elif isinstance(module, nn.Embedding):
            partition, self.desired_input_layouts = self._partition_embedding_fn, (Replicate(),)
        else:
            raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")
        return self._distributed(module, device_mesh, partition, self.desired_input_layouts)


class SequenceParallel(ParallelStyle):
    """Runs a module, such as a `LayerNorm`, a `Dropout` or an `RMSNorm`, on parts along ``sequence_dim`` with
    replicated parameters. A plain input is taken for the part of this rank."""

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        super().__init__()
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _replicate_module_fn(self, name, module, device_mesh):
        for one, parameter in list(module._parameters.items()):
            if parameter is not None:
                made = DTensor.from_local(parameter.detach(), device_mesh, [Replicate()], run_check=False)
                module.register_parameter(one, nn.Parameter(made, requires_grad=parameter.requires_grad))

    @staticmethod
    def _prepare_input_fn(sequence_sharding, module, inputs, mesh):
        first = inputs[0]
        if isinstance(first, DTensor):
            return (_moved(first, sequence_sharding), *inputs[1:])
        if isinstance(first, corten.Tensor):
            return (DTensor.from_local(first, mesh, sequence_sharding, run_check=False), *inputs[1:])
        raise ValueError(f"expecting input of {module} to be a torch.Tensor or DTensor, but got {first}")

    @staticmethod
    def _prepare_output_fn(use_local_output, module, outputs, mesh):
        return outputs.to_local() if use_local_output else outputs

    def _apply(self, module, device_mesh):
        return distribute_module(
            module, device_mesh, self._replicate_module_fn,
            functools.partial(self._prepare_input_fn, self.sequence_sharding),
            functools.partial(self._prepare_output_fn, self.use_local_output))


def _several(layouts):
    return (layouts,) if isinstance(layouts, Placement) else layouts


def _normal(one, ndim):
    return Shard(one.dim + ndim) if isinstance(one, Shard) and one.dim < 0 else one


class PrepareModuleInput(ParallelStyle):
    """Makes the inputs of a module distributed tensors with ``input_layouts`` and redistributes them to
    ``desired_input_layouts``, by place, or by name with the layouts of keywords; None leaves an input as it is. With
    ``use_local_output`` the module sees the parts of this rank."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_output=False):
        super().__init__()
        self.input_layouts = _several(input_layouts)
        self.desired_input_layouts = _several(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _prepare_input_arg(self, input, mesh, input_layout, desired_layout):  # noqa: A002
        if input_layout is None or not isinstance(input, corten.Tensor):
            return input
        made = _as_distributed(input, mesh, (_normal(input_layout, input.ndim),))
        if desired_layout is not None:
            made = _moved(made, (_normal(desired_layout, input.ndim),))
        return made.to_local() if self.use_local_output else made

    def _prepare_input_fn(self, inputs, device_mesh):
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        return tuple(
            self._prepare_input_arg(one, device_mesh, layout, desired)
            for one, layout, desired in zip(inputs, self.input_layouts, self.desired_input_layouts))

    def _prepare_input_kwarg_fn(self, inputs, kwarg_inputs, device_mesh):
        named = dict(kwarg_inputs)
        for name, layout in self.input_kwarg_layouts.items():
            if name in named:
                named[name] = self._prepare_input_arg(
                    named[name], device_mesh, layout, self.desired_input_kwarg_layouts.get(name))
        return self._prepare_input_fn(inputs, device_mesh), named

    def _apply(self, module, device_mesh):
        if self.with_kwargs:
            module.register_forward_pre_hook(
                lambda module, inputs, named: self._prepare_input_kwarg_fn(inputs, named, device_mesh),
                with_kwargs=True)
        else:
            module.register_forward_pre_hook(lambda module, inputs: self._prepare_input_fn(inputs, device_mesh))
        return module


class PrepareModuleOutput(ParallelStyle):
    """Makes the outputs of a module distributed tensors with ``output_layouts`` and redistributes them to
    ``desired_output_layouts``; None leaves an output as it is. With ``use_local_output`` the module gives the parts
    of this rank."""

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        super().__init__()
        self.output_layouts = _several(output_layouts)
        self.desired_output_layouts = _several(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _prepare_out_fn(self, outputs, device_mesh):
        single = not isinstance(outputs, tuple)
        several = (outputs,) if single else outputs
        if len(several) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        made = []
        for one, layout, desired in zip(several, self.output_layouts, self.desired_output_layouts):
            if layout is not None:
                one = _as_distributed(one, device_mesh, (_normal(layout, one.ndim),))
                one = _moved(one, (_normal(desired, one.ndim),))
                one = one.to_local() if self.use_local_output else one
            made.append(one)
        return made[0] if single else tuple(made)

    def _apply(self, module, device_mesh):
        module.register_forward_hook(lambda module, inputs, outputs: self._prepare_out_fn(outputs, device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """:class:`PrepareModuleInput` and :class:`PrepareModuleOutput` in one."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None,
                 desired_input_kwarg_layouts=None, use_local_input=False, output_layouts, desired_output_layouts,
                 use_local_output=True):
        super().__init__()
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input)
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output)

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        self.prepare_module_output._apply(module, device_mesh)
        return module
