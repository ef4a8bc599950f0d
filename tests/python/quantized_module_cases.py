"""Programs over the modules of ``torch.ao.nn`` that give the same on PyTorch and on this package: each yields labels
and values, which tests/goldens/make/quantized_modules.py writes down."""

from __future__ import annotations

import copy
import io


def filled(torch, *shape, step=0.37, size=1.0):
    """Numbers that no generator draws and that every machine computes alike: multiples of 1/64 below 1, times a size."""
    count = 1
    for length in shape:
        count *= length
    places = torch.arange(count, dtype=torch.int64) * int(100 * step) + 17
    return ((places % 127 - 63).to(torch.float32) / 64 * size).reshape(shape)


def fill(torch, module, size=0.5):
    """Gives all parameters of a module such numbers."""
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(filled(torch, *parameter.shape, step=0.31 + 0.07 * place, size=size))
    return module


def observed(torch, module, qconfig, *inputs):
    """A float module with what an observer found of its results."""
    module.eval()
    module.qconfig = qconfig
    if isinstance(module, torch.nn.Sequential):
        module[0].qconfig = qconfig
    module.activation_post_process = qconfig.activation()
    with torch.no_grad():
        module.activation_post_process(module(*inputs))
    return module


def quantized(torch, x, scale=0.02, zero_point=120):
    return torch.quantize_per_tensor(x, scale, zero_point, torch.quint8)


def static(torch):
    return torch.ao.quantization.get_default_qconfig("fbgemm")


def per_tensor(torch):
    q = torch.ao.quantization
    return q.QConfig(
        activation=q.HistogramObserver.with_args(reduce_range=True), weight=q.default_weight_observer
    )


def saved(torch, module):
    """A module that was pickled and read again."""
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


# ------------------------------------------------------------------------------------------------- in float


