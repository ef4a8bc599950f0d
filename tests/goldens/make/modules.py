"""Modules of PyTorch: what they print, their state dicts, first numbers and outputs.

Writes tests/goldens/module_names.txt, the names of all modules, and tests/goldens/modules.txt; crates/corten-nn/tests/pytorch/modules.rs makes the same modules.
One line per module: name, text, tensors of the state dict, outputs, separated by tabs.
"""

import inspect
import math
import pathlib

import torch
from torch import nn
from torch.nn import init
from torch.nn.utils import parametrizations
from torch.nn.utils import rnn as packing

OUT = pathlib.Path(__file__).parents[1] / "modules.txt"


def x(*shape, shift=0.0):
    """Numbers that every program can make: sines."""
    count = math.prod(shape)
    values = torch.tensor([math.sin(0.7 * i + shift) for i in range(count)], dtype=torch.float64)
    return values.to(torch.float32).reshape(shape)


def positive(*shape):
    return x(*shape).abs() + 0.1


def index(bound, *shape):
    return torch.tensor([i * 7 % bound for i in range(math.prod(shape))]).reshape(shape)


def signs(*shape):
    return torch.where(x(*shape, shift=0.3) > 0, 1.0, -1.0)


def binary(*shape):
    return (x(*shape, shift=0.3) > 0).float()


CASES = {}


def case(name, make, *run):
    CASES[name] = (make, run)


def of(*inputs):
    """Calls a module with these inputs."""
    return lambda module: module(*inputs)


