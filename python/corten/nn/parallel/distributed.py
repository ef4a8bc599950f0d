"""Copies of a module in several processes, which see different inputs and stay equal."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
import weakref
from contextlib import contextmanager

import corten
import corten.distributed as dist
from corten._C import _distributed_c10d as native
from corten.autograd.profiler import record_function
from corten.distributed.algorithms.join import Join, Joinable
from corten.distributed.utils import _sync_module_states, _to_kwargs, _verify_param_shape_across_processes
from corten.nn.modules.module import Module
from corten.utils._pytree import tree_flatten, tree_unflatten

from ._distributed_join import _Synchronized
from ._distributed_parts import (  # noqa: F401
    _BufferCommHook, _BufferCommHookLocation, _DDPJoinHook, _DDPSink, _find_tensors, _MixedPrecision,
)
from ._distributed_precision import LowPrecision
from ._distributed_setup import _SetUp
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DistributedDataParallel"]

logger = logging.getLogger(__name__)


def _run_comm_hook(module, bucket):
    """Calls the hook of a module, of which it gets a weak reference."""
    module = module()
    if module is None:
        raise RuntimeError(
            "DistributedDataParallel: the module was dropped before the backward pass that its communication hook is "
            "part of"
        )
    hook, state = module._comm_hooks[0]
    return hook(state, bucket)


class DistributedDataParallel(_SetUp, _Synchronized, Module, Joinable):
    """Averages the gradients of a module over processes while the backward pass runs.

    Every process has the module and its own part of the inputs. Parameters and buffers become those of rank 0;
    gradients are collected in buckets, each of which is averaged as soon as it is full, so that communication and
    computation overlap. The average is over processes: losses that are means over equally many samples give the
    gradients of one process with all of them.

    Args:
        module: The module. It keeps its parameters; they must not be replaced afterwards.
        device_ids: The GPU of a module on one GPU, to which inputs are moved. None for all others.
        output_device: Ignored unless there is a GPU in ``device_ids``.
        dim: The dimension along which :meth:`scatter` splits.
        broadcast_buffers: Deprecated; ``forward_sync_buffers``, also for the start.
        init_sync: Compares shapes and makes parameters and buffers equal at the start.
        process_group: The processes; None for all.
        bucket_cap_mb: From how many MiB on a bucket is sent: 25, the first one 1.
        find_unused_parameters: Searches the graph of each pass for parameters that it does not reach.
        gradient_as_bucket_view: ``.grad`` is a view of the bucket, which saves memory and a copy.
        static_graph: Every pass reaches the same parameters equally often; they may be reached several times.
        delay_all_reduce_named_params: Parameters, with names, whose gradients are averaged together...
        param_to_hook_all_reduce: ...when the gradient of this parameter is there.
        mixed_precision: The dtypes in which the module computes, gradients are averaged, and buffers are.
        device_mesh: A mesh of one dimension in place of ``process_group``.
        skip_all_reduce_unused_params: Buckets that a pass does not reach are not sent. All processes must agree.
        bucket_cap_mb_list: Sizes bucket by bucket.
        batched_grad_copy: Accepted; copies into buckets are short calls without Python.
        forward_sync_buffers: Makes buffers those of rank 0 before each forward pass (None: yes).
        lazy_bucket_allocation: Buckets have memory only during backward passes.

    Raises:
        ValueError: The processes are not joined, or arguments do not go together.
        RuntimeError: No parameter needs a gradient, or the processes' parameters differ.
    """

    _active_ddp_module = None
    _low_precision = None

    def __init__(
        self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None, init_sync=True,
        process_group=None, bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False,
        gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None,
        param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None,
        skip_all_reduce_unused_params=False, bucket_cap_mb_list=None, batched_grad_copy=False,
        forward_sync_buffers=None, lazy_bucket_allocation=False,
    ):
        super().__init__()
        Joinable.__init__(self)
        self.logger = None
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            self._log_and_throw(
                ValueError,
                "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time.",
            )
        self._choose_group(process_group, device_mesh)
        self._choose_parameters(module, delay_all_reduce_named_params or ())
        self._choose_devices(device_ids, output_device)
        self.static_graph = False
        self.dim = dim
        self.module = module
        self.device = self._module_parameters[0].device if self._module_parameters \
            else self._delay_all_reduce_params[0].device
        init_sync_buffers = self._choose_buffers(broadcast_buffers, forward_sync_buffers)
        self.find_unused_parameters = find_unused_parameters
        self._require_manual_backward_finalization = False
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.batched_grad_copy = batched_grad_copy
        self.lazy_bucket_allocation = lazy_bucket_allocation
        self.mixed_precision = mixed_precision
        self.skip_all_reduce_unused_params = skip_all_reduce_unused_params
        if check_reduction:
            warnings.warn(
                "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid "
                "using it.",
                FutureWarning,
                stacklevel=2,
            )
        if any(isinstance(p, corten.nn.parameter.UninitializedParameter) for p in self._module_parameters):
            self._log_and_throw(
                RuntimeError,
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy "
                "forward pass to correctly initialize the modules",
            )
        self.broadcast_bucket_size = 250 * 1024 * 1024
        self._set_capacities(bucket_cap_mb, bucket_cap_mb_list)
        self._delay_grad_buffer = None
        self._delay_grad_views = []
        self._delay_all_reduce_all_params = False
        self._comm_hooks = []
        self._has_rebuilt_buckets = False
        self._lazy_init_ran = False
        self._ddp_sink_clone = True
        self._accum_grad_hooks = []
        if self._delay_all_reduce_params:
            self._register_delay_all_reduce_hook(
                bucket_cap_mb=self._bucket_config.bucket_cap_mb,
                param_to_hook_all_reduce=param_to_hook_all_reduce,
                device_ids=device_ids,
            )
            if self._delay_all_reduce_all_params:
                return
        self._connect(init_sync, init_sync_buffers, static_graph)
        if mixed_precision is not None:
            self._low_precision = LowPrecision(module, mixed_precision, self.parameters_to_ignore)
            self.register_comm_hook(self.process_group, self._low_precision.reduce)

    def _connect(self, init_sync, init_sync_buffers, static_graph):
        """Makes the processes' modules equal and hooks the reducer in."""
        parameters, expect_sparse_gradient = self._build_params_for_reducer()
        if init_sync:
            _verify_param_shape_across_processes(self.process_group, parameters)
            _sync_module_states(
                module=self.module,
                process_group=self.process_group,
                broadcast_bucket_size=self.broadcast_bucket_size,
                src=0,
                params_and_buffers_to_ignore=self.parameters_to_ignore,
                broadcast_buffers=init_sync_buffers,
            )
        names = self._build_debug_param_to_name_mapping(parameters)
        self._ddp_init_helper(parameters, expect_sparse_gradient, names, static_graph)
        if static_graph:
            self._set_static_graph()

    @property
    def broadcast_buffers(self):
        """The older name of ``forward_sync_buffers``."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value):
        self.forward_sync_buffers = value

    def _log_and_throw(self, err_type, err_msg):
        if self.logger is not None:
            self.logger.set_error_and_log(f"{err_type!s}: {err_msg}")
        raise err_type(err_msg)

    def _ddp_init_helper(self, parameters, expect_sparse_gradient, param_to_name_mapping, static_graph):
        limits, rebuilt_limits = self._bucket_config.compute_bucket_size_limits(
            static_graph=static_graph, find_unused_parameters=self.find_unused_parameters
        )
        indices, per_bucket_limits = native._compute_bucket_assignment_by_size(
            parameters, limits, expect_sparse_gradient
        )
        # Gradients come in about the opposite order of registration.
        self.reducer = native.Reducer(
            parameters, indices[::-1], per_bucket_limits[::-1], self.process_group, expect_sparse_gradient,
            self.bucket_bytes_cap, self.find_unused_parameters, self.gradient_as_bucket_view,
            param_to_name_mapping, self._bucket_config.first_bucket_bytes_cap,
            self.skip_all_reduce_unused_params, False, rebuilt_limits, self.batched_grad_copy,
            self.lazy_bucket_allocation,
        )
        self.logger = native.Logger(self.reducer)
        self.reducer.set_logger(self.logger)
        has_sync_bn = any(isinstance(child, corten.nn.SyncBatchNorm) for child in self.module.modules())
        self.logger.set_construction_data_and_log(
            type(self.module).__name__, [] if self.device_ids is None else self.device_ids,
            -1 if self.output_device is None else self.output_device, self.forward_sync_buffers, has_sync_bn,
            static_graph,
        )
        if has_sync_bn and self.device_type == "cpu":
            self._log_and_throw(ValueError, "SyncBatchNorm layers only work with GPU modules")

    def __getstate__(self):
        self._check_default_group()
        attrs = copy.copy(self.__dict__)
        for name in ("process_group", "reducer", "logger"):
            del attrs[name]
        attrs["broadcast_buffers"] = self.forward_sync_buffers
        return attrs

    def __setstate__(self, state):
        self.process_group = dist.distributed_c10d._get_default_group()
        super().__setstate__(state)
        own = self.__dict__
        own.setdefault("require_forward_param_sync", True)
        own.setdefault("require_backward_grad_sync", True)
        own.setdefault("_require_manual_backward_finalization", False)
        own.setdefault("batched_grad_copy", False)
        own.setdefault("lazy_bucket_allocation", False)
        own.setdefault("forward_sync_buffers", own.pop("broadcast_buffers", True))
        parameters, expect_sparse_gradient = self._build_params_for_reducer()
        names = self._build_debug_param_to_name_mapping(parameters)
        self._ddp_init_helper(parameters, expect_sparse_gradient, names, self.static_graph)
        if self._require_manual_backward_finalization:
            self.require_manual_backward_finalization = True
        if self.static_graph:
            # A reducer that was made anew learns the graph anew.
            self._static_graph_delay_allreduce_enqueued = False
            self.reducer._set_static_graph()
            self.logger._set_static_graph()

    @contextmanager
    def no_sync(self):
        """A context whose passes, forward and backward, add gradients up without averaging; the first backward
        pass after it averages the sums."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @classmethod
    def _get_active_ddp_module(cls):
        return cls._active_ddp_module

    @contextmanager
    def _inside_ddp_forward(self):
        before = DistributedDataParallel._active_ddp_module
        DistributedDataParallel._active_ddp_module = self
        try:
            yield
        finally:
            DistributedDataParallel._active_ddp_module = before

    def _run_ddp_forward(self, *inputs, **kwargs):
        with self._inside_ddp_forward():
            if self._low_precision is None:
                return self.module(*inputs, **kwargs)
            inputs, kwargs = self._low_precision.inputs(inputs, kwargs)
            with self._low_precision.replaced():
                return self.module(*inputs, **kwargs)

    def _setup_in_backward_optimizers(self):
        """Optimizers of single parameters step when their bucket has been averaged, not when their gradient is
        there."""
        if not any(hasattr(param, "_in_backward_optimizers") for param in self._module_parameters):
            return
        from corten.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks import (
            _apply_optim_in_backward_hook,
        )
        from corten.distributed.optim.apply_optimizer_in_backward import param_to_optim_hook_handle_map

        for param in self._module_parameters:
            for handle in param_to_optim_hook_handle_map.get(param, []):
                handle.remove()
        self.register_comm_hook(
            weakref.ref(self),
            _apply_optim_in_backward_hook(gradient_is_bucket_view=self.gradient_as_bucket_view),
        )
        self.reducer._set_optimizer_in_backward()

    def _lazy_init(self):
        self._setup_in_backward_optimizers()
        self._lazy_init_ran = True

    def _pre_forward(self, *inputs, **kwargs):
        if self._delay_all_reduce_all_params:
            return inputs, kwargs
        if not self._lazy_init_ran:
            self._lazy_init()
        recording = corten.is_grad_enabled()
        if recording and self.require_backward_grad_sync:
            self.logger.set_runtime_stats_and_log()
            self.reducer.prepare_for_forward()
        work = Join.notify_join_context(self)
        if work:
            self.reducer._set_forward_pass_work_handle(work, self._divide_by_initial_world_size)
        if recording and self.reducer._rebuild_buckets():
            logger.info("Reducer buckets have been rebuilt in this iteration.")
            self._has_rebuilt_buckets = True
        if self._check_sync_bufs_pre_fwd():
            self._sync_buffers()
        if self._join_config.enable:
            self._check_global_requires_backward_grad_sync(is_joined_rank=False)
        if self.device_ids:
            device = corten.device(self.device_type, self.device_ids[0])
            moved, named = _to_kwargs(inputs, kwargs, device, self.use_side_stream_for_tensor_copies)
            return (moved[0], named[0]) if moved or named else (inputs, kwargs)
        return inputs, kwargs

    def _post_forward(self, output):
        if self._delay_all_reduce_all_params:
            self._clear_grad_buffer()
            return output
        if self._check_sync_bufs_post_fwd():
            self._sync_buffers()
        searches = self.find_unused_parameters and not self.static_graph
        if corten.is_grad_enabled() and self.require_backward_grad_sync:
            self.require_forward_param_sync = True
            self.reducer.prepare_for_backward(list(_find_tensors(output)) if searches else [])
            learns = self.static_graph and not self._static_graph_delay_allreduce_enqueued
        else:
            self.require_forward_param_sync = False
            learns = False
        if searches or learns:
            output = self._through_sink(output)
        self._clear_grad_buffer()
        return output

    def _through_sink(self, output):
        flat, spec = tree_flatten(output)
        passed = _DDPSink.apply(weakref.ref(self), *flat)
        # What has no history stays what it is.
        kept = [
            value if isinstance(value, corten.Tensor) and value.grad_fn is None else through
            for value, through in zip(flat, passed)
        ]
        return tree_unflatten(kept, spec)

    def forward(self, *inputs, **kwargs):
        with record_function("DistributedDataParallel.forward"):
            inputs, kwargs = self._pre_forward(*inputs, **kwargs)
            if self._delay_all_reduce_all_params:
                output = self.module.forward(*inputs, **kwargs)
            else:
                output = self._run_ddp_forward(*inputs, **kwargs)
            return self._post_forward(output)

    def scatter(self, inputs, kwargs, device_ids):
        """Arguments in parts on several GPUs."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def to_kwargs(self, inputs, kwargs, device_id):
        """Arguments on a GPU."""
        device = corten.device(self.device_type, device_id)
        return _to_kwargs(inputs, kwargs, device, self.use_side_stream_for_tensor_copies)

    def gather(self, outputs, output_device):
        """Outputs of several GPUs on one."""
        return gather(outputs, output_device, dim=self.dim)

    def train(self, mode=True):
        super().train(mode)
        return self

    def register_comm_hook(self, state, hook):
        """Has ``hook(state, bucket)`` communicate gradients, in place of averaging them. It returns a future of
        the bucket's tensor, which is not divided by the number of processes.

        Raises:
            RuntimeError: There is a hook.
            TypeError: The hook cannot be called.
            ValueError: Its annotations are others.
        """
        self._check_comm_hook(hook)
        self.logger._set_comm_hook_name(hook.__qualname__)
        # The reducer, which the collector of cycles does not look into, has neither the state nor the hook: both may
        # know this module.
        native._register_comm_hook(self.reducer, weakref.ref(self), _run_comm_hook)
        self._comm_hooks.append((hook, state))

    def _register_builtin_comm_hook(self, comm_hook_type):
        """Communicates gradients by a hook that needs no Python."""
        self.logger._set_comm_hook_name(str(comm_hook_type))
        native._register_builtin_comm_hook(self.reducer, comm_hook_type)

    def _check_comm_hook(self, hook):
        if not callable(hook):
            self._log_and_throw(TypeError, "Communication hook must be callable.")
        try:
            signature = inspect.signature(hook, eval_str=True)
        except NameError:
            # An annotation that names what is not there says nothing.
            return
        bucket, result = signature.parameters["bucket"].annotation, signature.return_annotation
        if bucket not in (inspect.Parameter.empty, dist.GradBucket):
            self._log_and_throw(
                ValueError, "Communication hook: bucket annotation should be dist.GradBucket."
            )
        if result not in (inspect.Signature.empty, corten.futures.Future[corten.Tensor]):
            self._log_and_throw(
                ValueError,
                "Communication hook: return annotation should be torch.futures.Future[torch.Tensor].",
            )

    @staticmethod
    def _get_data_parallel_params(module, named_params=False):
        """The parameters that a module averages."""
        params = module.named_parameters() if named_params else module.parameters()
        for param in params:
            if not hasattr(param, "_ddp_ignored"):
                yield param

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        """Leaves parameters and buffers out, by their full names. Called before the module is wrapped."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore
        for named in (module.named_parameters(), module.named_buffers()):
            for name, tensor in named:
                if name in params_and_buffers_to_ignore:
                    tensor._ddp_ignored = True

    def _get_ddp_logging_data(self):
        """What the module tells of itself and of its passes; times are in nanoseconds."""
        data = self.logger._get_ddp_logging_data()
        return {**data.strs_map, **data.ints_map}

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate):
        if sample_rate < 1:
            self._log_and_throw(
                ValueError, "DDP runtime logging sample rate should be equal or greater than 1"
            )
        self.reducer._set_ddp_runtime_logging_sample_rate(sample_rate)

    def _set_static_graph(self):
        """What ``static_graph=True`` does, after the construction."""
        if self.static_graph:
            warnings.warn("You've set static_graph to be True, no need to set it again.", stacklevel=2)
            return
        self.static_graph = True
        self._static_graph_delay_allreduce_enqueued = False
        self.reducer._set_static_graph()
        self.logger._set_static_graph()
        if self.find_unused_parameters:
            warnings.warn(
                "You passed find_unused_parameters=true to DistributedDataParallel, `_set_static_graph` will "
                "detect unused parameters automatically, so you do not need to set find_unused_parameters=true, "
                "just be sure these unused parameters will not change during training loop while calling "
                "`_set_static_graph`.",
                stacklevel=2,
            )

    @property
    def require_manual_backward_finalization(self):
        """Whether :meth:`finalize_backward` ends the averaging, and not the end of the backward pass."""
        return self._require_manual_backward_finalization

    @require_manual_backward_finalization.setter
    def require_manual_backward_finalization(self, required):
        if required:
            self._check_manual_backward_finalization_supported()
        if self._delay_all_reduce_all_params:
            return
        self.reducer._set_manual_finalization_required(required)
        self._require_manual_backward_finalization = required

    def _check_manual_backward_finalization_supported(self):
        if self._delay_all_reduce_all_params:
            raise RuntimeError(
                "Manual backward finalization is not supported when all DDP parameters use "
                "delay_all_reduce_named_params."
            )

    @property
    def should_finalize_after_backward(self):
        """Whether :meth:`finalize_backward` must wait for the end of the backward pass."""
        return self._require_manual_backward_finalization and self.reducer._should_finalize_after_backward()

    def finalize_backward(self):
        """Waits for the averages and writes the gradients.

        Raises:
            RuntimeError: Gradients are missing, or the end of the backward pass does that.
        """
        self._check_manual_backward_finalization_supported()
        self.reducer._finalize_backward_manual()

    def _remove_autograd_hooks(self):
        self.reducer._remove_autograd_hooks()

    def _check_reducer_finalized(self):
        """Fails if the last backward pass left gradients out."""
        self.reducer._check_reducer_finalized()

    def _update_process_group(self, new_process_group):
        """Goes on with another group."""
        self._has_rebuilt_buckets = False
        self.reducer._reset_state()
        if not dist._rank_not_in_group(new_process_group):
            self.process_group = new_process_group
            self.reducer._update_process_group(new_process_group)

    def _set_ddp_sink_clone(self, val):
        """Whether outputs are copied where they go through a function of the module's own. Without copies they
        must not be written to."""
        self._ddp_sink_clone = val