def fused_modules(torch):
    nn, nni = torch.nn, torch.ao.nn.intrinsic
    x = filled(torch, 2, 3, 5, 5)
    module = fill(torch, nni.ConvReLU2d(nn.Conv2d(3, 4, 3), nn.ReLU()))
    yield "conv relu", module(x)
    yield "its repr", repr(module)
    yield "its keys", list(module.state_dict())
    module = fill(torch, nni.ConvBnReLU2d(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()))
    yield "conv bn relu", module(x)
    module = fill(torch, nni.LinearBn1d(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    yield "linear bn", module(filled(torch, 5, 3))
    module = fill(torch, nni.LinearLeakyReLU(nn.Linear(3, 4), nn.LeakyReLU(0.1)))
    yield "linear leaky relu", module(filled(torch, 5, 3))
    module = fill(torch, nni.LinearTanh(nn.Linear(3, 4), nn.Tanh()))
    yield "linear tanh", module(filled(torch, 5, 3))
    module = fill(torch, nni.BNReLU3d(nn.BatchNorm3d(3), nn.ReLU()))
    yield "bn relu", module(filled(torch, 2, 3, 2, 2, 2))
    module = fill(torch, nni.ConvAddReLU2d(nn.Conv2d(3, 3, 3, padding=1), torch.add, nn.ReLU()))
    yield "conv add relu", module(x, x)
    for parts in ((nni.ConvReLU1d, nn.Conv2d(1, 1, 1), nn.ReLU()), (nni.LinearReLU, nn.Linear(1, 1), nn.Tanh()),
                  (nni.ConvBnReLU1d, nn.Conv1d(1, 1, 1), nn.BatchNorm2d(1), nn.ReLU())):
        try:
            parts[0](*parts[1:])
        except AssertionError as error:
            yield "refused", str(error)


def _steps(torch, module, x, count=3):
    """Losses of some steps of training, and the state after them."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(count):
        optimizer.zero_grad()
        loss = (module(x) * filled(torch, *module(x).shape, step=0.11)).sum()
        loss.backward()
        optimizer.step()
        yield f"loss {step}", loss.detach()
    for key, value in module.state_dict().items():
        yield f"state {key}", value


def _qat_kinds(torch):
    nn, nni, nnqat, nniqat = torch.nn, torch.ao.nn.intrinsic, torch.ao.nn.qat, torch.ao.nn.intrinsic.qat
    image, signal, volume = filled(torch, 2, 2, 5, 5), filled(torch, 2, 2, 7), filled(torch, 2, 2, 3, 3, 3)
    rows = filled(torch, 6, 4)
    yield nnqat.Linear, nn.Linear(4, 3), rows
    yield nniqat.LinearReLU, nni.LinearReLU(nn.Linear(4, 3), nn.ReLU()), rows
    yield nniqat.LinearBn1d, nni.LinearBn1d(nn.Linear(4, 3), nn.BatchNorm1d(3)), rows
    for dim, x in ((1, signal), (2, image), (3, volume)):
        conv, bn = getattr(nn, f"Conv{dim}d"), getattr(nn, f"BatchNorm{dim}d")
        yield getattr(nnqat, f"Conv{dim}d"), conv(2, 3, 3, padding=1), x
        yield getattr(nniqat, f"ConvReLU{dim}d"), getattr(nni, f"ConvReLU{dim}d")(conv(2, 3, 2), nn.ReLU()), x
        yield (getattr(nniqat, f"ConvBn{dim}d"),
               getattr(nni, f"ConvBn{dim}d")(conv(2, 4, 2, groups=2, bias=dim == 2), bn(4)), x)
        yield (getattr(nniqat, f"ConvBnReLU{dim}d"),
               getattr(nni, f"ConvBnReLU{dim}d")(conv(2, 3, 3, bias=dim == 1), bn(3), nn.ReLU()), x)


def _set_qconfig(torch, module, qconfig):
    module.qconfig = qconfig
    if isinstance(module, torch.nn.Sequential):
        module[0].qconfig = qconfig
    return module.train()


def modules_in_training(torch):
    qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")
    for kind, module, x in _qat_kinds(torch):
        _set_qconfig(torch, fill(torch, module), qconfig)
        trained = kind.from_float(module)
        name = kind.__name__
        yield f"{name} repr", repr(trained).split("\n")[0]
        for label, value in _steps(torch, trained, x):
            yield f"{name} {label}", value
        trained.eval()
        yield f"{name} evaluated", trained(x)
        back = trained.to_float()
        yield f"{name} float", type(back).__name__
        yield f"{name} float evaluated", back.eval()(x)


def normalization_in_training(torch):
    nn, nni, nniqat = torch.nn, torch.ao.nn.intrinsic, torch.ao.nn.intrinsic.qat
    qconfig = torch.ao.quantization.default_qat_qconfig
    x = filled(torch, 2, 2, 5, 5)
    float_module = _set_qconfig(torch, fill(torch, nni.ConvBn2d(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))), qconfig)
    module = nniqat.ConvBn2d.from_float(copy.deepcopy(float_module))
    module._enable_slow_path_for_better_numerical_stability = True
    for label, value in _steps(torch, module, x):
        yield f"slow {label}", value
    yield "slow evaluated", module.eval()(x)
    module = nniqat.ConvBn2d.from_float(copy.deepcopy(float_module))
    yield "is frozen", module.freeze_bn
    module.apply(nniqat.freeze_bn_stats)
    for label, value in _steps(torch, module, x):
        yield f"frozen {label}", value
    module.train()
    yield "modes", [module.training, module.bn.training, module.freeze_bn]
    module.apply(nniqat.update_bn_stats)
    yield "modes after", [module.training, module.bn.training, module.freeze_bn]
    state = module.state_dict()
    yield "version", state._metadata[""]["version"]
    old = copy.deepcopy(state)
    for now, then in (("bn.weight", "gamma"), ("bn.bias", "beta"), ("bn.running_mean", "running_mean"),
                      ("bn.running_var", "running_var"), ("bn.num_batches_tracked", "num_batches_tracked")):
        old[then] = old.pop(now)
    old._metadata[""]["version"] = 1
    other = nniqat.ConvBn2d(2, 3, 3, bias=True, qconfig=qconfig)
    yield "loaded", str(other.load_state_dict(old))
    yield "its mean", other.bn.running_mean
    try:
        nniqat.ConvBn2d(2, 3, 3)
    except AssertionError as error:
        yield "refused", str(error)
    try:
        nniqat.ConvBnReLU2d.from_float(float_module)
    except AssertionError as error:
        yield "refused kind", str(error)


def embeddings_in_training(torch):
    nn, nnqat = torch.nn, torch.ao.nn.qat
    q = torch.ao.quantization
    qconfig = q.QConfig(activation=q.NoopObserver, weight=q.default_embedding_fake_quant)
    places = torch.tensor([0, 3, 1, 3])
    table = nn.Embedding(5, 4)
    table.qconfig = qconfig
    module = nnqat.Embedding.from_float(fill(torch, table))
    yield "embedding", module(places)
    yield "its repr", repr(module).split("\n")[0]
    yield "its float", type(module.to_float()).__name__
    bags = nn.EmbeddingBag(5, 4, mode="sum", include_last_offset=True)
    bags.qconfig = qconfig
    module = nnqat.EmbeddingBag.from_float(fill(torch, bags))
    yield "bags", module(places, torch.tensor([0, 1, 4]))
    table.qconfig = q.default_qat_qconfig
    try:
        nnqat.Embedding.from_float(table)
    except AssertionError as error:
        yield "refused", str(error)


def quantizable_recurrence(torch):
    nnqa = torch.ao.nn.quantizable
    x = filled(torch, 3, 2, 4)
    cell = fill(torch, nnqa.LSTMCell(4, 3))
    yield "cell", cell(x[0])
    yield "cell keys", list(cell.state_dict())
    split = nnqa.LSTMCell.from_params(
        cell.igates.weight, cell.hgates.weight, cell.igates.bias, cell.hgates.bias, split_gates=True
    )
    yield "split", split(x[0])
    yield "split keys", list(split.state_dict())
    for settings in ({}, {"num_layers": 2}, {"bidirectional": True}, {"batch_first": True}, {"bias": False}):
        module = fill(torch, nnqa.LSTM(4, 3, **settings))
        output, (h, c) = module(x)
        yield f"lstm {settings}", [output, h, c]
        yield f"lstm {settings} keys", list(module.state_dict())
    output, (h, c) = module(x, (torch.ones(1, 2, 3), torch.zeros(1, 2, 3)))
    yield "with states", [output, h, c]
    yield "repr", repr(module).split("\n")[0]


def quantizable_attention(torch):
    nnqa = torch.ao.nn.quantizable
    x = filled(torch, 3, 2, 8)
    for settings in ({}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 6, "vdim": 5}, {"bias": False}):
        module = fill(torch, nnqa.MultiheadAttention(8, 2, **settings)).eval()
        key, value = filled(torch, 4, 2, settings.get("kdim", 8)), filled(torch, 4, 2, settings.get("vdim", 8))
        output, weights = module(x, key, value)
        yield f"attention {settings}", [output, weights]
    module = fill(torch, nnqa.MultiheadAttention(8, 2)).eval()
    mask = torch.tensor([[False, False, True]] * 3)
    yield "masked", module(x, x, x, attn_mask=mask, average_attn_weights=False)
    yield "float mask", module(x, x, x, attn_mask=torch.where(mask, -5.0, 0.0))[0]
    padding = torch.tensor([[False, False, True], [False, False, False]])
    yield "padded", module(x, x, x, key_padding_mask=padding, need_weights=False)[0]
    module = fill(torch, nnqa.MultiheadAttention(8, 2, batch_first=True)).eval()
    yield "batch first", module(x, x, x)[0]
    yield "keys", list(module.state_dict())
    yield "repr", repr(module).split("\n")[0]
    for change in ({"attn_mask": mask[:2]}, {"attn_mask": mask[None]}, {"is_causal": True}):
        try:
            module(x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1), **change)
        except (AssertionError, RuntimeError) as error:
            yield f"refused {sorted(change)}", f"{type(error).__name__} {error}"


def functional_modules(torch):
    nnq = torch.ao.nn.quantized
    x, y = filled(torch, 2, 3), filled(torch, 2, 3, step=0.9)
    for kind in (nnq.FloatFunctional, nnq.FXFloatFunctional):
        f = kind()
        yield kind.__name__, [f.add(x, y), f.add_scalar(x, 2.0), f.mul(x, y), f.mul_scalar(x, 2.0), f.cat([x, y], 1),
                              f.add_relu(x, y), f.matmul(x, y.t())]
        yield f"{kind.__name__} repr", repr(f)
        try:
            f(x)
        except RuntimeError as error:
            yield "refused", str(error)


# --------------------------------------------------------------------------------------------- of references


def reference_modules(torch):
    nn, nnqr = torch.nn, torch.ao.nn.quantized.reference
    tensor = {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.01, "zero_point": 0}
    channel = {
        "qscheme": torch.per_channel_affine, "dtype": torch.qint8, "scale": torch.tensor([0.01, 0.02, 0.03, 0.005]),
        "zero_point": torch.tensor([0, 1, 0, -2]), "axis": 0,
    }
    x = {1: filled(torch, 2, 4, 6), 2: filled(torch, 2, 4, 5, 5), 3: filled(torch, 1, 4, 4, 4, 4)}
    for name, qparams in (("tensor", tensor), ("channel", channel), ("usual", None)):
        module = nnqr.Linear.from_float(fill(torch, nn.Linear(3, 4)), qparams)
        yield f"linear {name}", module(filled(torch, 5, 3))
        yield f"linear {name} repr", repr(module)
        yield f"linear {name} state", [f"{k} {v if not isinstance(v, torch.Tensor) else tuple(v.shape)}"
                                       for k, v in module.state_dict().items()]
        other = nnqr.Linear(3, 4, weight_qparams=qparams)
        yield f"linear {name} loaded", str(other.load_state_dict(module.state_dict()))
        yield f"linear {name} again", other(filled(torch, 5, 3))
        for dim in (1, 2, 3):
            for kind in ("Conv", "ConvTranspose"):
                made = fill(torch, getattr(nn, f"{kind}{dim}d")(4, 4, 3, stride=2, padding=1))
                module = getattr(nnqr, f"{kind}{dim}d").from_float(made, qparams)
                yield f"{kind}{dim}d {name}", module(x[dim])
                yield f"{kind}{dim}d {name} repr", repr(module)
        table = nnqr.Embedding.from_float(fill(torch, nn.Embedding(4, 3)), qparams)
        yield f"embedding {name}", table(torch.tensor([1, 3]))
        bags = nnqr.EmbeddingBag.from_float(fill(torch, nn.EmbeddingBag(4, 3)), qparams)
        yield f"bags {name}", bags(torch.tensor([1, 3, 2]), torch.tensor([0, 1]))
    weight = nnqr.Linear.from_float(fill(torch, nn.Linear(3, 4)), channel).get_quantized_weight()
    yield "quantized weight", weight
    decomposed = dict(tensor, is_decomposed=True, quant_min=-127, quant_max=127)
    module = nnqr.Linear.from_float(fill(torch, nn.Linear(3, 4)), decomposed)
    yield "decomposed", [module.get_quantized_weight(), module(filled(torch, 5, 3))]


def reference_recurrence(torch):
    nn, nnqr = torch.nn, torch.ao.nn.quantized.reference
    qparams = {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.01, "zero_point": 0}
    x = filled(torch, 3, 2, 4)
    for kind in ("RNNCell", "LSTMCell", "GRUCell"):
        settings = {"weight_ih": qparams, "weight_hh": qparams, "is_decomposed": False}
        module = getattr(nnqr, kind).from_float(fill(torch, getattr(nn, kind)(4, 3)), settings)
        yield kind, [module(x[0]), module(x[0, 0])]
        yield f"{kind} repr", repr(module)
        yield f"{kind} keys", list(module.state_dict())
        yield f"{kind} weight", module.get_quantized_weight_ih()
    for kind in ("LSTM", "GRU"):
        made = fill(torch, getattr(nn, kind)(4, 3, num_layers=2, bidirectional=True))
        settings = {n: qparams for n in made._flat_weights_names if n.startswith("weight")}
        module = getattr(nnqr, kind).from_float(made, {**settings, "is_decomposed": False})
        yield kind, module(x)
        yield f"{kind} repr", repr(module)
        yield f"{kind} keys", sorted(module.state_dict())


# --------------------------------------------------------------------------------------------- quantized


def _static(torch, name, module, x):
    """What a quantized module gives, says of itself and saves."""
    result = module(x)
    yield f"{name} result", result
    yield f"{name} repr", repr(module)
    state = module.state_dict()
    yield f"{name} state", list(state.items())
    yield f"{name} versions", sorted((key, value["version"]) for key, value in state._metadata.items())
    yield f"{name} copied", torch.equal(copy.deepcopy(module)(x), result)
    if "Conv" not in type(module).__name__:
        # PyTorch reads convolutions without the dictionaries of a module, which cannot be called.
        yield f"{name} pickled", torch.equal(saved(torch, module)(x), result)


def quantized_linear(torch):
    nn, nni, nnq = torch.nn, torch.ao.nn.intrinsic, torch.ao.nn.quantized
    nniq = torch.ao.nn.intrinsic.quantized
    x = filled(torch, 5, 4)
    qx = quantized(torch, x)
    for title, qconfig in (("channels", static(torch)), ("tensor", per_tensor(torch))):
        for bias in (True, False):
            made = observed(torch, fill(torch, nn.Linear(4, 3, bias=bias)), qconfig, x)
            yield from _static(torch, f"{title} {bias}", nnq.Linear.from_float(made), qx)
        made = nni.LinearReLU(fill(torch, nn.Linear(4, 3)), nn.ReLU())
        made[0].qconfig = qconfig
        module = nniq.LinearReLU.from_float(observed(torch, made, qconfig, x))
        yield from _static(torch, f"{title} relu", module, qx)
    qconfig = per_tensor(torch)
    other = nnq.Linear(4, 3)
    yield "fresh", repr(other)
    made = nnq.Linear.from_float(observed(torch, fill(torch, nn.Linear(4, 3)), qconfig, x))
    yield "loaded", str(other.load_state_dict(made.state_dict()))
    yield "again", other(qx)
    state = made.state_dict()
    weight, bias = state.pop("_packed_params._packed_params")
    state.pop("_packed_params.dtype")
    state["weight"], state["bias"] = weight, bias
    state._metadata[""]["version"] = 1
    state._metadata["_packed_params"]["version"] = 1
    other = nnq.Linear(4, 3)
    yield "of the first version", str(other.load_state_dict(state))
    yield "its result", other(qx)
    reference = torch.ao.nn.quantized.reference.Linear.from_float(
        fill(torch, nn.Linear(4, 3)), {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.01,
                                       "zero_point": 0})
    yield "of a reference", nnq.Linear.from_reference(reference, 0.05, 3)(qx)
    for wrong in (nn.Tanh(), nn.Linear(1, 1)):
        try:
            nnq.Linear.from_float(wrong)
        except AssertionError as error:
            yield "refused", str(error).replace("corten", "torch")


def quantized_linear_activations(torch):
    nn, nni, nniq = torch.nn, torch.ao.nn.intrinsic, torch.ao.nn.intrinsic.quantized
    x = filled(torch, 5, 4)
    qx = quantized(torch, x)
    qconfig = per_tensor(torch)
    made = observed(torch, nni.LinearLeakyReLU(fill(torch, nn.Linear(4, 3)), nn.LeakyReLU(0.1)), qconfig, x)
    module = nniq.LinearLeakyReLU.from_float(made)
    yield "leaky", [module(qx), repr(module), list(module.state_dict())]
    made = observed(torch, nni.LinearTanh(fill(torch, nn.Linear(4, 3)), nn.Tanh()), qconfig, x)
    module = nniq.LinearTanh.from_float(made)
    yield "tanh", [module(qx), repr(module), list(module.state_dict())]
    for kind, settings in (("ConvAdd2d", ()), ("ConvAddReLU2d", (nn.ReLU(),))):
        image = filled(torch, 2, 4, 5, 5)
        made = getattr(nni, kind)(fill(torch, nn.Conv2d(4, 4, 3, padding=1)), torch.add, *settings)
        made = observed(torch, made, qconfig, image, image)
        module = getattr(nniq, kind).from_float(made)
        both = quantized(torch, image)
        yield kind, [module(both, both), repr(module), list(module.state_dict())]


# Products with these epilogues are oneDNN's in PyTorch.
quantized_linear_activations.engine = "onednn"


def quantized_convolutions(torch):
    nn, nnq = torch.nn, torch.ao.nn.quantized
    xs = {1: filled(torch, 2, 4, 7), 2: filled(torch, 2, 4, 6, 6), 3: filled(torch, 1, 4, 4, 4, 4)}
    for dim, x in xs.items():
        qx = quantized(torch, x)
        for title, qconfig in (("channels", static(torch)), ("tensor", per_tensor(torch))):
            for settings in ({}, {"stride": 2, "padding": 1}, {"groups": 2, "bias": False}, {"dilation": 2}):
                if dim == 3 and "dilation" in settings:
                    continue
                made = fill(torch, getattr(nn, f"Conv{dim}d")(4, 6, 3, **settings))
                made = observed(torch, made, qconfig, x)
                module = getattr(nnq, f"Conv{dim}d").from_float(made)
                yield from _static(torch, f"conv{dim}d {title} {settings}", module, qx)
        made = fill(torch, getattr(nn, f"ConvTranspose{dim}d")(4, 6, 3, stride=2, padding=1))
        made = observed(torch, made, per_tensor(torch), x)
        module = getattr(nnq, f"ConvTranspose{dim}d").from_float(made)
        yield from _static(torch, f"transposed{dim}d", module, qx)
    made = fill(torch, nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"))
    module = nnq.Conv2d.from_float(observed(torch, made, static(torch), xs[2]))
    yield from _static(torch, "reflected", module, quantized(torch, xs[2]))
    for make in (lambda: nnq.Conv2d(3, 4, 3, groups=2), lambda: nnq.Conv2d(4, 4, 3, padding_mode="circular"),
                 lambda: nnq.ConvTranspose2d(4, 4, 3, padding_mode="reflect"), lambda: nnq.Conv2d(1, 0, 1),
                 lambda: nnq.Conv2d(1, 1, 1)(quantized(torch, xs[1]))):
        try:
            make()
        except ValueError as error:
            yield "refused", str(error)


def fused_quantized_convolutions(torch):
    nn, nni, nniq = torch.nn, torch.ao.nn.intrinsic, torch.ao.nn.intrinsic.quantized
    xs = {1: filled(torch, 2, 4, 7), 2: filled(torch, 2, 4, 6, 6), 3: filled(torch, 1, 4, 4, 4, 4)}
    qconfig = static(torch)
    for dim, x in xs.items():
        qx = quantized(torch, x)
        made = getattr(nni, f"ConvReLU{dim}d")(fill(torch, getattr(nn, f"Conv{dim}d")(4, 6, 3)), nn.ReLU())
        made[0].qconfig = qconfig
        module = getattr(nniq, f"ConvReLU{dim}d").from_float(observed(torch, made, qconfig, x))
        yield from _static(torch, f"relu{dim}d", module, qx)
        conv, norm = getattr(nn, f"Conv{dim}d")(4, 6, 3, bias=False), getattr(nn, f"BatchNorm{dim}d")(6)
        made = fill(torch, getattr(nni, f"ConvBnReLU{dim}d")(conv, norm, nn.ReLU()))
        made = _set_qconfig(torch, made, torch.ao.quantization.get_default_qat_qconfig("fbgemm"))
        made = getattr(torch.ao.nn.intrinsic.qat, f"ConvBnReLU{dim}d").from_float(made)
        made.train()(x)
        made = observed(torch, made, made.qconfig, x)
        module = getattr(nniq, f"ConvReLU{dim}d").from_float(made)
        yield from _static(torch, f"trained{dim}d", module, qx)
    for dim in (2, 3):
        x = xs[dim]
        norm = getattr(nn, f"BatchNorm{dim}d")(4)
        norm.running_mean.copy_(filled(torch, 4))
        made = getattr(nni, f"BNReLU{dim}d")(fill(torch, norm), nn.ReLU())
        module = getattr(nniq, f"BNReLU{dim}d").from_float(observed(torch, made, per_tensor(torch), x))
        yield from _static(torch, f"norm{dim}d", module, quantized(torch, x))


def quantized_norms(torch):
    nn, nnq = torch.nn, torch.ao.nn.quantized
    signal, image, volume = filled(torch, 2, 4, 6), filled(torch, 2, 4, 3, 3), filled(torch, 1, 4, 2, 2, 2)
    qconfig = per_tensor(torch)
    for name, module, x in (
        ("BatchNorm2d", nn.BatchNorm2d(4), image), ("BatchNorm3d", nn.BatchNorm3d(4), volume),
        ("LayerNorm", nn.LayerNorm(6), signal), ("GroupNorm", nn.GroupNorm(2, 4), image),
        ("InstanceNorm1d", nn.InstanceNorm1d(4, affine=True), signal),
        ("InstanceNorm2d", nn.InstanceNorm2d(4, affine=True), image),
        ("InstanceNorm3d", nn.InstanceNorm3d(4, affine=True), volume),
    ):
        made = getattr(nnq, name).from_float(observed(torch, fill(torch, module), qconfig, x))
        yield f"{name} result", made(quantized(torch, x))
        yield f"{name} repr", repr(made)
        yield f"{name} keys", list(made.state_dict())


def quantized_activations(torch):
    nn, nnq = torch.nn, torch.ao.nn.quantized
    x = filled(torch, 3, 5, size=3.0)
    qx = quantized(torch, x, 0.05, 100)
    qconfig = per_tensor(torch)
    for name, module in (("Hardswish", nn.Hardswish()), ("ELU", nn.ELU(0.7)), ("LeakyReLU", nn.LeakyReLU(0.2)),
                         ("Sigmoid", nn.Sigmoid()), ("Softmax", nn.Softmax(1))):
        made = getattr(nnq, name).from_float(observed(torch, module, qconfig, x))
        yield f"{name} result", made(qx)
        yield f"{name} repr", repr(made)
        yield f"{name} keys", list(made.state_dict())
    yield "ReLU6", nnq.ReLU6()(qx)
    yield "ReLU6 repr", repr(nnq.ReLU6.from_float(nn.ReLU6()))
    dropout = nnq.Dropout.from_float(nn.Dropout(0.3))
    yield "dropout", [dropout(qx), repr(dropout)]
    prelu = nnq.PReLU(0.05, 100)
    prelu.set_weight(torch.quantize_per_tensor(torch.tensor([0.27]), 0.01, 0, torch.quint8))
    yield "prelu", prelu(qx)
    f = nnq.QFunctional()
    f.scale, f.zero_point = 0.1, 60
    yield "functional", [f.add(qx, qx), f.mul(qx, qx), f.add_relu(qx, qx), f.cat([qx, qx], 1), f.add_scalar(qx, 0.5),
                         f.mul_scalar(qx, 0.5)]
    yield "functional repr", repr(f)
    yield "functional state", list(f.state_dict().items())


def quantized_stubs(torch):
    nnq = torch.ao.nn.quantized
    module = nnq.Quantize(0.1, 10, torch.quint8)
    yield "quantize", module(filled(torch, 4))
    yield "quantize repr", repr(module)
    yield "quantize state", list(module.state_dict().items())
    yield "dequantize", nnq.DeQuantize()(module(filled(torch, 4)))
    yield "dequantize repr", repr(nnq.DeQuantize())


def quantized_functions(torch):
    nnqf = torch.ao.nn.quantized.functional
    image, volume = filled(torch, 1, 2, 6, 6), filled(torch, 1, 2, 4, 4, 4)
    q2, q3 = quantized(torch, image), quantized(torch, volume)
    x = quantized(torch, filled(torch, 3, 4))
    weight = torch.quantize_per_tensor(filled(torch, 5, 4), 0.01, 0, torch.qint8)
    bias = filled(torch, 5)
    yield "pools", [nnqf.avg_pool2d(q2, 2), nnqf.avg_pool3d(q3, 2), nnqf.adaptive_avg_pool2d(q2, 3),
                    nnqf.adaptive_avg_pool3d(q3, 2), nnqf.max_pool2d(q2, 3, 2, 1),
                    nnqf.max_pool1d(quantized(torch, filled(torch, 1, 2, 8)), 2)]
    yield "interpolate", [nnqf.interpolate(q2, scale_factor=2), nnqf.interpolate(q2, size=(4, 4), mode="bilinear")]
    yield "linear", [nnqf.linear(x, weight, bias), nnqf.linear(x, weight, None, 0.1, 30)]
    kernel = torch.quantize_per_tensor(filled(torch, 3, 2, 3, 3), 0.01, 0, torch.qint8)
    yield "conv2d", nnqf.conv2d(q2, kernel, filled(torch, 3), padding=1, scale=0.1, zero_point=60)
    yield "activations", [nnqf.celu(x, 0.05, 60), nnqf.elu(x, 0.05, 60), nnqf.leaky_relu(x, 0.1),
                          nnqf.leaky_relu(x, 0.1, scale=0.05, zero_point=60), nnqf.hardtanh(x, -0.5, 0.5),
                          nnqf.hardswish(x, 0.05, 60), nnqf.threshold(x, 0.1, 0.0), nnqf.hardsigmoid(x),
                          nnqf.clamp(x, -0.3, 0.3)]
    for name in ("avg_pool2d", "celu", "hardtanh", "interpolate", "threshold"):
        try:
            getattr(nnqf, name)(image, *((0.1, 3) if name in ("celu", "threshold") else (2,)))
        except ValueError as error:
            yield "refused", str(error)


def quantized_embeddings(torch):
    nn, nnq = torch.nn, torch.ao.nn.quantized
    q = torch.ao.quantization
    places = torch.tensor([0, 3, 1, 3])
    for name in ("float_qparams_weight_only_qconfig", "float_qparams_weight_only_qconfig_4bit"):
        table = fill(torch, nn.Embedding(6, 8))
        table.qconfig = getattr(q, name)
        made = nnq.Embedding.from_float(table)
        if "4bit" not in name:
            # PyTorch looks up rows of 4 bits as if they had 8.
            yield f"{name} repr", repr(made)
            yield f"{name} rows", made(places)
            yield f"{name} state", list(made.state_dict().items())
            yield f"{name} copied", copy.deepcopy(made)(places)
        bags = fill(torch, nn.EmbeddingBag(6, 8, mode="sum", include_last_offset=True))
        bags.qconfig = getattr(q, name)
        made = nnq.EmbeddingBag.from_float(bags)
        yield f"{name} bags", made(places, torch.tensor([0, 1, 4]))
        yield f"{name} bags repr", repr(made)


def dynamic_linear(torch):
    nn, nni, nnqd = torch.nn, torch.ao.nn.intrinsic, torch.ao.nn.quantized.dynamic
    q = torch.ao.quantization
    x = filled(torch, 5, 4)
    for name in ("default_dynamic_qconfig", "per_channel_dynamic_qconfig", "float16_dynamic_qconfig"):
        made = fill(torch, nn.Linear(4, 3))
        made.qconfig = getattr(q, name)
        yield from _static(torch, name, nnqd.Linear.from_float(made), x)
    made = nni.LinearReLU(fill(torch, nn.Linear(4, 3)), nn.ReLU())
    made.qconfig = made[0].qconfig = q.default_dynamic_qconfig
    yield from _static(torch, "relu", torch.ao.nn.intrinsic.quantized.dynamic.LinearReLU.from_float(made), x)
    for wrong in (nn.Tanh(), nn.Linear(1, 1)):
        try:
            nnqd.Linear.from_float(wrong)
        except AssertionError as error:
            yield "refused", str(error).replace("corten", "torch")


def dynamic_convolutions(torch):
    nn, nnqd = torch.nn, torch.ao.nn.quantized.dynamic
    xs = {1: filled(torch, 2, 4, 7), 2: filled(torch, 2, 4, 6, 6), 3: filled(torch, 1, 4, 4, 4, 4)}
    for dim, x in xs.items():
        made = fill(torch, getattr(nn, f"Conv{dim}d")(4, 6, 3, padding=1))
        made.qconfig = torch.ao.quantization.default_dynamic_qconfig
        yield from _static(torch, f"conv{dim}d", getattr(nnqd, f"Conv{dim}d").from_float(made), x)
        made = fill(torch, getattr(nn, f"ConvTranspose{dim}d")(4, 6, 3, stride=2))
        made.qconfig = torch.ao.quantization.default_dynamic_qconfig
        module = getattr(nnqd, f"ConvTranspose{dim}d").from_float(made)
        yield f"transposed{dim}d", [module(x), repr(module)]


def dynamic_recurrence(torch):
    nn, nnqd = torch.nn, torch.ao.nn.quantized.dynamic
    q = torch.ao.quantization
    x = filled(torch, 3, 2, 4)
    for kind in ("LSTM", "GRU"):
        for name in ("default_dynamic_qconfig", "float16_dynamic_qconfig"):
            for settings in ({}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}):
                made = fill(torch, getattr(nn, kind)(4, 3, **settings))
                made.qconfig = getattr(q, name)
                module = getattr(nnqd, kind).from_float(made)
                title = f"{kind} {name} {settings}"
                yield title, module(x)
                yield f"{title} repr", repr(module)
                yield f"{title} keys", list(module.state_dict())
                yield f"{title} weights", list(module.get_weight().items())
                yield f"{title} biases", list(module.get_bias().items())
                yield f"{title} copied", torch.equal(copy.deepcopy(module)(x)[0], module(x)[0])
                yield f"{title} pickled", torch.equal(saved(torch, module)(x)[0], module(x)[0])
        packed = nn.utils.rnn.pack_sequence([filled(torch, 3, 4), filled(torch, 2, 4)])
        made = fill(torch, getattr(nn, kind)(4, 3))
        made.qconfig = q.default_dynamic_qconfig
        output, states = getattr(nnqd, kind).from_float(made)(packed)
        yield f"{kind} packed", [output.data, states]
    for kind in ("LSTMCell", "GRUCell", "RNNCell"):
        made = fill(torch, getattr(nn, kind)(4, 3))
        made.qconfig = q.default_dynamic_qconfig
        module = getattr(nnqd, kind).from_float(made)
        yield kind, [module(x[0]), repr(module)]
        yield f"{kind} keys", list(module.state_dict())
        yield f"{kind} weights", list(module.get_weight().items())
    try:
        module(filled(torch, 2, 5))
    except RuntimeError as error:
        yield "refused", str(error)


def modules_of_references(torch):
    """Quantized modules made of reference modules, as graph mode makes them."""
    nn, nni, nnq, nniq = torch.nn, torch.ao.nn.intrinsic, torch.ao.nn.quantized, torch.ao.nn.intrinsic.quantized
    nnqd, nnqr = torch.ao.nn.quantized.dynamic, torch.ao.nn.quantized.reference
    qparams = {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.01, "zero_point": 0}
    x = {1: filled(torch, 2, 4, 6), 2: filled(torch, 2, 4, 5, 5), 3: filled(torch, 1, 4, 4, 4, 4)}
    linear = nnqr.Linear.from_float(fill(torch, nn.Linear(4, 3)), qparams)
    rows = quantized(torch, filled(torch, 5, 4))
    yield "linear", nnq.Linear.from_reference(linear, 0.05, 30)(rows)
    yield "dynamic linear", nnqd.Linear.from_reference(linear)(filled(torch, 5, 4))
    fused = nni.LinearReLU(nn.Linear(4, 3), nn.ReLU())
    fused[0] = linear
    yield "linear relu", nniq.LinearReLU.from_reference(fused, 0.05, 30)(rows)
    yield "dynamic linear relu", torch.ao.nn.intrinsic.quantized.dynamic.LinearReLU.from_reference(fused)(
        filled(torch, 5, 4))
    for dim in (1, 2, 3):
        for kind in ("Conv", "ConvTranspose"):
            made = fill(torch, getattr(nn, f"{kind}{dim}d")(4, 4, 3, padding=1))
            made = getattr(nnqr, f"{kind}{dim}d").from_float(made, qparams)
            module = getattr(nnq, f"{kind}{dim}d").from_reference(made, 0.05, 30)
            yield f"{kind}{dim}d", module(quantized(torch, x[dim]))
        made = fill(torch, getattr(nn, f"Conv{dim}d")(4, 4, 3, padding=1))
        fused = getattr(nni, f"ConvReLU{dim}d")(made, nn.ReLU())
        fused[0] = getattr(nnqr, f"Conv{dim}d").from_float(made, qparams)
        module = getattr(nniq, f"ConvReLU{dim}d").from_reference(fused, 0.05, 30)
        yield f"ConvReLU{dim}d", module(quantized(torch, x[dim]))
    table = dict(qparams, qscheme=torch.per_channel_affine_float_qparams, dtype=torch.quint8, axis=0,
                 scale=torch.full((6,), 0.01), zero_point=torch.full((6,), 100.0))
    made = nnqr.Embedding.from_float(fill(torch, nn.Embedding(6, 8)), table)
    yield "embedding", nnq.Embedding.from_reference(made)(torch.tensor([0, 5]))
    made = nnqr.EmbeddingBag.from_float(fill(torch, nn.EmbeddingBag(6, 8, mode="sum")), table)
    yield "bags", nnq.EmbeddingBag.from_reference(made)(torch.tensor([0, 5]), torch.tensor([0]))
    for kind in ("RNNCell", "LSTMCell", "GRUCell"):
        settings = {"weight_ih": qparams, "weight_hh": qparams, "is_decomposed": False}
        made = getattr(nnqr, kind).from_float(fill(torch, getattr(nn, kind)(4, 3)), settings)
        yield kind, getattr(nnqd, kind).from_reference(made)(filled(torch, 2, 4))
    for kind in ("LSTM", "GRU"):
        made = fill(torch, getattr(nn, kind)(4, 3, bidirectional=True))
        settings = {n: qparams for n in made._flat_weights_names if n.startswith("weight")}
        made = getattr(nnqr, kind).from_float(made, {**settings, "is_decomposed": False})
        yield kind, getattr(nnqd, kind).from_reference(made)(filled(torch, 3, 2, 4))
    norm = fill(torch, nn.BatchNorm2d(4)).eval()
    yield "norm", nnq.BatchNorm2d.from_reference(norm, torch.tensor(0.05), torch.tensor(30))(quantized(torch, x[2]))
    prelu = nn.PReLU(init=0.27)
    q = torch.ao.quantization
    prelu.qconfig = q.QConfig(activation=q.default_observer, weight=q.default_observer)
    # PyTorch's vectors of 32 elements scale what is positive, too; these are fewer.
    yield "prelu", nnq.PReLU.from_reference(prelu, 0.05, 30)(quantized(torch, filled(torch, 3, 5)))


def observed_recurrence(torch):
    """Long short-term memory through observation and conversion, with gates of one scale or of their own."""
    nn, nnqa, nnq = torch.nn, torch.ao.nn.quantizable, torch.ao.nn.quantized
    x = filled(torch, 3, 2, 4)
    qx = quantized(torch, x)
    for settings in ({}, {"num_layers": 2, "bidirectional": True}):
        for split in (False, True):
            made = fill(torch, nn.LSTM(4, 3, **settings)).eval()
            made.qconfig = per_tensor(torch)
            module = nnqa.LSTM.from_float(made, split_gates=split)
            output, _ = module(x)
            title = f"{settings} {split}"
            yield f"{title} observed", output
            converted = nnq.LSTM.from_observed(module)
            output, (h, c) = converted(qx)
            yield f"{title} converted", [output, h, c]
            yield f"{title} keys", list(converted.state_dict())
            yield f"{title} name", repr(converted).split("\n")[0]


def observed_attention(torch):
    nn, nnqa, nnq = torch.nn, torch.ao.nn.quantizable, torch.ao.nn.quantized
    x = filled(torch, 3, 2, 8)
    qx = quantized(torch, x)
    for settings in ({}, {"bias": False}):
        made = fill(torch, nn.MultiheadAttention(8, 2, **settings)).eval()
        made.qconfig = per_tensor(torch)
        module = nnqa.MultiheadAttention.from_float(made)
        yield f"{settings} observed", module(x, x, x)
        converted = nnq.MultiheadAttention.from_observed(module)
        yield f"{settings} converted", converted(qx, qx, qx)
        yield f"{settings} keys", list(converted.state_dict())
        yield f"{settings} name", repr(converted).split("\n")[0]


FLOAT = (
    fused_modules, modules_in_training, normalization_in_training, embeddings_in_training, quantizable_recurrence,
    quantizable_attention, functional_modules,
)
CASES = (
    *FLOAT, reference_modules, reference_recurrence, quantized_linear, quantized_linear_activations,
    quantized_convolutions, fused_quantized_convolutions, quantized_norms, quantized_activations, quantized_stubs, quantized_functions,
    quantized_embeddings, dynamic_linear, dynamic_convolutions, dynamic_recurrence,
    modules_of_references, observed_recurrence, observed_attention,
)


def written(torch, value):
    """A value as JSON has it."""
    if isinstance(value, torch.Tensor):
        if value.is_quantized:
            return _quantized_written(torch, value)
        wide = value.detach().to(torch.float64) if value.dtype == torch.bfloat16 else value.detach()
        return {"dtype": str(value.dtype), "shape": list(value.shape), "values": wide.reshape(-1).tolist()}
    if isinstance(value, (list, tuple)):
        return [written(torch, part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _quantized_written(torch, value):
    scheme = value.qscheme()
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        parameters = [value.q_scale(), value.q_zero_point()]
    else:
        parameters = [value.q_per_channel_scales().tolist(), value.q_per_channel_zero_points().tolist(),
                      value.q_per_channel_axis()]
    return {"dtype": str(value.dtype), "shape": list(value.shape), "scheme": str(scheme), "parameters": parameters,
            "values": value.int_repr().reshape(-1).tolist()}