def modules_of_one_tensor():
    for name, make in {
        "Identity": nn.Identity, "ReLU": nn.ReLU, "ReLU6": nn.ReLU6, "SELU": nn.SELU,
        "SiLU": nn.SiLU, "Mish": nn.Mish, "Hardswish": nn.Hardswish, "Hardsigmoid": nn.Hardsigmoid,
        "Sigmoid": nn.Sigmoid, "LogSigmoid": nn.LogSigmoid, "Tanh": nn.Tanh,
        "Tanhshrink": nn.Tanhshrink, "Softsign": nn.Softsign, "GELU": nn.GELU,
        "LeakyReLU": nn.LeakyReLU, "ELU": nn.ELU, "CELU": nn.CELU, "Hardtanh": nn.Hardtanh,
        "Hardshrink": nn.Hardshrink, "Softshrink": nn.Softshrink, "Softplus": nn.Softplus,
        "GLU": nn.GLU, "RReLU": nn.RReLU, "PReLU": nn.PReLU, "Dropout": nn.Dropout,
        "AlphaDropout": nn.AlphaDropout, "FeatureAlphaDropout": nn.FeatureAlphaDropout,
    }.items():
        case(name, make, of(x(2, 3, 4)))
    case("GELU tanh", lambda: nn.GELU("tanh"), of(x(2, 3)))
    case("Threshold", lambda: nn.Threshold(0.1, 20.0), of(x(2, 3)))
    case("Softmax", lambda: nn.Softmax(1), of(x(2, 3)))
    case("Softmin", lambda: nn.Softmin(1), of(x(2, 3)))
    case("LogSoftmax", lambda: nn.LogSoftmax(1), of(x(2, 3)))
    case("Softmax2d", nn.Softmax2d, of(x(2, 3, 2, 2)))
    case("PReLU channels", lambda: nn.PReLU(3, 0.1), of(x(2, 3, 4)))
    for n in (1, 2, 3):
        shape = (2, 4) + (5, 6, 7)[:n]
        case(f"Dropout{n}d", getattr(nn, f"Dropout{n}d"), of(x(*shape)))
    case("Linear", lambda: nn.Linear(4, 3), of(x(2, 4)))
    case("Linear bare", lambda: nn.Linear(4, 3, bias=False), of(x(2, 4)))
    case("Bilinear", lambda: nn.Bilinear(4, 3, 5), of(x(2, 4), x(2, 3, shift=1.0)))
    case("Flatten", nn.Flatten, of(x(2, 3, 4)))
    case("Unflatten", lambda: nn.Unflatten(1, (2, 3)), of(x(2, 6)))
    case("Unfold", lambda: nn.Unfold((2, 3), padding=1, stride=2), of(x(1, 2, 4, 5)))
    case("Fold", lambda: nn.Fold((4, 5), (2, 2)), of(x(1, 8, 12)))
    case("PixelShuffle", lambda: nn.PixelShuffle(2), of(x(1, 8, 2, 3)))
    case("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), of(x(1, 2, 4, 6)))
    case("ChannelShuffle", lambda: nn.ChannelShuffle(2), of(x(1, 4, 2, 3)))
    case("Upsample", lambda: nn.Upsample(scale_factor=2), of(x(1, 2, 3, 4)))
    case("Upsample sizes", lambda: nn.Upsample((5, 7), mode="bilinear", align_corners=True),
         of(x(1, 2, 3, 4)))
    case("Upsample linear", lambda: nn.Upsample(scale_factor=1.5, mode="linear"), of(x(1, 2, 4)))
    case("Upsample trilinear", lambda: nn.Upsample(size=4, mode="trilinear"), of(x(1, 2, 3, 2, 3)))
    case("Upsample bicubic", lambda: nn.Upsample(scale_factor=(2.0, 1.5), mode="bicubic"),
         of(x(1, 2, 3, 4)))
    case("Upsample exact", lambda: nn.Upsample(size=5, mode="nearest-exact"), of(x(1, 2, 3, 4)))
    case("Upsample area", lambda: nn.Upsample(size=2, mode="area"), of(x(1, 2, 4, 6)))
    case("UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(scale_factor=2), of(x(1, 2, 3, 4)))
    case("UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(size=(5, 5)), of(x(1, 2, 3, 4)))


def dimensional_modules():
    for n in (1, 2, 3):
        shape = (2, 4) + (5, 6, 7)[:n]
        conv, transposed = getattr(nn, f"Conv{n}d"), getattr(nn, f"ConvTranspose{n}d")
        case(f"Conv{n}d", lambda conv=conv: conv(4, 6, 3), of(x(*shape)))
        case(f"Conv{n}d options", lambda conv=conv: conv(
            4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False), of(x(*shape)))
        case(f"Conv{n}d same", lambda conv=conv: conv(4, 6, 2, padding="same", dilation=3),
             of(x(*shape)))
        case(f"Conv{n}d circular", lambda conv=conv: conv(
            4, 6, 3, padding=1, padding_mode="circular"), of(x(*shape)))
        case(f"Conv{n}d reflect", lambda conv=conv: conv(
            4, 6, 3, padding="same", padding_mode="reflect"), of(x(*shape)))
        case(f"ConvTranspose{n}d", lambda conv=transposed: conv(4, 6, 3), of(x(*shape)))
        case(f"ConvTranspose{n}d options", lambda conv=transposed: conv(
            4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2), of(x(*shape)))
        size = tuple(2 * s for s in shape[2:])
        case(f"ConvTranspose{n}d size", lambda conv=transposed: conv(4, 6, 3, stride=2, padding=1),
             lambda m, size=size, shape=shape: m(x(*shape), output_size=size))
        for kind, out in (("LazyConv", 6), ("LazyConvTranspose", 6)):
            lazy = getattr(nn, f"{kind}{n}d")
            case(f"{kind}{n}d", lambda lazy=lazy, out=out: lazy(out, 3), of(x(*shape)))
        for mode in ("Max", "Avg"):
            pool = getattr(nn, f"{mode}Pool{n}d")
            case(f"{mode}Pool{n}d", lambda pool=pool: pool(2), of(x(*shape)))
            case(f"{mode}Pool{n}d options", lambda pool=pool: pool(
                3, stride=2, padding=1, ceil_mode=True), of(x(*shape)))
            adaptive = getattr(nn, f"Adaptive{mode}Pool{n}d")
            case(f"Adaptive{mode}Pool{n}d", lambda pool=adaptive: pool(3), of(x(*shape)))
        lp, unpool = getattr(nn, f"LPPool{n}d"), getattr(nn, f"MaxUnpool{n}d")
        case(f"LPPool{n}d", lambda pool=lp: pool(2, 2), of(positive(*shape)))
        case(f"MaxUnpool{n}d", lambda pool=unpool: pool(2), lambda m, shape=shape, n=n: m(
            *getattr(nn, f"MaxPool{n}d")(2, return_indices=True)(x(*shape)), output_size=shape[2:]))
        for kind in ("Zero", "Reflection", "Replication", "Circular"):
            pad = getattr(nn, f"{kind}Pad{n}d")
            case(f"{kind}Pad{n}d", lambda pad=pad: pad(1), of(x(*shape)))
        constant = getattr(nn, f"ConstantPad{n}d")
        widths = tuple(range(2 * n))
        case(f"ConstantPad{n}d", lambda pad=constant, w=widths: pad(w, 3.5), of(x(*shape)))
        norm, instance = getattr(nn, f"BatchNorm{n}d"), getattr(nn, f"InstanceNorm{n}d")
        case(f"BatchNorm{n}d", lambda norm=norm: norm(4), of(x(*shape)),
             lambda m, shape=shape: m.eval()(x(*shape)))
        case(f"BatchNorm{n}d options", lambda norm=norm: norm(
            4, eps=1e-3, momentum=None, affine=False), of(x(*shape)),
             lambda m, shape=shape: m.eval()(x(*shape)))
        case(f"BatchNorm{n}d untracked", lambda norm=norm: norm(
            4, track_running_stats=False, bias=False), of(x(*shape)))
        case(f"InstanceNorm{n}d", lambda norm=instance: norm(4), of(x(*shape)))
        case(f"InstanceNorm{n}d options", lambda norm=instance: norm(
            4, affine=True, track_running_stats=True), of(x(*shape)),
             lambda m, shape=shape: m.eval()(x(*shape)))
        case(f"LazyBatchNorm{n}d", getattr(nn, f"LazyBatchNorm{n}d"), of(x(*shape)))
        case(f"LazyInstanceNorm{n}d", getattr(nn, f"LazyInstanceNorm{n}d"), of(x(*shape)))
    case("LazyLinear", lambda: nn.LazyLinear(3), of(x(2, 4)))
    case("AdaptiveAvgPool2d mixed", lambda: nn.AdaptiveAvgPool2d((None, 3)), of(x(1, 2, 4, 6)))
    case("AvgPool2d divisor", lambda: nn.AvgPool2d((2, 3), count_include_pad=False,
                                                  divisor_override=3), of(x(1, 2, 4, 6)))
    case("MaxPool2d pair", lambda: nn.MaxPool2d((2, 3), dilation=(1, 2)), of(x(1, 2, 6, 6)))
    case("FractionalMaxPool2d", lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5),
         of(x(1, 2, 6, 6)))
    case("FractionalMaxPool3d", lambda: nn.FractionalMaxPool3d(2, output_size=3),
         of(x(1, 2, 6, 6, 6)))
    case("LayerNorm", lambda: nn.LayerNorm((3, 4)), of(x(2, 3, 4)))
    case("LayerNorm options", lambda: nn.LayerNorm(4, eps=1e-6, bias=False), of(x(2, 3, 4)))
    case("RMSNorm", lambda: nn.RMSNorm(4), of(x(2, 3, 4)))
    case("RMSNorm options", lambda: nn.RMSNorm((3, 4), eps=1e-6, elementwise_affine=False),
         of(x(2, 3, 4)))
    case("GroupNorm", lambda: nn.GroupNorm(2, 4), of(x(2, 4, 3)))
    case("GroupNorm options", lambda: nn.GroupNorm(2, 4, affine=False), of(x(2, 4, 3)))
    case("LocalResponseNorm", lambda: nn.LocalResponseNorm(3, alpha=0.1), of(x(2, 4, 3, 3)))
    case("CrossMapLRN2d", lambda: nn.CrossMapLRN2d(2), of(x(2, 4, 3, 3)))


def tables_and_attention():
    case("Embedding", lambda: nn.Embedding(7, 3), of(index(7, 2, 3)))
    case("Embedding options", lambda: nn.Embedding(
        7, 3, padding_idx=-1, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True),
        of(index(7, 2, 3)))
    case("EmbeddingBag", lambda: nn.EmbeddingBag(7, 3), of(index(7, 2, 3)))
    case("EmbeddingBag sum", lambda: nn.EmbeddingBag(7, 3, mode="sum", padding_idx=2), lambda m: m(
        index(7, 6), torch.tensor([0, 2, 4]), x(6)))
    case("EmbeddingBag max", lambda: nn.EmbeddingBag(7, 3, mode="max", include_last_offset=True),
         of(index(7, 6), torch.tensor([0, 2, 6])))
    attention = lambda **given: lambda: nn.MultiheadAttention(8, 2, **given)  # noqa: E731
    q, kv = x(5, 2, 8), x(4, 2, 8, shift=1.0)
    mask, padding = x(5, 4) > 0.9, torch.tensor([[False] * 4, [False, False, True, True]])
    case("MultiheadAttention", attention(), of(q, q, q), of(q, kv, kv))
    case("MultiheadAttention masks", attention(batch_first=True, add_bias_kv=True,
                                               add_zero_attn=True),
         lambda m: m(q.transpose(0, 1), kv.transpose(0, 1), kv.transpose(0, 1),
                     attn_mask=mask, key_padding_mask=padding, average_attn_weights=False))
    case("MultiheadAttention widths", attention(kdim=3, vdim=5, bias=False),
         lambda m: m(q, x(4, 2, 3), x(4, 2, 5), need_weights=False)[0])
    case("MultiheadAttention sample", attention(), of(q[:, 0], kv[:, 0], kv[:, 0]))
    layer = dict(d_model=8, nhead=2, dim_feedforward=16, dropout=0.0)
    causal = nn.Transformer.generate_square_subsequent_mask
    encoder = lambda **given: nn.TransformerEncoderLayer(**layer, **given)  # noqa: E731
    decoder = lambda **given: nn.TransformerDecoderLayer(**layer, **given)  # noqa: E731
    case("TransformerEncoderLayer", encoder, of(q),
         lambda m: m(q, src_mask=causal(5), is_causal=True))
    case("TransformerEncoderLayer options", lambda: encoder(
        activation="gelu", batch_first=True, norm_first=True, bias=False), of(q))
    case("TransformerDecoderLayer", decoder, lambda m: m(
        q, kv, tgt_mask=causal(5), memory_key_padding_mask=padding))
    case("TransformerDecoderLayer options", lambda: decoder(norm_first=True), of(q, kv))
    case("TransformerEncoder", lambda: nn.TransformerEncoder(encoder(), 2, nn.LayerNorm(8)), of(q))
    case("TransformerDecoder", lambda: nn.TransformerDecoder(decoder(), 2), of(q, kv))
    case("Transformer", lambda: nn.Transformer(
        8, 2, 1, 1, 16, dropout=0.0, batch_first=True), of(kv.transpose(0, 1), q.transpose(0, 1)))


def recurrent_modules():
    for name in ("RNN", "GRU", "LSTM"):
        kind = getattr(nn, name)
        steps = x(5, 3, 4)
        case(name, lambda kind=kind: kind(4, 6), of(steps))
        case(f"{name} options", lambda kind=kind: kind(
            4, 6, num_layers=2, bias=False, batch_first=True, bidirectional=True), of(steps))
        packed = packing.pack_padded_sequence(steps, [5, 2, 3], enforce_sorted=False)
        case(f"{name} packed", lambda kind=kind: kind(4, 6, num_layers=2, bidirectional=True),
             of(packed))
        case(f"{name} sample", lambda kind=kind: kind(4, 6), of(steps[:, 0]))
        cell = getattr(nn, f"{name}Cell")
        case(f"{name}Cell", lambda cell=cell: cell(4, 6), of(x(3, 4)))
    hidden = (x(2, 3, 6), x(2, 3, 6, shift=1.0))
    case("LSTM given", lambda: nn.LSTM(4, 6, num_layers=2), of(x(5, 3, 4), hidden))
    case("LSTM projected", lambda: nn.LSTM(4, 6, proj_size=2, bidirectional=True), of(x(5, 3, 4)))
    case("LSTM dropped", lambda: nn.LSTM(4, 6, num_layers=2, dropout=0.5), of(x(5, 3, 4)))
    case("RNN relu", lambda: nn.RNN(4, 6, nonlinearity="relu"), of(x(5, 3, 4)))
    case("RNNCell relu", lambda: nn.RNNCell(4, 6, bias=False, nonlinearity="relu"), of(x(3, 4)))
    case("GRUCell sample", lambda: nn.GRUCell(4, 6), of(x(4), x(6)))
    case("LSTMCell given", lambda: nn.LSTMCell(4, 6), of(x(3, 4), (x(3, 6), x(3, 6, shift=1.0))))


def losses():
    a, b = x(3, 4), x(3, 4, shift=1.0)
    for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss"):
        for reduction in ("mean", "sum", "none"):
            case(f"{name} {reduction}", lambda name=name, reduction=reduction: getattr(nn, name)(
                reduction=reduction), of(a, b))
    case("SmoothL1Loss beta", lambda: nn.SmoothL1Loss(beta=0.3), of(a, b))
    case("HuberLoss delta", lambda: nn.HuberLoss(delta=0.3), of(a, b))
    log_probs, classes = a.log_softmax(1), index(4, 3)
    weight = positive(4)
    case("NLLLoss", nn.NLLLoss, of(log_probs, classes))
    case("NLLLoss options", lambda: nn.NLLLoss(weight, ignore_index=3), of(log_probs, classes))
    case("CrossEntropyLoss", nn.CrossEntropyLoss, of(a, classes), of(a, b.softmax(1)))
    case("CrossEntropyLoss options", lambda: nn.CrossEntropyLoss(
        weight, ignore_index=3, label_smoothing=0.1), of(a, classes))
    case("LinearCrossEntropyLoss", lambda: nn.LinearCrossEntropyLoss(4, 5, bias=True), of(a, classes))
    case("PoissonNLLLoss", nn.PoissonNLLLoss, of(a, positive(3, 4)))
    case("PoissonNLLLoss options", lambda: nn.PoissonNLLLoss(log_input=False, full=True),
         of(positive(3, 4), positive(3, 4) * 3))
    case("GaussianNLLLoss", nn.GaussianNLLLoss, of(a, b, positive(3, 4)))
    case("GaussianNLLLoss full", lambda: nn.GaussianNLLLoss(full=True, reduction="sum"),
         of(a, b, positive(3)), of(a, b, positive(3, 1)))
    case("KLDivLoss", nn.KLDivLoss, of(log_probs, b.softmax(1)))
    case("KLDivLoss batchmean", lambda: nn.KLDivLoss(reduction="batchmean", log_target=True),
         of(log_probs, b.log_softmax(1)))
    case("BCELoss", nn.BCELoss, of(a.sigmoid(), b.sigmoid()))
    case("BCELoss weight", lambda: nn.BCELoss(weight), of(a.sigmoid(), b.sigmoid()))
    case("BCEWithLogitsLoss", nn.BCEWithLogitsLoss, of(a, b.sigmoid()))
    case("BCEWithLogitsLoss weights", lambda: nn.BCEWithLogitsLoss(weight, pos_weight=weight * 2),
         of(a, b.sigmoid()))
    case("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, of(a, signs(3, 4)))
    case("CosineEmbeddingLoss", lambda: nn.CosineEmbeddingLoss(margin=0.1), of(a, b, signs(3)))
    case("MarginRankingLoss", lambda: nn.MarginRankingLoss(margin=0.1), of(a, b, signs(3, 4)))
    case("SoftMarginLoss", nn.SoftMarginLoss, of(a, signs(3, 4)))
    case("MultiLabelMarginLoss", nn.MultiLabelMarginLoss,
         of(a, torch.tensor([[0, 2, -1, 0], [3, -1, 0, 0], [1, 2, 3, -1]])))
    case("MultiLabelSoftMarginLoss", lambda: nn.MultiLabelSoftMarginLoss(weight),
         of(a, binary(3, 4)))
    case("MultiMarginLoss", lambda: nn.MultiMarginLoss(p=2, margin=0.5, weight=weight),
         of(a, classes))
    case("TripletMarginLoss", lambda: nn.TripletMarginLoss(swap=True), of(a, b, x(3, 4, shift=2.0)))
    case("TripletMarginWithDistanceLoss", lambda: nn.TripletMarginWithDistanceLoss(swap=True),
         of(a, b, x(3, 4, shift=2.0)))
    case("CTCLoss", nn.CTCLoss, of(x(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 3]]),
                                   torch.tensor([6, 5]), torch.tensor([2, 2])))
    case("AdaptiveLogSoftmaxWithLoss", lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]),
         of(x(4, 8), torch.tensor([1, 7, 15, 19])), lambda m: m.log_prob(x(4, 8)),
         lambda m: m.predict(x(4, 8)))
    case("CosineSimilarity", nn.CosineSimilarity, of(a, b))
    case("PairwiseDistance", lambda: nn.PairwiseDistance(p=1.0, keepdim=True), of(a, b))


