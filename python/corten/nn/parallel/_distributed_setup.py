"""What a module over several processes finds out about its arguments."""

from __future__ import annotations

import logging
import os
import warnings

import corten
import corten.distributed as dist

from ._distributed_parts import _BucketCapacityConfig

logger = logging.getLogger("corten.nn.parallel.distributed")


class _SetUp:
    """The part of a module that chooses its group, parameters, devices and buckets."""

    def _choose_group(self, process_group, device_mesh):
        if process_group and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is None:
            self.process_group = (
                dist.distributed_c10d._get_default_group() if process_group is None else process_group
            )
            return
        if device_mesh.ndim != 1:
            raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
        self.device_mesh = device_mesh
        self.process_group = device_mesh.get_group(mesh_dim=0)

    def _choose_parameters(self, module, delayed):
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._delay_all_reduce_params = [param for _, param in delayed]
        self.parameters_to_ignore.update(name for name, _ in delayed)
        self._module_parameters = [
            param for name, param in module.named_parameters() if name not in self.parameters_to_ignore
        ]
        if any(param.requires_grad for param in self._module_parameters):
            return
        if self._delay_all_reduce_params:
            logger.info("Delay the AllReduce of all parameters.")
            return
        self._log_and_throw(
            RuntimeError,
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
            "gradient.",
        )

    def _choose_devices(self, device_ids, output_device):
        if device_ids is not None and len(device_ids) > 1:
            self._log_and_throw(
                ValueError, "device_ids can only be None or contain a single element."
            )
        devices = {param.device for param in self._module_parameters or self._delay_all_reduce_params}
        types = {device.type for device in devices}
        self.is_multi_device_module = len(devices) > 1
        if len(types) != 1:
            self._log_and_throw(
                ValueError,
                "DistributedDataParallel's input module must be on the same type of devices, but input module "
                f"parameters locate in {types}.",
            )
        self.device_type = next(iter(types))
        if not device_ids or self.device_type == "cpu" or self.is_multi_device_module:
            if device_ids or output_device:
                self._log_and_throw(
                    ValueError,
                    "DistributedDataParallel device_ids and output_device arguments only work with "
                    "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                    f"{device_ids}, output_device {output_device}, and module parameters {devices}.",
                )
            self.device_ids = None
            self.output_device = None
            return
        from corten._utils import _get_device_index

        self.device_ids = [_get_device_index(device, True) for device in device_ids]
        self.output_device = _get_device_index(
            device_ids[0] if output_device is None else output_device, True
        )

    def _choose_buffers(self, broadcast_buffers, forward_sync_buffers):
        """Whether buffers are made equal at the start; also notes whether they are before forward passes."""
        if broadcast_buffers is not None:
            if forward_sync_buffers is not None:
                text = (
                    "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is "
                    "deprecated and its value is ignored when `forward_sync_buffers` is provided."
                )
            else:
                text = (
                    "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. IMPORTANT: unlike "
                    "`broadcast_buffers=False`, `forward_sync_buffers=False` still syncs buffers at init. If you "
                    "rely on buffers NOT being synced at init (e.g. rank-local buffers), keep using "
                    "`broadcast_buffers=False` until `init_sync_buffers` is available."
                )
            warnings.warn(text, FutureWarning, stacklevel=4)
        if forward_sync_buffers is not None:
            self.forward_sync_buffers = forward_sync_buffers
            return True
        self.forward_sync_buffers = True if broadcast_buffers is None else broadcast_buffers
        return self.forward_sync_buffers

    def _set_capacities(self, bucket_cap_mb, bucket_cap_mb_list):
        config = _BucketCapacityConfig.create(bucket_cap_mb, bucket_cap_mb_list, False)
        self._bucket_config = config
        self.bucket_bytes_cap = config.bucket_bytes_cap
        self.bucket_bytes_cap_list = list(config.per_bucket_bytes_caps)
        self.bucket_bytes_cap_default = config.first_bucket_bytes_cap < config.bucket_bytes_cap
        self.use_side_stream_for_tensor_copies = os.environ.get("PYTORCH_DDP_USE_SIDE_STREAM", "1") == "1"

    def _check_default_group(self):
        try:
            is_default = self.process_group == dist.distributed_c10d._get_default_group()
        except (RuntimeError, ValueError):
            is_default = False
        if not is_default:
            self._log_and_throw(
                RuntimeError,
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That "
                "is, when you have called init_process_group and have not passed process_group argument to DDP "
                "constructor",
            )

    def _build_params_for_reducer(self):
        """Each parameter that needs a gradient, once, and whether the gradient is sparse."""
        parameters, sparse, seen = [], [], set()
        for module_name, module in self.module.named_modules():
            is_sparse = isinstance(module, (corten.nn.Embedding, corten.nn.EmbeddingBag)) and module.sparse
            for name, param in module.named_parameters(recurse=False):
                full_name = f"{module_name}.{name}"
                ignored = full_name in self.parameters_to_ignore or (
                    not module_name and name in self.parameters_to_ignore
                )
                if param.requires_grad and not ignored and param not in seen:
                    seen.add(param)
                    parameters.append(param)
                    sparse.append(is_sparse)
        self._assign_modules_buffers()
        return parameters, sparse

    def _assign_modules_buffers(self):
        self.named_module_buffers = {
            name: buffer for name, buffer in self.module.named_buffers()
            if name not in self.parameters_to_ignore
        }
        self.modules_buffers = list(self.named_module_buffers.values())

    def _build_debug_param_to_name_mapping(self, parameters):
        places = {param: place for place, param in enumerate(parameters)}
        names = {}
        for module_name, module in self.module.named_modules():
            for name, param in module.named_parameters(recurse=False):
                if param in places:
                    names[places[param]] = f"{module_name}.{name}"
        return names

    def _get_parameters(self, m, recurse=True):
        for module in m.modules() if recurse else [m]:
            former = getattr(module, "_former_parameters", None)
            yield from module.parameters(recurse=False) if former is None else former.values()
