"""Modules of the package that answer for names of PyTorch that they do not have. Written by
python/tools/make_absent_names.py (tidy: table)."""

COMPLETED = frozenset("""
_C _C._distributed_c10d _C._functions _C._functorch _C._linalg _C._nn _C._sparse _classes _custom_op
_decomp _dynamo _dynamo.backends.common _dynamo.backends.registry _dynamo.config _dynamo.eval_frame
_dynamo.exc _dynamo.testing _dynamo.utils _export _export.serde.schema _export.serde.serialize
_export.serde.union _export.utils _export.verifier _functorch.aot_autograd _functorch.compilers
_functorch.partitioners _functorch.vmap _guards _higher_order_ops _higher_order_ops.associative_scan
_higher_order_ops.cond _higher_order_ops.scan _higher_order_ops.while_loop _inductor
_inductor.config _inductor.decomposition _jit_internal _library _library.fake_impl
_library.infer_schema _lobpcg _logging _lowrank _ops _subclasses _subclasses.fake_tensor
_subclasses.functional_tensor _tensor _utils accelerator amp amp.autocast_mode amp.grad_scaler ao
ao.nn ao.nn.intrinsic ao.nn.intrinsic.modules.fused ao.nn.intrinsic.qat.modules.conv_fused
ao.nn.intrinsic.qat.modules.linear_fused ao.nn.intrinsic.qat.modules.linear_relu
ao.nn.intrinsic.quantized.dynamic.modules.linear_relu ao.nn.intrinsic.quantized.modules.bn_relu
ao.nn.intrinsic.quantized.modules.conv_add ao.nn.intrinsic.quantized.modules.conv_relu
ao.nn.intrinsic.quantized.modules.linear_relu ao.nn.qat.dynamic.modules.linear
ao.nn.qat.modules.conv ao.nn.qat.modules.embedding_ops ao.nn.qat.modules.linear
ao.nn.quantizable.modules.activation ao.nn.quantizable.modules.rnn
ao.nn.quantized.dynamic.modules.conv ao.nn.quantized.dynamic.modules.linear
ao.nn.quantized.dynamic.modules.rnn ao.nn.quantized.functional ao.nn.quantized.modules
ao.nn.quantized.modules.activation ao.nn.quantized.modules.batchnorm ao.nn.quantized.modules.conv
ao.nn.quantized.modules.dropout ao.nn.quantized.modules.embedding_ops
ao.nn.quantized.modules.functional_modules ao.nn.quantized.modules.linear
ao.nn.quantized.modules.normalization ao.nn.quantized.modules.rnn ao.nn.quantized.modules.utils
ao.nn.quantized.reference.modules.conv ao.nn.quantized.reference.modules.linear
ao.nn.quantized.reference.modules.rnn ao.nn.quantized.reference.modules.sparse
ao.nn.quantized.reference.modules.utils ao.quantization ao.quantization._correct_bias
ao.quantization.backend_config.backend_config ao.quantization.backend_config.executorch
ao.quantization.backend_config.fbgemm ao.quantization.backend_config.native
ao.quantization.backend_config.onednn ao.quantization.backend_config.qnnpack
ao.quantization.backend_config.tensorrt ao.quantization.backend_config.utils
ao.quantization.backend_config.x86 ao.quantization.fake_quantize ao.quantization.fuse_modules
ao.quantization.fuser_method_mappings ao.quantization.fx._decomposed
ao.quantization.fx._lower_to_native_backend ao.quantization.fx.convert
ao.quantization.fx.custom_config ao.quantization.fx.fuse ao.quantization.fx.fuse_handler
ao.quantization.fx.graph_module ao.quantization.fx.lower_to_fbgemm
ao.quantization.fx.lower_to_qnnpack ao.quantization.fx.lstm_utils ao.quantization.fx.match_utils
ao.quantization.fx.pattern_utils ao.quantization.fx.prepare ao.quantization.fx.qconfig_mapping_utils
ao.quantization.fx.quantize_handler ao.quantization.fx.tracer ao.quantization.fx.utils
ao.quantization.observer ao.quantization.qconfig ao.quantization.qconfig_mapping
ao.quantization.quantization_mappings ao.quantization.quantize ao.quantization.quantize_fx
ao.quantization.quantize_jit ao.quantization.stubs ao.quantization.utils autograd
autograd._functions autograd.anomaly_mode autograd.forward_ad autograd.function autograd.functional
autograd.grad_mode autograd.gradcheck autograd.graph autograd.profiler autograd.profiler_util
autograd.variable backends backends.cpu backends.cuda backends.cudnn backends.mha backends.mkl
backends.mkldnn backends.mps backends.openmp backends.opt_einsum backends.quantized compiler
compiler.config cpu cpu.amp.autocast_mode cpu.amp.grad_scaler cuda cuda._utils cuda.amp
cuda.amp.autocast_mode cuda.amp.common cuda.amp.grad_scaler cuda.graphs cuda.memory cuda.nccl
cuda.nvtx cuda.profiler cuda.random cuda.streams cuda.tunable distributed
distributed._composable.checkpoint_activation distributed._composable.contract
distributed._composable.fsdp distributed._composable.replicate
distributed._composable.replicate_with_fsdp distributed._functional_collectives
distributed._functional_collectives_impl distributed._mesh_layout distributed._state_dict_utils
distributed.algorithms distributed.algorithms.ddp_comm_hooks
distributed.algorithms.ddp_comm_hooks.debugging_hooks
distributed.algorithms.ddp_comm_hooks.default_hooks
distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks
distributed.algorithms.ddp_comm_hooks.post_localSGD_hook
distributed.algorithms.ddp_comm_hooks.powerSGD_hook
distributed.algorithms.ddp_comm_hooks.quantization_hooks distributed.algorithms.join
distributed.algorithms.model_averaging.averagers distributed.algorithms.model_averaging.utils
distributed.c10d_logger distributed.checkpoint distributed.checkpoint._traverse
distributed.checkpoint.api distributed.checkpoint.default_planner distributed.checkpoint.filesystem
distributed.checkpoint.format_utils distributed.checkpoint.fsspec_filesystem
distributed.checkpoint.hf_storage distributed.checkpoint.metadata distributed.checkpoint.planner
distributed.checkpoint.planner_helpers distributed.checkpoint.protocol
distributed.checkpoint.resharding distributed.checkpoint.staging distributed.checkpoint.state_dict
distributed.checkpoint.state_dict_loader distributed.checkpoint.state_dict_saver
distributed.checkpoint.storage distributed.checkpoint.utils distributed.device_mesh
distributed.distributed_c10d distributed.elastic.multiprocessing
distributed.elastic.multiprocessing.errors distributed.elastic.multiprocessing.errors.error_handler
distributed.elastic.rendezvous distributed.elastic.rendezvous.utils distributed.elastic.utils
distributed.elastic.utils.logging distributed.fsdp distributed.fsdp._common_utils
distributed.fsdp._flat_param distributed.fsdp._fully_shard._fsdp_collectives
distributed.fsdp._fully_shard._fsdp_common distributed.fsdp._fully_shard._fsdp_init
distributed.fsdp._fully_shard._fsdp_param distributed.fsdp._fully_shard._fsdp_param_group
distributed.fsdp._fully_shard._fsdp_state distributed.fsdp._init_utils distributed.fsdp._optim_utils
distributed.fsdp._runtime_utils distributed.fsdp._state_dict_utils
distributed.fsdp._unshard_param_utils distributed.fsdp.api
distributed.fsdp.fully_sharded_data_parallel distributed.fsdp.sharded_grad_scaler
distributed.fsdp.wrap distributed.launcher.api distributed.nn distributed.nn.functional
distributed.optim distributed.optim.apply_optimizer_in_backward
distributed.optim.post_localSGD_optimizer distributed.optim.zero_redundancy_optimizer
distributed.pipelining distributed.pipelining._IR distributed.pipelining._backward
distributed.pipelining.microbatch distributed.pipelining.schedules distributed.pipelining.stage
distributed.rendezvous distributed.rpc distributed.rpc.api distributed.run distributed.tensor
distributed.tensor._api distributed.tensor._collective_utils distributed.tensor._dispatch
distributed.tensor._dtensor_spec distributed.tensor._op_schema distributed.tensor._random
distributed.tensor._redistribute distributed.tensor._sharding_prop distributed.tensor._utils
distributed.tensor.debug distributed.tensor.debug._comm_mode distributed.tensor.device_mesh
distributed.tensor.experimental distributed.tensor.experimental._context_parallel._attention
distributed.tensor.experimental._context_parallel._load_balancer
distributed.tensor.experimental._func_map distributed.tensor.experimental._register_sharding
distributed.tensor.parallel.api distributed.tensor.parallel.loss distributed.tensor.parallel.style
distributed.tensor.placement_types distributed.utils export export._trace export._unlift
export.decomp_utils export.dynamic_shapes export.exported_program export.graph_signature
export.passes export.pt2_archive._package export.pt2_archive.constants export.unflatten foreach func
functional futures fx fx._pytree fx._symbolic_trace fx.experimental.const_fold
fx.experimental.optimization fx.experimental.proxy_tensor fx.experimental.sym_node
fx.experimental.symbolic_shapes fx.graph fx.graph_module fx.immutable_collections fx.interpreter
fx.node fx.passes.fake_tensor_prop fx.passes.graph_drawer fx.passes.graph_manipulation
fx.passes.infra.partitioner fx.passes.infra.pass_base fx.passes.infra.pass_manager
fx.passes.operator_support fx.passes.shape_prop fx.passes.split_module fx.passes.tools_common
fx.passes.utils.common fx.passes.utils.fuser_utils fx.passes.utils.matcher_utils
fx.passes.utils.source_matcher_utils fx.proxy fx.subgraph_rewriter fx.traceback hub jit
jit._builtins jit._pickle jit._recursive jit._script jit._serialization jit._state jit._trace
jit.annotations jit.frontend jit.mobile library masked masked._ops masked.maskedtensor
masked.maskedtensor.core mps mtia multiprocessing multiprocessing.reductions multiprocessing.spawn
nested nested._internal.nested_tensor nn.attention nn.attention.flex_attention nn.grad nn.init
nn.modules.activation nn.modules.adaptive nn.modules.batchnorm nn.modules.container nn.modules.conv
nn.modules.distance nn.modules.dropout nn.modules.flatten nn.modules.fold nn.modules.instancenorm
nn.modules.lazy nn.modules.linear nn.modules.loss nn.modules.module nn.modules.normalization
nn.modules.padding nn.modules.pixelshuffle nn.modules.pooling nn.modules.rnn nn.modules.sparse
nn.modules.transformer nn.modules.upsampling nn.modules.utils nn.parallel nn.parallel._functions
nn.parallel.comm nn.parallel.data_parallel nn.parallel.distributed nn.parallel.parallel_apply
nn.parallel.replicate nn.parallel.scatter_gather nn.parameter onnx onnx.errors onnx.ops
onnx.symbolic_helper onnx.utils optim.adadelta optim.adagrad optim.adam optim.adamax optim.adamw
optim.asgd optim.functional optim.lbfgs optim.lr_scheduler optim.nadam optim.optimizer optim.radam
optim.rmsprop optim.rprop optim.sgd optim.sparse_adam optim.swa_utils overrides profiler
profiler.itt profiler.profiler quantization quasirandom random return_types serialization sparse
sparse._semi_structured_conversions sparse.semi_structured storage testing._comparison
testing._creation testing._internal.common_utils torch_version types utils utils._config_module
utils._contextlib utils._device utils._dtype_abbrs utils._mode_utils utils._python_dispatch
utils._pytree utils._triton utils.backend_registration utils.benchmark utils.checkpoint
utils.collect_env utils.data._utils utils.data._utils.collate utils.data._utils.fetch
utils.data._utils.pin_memory utils.data._utils.worker utils.data.dataloader utils.data.dataset
utils.data.distributed utils.data.graph utils.data.graph_settings utils.data.sampler
utils.deterministic utils.dlpack utils.flop_counter utils.hooks utils.mkldnn utils.model_zoo
utils.module_tracker utils.weak version xpu
""".split())

#: Those of one file here that are packages in PyTorch.
PACKAGES = frozenset("""
_C _custom_op accelerator autograd._functions mps mtia xpu
""".split())