def parametrized():
    for kind, function in (("WeightNorm", parametrizations.weight_norm),
                           ("SpectralNorm", parametrizations.spectral_norm)):
        both = (of(x(2, 4)), lambda m: m.eval()(x(2, 4)))
        case(f"{kind} Linear", lambda f=function: f(nn.Linear(4, 3)), *both)
        case(f"{kind} ConvTranspose2d", lambda f=function: f(nn.ConvTranspose2d(2, 3, 2)),
             of(x(1, 2, 3, 3)))
    case("WeightNorm whole", lambda: parametrizations.weight_norm(
        nn.Conv1d(2, 3, 2, bias=False), dim=None), of(x(1, 2, 4)))


def first_values():
    for name, shape, fill in (
        ("uniform", (3, 4), lambda t: init.uniform_(t, -1.0, 2.0)),
        ("normal", (3, 4), lambda t: init.normal_(t, 1.0, 2.0)),
        ("trunc_normal", (6, 8), lambda t: init.trunc_normal_(t, std=2.0)),
        ("trunc_normal far", (6, 8), lambda t: init.trunc_normal_(t, a=2.0, b=3.0)),
        ("constant", (3,), lambda t: init.constant_(t, 0.3)),
        ("eye", (3, 4), init.eye_),
        ("dirac", (4, 3, 3, 3), lambda t: init.dirac_(t, 2)),
        ("xavier_uniform", (3, 4, 5), init.xavier_uniform_),
        ("xavier_normal", (3, 4, 5), lambda t: init.xavier_normal_(t, 2.0)),
        ("kaiming_uniform", (3, 4, 5), lambda t: init.kaiming_uniform_(t, nonlinearity="relu")),
        ("kaiming_normal", (3, 4, 5), lambda t: init.kaiming_normal_(t, 0.2, mode="fan_out")),
        ("orthogonal", (3, 5), lambda t: init.orthogonal_(t, 2.0)),
        ("orthogonal tall", (5, 2, 2), init.orthogonal_),
        ("sparse", (6, 3), lambda t: init.sparse_(t, 0.4)),
    ):
        case(f"init {name}", lambda s=shape, f=fill: nn.ParameterList([f(torch.empty(s))]))


