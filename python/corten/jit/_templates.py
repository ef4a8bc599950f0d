"""Functions and modules of the library as TorchScript: what stands for their Python when a program is
compiled. ``torch`` and ``F`` are names in this source, as in any other."""

from __future__ import annotations

#: Functions of ``torch.nn.functional`` and a few of ``torch``.
FUNCTIONS = '''
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.relu_(input)
    else:
        result = torch.relu(input)
    return result

def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.hardtanh_(input, 0., 6.)
    else:
        result = torch.hardtanh(input, 0., 6.)
    return result

def hardtanh(input: Tensor, min_val: float = -1., max_val: float = 1., inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.hardtanh_(input, min_val, max_val)
    else:
        result = torch.hardtanh(input, min_val, max_val)
    return result

def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.leaky_relu_(input, negative_slope)
    else:
        result = torch.leaky_relu(input, negative_slope)
    return result

def elu(input: Tensor, alpha: float = 1., inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.elu_(input, alpha)
    else:
        result = torch.elu(input, alpha)
    return result

def celu(input: Tensor, alpha: float = 1., inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.celu_(input, alpha)
    else:
        result = torch.celu(input, alpha)
    return result

def selu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.selu_(input)
    else:
        result = torch.selu(input)
    return result

def silu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.silu_(input)
    else:
        result = torch.silu(input)
    return result

def mish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.mish_(input)
    else:
        result = torch.mish(input)
    return result

def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.hardswish_(input)
    else:
        result = torch.hardswish(input)
    return result

def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.hardsigmoid_(input)
    else:
        result = torch.hardsigmoid(input)
    return result

def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.threshold_(input, threshold, value)
    else:
        result = torch.threshold(input, threshold, value)
    return result

def rrelu(input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.rrelu_(input, lower, upper, training)
    else:
        result = torch.rrelu(input, lower, upper, training)
    return result

def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    return torch.gelu(input, approximate=approximate)

def sigmoid(input: Tensor) -> Tensor:
    return torch.sigmoid(input)

def tanh(input: Tensor) -> Tensor:
    return torch.tanh(input)

def logsigmoid(input: Tensor) -> Tensor:
    return torch.log_sigmoid(input)

def softplus(input: Tensor, beta: float = 1., threshold: float = 20.) -> Tensor:
    return torch.softplus(input, beta, threshold)

def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)

def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()

def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.softshrink(input, lambd)

def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    return torch.hardshrink(input, lambd)

def glu(input: Tensor, dim: int = -1) -> Tensor:
    return torch.glu(input, dim)

def softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        last = input.dim() - 1
        axis = 0 if last in [0, 2] else 1
    else:
        axis = dim
    return torch.softmax(input, axis, dtype=dtype)

def log_softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        last = input.dim() - 1
        axis = 0 if last in [0, 2] else 1
    else:
        axis = dim
    return torch.log_softmax(input, axis, dtype=dtype)

def softmin(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    return F.softmax(-input, dim, dtype=dtype)

def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.dropout_(input, p, training)
    else:
        result = torch.dropout(input, p, training)
    return result

def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.alpha_dropout_(input, p, training)
    else:
        result = torch.alpha_dropout(input, p, training)
    return result

def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.feature_alpha_dropout_(input, p, training)
    else:
        result = torch.feature_alpha_dropout(input, p, training)
    return result

def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    batched = input if input.dim() == 3 else input.unsqueeze(0)
    if inplace:
        result = torch.feature_dropout_(batched, p, training)
    else:
        result = torch.feature_dropout(batched, p, training)
    return result if input.dim() == 3 else result.squeeze(0)

def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.feature_dropout_(input, p, training)
    else:
        result = torch.feature_dropout(input, p, training)
    return result

def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.feature_dropout_(input, p, training)
    else:
        result = torch.feature_dropout(input, p, training)
    return result

def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    return torch.linear(input, weight, bias)

def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    return torch.bilinear(input1, input2, weight, bias)

def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-05) -> Tensor:
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)

def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05) -> Tensor:
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)

def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)

def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None, eps: Optional[float] = None) -> Tensor:
    return torch.rms_norm(input, normalized_shape, weight, eps)

def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-05) -> Tensor:
    return torch.group_norm(input, num_groups, weight, bias, eps, True)

def local_response_norm(input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.) -> Tensor:
    squares = input.mul(input).unsqueeze(1)
    if input.dim() == 3:
        padded = torch.pad(squares, [0, 0, size // 2, (size - 1) // 2], "constant", None)
        means = torch.avg_pool2d(padded, [size, 1], [1, 1]).squeeze(1)
    else:
        sizes = input.size()
        folded = squares.view([sizes[0], 1, sizes[1], sizes[2], -1])
        padded = torch.pad(folded, [0, 0, 0, 0, size // 2, (size - 1) // 2], "constant", None)
        means = torch.avg_pool3d(padded, [size, 1, 1], [1, 1, 1]).squeeze(1).view(sizes)
    return input / means.mul(alpha).add(k).pow(beta)

def normalize(input: Tensor, p: float = 2., dim: int = 1, eps: float = 1e-12) -> Tensor:
    denominator = torch.norm(input, p, [dim], True).clamp_min(eps).expand_as(input)
    return input / denominator

def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None, norm_type: float = 2., scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    index = -1
    if padding_idx is not None:
        index = padding_idx if padding_idx >= 0 else weight.size(0) + padding_idx
    if max_norm is not None:
        torch.embedding_renorm_(weight.detach(), input.contiguous(), max_norm, norm_type)
    return torch.embedding(weight, input, index, scale_grad_by_freq, sparse)

def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    return torch.one_hot(tensor, num_classes)

def pad(input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None) -> Tensor:
    return torch.pad(input, pad, mode, value)

def max_pool1d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = [0], dilation: List[int] = [1], ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    steps = annotate(List[int], []) if stride is None else stride
    return torch.max_pool1d(input, kernel_size, steps, padding, dilation, ceil_mode)

def max_pool2d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = [0, 0], dilation: List[int] = [1, 1], ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    steps = annotate(List[int], []) if stride is None else stride
    return torch.max_pool2d(input, kernel_size, steps, padding, dilation, ceil_mode)

def max_pool3d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = [0, 0, 0], dilation: List[int] = [1, 1, 1], ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    steps = annotate(List[int], []) if stride is None else stride
    return torch.max_pool3d(input, kernel_size, steps, padding, dilation, ceil_mode)

def avg_pool1d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = [0], ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    steps = annotate(List[int], []) if stride is None else stride
    return torch.avg_pool1d(input, kernel_size, steps, padding, ceil_mode, count_include_pad)

def avg_pool2d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = [0, 0], ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Optional[int] = None) -> Tensor:
    steps = annotate(List[int], []) if stride is None else stride
    return torch.avg_pool2d(input, kernel_size, steps, padding, ceil_mode, count_include_pad, divisor_override)

def avg_pool3d(input: Tensor, kernel_size: List[int], stride: Optional[List[int]] = None, padding: List[int] = [0, 0, 0], ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Optional[int] = None) -> Tensor:
    steps = annotate(List[int], []) if stride is None else stride
    return torch.avg_pool3d(input, kernel_size, steps, padding, ceil_mode, count_include_pad, divisor_override)

def adaptive_avg_pool1d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch.adaptive_avg_pool1d(input, output_size)

def adaptive_avg_pool2d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch.adaptive_avg_pool2d(input, output_size)

def adaptive_avg_pool3d(input: Tensor, output_size: List[int]) -> Tensor:
    return torch.adaptive_avg_pool3d(input, output_size)

def adaptive_max_pool1d(input: Tensor, output_size: List[int], return_indices: bool = False) -> Tensor:
    return torch.adaptive_max_pool1d(input, output_size)[0]

def adaptive_max_pool2d(input: Tensor, output_size: List[int], return_indices: bool = False) -> Tensor:
    return torch.adaptive_max_pool2d(input, output_size)[0]

def interpolate(input: Tensor, size: Optional[List[int]] = None, scale_factor: Optional[List[float]] = None, mode: str = "nearest", align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None, antialias: bool = False) -> Tensor:
    rank = input.dim() - 2
    sizes: Optional[List[int]] = None
    scales: Optional[List[float]] = None
    if size is not None:
        sizes = size
        if len(size) == 1 and rank > 1:
            sizes = [size[0] for _ in range(rank)]
    if scale_factor is not None:
        factors = scale_factor
        if len(factors) == 1 and rank > 1:
            factors = [factors[0] for _ in range(rank)]
        if recompute_scale_factor is not None and recompute_scale_factor:
            sizes = [int(torch.floor(float(input.size(place + 2)) * factors[place])) for place in range(rank)]
        else:
            scales = factors
    aligned = False
    if align_corners is not None:
        aligned = align_corners
    if mode == "nearest":
        if rank == 1:
            return torch.upsample_nearest1d(input, sizes, scales)
        if rank == 2:
            return torch.upsample_nearest2d(input, sizes, scales)
        return torch.upsample_nearest3d(input, sizes, scales)
    if mode == "nearest-exact":
        if rank == 1:
            return torch._upsample_nearest_exact1d(input, sizes, scales)
        if rank == 2:
            return torch._upsample_nearest_exact2d(input, sizes, scales)
        return torch._upsample_nearest_exact3d(input, sizes, scales)
    if mode == "linear":
        return torch.upsample_linear1d(input, sizes, aligned, scales)
    if mode == "bilinear":
        if antialias:
            return torch._upsample_bilinear2d_aa(input, sizes, aligned, scales)
        return torch.upsample_bilinear2d(input, sizes, aligned, scales)
    if mode == "bicubic":
        if antialias:
            return torch._upsample_bicubic2d_aa(input, sizes, aligned, scales)
        return torch.upsample_bicubic2d(input, sizes, aligned, scales)
    if mode == "trilinear":
        return torch.upsample_trilinear3d(input, sizes, aligned, scales)
    raise NotImplementedError("this mode of interpolation is not part of compiled programs")

def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Optional[bool] = None) -> Tensor:
    kinds = {"bilinear": 0, "nearest": 1, "bicubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    aligned = False
    if align_corners is not None:
        aligned = align_corners
    return torch.grid_sampler(input, grid, kinds[mode], paddings[padding_mode], aligned)

def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool] = None) -> Tensor:
    aligned = False
    if align_corners is not None:
        aligned = align_corners
    return torch.affine_grid_generator(theta, size, aligned)

def _reduction_number(reduction: str) -> int:
    numbers = {"none": 0, "mean": 1, "sum": 2}
    return numbers[reduction]

def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean", label_smoothing: float = 0.) -> Tensor:
    return torch.cross_entropy_loss(input, target, weight, F._reduction_number(reduction), ignore_index, label_smoothing)

def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.nll_loss_nd(input, target, weight, F._reduction_number(reduction), ignore_index)

def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return torch.mse_loss(a, b, F._reduction_number(reduction))

def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return torch.l1_loss(a, b, F._reduction_number(reduction))

def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", beta: float = 1.) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    if beta == 0.:
        return torch.l1_loss(a, b, F._reduction_number(reduction))
    return torch.smooth_l1_loss(a, b, F._reduction_number(reduction), beta)

def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return torch.huber_loss(a, b, F._reduction_number(reduction), delta)

def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.binary_cross_entropy(input, target, weight, F._reduction_number(reduction))

def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", pos_weight: Optional[Tensor] = None) -> Tensor:
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, F._reduction_number(reduction))

def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", log_target: bool = False) -> Tensor:
    if reduction == "batchmean":
        return torch.kl_div(input, target, 2, log_target=log_target) / input.size(0)
    return torch.kl_div(input, target, F._reduction_number(reduction), log_target=log_target)

def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    return torch.cosine_similarity(x1, x2, dim, eps)

def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2., eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    return torch.pairwise_distance(x1, x2, p, eps, keepdim)

def unfold(input: Tensor, kernel_size: List[int], dilation: List[int] = [1, 1], padding: List[int] = [0, 0], stride: List[int] = [1, 1]) -> Tensor:
    return torch.im2col(input, kernel_size, dilation, padding, stride)

def fold(input: Tensor, output_size: List[int], kernel_size: List[int], dilation: List[int] = [1, 1], padding: List[int] = [0, 0], stride: List[int] = [1, 1]) -> Tensor:
    return torch.col2im(input, output_size, kernel_size, dilation, padding, stride)

def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0., is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    return torch.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

def _attention(query: Tensor, key: Tensor, value: Tensor, heads: int, w_q: Tensor, w_k: Tensor, w_v: Tensor, biases: List[Tensor], extra: List[Tensor], add_zero: bool, out_w: Tensor, out_b: Optional[Tensor], dropout: float, training: bool, key_padding_mask: Optional[Tensor], need_weights: bool, attn_mask: Optional[Tensor], average: bool) -> Tuple[Tensor, Optional[Tensor]]:
    length, batch, width = query.size(0), query.size(1), query.size(2)
    size = width // heads
    if len(biases) == 3:
        q = torch.linear(query, w_q, biases[0])
        k = torch.linear(key, w_k, biases[1])
        v = torch.linear(value, w_v, biases[2])
    else:
        q = torch.linear(query, w_q)
        k = torch.linear(key, w_k)
        v = torch.linear(value, w_v)
    more = 0
    if len(extra) == 2:
        k = torch.cat([k, extra[0].repeat([1, batch, 1])])
        v = torch.cat([v, extra[1].repeat([1, batch, 1])])
        more += 1
    if add_zero:
        k = torch.cat([k, torch.zeros([1, batch, width], dtype=k.dtype, device=k.device)])
        v = torch.cat([v, torch.zeros([1, batch, width], dtype=v.dtype, device=v.device)])
        more += 1
    source = k.size(0)
    q = q.view([length, batch, heads, size]).permute([1, 2, 0, 3])
    k = k.view([source, batch, heads, size]).permute([1, 2, 0, 3])
    v = v.view([source, batch, heads, size]).permute([1, 2, 0, 3])
    scores = torch.matmul(q * torch.pow(float(size), -0.5), k.transpose(-2, -1))
    if attn_mask is not None:
        mask = torch.pad(attn_mask, [0, more])
        if mask.dim() == 3:
            mask = mask.view([batch, heads, length, source])
        if mask.dtype == 11:
            scores = scores.masked_fill(mask, -inf)
        else:
            scores = scores + mask
    if key_padding_mask is not None:
        padding = torch.pad(key_padding_mask, [0, more]).view([batch, 1, 1, source])
        if padding.dtype == 11:
            scores = scores.masked_fill(padding, -inf)
        else:
            scores = scores + padding
    probabilities = torch.dropout(torch.softmax(scores, -1), dropout, training)
    output = torch.matmul(probabilities, v).permute([2, 0, 1, 3]).contiguous().view([length, batch, width])
    output = torch.linear(output, out_w, out_b)
    if need_weights:
        if average:
            return (output, probabilities.mean([1]))
        return (output, probabilities)
    return (output, None)
'''

