"""Programs over ``torch.ao.quantization`` that give the same on PyTorch and on this package: each yields labels and
values, which tests/goldens/make/quantization.py writes down."""

from __future__ import annotations

import copy
import operator
import re
from importlib import import_module


def filled(torch, *shape, step=0.37, size=1.0):
    """Numbers that no generator draws and that every processor computes alike: odd multiples of 1/256."""
    count = 1
    for length in shape:
        count *= length
    numbers = (torch.arange(count) * int(1000 * step) + 17 * count) % 241 - 120
    return ((2 * numbers + 1).to(torch.float32) / 256 * size).reshape(shape)


def fill(torch, module, size=0.5):
    """Gives all parameters of a module such numbers."""
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(filled(torch, *parameter.shape, step=0.31 + 0.07 * place, size=size))
    return module


def quantization(torch, name=""):
    return import_module(f"{torch.__name__}.ao.quantization{name}")


def images(torch, count=3):
    return [filled(torch, 2, 1, 8, 8, step=0.11 + 0.05 * index, size=1 + index) for index in range(count)]


def sequences(torch, count=3):
    return [filled(torch, 3, 2, 9, step=0.13 + 0.05 * index, size=1 + index) for index in range(count)]


def vectors(torch, count=3):
    return [filled(torch, 3, 8, step=0.17 + 0.05 * index, size=1 + index) for index in range(count)]


def named(torch, text):
    """A text without the package's name, whose floats have 4 digits."""
    text = str(text).replace(torch.__name__, "torch")
    return re.sub(r"-?[0-9]+\.[0-9]+(e-?[0-9]+)?", lambda found: f"{float(found[0]):.4g}", text)


def summary(torch, model):
    """Keys of a state with shapes, dtypes and sums, in integers where they are quantised."""
    lines = []
    for key, value in model.state_dict().items():
        if not isinstance(value, torch.Tensor):
            lines.append([key, value is not None])
            continue
        value = value.int_repr() if value.is_quantized else value
        total = float(value.double().sum()) if value.numel() else 0.0
        lines.append([key, list(value.shape), named(torch, value.dtype), total])
    return lines


# ---------------------------------------------------------------------------------------------- observers


def _ranges(torch):
    limits = ({}, {"reduce_range": True}, {"quant_min": 0, "quant_max": 127}, {"quant_min": -8, "quant_max": 7})
    for dtype in (torch.quint8, torch.qint8, torch.int8, torch.uint8, torch.qint32, torch.int16):
        for kwargs in limits:
            yield {"dtype": dtype, **kwargs}


def _observe(torch, make, inputs):
    observer = make()
    for x in inputs:
        observer(x)
    return [observer.calculate_qparams(), observer.min_val, observer.max_val, observer.quant_min, observer.quant_max]


def observers_of_tensors(torch):
    q = quantization(torch)
    signed = sequences(torch)
    for name in ("MinMaxObserver", "MovingAverageMinMaxObserver"):
        for scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            for kwargs in _ranges(torch):
                label = f"{name} {scheme} {named(torch, kwargs)}"
                for inputs in (signed, [x.relu() for x in signed], [-x.relu() for x in signed]):
                    try:
                        yield label, _observe(torch, lambda: getattr(q, name)(qscheme=scheme, **kwargs), inputs)
                    except NotImplementedError as error:
                        yield label, str(error)


def observers_of_channels(torch):
    q = quantization(torch)
    schemes = (torch.per_channel_affine, torch.per_channel_symmetric, torch.per_channel_affine_float_qparams)
    for name in ("PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"):
        for scheme in schemes:
            for dtype in (torch.quint8, torch.qint8):
                for axis in (0, 1, -1):
                    def make():
                        return getattr(q, name)(qscheme=scheme, dtype=dtype, ch_axis=axis)
                    yield f"{name} {scheme} {dtype} {axis}", _observe(torch, make, sequences(torch))


