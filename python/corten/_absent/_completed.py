"""Modules of the package that answer for names of PyTorch that they do not have. Written by
python/tools/make_absent_names.py (tidy: table)."""

COMPLETED = frozenset("""
_C _C._functions _C._functorch _C._linalg _C._nn _C._sparse _classes _custom_op _dynamo
_dynamo.config _dynamo.eval_frame _dynamo.utils _functorch.vmap _guards _higher_order_ops _inductor _inductor.config _inductor.decomposition
_jit_internal _library _library.infer_schema _lobpcg _lowrank _subclasses _subclasses.fake_tensor _tensor _utils accelerator amp
amp.autocast_mode amp.grad_scaler ao ao.nn ao.quantization autograd autograd._functions autograd.anomaly_mode
autograd.forward_ad autograd.function autograd.functional autograd.grad_mode autograd.gradcheck
autograd.graph autograd.profiler autograd.profiler_util autograd.variable backends backends.cpu
backends.cuda backends.cudnn backends.mha backends.mkl backends.mkldnn backends.mps backends.openmp
backends.opt_einsum backends.quantized compiler compiler.config cpu cpu.amp.autocast_mode
cpu.amp.grad_scaler cuda cuda._utils cuda.amp cuda.amp.common cuda.comm cuda.nccl nn.parallel.comm cuda.amp.autocast_mode cuda.amp.grad_scaler cuda.graphs
cuda.memory cuda.nvtx cuda.profiler cuda.random cuda.streams cuda.tunable distributed
distributed.distributed_c10d distributed.rpc distributed.rpc.api foreach func functional futures fx
fx._symbolic_trace fx.experimental.optimization fx.experimental.proxy_tensor
fx.experimental.symbolic_shapes fx.graph fx.graph_module fx.immutable_collections fx.interpreter
fx.node fx.passes.infra.pass_base fx.passes.infra.pass_manager fx.passes.shape_prop
fx.passes.split_module fx.proxy fx.subgraph_rewriter fx.traceback hub jit library masked masked._ops
masked.maskedtensor masked.maskedtensor.core mps mtia multiprocessing multiprocessing.reductions
multiprocessing.spawn nested nested._internal.nested_tensor nn.attention nn.attention.flex_attention
nn.grad nn.init nn.modules.activation nn.modules.adaptive nn.modules.batchnorm nn.modules.container nn.modules.conv nn.modules.distance
nn.modules.dropout nn.modules.flatten nn.modules.fold nn.modules.instancenorm nn.modules.lazy
nn.modules.linear nn.modules.loss nn.modules.module nn.modules.normalization nn.modules.padding
nn.modules.pixelshuffle nn.modules.pooling nn.modules.rnn nn.modules.sparse nn.modules.transformer
nn.modules.upsampling nn.modules.utils nn.parallel nn.parallel._functions
nn.parallel.data_parallel nn.parallel.distributed nn.parallel.parallel_apply nn.parallel.replicate
nn.parallel.scatter_gather nn.parameter onnx onnx.errors onnx.symbolic_helper
optim.adadelta optim.adagrad optim.adam optim.adamax optim.adamw optim.asgd optim.functional
optim.lbfgs optim.lr_scheduler optim.nadam optim.optimizer optim.radam optim.rmsprop optim.rprop
optim.sgd optim.sparse_adam optim.swa_utils overrides profiler profiler.itt profiler.profiler
quasirandom random return_types serialization sparse storage testing._comparison testing._creation
testing._internal.common_utils torch_version types utils utils._config_module utils._contextlib utils._device
utils._python_dispatch utils._pytree utils.benchmark utils.checkpoint utils.collect_env
utils.data._utils utils.data._utils.collate utils.data._utils.fetch utils.data._utils.pin_memory
utils.data._utils.worker utils.data.dataloader utils.data.dataset utils.data.distributed
utils.data.graph utils.data.graph_settings utils.data.sampler utils.deterministic utils.dlpack
utils.flop_counter utils.hooks utils.mkldnn utils.model_zoo utils.module_tracker utils.weak version
xpu
""".split())

#: Those of one file here that are packages in PyTorch.
PACKAGES = frozenset("""
_C _custom_op accelerator autograd._functions mps mtia xpu
""".split())