#: Methods of modules by the class that defines them.
MODULES = {
    **{name: f"""
def forward(self, input: Tensor) -> Tensor:
    return F.{function}(input{arguments})
""" for name, function, arguments in (
        ("ReLU", "relu", ", self.inplace"), ("ReLU6", "relu6", ", self.inplace"), ("SiLU", "silu", ", self.inplace"),
        ("Hardtanh", "hardtanh", ", float(self.min_val), float(self.max_val), self.inplace"), ("Mish", "mish", ", self.inplace"),
        ("LeakyReLU", "leaky_relu", ", float(self.negative_slope), self.inplace"), ("SELU", "selu", ", self.inplace"),
        ("ELU", "elu", ", float(self.alpha), self.inplace"), ("CELU", "celu", ", float(self.alpha), self.inplace"),
        ("Hardswish", "hardswish", ", self.inplace"), ("Hardsigmoid", "hardsigmoid", ", self.inplace"),
        ("GELU", "gelu", ", self.approximate"), ("Sigmoid", "sigmoid", ""), ("Tanh", "tanh", ""),
        ("LogSigmoid", "logsigmoid", ""), ("Softplus", "softplus", ", float(self.beta), float(self.threshold)"),
        ("Softsign", "softsign", ""), ("Tanhshrink", "tanhshrink", ""), ("GLU", "glu", ", self.dim"),
        ("Softshrink", "softshrink", ", float(self.lambd)"), ("Hardshrink", "hardshrink", ", float(self.lambd)"),
        ("Softmax", "softmax", ", self.dim"), ("LogSoftmax", "log_softmax", ", self.dim"), ("Softmin", "softmin", ", self.dim"),
        ("Threshold", "threshold", ", float(self.threshold), float(self.value), self.inplace"),
        ("RReLU", "rrelu", ", float(self.lower), float(self.upper), self.training, self.inplace"),
        ("Dropout", "dropout", ", float(self.p), self.training, self.inplace"),
        ("Dropout1d", "dropout1d", ", float(self.p), self.training, self.inplace"),
        ("Dropout2d", "dropout2d", ", float(self.p), self.training, self.inplace"),
        ("Dropout3d", "dropout3d", ", float(self.p), self.training, self.inplace"),
        ("AlphaDropout", "alpha_dropout", ", float(self.p), self.training"),
        ("FeatureAlphaDropout", "feature_alpha_dropout", ", float(self.p), self.training"),
        ("Linear", "linear", ", self.weight, self.bias"),
        ("LayerNorm", "layer_norm", ", list_of(self.normalized_shape), self.weight, self.bias, self.eps"),
        ("RMSNorm", "rms_norm", ", list_of(self.normalized_shape), self.weight, self.eps"),
        ("GroupNorm", "group_norm", ", self.num_groups, self.weight, self.bias, self.eps"),
        ("LocalResponseNorm", "local_response_norm", ", self.size, float(self.alpha), float(self.beta), float(self.k)"),
        ("Embedding", "embedding", ", self.weight, self.padding_idx, self.max_norm, float(self.norm_type), "
         "self.scale_grad_by_freq, self.sparse"),
        ("AdaptiveAvgPool1d", "adaptive_avg_pool1d", ", tuple_of(self.output_size, 1)"),
        ("AdaptiveAvgPool2d", "adaptive_avg_pool2d", ", optional_of(self.output_size, 2)"),
        ("AdaptiveAvgPool3d", "adaptive_avg_pool3d", ", optional_of(self.output_size, 3)"),
        ("AdaptiveMaxPool1d", "adaptive_max_pool1d", ", tuple_of(self.output_size, 1)"),
        ("AdaptiveMaxPool2d", "adaptive_max_pool2d", ", tuple_of(self.output_size, 2)"),
    )},
    **{f"MaxPool{rank}d": f"""
def forward(self, input: Tensor) -> Tensor:
    return F.max_pool{rank}d(input, tuple_of(self.kernel_size, {rank}), tuple_of(self.stride, {rank}), tuple_of(self.padding, {rank}), tuple_of(self.dilation, {rank}), self.ceil_mode, self.return_indices)
""" for rank in (1, 2, 3)},
    "AvgPool1d": """
def forward(self, input: Tensor) -> Tensor:
    return F.avg_pool1d(input, tuple_of(self.kernel_size, 1), tuple_of(self.stride, 1), tuple_of(self.padding, 1), self.ceil_mode, self.count_include_pad)
""",
    **{f"AvgPool{rank}d": f"""
def forward(self, input: Tensor) -> Tensor:
    return F.avg_pool{rank}d(input, tuple_of(self.kernel_size, {rank}), tuple_of(self.stride, {rank}), tuple_of(self.padding, {rank}), self.ceil_mode, self.count_include_pad, self.divisor_override)
""" for rank in (2, 3)},
    **{f"Conv{rank}d": f"""
def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    if self.padding_mode != "zeros":
        padded = torch.pad(input, list_of(self._reversed_padding_repeated_twice), self.padding_mode, None)
        return torch.conv{rank}d(padded, weight, bias, list_of(self.stride), {[0] * rank}, list_of(self.dilation), self.groups)
    return torch.conv{rank}d(input, weight, bias, list_of(self.stride), list_of(self.padding), list_of(self.dilation), self.groups)

def forward(self, input: Tensor) -> Tensor:
    return self._conv_forward(input, self.weight, self.bias)
""" for rank in (1, 2, 3)},
    **{f"ConvTranspose{rank}d": f"""
def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
    extra = list_of(self.output_padding)
    if output_size is not None:
        stride, padding, dilation = list_of(self.stride), list_of(self.padding), list_of(self.dilation)
        kernel = list_of(self.kernel_size)
        extra = annotate(List[int], [])
        for place in range({rank}):
            least = (input.size(place - {rank}) - 1) * stride[place] - 2 * padding[place] + dilation[place] * (kernel[place] - 1) + 1
            extra.append(output_size[len(output_size) - {rank} + place] - least)
    return torch.conv_transpose{rank}d(input, self.weight, self.bias, list_of(self.stride), list_of(self.padding), extra, self.groups, list_of(self.dilation))
""" for rank in (1, 2, 3)},
    "_BatchNorm": """
def forward(self, input: Tensor) -> Tensor:
    factor = 0.
    if self.momentum is not None:
        factor = float(self.momentum)
    if self.training and self.track_running_stats:
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1. / float(self.num_batches_tracked)
    if self.running_mean is None:
        return torch.batch_norm(input, self.weight, self.bias, None, None, True, factor, self.eps, True)
    if not self.training or self.track_running_stats:
        return torch.batch_norm(input, self.weight, self.bias, self.running_mean, self.running_var, self.training, factor, self.eps, True)
    return torch.batch_norm(input, self.weight, self.bias, None, None, True, factor, self.eps, True)
""",
    "_InstanceNorm": """
def forward(self, input: Tensor) -> Tensor:
    single = input.dim() == INSTANCE_RANK
    batched = input.unsqueeze(0) if single else input
    result = torch.instance_norm(batched, self.weight, self.bias, self.running_mean, self.running_var, self.training or not self.track_running_stats, float(self.momentum), self.eps, True)
    return result.squeeze(0) if single else result
""",
    "Flatten": """
def forward(self, input: Tensor) -> Tensor:
    return input.flatten(self.start_dim, self.end_dim)
""",
    "Unflatten": """
def forward(self, input: Tensor) -> Tensor:
    return input.unflatten(self.dim, list_of(self.unflattened_size))
""",
    "Identity": """
def forward(self, input: Tensor) -> Tensor:
    return input
""",
    "Bilinear": """
def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
    return torch.bilinear(input1, input2, self.weight, self.bias)
""",
    "PReLU": """
def forward(self, input: Tensor) -> Tensor:
    return torch.prelu(input, self.weight)
""",
    "Softmax2d": """
def forward(self, input: Tensor) -> Tensor:
    return torch.softmax(input, -3)
""",
    "PixelShuffle": """
def forward(self, input: Tensor) -> Tensor:
    return torch.pixel_shuffle(input, self.upscale_factor)
""",
    "PixelUnshuffle": """
def forward(self, input: Tensor) -> Tensor:
    return torch.pixel_unshuffle(input, self.downscale_factor)
""",
    "ChannelShuffle": """
def forward(self, input: Tensor) -> Tensor:
    return torch.channel_shuffle(input, self.groups)
""",
    "CosineSimilarity": """
def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
    return torch.cosine_similarity(x1, x2, self.dim, self.eps)
""",
    "Upsample": """
def forward(self, input: Tensor) -> Tensor:
    return F.interpolate(input, sizes_of(self.size), scales_of(self.scale_factor), self.mode, self.align_corners, self.recompute_scale_factor)
""",
    "Unfold": """
def forward(self, input: Tensor) -> Tensor:
    return torch.im2col(input, tuple_of(self.kernel_size, 2), tuple_of(self.dilation, 2), tuple_of(self.padding, 2), tuple_of(self.stride, 2))
""",
    "Fold": """
def forward(self, input: Tensor) -> Tensor:
    return torch.col2im(input, tuple_of(self.output_size, 2), tuple_of(self.kernel_size, 2), tuple_of(self.dilation, 2), tuple_of(self.padding, 2), tuple_of(self.stride, 2))
""",
    **{name: f"""
def forward(self, input: Tensor) -> Tensor:
    return torch.pad(input, tuple_of(self.padding, {2 * rank}), {mode!r}, {value})
""" for prefix, mode, value in (
        ("ConstantPad", "constant", "float(self.value)"), ("ReflectionPad", "reflect", "None"), ("ZeroPad", "constant", "0."),
        ("ReplicationPad", "replicate", "None"), ("CircularPad", "circular", "None"))
        for rank in (1, 2, 3) for name in (f"{prefix}{rank}d", f"_{prefix}{rank}d")},
    **{name: f"""
def forward(self, input: Tensor, target: Tensor) -> Tensor:
    return F.{function}(input, target{arguments})
""" for name, function, arguments in (
        ("MSELoss", "mse_loss", ", reduction=self.reduction"), ("L1Loss", "l1_loss", ", reduction=self.reduction"),
        ("CrossEntropyLoss", "cross_entropy", ", self.weight, ignore_index=self.ignore_index, reduction=self.reduction, "
         "label_smoothing=float(self.label_smoothing)"),
        ("NLLLoss", "nll_loss", ", self.weight, ignore_index=self.ignore_index, reduction=self.reduction"),
        ("BCELoss", "binary_cross_entropy", ", self.weight, reduction=self.reduction"),
        ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", ", self.weight, reduction=self.reduction, "
         "pos_weight=self.pos_weight"),
        ("SmoothL1Loss", "smooth_l1_loss", ", reduction=self.reduction, beta=float(self.beta)"),
        ("HuberLoss", "huber_loss", ", reduction=self.reduction, delta=float(self.delta)"),
        ("KLDivLoss", "kl_div", ", reduction=self.reduction, log_target=self.log_target"),
    )},
}