def histograms(torch):
    q = quantization(torch)
    wide = [filled(torch, 40, 50, step=0.7 + index, size=2.0**index) ** 3 for index in range(3)]
    for inputs in (wide, wide[::-1], wide[:1] * 2, [x.relu() for x in wide], [torch.ones(5), torch.ones(5) * 3]):
        for kwargs in ({}, {"reduce_range": True}, {"dtype": torch.qint8}, {"qscheme": torch.per_tensor_symmetric},
                       {"bins": 64}, {"quant_min": 0, "quant_max": 127}):
            yield named(torch, kwargs), _observe(torch, lambda: q.HistogramObserver(**kwargs), inputs)
    observer = q.HistogramObserver(bins=16)
    observer(torch.tensor([1.0, float("inf"), 2.0, -float("inf")]))
    observer(torch.zeros(0))
    yield "infinite", [observer.histogram, observer.min_val, observer.max_val]
    other = q.HistogramObserver(bins=16)
    other.load_state_dict(observer.state_dict())
    yield "loaded", [other.calculate_qparams(), list(observer.state_dict()), observer.state_dict()._metadata]


def states_of_observers(torch):
    q = quantization(torch)
    observer = q.PerChannelMinMaxObserver()
    yield "unseen", observer.calculate_qparams()
    observer(sequences(torch)[0])
    other = q.PerChannelMinMaxObserver()
    other.load_state_dict(observer.state_dict())
    yield "loaded", [other.min_val, other.max_val]
    observer.reset_min_max_vals()
    yield "reset", [list(observer.min_val.shape), observer.extra_repr()]
    observer = q.MinMaxObserver()
    yield "unseen", [observer.calculate_qparams(), repr(observer), str(observer.state_dict()._metadata)]
    observer(torch.tensor([1.0]))
    observer.reset_min_max_vals()
    yield "reset", repr(observer)
    model = q.prepare(_small(torch).eval())
    for x in images(torch):
        model(x)
    state = q.get_observer_state_dict(model)
    yield "observers", list(state)
    again = q.prepare(_small(torch).eval())
    q.load_observer_state_dict(again, state)
    yield "again", summary(torch, again)


def other_observers(torch):
    q = quantization(torch)
    x = sequences(torch)[0]
    fixed = q.default_fixed_qparams_range_neg1to1_observer()
    yield "fixed", [fixed(x).sum(), fixed.calculate_qparams()]
    recording = q.RecordingObserver()
    recording(x)
    yield "recorded", recording.get_tensor_value()[0]
    for name in ("PlaceholderObserver", "NoopObserver", "ReuseInputObserver", "RecordingObserver"):
        observer = getattr(q, name)()
        observer(x)
        try:
            observer.calculate_qparams()
        except Exception as error:
            yield name, [str(error), named(torch, observer.dtype), observer.is_dynamic, repr(observer)]
    twice = q.MinMaxObserver.with_args(quant_min=0).with_args(quant_max=9)
    yield "with_args", [twice().quant_max, named(torch, repr(twice))]
    counts = iter(range(9))
    made = q.MinMaxObserver.with_callable_args(quant_max=lambda: 10 + next(counts)).with_args(quant_min=0)
    yield "with_callable_args", [made().quant_max, made().quant_max, made(quant_max=3).quant_max]
    for granularity in (q.PerTensor(), q.PerAxis(1), q.PerGroup(2), q.PerRow(), q.PerToken()):
        yield str(granularity), list(q.get_block_size((4, 6), granularity))
    for bad in (
        lambda: q.MinMaxObserver(qscheme=torch.per_channel_affine), lambda: q.MinMaxObserver(dtype=torch.float32),
        lambda: q.PerChannelMinMaxObserver(qscheme=torch.per_tensor_affine),
        lambda: q.PerChannelMinMaxObserver(is_dynamic=True), lambda: q.HistogramObserver(is_dynamic=True),
        lambda: q.MovingAverageMinMaxObserver(is_dynamic=True), lambda: q.MinMaxObserver(quant_min=1, quant_max=5),
        lambda: q.MinMaxObserver(dtype=torch.qint8, quant_min=-200, quant_max=200),
        lambda: q.MovingAveragePerChannelMinMaxObserver(qscheme=torch.per_tensor_affine),
        lambda: q.get_block_size((2,), q.PerGroup(2)), lambda: q.get_block_size((2,), q.PerBlock((1,))),
        lambda: q.FixedQParamsObserver(1.0, 0, is_dynamic=True), lambda: q.QConfig(q.MinMaxObserver(), None),
    ):
        try:
            bad()
        except (NotImplementedError, AssertionError, ValueError) as error:
            # The list of all dtypes is told by their names on PyTorch.
            yield "refused", [type(error).__name__, named(torch, error)]


