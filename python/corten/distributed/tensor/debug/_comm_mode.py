"""Counting collectives."""

from __future__ import annotations

import json
from collections import defaultdict

import corten
from corten.distributed.tensor._api import DTensor
from corten.utils._python_dispatch import TorchDispatchMode

__all__ = ["CommDebugMode"]

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d", "c10d_functional")

#: Operators of these namespaces that move nothing themselves.
_NO_COLLECTIVES = ("wait_tensor", "_allgather_base_coalesced_", "_wrap_tensor_autograd", "barrier", "monitored_barrier_")

#: The functional operator that a collective of a process group is counted as.
_AS = {
    "_allgather_base_": "all_gather_into_tensor", "_reduce_scatter_base_": "reduce_scatter_tensor",
    "allgather_": "all_gather_into_tensor", "allreduce_": "all_reduce", "alltoall_": "all_to_all_single",
    "alltoall_base_": "all_to_all_single", "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "allreduce_coalesced_": "all_reduce_coalesced", "reduce_scatter_tensor_coalesced_":
    "reduce_scatter_tensor_coalesced", "reduce_scatter_": "reduce_scatter_tensor",
    "broadcast_": "broadcast",
}


class CommDebugMode(TorchDispatchMode):
    """A ``with`` block in which collectives are counted, by operator and by module.

    Collectives of distributed tensors are those of ``torch.ops._c10d_functional``."""

    def __init__(self):
        super().__init__()
        self._clear()
        self._handles = []

    def _clear(self):
        self.comm_counts = defaultdict(int)
        self.comm_registry = set()
        self._modules, self._backward = [], []
        #: Counts by name of the module, in the order of first use.
        self._by_module: dict = {}
        self._parameters, self._shardings = {}, {}
        self._names = {}

    def get_comm_counts(self):
        """How often each collective ran, by operator."""
        return dict(self.comm_counts) if not self.comm_counts else self.comm_counts

    def get_total_counts(self):
        """How many collectives ran."""
        return sum(self.comm_counts.values())

    def get_parameter_info(self):
        """The parameters of each module that ran, by its name."""
        return self._parameters

    def get_sharding_info(self):
        """The placements of the distributed parameters of the modules that ran, by name."""
        return self._shardings

    def __enter__(self):
        self._clear()
        self._handles = [
            corten.nn.modules.module.register_module_forward_pre_hook(self._enter_module),
            corten.nn.modules.module.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *exception):
        for handle in self._handles:
            handle.remove()
        self._handles = []
        return super().__exit__(*exception)

    def _enter_module(self, module, inputs):
        if not self._modules:
            self._names = {id(one): f"{type(module).__name__}.{name}" if name else type(module).__name__
                           for name, one in module.named_modules()}
        name = self._names.get(id(module), type(module).__name__)
        self._modules.append(name)
        self._by_module.setdefault(name, defaultdict(int))
        self._parameters[name] = {key: one.data for key, one in module.named_parameters(recurse=False)}
        for key, one in module.named_parameters(recurse=False):
            if isinstance(one.data, DTensor):
                self._shardings[f"{name}.{key}"] = one.data.placements

    def _leave_module(self, module, inputs, outputs):
        if self._modules:
            self._modules.pop()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(one, DTensor) for one in types):
            return NotImplemented
        if func.namespace in _NAMESPACES:
            self._count(func.overloadpacket)
        return func(*args, **(kwargs or {}))

    def _count(self, packet):
        name = str(packet).rpartition(".")[2]
        if name in _NO_COLLECTIVES:
            return
        functional = _AS.get(name)
        if functional is not None:
            packet = getattr(corten.ops._c10d_functional, functional)
        self.comm_counts[packet] += 1
        for module in self._modules:
            self._by_module[module][packet] += 1

    def generate_comm_debug_tracing_table(self, noise_level=3):
        """The collectives of each module as text; with a `noise_level` of 1 or more the parameters, too."""
        lines = ["Global", *self._counted(self.comm_counts, 1)]
        for name, counts in self._by_module.items():
            depth = name.count(".") + 1
            lines.append("  " * depth + name)
            lines += self._counted(counts, depth + 1)
            if noise_level < 1:
                continue
            for key in self._parameters.get(name, {}):
                placed = self._shardings.get(f"{name}.{key}")
                lines.append("  " * (depth + 1) + f"{key}: {placed if placed is not None else 'not distributed'}")
        return "\n".join(lines) + "\n"

    @staticmethod
    def _counted(counts, depth):
        return ["  " * depth + f"*{packet}: {count}" for packet, count in counts.items()]

    def generate_json_dump(self, file_name="comm_mode_log.json", noise_level=3):
        """Writes what :meth:`generate_comm_debug_tracing_table` shows to a file."""
        with open(file_name, "w", encoding="utf-8") as file:
            json.dump({
                "Global": {str(packet): count for packet, count in self.comm_counts.items()},
                **{name: {str(packet): count for packet, count in counts.items()}
                   for name, counts in self._by_module.items()},
            }, file, indent=4)

    def log_comm_debug_tracing_table_to_file(self, file_name="comm_mode_log.txt", noise_level=3):
        """Writes the text of :meth:`generate_comm_debug_tracing_table` to a file."""
        with open(file_name, "w", encoding="utf-8") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level))