def containers():
    case("Sequential", lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
         of(x(2, 4)))
    case("Sequential nested", lambda: nn.Sequential(
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), nn.Tanh()), of(x(2, 4)))
    case("ModuleList", lambda: nn.ModuleList(
        [nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2, bias=False)]))
    case("ModuleDict", lambda: nn.ModuleDict({"b": nn.Linear(2, 2), "a": nn.Linear(2, 3)}))
    case("ParameterList", lambda: nn.ParameterList([torch.ones(2, 3), torch.zeros(4)]))
    case("ParameterDict", lambda: nn.ParameterDict({"b": torch.ones(2, 3), "a": torch.zeros(4)}))


def flat(result):
    """The tensors of a result in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, packing.PackedSequence):
        return [result.data]
    return [one for part in result if part is not None for one in flat(part)]


def numbers(tensor):
    """Shape, sum of magnitudes and some elements."""
    tensor = tensor.detach().double().flatten()
    step = max(1, tensor.numel() // 6)
    shown = [tensor.abs().sum(), *tensor[::step][:7]]
    return " ".join(f"{float(value):.7g}" for value in shown)


def described(tensor):
    return f"{'x'.join(map(str, tensor.shape))}:{numbers(tensor)}"


def names():
    """All modules of torch.nn."""
    classes = inspect.getmembers(nn, inspect.isclass)
    return [name for name, kind in classes if issubclass(kind, nn.Module)]


def main():
    OUT.with_name("module_names.txt").write_text("\n".join(names()) + "\n")
    for fill in (modules_of_one_tensor, dimensional_modules, tables_and_attention,
                 recurrent_modules, losses, parametrized, first_values, containers):
        fill()
    lines = []
    for name, (make, run) in CASES.items():
        torch.manual_seed(0)
        module = make()
        outputs = []
        lazy = name.startswith("Lazy")
        before = repr(module) if lazy else ""
        state = None if lazy else [f"{k}={described(v)}" for k, v in module.state_dict().items()]
        for one in run:
            outputs += flat(one(module))
        if lazy:
            state = [f"{k}={described(v)}" for k, v in module.state_dict().items()]
        text = "\n".join(filter(None, [before, repr(module)])).replace("\n", "\\n")
        lines.append("\t".join([name, text, ";".join(state), ";".join(map(described, outputs))]))
    OUT.write_text("\n".join(lines) + "\n")
    print(len(lines), "modules,", OUT.stat().st_size, "bytes")


main()