def constructors(torch):
    q = quantization(torch)
    for home in ("observer", "fake_quantize"):
        module = quantization(torch, f".{home}")
        for name in sorted(module.__all__):
            if name.startswith(("default_", "fused_", "weight_", "per_channel_weight_")):
                made = getattr(module, name)()
                found = [type(made).__name__, named(torch, made.dtype), named(torch, getattr(made, "qscheme", None))]
                limits = [getattr(made, limit, None) for limit in ("quant_min", "quant_max", "ch_axis", "is_dynamic")]
                yield name, found + limits + [list(made.state_dict())]
    for name in sorted(dir(q)):
        value = getattr(q, name)
        if isinstance(value, q.QConfig):
            made = [value.activation(), value.weight()]
            yield name, [[type(one).__name__, named(torch, getattr(one, "dtype", None))] for one in made]
    for backend in ("x86", "fbgemm", "qnnpack", "onednn"):
        for mapping in (q.get_default_qconfig_mapping(backend), q.get_default_qat_qconfig_mapping(backend)):
            types = mapping.object_type_qconfigs
            yield backend, [getattr(kind, "__name__", str(kind)) for kind in types]
            yield backend, [q.qconfig_equals(one, mapping.global_qconfig) for one in types.values()]
            again = q.QConfigMapping.from_dict(mapping.to_dict())
            yield backend, again.to_dict() == mapping.to_dict()


def mappings(torch):
    module = quantization(torch, ".quantization_mappings")
    for name in sorted(module.__all__):
        value = getattr(module, name)
        # Quantised layers of sparse weights are absent.
        if isinstance(value, dict) and "SPARSE" not in name:
            pairs = ([named(torch, getattr(one, "__name__", one)) for one in pair] for pair in value.items())
            yield name, sorted(pairs)
    for function in ("get_default_qconfig_propagation_list", "get_default_compare_output_module_list", "no_observer_set"):
        yield function, sorted(named(torch, one) for one in getattr(module, function)())


def _described(torch, value):
    if isinstance(value, tuple):
        return [_described(torch, one) for one in value]
    if callable(value):
        return "function" if "fuse" in getattr(value, "__name__", "fuse") else value.__name__
    if isinstance(value, dict):
        return {str(key): _described(torch, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_described(torch, one) for one in value]
    return named(torch, value)


def backends(torch):
    import hashlib

    config = quantization(torch, ".backend_config")
    quantization(torch, ".backend_config.utils")
    for name in ("native", "fbgemm", "qnnpack", "onednn", "tensorrt", "executorch"):
        backend = getattr(config, f"get_{name}_backend_config")()
        yield name, [backend.name, len(backend.configs)]
        for pattern, one in backend._pattern_complex_format_to_config.items():
            settings = one.to_dict()
            for key in ("pattern", "fuser_method", "root_node_getter", "extra_inputs_getter"):
                settings.pop(key, None)
            settings.pop("pattern_complex_format", None)
            text = str(sorted(_described(torch, settings).items()))
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            yield str(_described(torch, pattern)), [len(text), digest]
        again = config.BackendConfig.from_dict(backend.to_dict())
        yield "again", len(again.configs)


# --------------------------------------------------------------------------------------------- eager mode


def _small(torch):
    q = quantization(torch)
    nn = torch.nn
    model = nn.Sequential(q.QuantStub(), nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 4), q.DeQuantStub())
    model.qconfig = q.default_qconfig
    return fill(torch, model, 0.2)


def _network(torch):
    """A network with what eager mode treats in a way of its own."""
    q, nn = quantization(torch), torch.nn
    nnq = import_module(f"{torch.__name__}.ao.nn.quantized")

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()
            self.conv2, self.relu2 = nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()
            self.add, self.drop = nnq.FloatFunctional(), nn.Dropout(0.0)
            self.pool, self.fc, self.sigmoid = nn.MaxPool2d(2), nn.Linear(36, 5), nn.Sigmoid()

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            x = self.add.add(x, self.relu2(self.conv2(x)))
            x = self.pool(self.drop(x)).flatten(1)
            return self.dequant(self.sigmoid(self.fc(x)))

    return fill(torch, Network())


def eager_preparation(torch):
    q = quantization(torch)
    for backend in ("x86", "qnnpack"):
        for fused in (True, False):
            model = _network(torch).eval()
            if fused:
                model = q.fuse_modules(model, [["conv", "bn", "relu"], ["conv2", "relu2"]])
            model.qconfig = q.get_default_qconfig(backend)
            model = q.prepare(model)
            for x in images(torch):
                model(x)
            yield "prepared", named(torch, model)
            yield "state", summary(torch, model)
            reference = q.convert(model, is_reference=True)
            yield "reference", [f"{name}: {type(one).__name__}" for name, one in reference.named_modules()]
    model = _network(torch).train()
    q.fuse_modules_qat(model, [["conv", "bn", "relu"], ["conv2", "relu2"]], inplace=True)
    model.qconfig = q.get_default_qat_qconfig("x86", 0)
    model = q.prepare_qat(model)
    yield "for training", [f"{name}: {type(one).__name__}" for name, one in model.named_modules()]


def eager_conversion(torch):
    q = quantization(torch)
    for backend in ("x86", "qnnpack"):
        for fused in (True, False):
            model = _network(torch).eval()
            if fused:
                model = q.fuse_modules(model, [["conv", "bn", "relu"], ["conv2", "relu2"]])
            model.qconfig = q.get_default_qconfig(backend)
            model = q.prepare(model)
            for x in images(torch):
                model(x)
            model = q.convert(model)
            yield "converted", named(torch, model)
            yield "state", summary(torch, model)
            yield "output", model(images(torch)[0])
    model = q.quantize(_small(torch), lambda model, inputs: [model(x) for x in inputs], [images(torch)])
    yield "quantized", model(images(torch)[0])


def eager_training(torch):
    q = quantization(torch)
    for version in (0, 1):
        model = _network(torch).train()
        q.fuse_modules_qat(model, [["conv", "bn", "relu"], ["conv2", "relu2"]], inplace=True)
        model.qconfig = q.get_default_qat_qconfig("x86", version)
        model = q.prepare_qat(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            loss = (model(images(torch)[step % 3]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield f"loss {step}", float(loss)
        model.apply(q.disable_observer)
        model.apply(q.enable_fake_quant)
        yield "state", summary(torch, model)


def eager_conversion_after_training(torch):
    q = quantization(torch)
    model = _network(torch).train()
    q.fuse_modules_qat(model, [["conv", "bn", "relu"], ["conv2", "relu2"]], inplace=True)
    model.qconfig = q.get_default_qat_qconfig("x86", 0)
    model = q.prepare_qat(model)
    for x in images(torch):
        model(x)
    model = q.convert(model.eval())
    yield "converted", named(torch, model)
    yield "output", model(images(torch)[0])


def _recurrent(torch):
    nn = torch.nn

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.lstm, self.gru = nn.Embedding(10, 8), nn.LSTM(8, 8), nn.GRU(8, 8)
            self.fc, self.relu = nn.Linear(8, 3), nn.ReLU()

        def forward(self, x):
            return self.relu(self.fc(self.gru(self.lstm(self.emb(x))[0])[0]))

    return fill(torch, Recurrent())


def dynamic(torch):
    q = quantization(torch)
    x = torch.arange(6).reshape(2, 3)
    for spec, dtype in ((None, torch.qint8), ({torch.nn.Linear}, torch.qint8), (None, torch.quint8),
                        ({"fc": q.per_channel_dynamic_qconfig}, torch.qint8)):
        model = q.quantize_dynamic(_recurrent(torch), spec, dtype)
        yield "model", named(torch, model)
        yield "output", model(x)
    for bad in (lambda: q.quantize_dynamic(_recurrent(torch), None, torch.int8),
                lambda: q.quantize_dynamic(_recurrent(torch), {torch.nn.Linear}, torch.int8)):
        try:
            bad()
        except (ValueError, RuntimeError) as error:
            yield "refused", named(torch, error)


def wrappers(torch):
    q, nn = quantization(torch), torch.nn
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 1)))
    model.qconfig = q.default_qconfig
    q.propagate_qconfig_(model)
    yield "wrapped", repr(q.add_quant_dequant(model))
    for bad in (lambda: q.prepare_qat(_small(torch).eval()), lambda: q.get_default_qconfig("none"),
                lambda: q.fuse_modules(_small(torch).eval(), ["0", "1"]), lambda: q.get_default_qat_qconfig("x86", 3),
                lambda: q.get_static_quant_module_class(nn.CELU), lambda: q.get_quantized_operator("none")):
        try:
            bad()
        except AssertionError as error:
            yield "refused", named(torch, error)
    one, two = fill(torch, nn.Linear(3, 4)), fill(torch, nn.Linear(4, 2))
    x, both = filled(torch, 2, 3), nn.Sequential(one, two)
    before = both(x)
    equalize = quantization(torch, "._equalize")
    equal = equalize.equalize(both, [["0", "1"]], 1e-4)
    yield "equalized", [bool((equal(x) - before).abs().max() < 1e-4), equal[0].weight]


# --------------------------------------------------------------------------------------------- graph mode


def _residual(torch):
    nn, F = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.b1, self.r = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()
            self.c2, self.b2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.pool, self.fc, self.drop = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 5), nn.Dropout(0.0)

        def forward(self, x):
            x = self.r(self.b1(self.c1(x)))
            x = F.relu(x + self.b2(self.c2(x)))
            return self.fc(torch.flatten(self.drop(self.pool(x)), 1))

    return fill(torch, Residual())


def _functions(torch):
    nn, F = torch.nn, torch.nn.functional

    class Functions(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = nn.Parameter(torch.zeros(6, 16)), nn.Parameter(torch.zeros(6))
            self.cw, self.norm = nn.Parameter(torch.zeros(3, 1, 3, 3)), nn.LayerNorm(6)
            self.sigmoid, self.hardswish = nn.Sigmoid(), nn.Hardswish()

        def forward(self, x):
            x = F.max_pool2d(F.relu(F.conv2d(x, self.cw, None, (1, 1), (1, 1), (1, 1), 1)), 2)
            y = F.avg_pool2d(F.hardswish(torch.cat([x, x * 2.0], dim=1)), 2)
            y = y.reshape(y.shape[0], -1)[:, :16]
            z = self.norm(F.relu(F.linear(y, self.w, bias=self.b)))
            z = z.unsqueeze(1).permute(0, 2, 1).contiguous().squeeze(-1)
            z = self.hardswish(torch.tanh(self.sigmoid(torch.mul(F.elu(z) + 1.0, z))))
            return torch.matmul(z, z.transpose(0, 1))

    return fill(torch, Functions())


def _layers(torch):
    nn = torch.nn
    nnq = import_module(f"{torch.__name__}.ao.nn.quantized")

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.ff = nnq.FloatFunctional()
            self.seq = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 4, 1))
            self.up, self.leaky, self.elu = nn.ConvTranspose1d(4, 4, 2), nn.LeakyReLU(), nn.ELU()
            self.linear, self.norm, self.softmax = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Softmax(-1)

        def forward(self, x):
            y = self.seq(x)
            y = self.ff.add_scalar(self.ff.add(y, y), 1.0)
            y = self.elu(self.leaky(self.up(y)))
            y = y.view(y.size(0), -1)[:, :6]
            return self.softmax(self.norm(self.linear(y)))

    return fill(torch, Layers())


def _graph(torch, graph_module):
    return [
        f"{node.op} {node.name} {getattr(node.target, '__name__', node.target)} {named(torch, node.args)} {node.kwargs}"
        for node in graph_module.graph.nodes
    ]


def _kinds(torch, model):
    return [f"{name}: {type(one).__name__}" for name, one in model.named_modules() if name]


def _prepared(torch, model, mapping, inputs, **settings):
    fx = quantization(torch, ".quantize_fx")
    prepared = fx.prepare_fx(copy.deepcopy(model).eval(), mapping, (inputs[0],), **settings)
    for x in inputs:
        prepared(x)
    return prepared


def _fx_programs(torch):
    q = quantization(torch)
    x86, qnnpack = q.get_default_qconfig_mapping("x86"), q.get_default_qconfig_mapping("qnnpack")
    yield "residual", _residual(torch), x86, images(torch)
    yield "residual of qnnpack", _residual(torch), qnnpack, images(torch)
    yield "functions", _functions(torch), x86, images(torch)
    yield "layers", _layers(torch), x86, sequences(torch)
    without = copy.deepcopy(x86).set_module_name("c2", None).set_object_type(operator.add, None)
    yield "without", _residual(torch), without, images(torch)
    order = copy.deepcopy(x86).set_module_name_object_type_order("", torch.nn.Conv2d, 0, None)
    yield "by place", _residual(torch), order.set_module_name_regex("f.*", None), images(torch)


def fx_preparation(torch):
    fx = quantization(torch, ".quantize_fx")
    for label, model, mapping, inputs in _fx_programs(torch):
        prepared = _prepared(torch, model, mapping, inputs)
        yield label, _graph(torch, prepared)
        yield label, [_kinds(torch, prepared), summary(torch, prepared)]
        for convert in (fx.convert_to_reference_fx, fx._convert_to_reference_decomposed_fx):
            converted = convert(copy.deepcopy(prepared))
            yield label, [_graph(torch, converted), _kinds(torch, converted)]


def fx_conversion(torch):
    fx = quantization(torch, ".quantize_fx")
    for label, model, mapping, inputs in _fx_programs(torch):
        prepared = _prepared(torch, model, mapping, inputs)
        reference = fx.convert_to_reference_fx(copy.deepcopy(prepared))
        yield label, reference(inputs[0])
        converted = fx.convert_fx(prepared)
        yield label, [_graph(torch, converted), _kinds(torch, converted), summary(torch, converted)]
        yield label, converted(inputs[0])


def fx_decomposed(torch):
    fx = quantization(torch, ".quantize_fx")
    for label, model, mapping, inputs in _fx_programs(torch):
        prepared = _prepared(torch, model, mapping, inputs)
        yield label, fx._convert_to_reference_decomposed_fx(prepared)(inputs[0])


def fx_training(torch):
    q, fx = quantization(torch), quantization(torch, ".quantize_fx")
    for version in (0, 1):
        mapping = q.get_default_qat_qconfig_mapping("x86", version)
        model = fx.prepare_qat_fx(_residual(torch).train(), mapping, (images(torch)[0],))
        yield "graph", [_graph(torch, model), _kinds(torch, model)]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(5):
            loss = (model(images(torch)[step % 3]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield f"loss {step}", float(loss)


def fx_conversion_after_training(torch):
    q, fx = quantization(torch), quantization(torch, ".quantize_fx")
    mapping = q.get_default_qat_qconfig_mapping("x86", 0)
    model = fx.prepare_qat_fx(_residual(torch).train(), mapping, (images(torch)[0],))
    for x in images(torch):
        model(x)
    converted = fx.convert_fx(model.eval())
    yield "graph", [_graph(torch, converted), _kinds(torch, converted), summary(torch, converted)]
    yield "output", converted(images(torch)[0])


def fx_dynamic(torch):
    q, fx, nn = quantization(torch), quantization(torch, ".quantize_fx"), torch.nn
    mapping = q.QConfigMapping().set_object_type(nn.Embedding, q.float_qparams_weight_only_qconfig)
    for kind in (nn.LSTM, nn.GRU, nn.Linear, nn.ReLU):
        mapping.set_object_type(kind, q.default_dynamic_qconfig)
    x = torch.arange(6).reshape(2, 3)
    prepared = fx.prepare_fx(_recurrent(torch).eval(), mapping, (x,))
    yield "prepared", [_graph(torch, prepared), _kinds(torch, prepared)]
    converted = fx.convert_fx(prepared)
    yield "converted", [_graph(torch, converted), _kinds(torch, converted)]
    yield "output", converted(x)


def _nested(torch):
    nn = torch.nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Linear(8, 8)

        def forward(self, x):
            return nn.functional.relu(self.c(x))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.inner, self.opaque, self.kept = nn.Linear(8, 8), Inner(), Inner(), 7

        def forward(self, x):
            return self.opaque(self.inner(self.a(x)))

    return fill(torch, Outer())


def fx_settings(torch):
    q, fx = quantization(torch), quantization(torch, ".quantize_fx")
    custom = quantization(torch, ".fx.custom_config")
    mapping, inputs = q.get_default_qconfig_mapping("x86"), vectors(torch)
    config = custom.PrepareCustomConfig().set_non_traceable_module_names(["opaque"]).set_preserved_attributes(["kept"])
    inner = custom.PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    config.set_standalone_module_name("inner", None, (inputs[0],), inner, None)
    prepared = _prepared(torch, _nested(torch), mapping, inputs, prepare_custom_config=config)
    yield "apart", [_graph(torch, prepared), _graph(torch, prepared.inner), _kinds(torch, prepared), prepared.kept]
    ends = custom.PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    prepared = _prepared(torch, _residual(torch), mapping, images(torch), prepare_custom_config=ends)
    yield "ends", _graph(torch, prepared)
    yield "converted ends", _graph(torch, fx.convert_to_reference_fx(prepared))
    fused = fx.fuse_fx(_residual(torch).eval())
    yield "fused", [_graph(torch, fused), _kinds(torch, fused)]
    onednn = quantization(torch, ".backend_config").get_onednn_backend_config()
    fused = fx.fuse_fx(_residual(torch).eval(), backend_config=onednn)
    yield "fused sums", [_graph(torch, fused), _kinds(torch, fused)]
    half = copy.deepcopy(mapping).set_object_type(torch.nn.Linear, None)
    prepared = _prepared(torch, _residual(torch), mapping, images(torch))
    yield "less", _graph(torch, fx.convert_to_reference_fx(prepared, qconfig_mapping=half))
    yield "settings", [sorted(config.to_dict()), str(ends), ends.to_dict()]
    conflict = copy.deepcopy(mapping).set_object_type(torch.nn.ReLU, None)
    conflict.set_object_type(torch.nn.Conv2d, q.default_qconfig)
    for bad in (lambda: _prepared(torch, _residual(torch), conflict, images(torch)),
                lambda: fx.convert_fx(_residual(torch)), lambda: fx.convert_fx(torch.fx.symbolic_trace(_residual(torch))),
                lambda: custom.PrepareCustomConfig().set_float_to_observed_mapping(int, int, q.QuantType.QAT)):
        try:
            bad()
        except (LookupError, ValueError, AssertionError) as error:
            yield "refused", named(torch, str(error).partition("<class")[0])


#: Programs that quantise no tensor.
FLOAT = (
    observers_of_tensors, observers_of_channels, histograms, states_of_observers, other_observers, constructors,
    mappings, backends, eager_preparation, wrappers, fx_preparation, fx_settings,
)
CASES = (
    *FLOAT, eager_training, fx_training, eager_conversion, eager_conversion_after_training, dynamic, fx_conversion,
    fx_decomposed, fx_conversion_after_training, fx_dynamic,
)
