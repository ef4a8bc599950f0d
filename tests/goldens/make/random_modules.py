"""Writes tests/goldens/random_modules.safetensors: modules with random settings, inputs and dtypes, what PyTorch gives
for them, and the gradients.

A case is a line of the file's metadata, `name key=value ...`, and tensors: `N.in.0`, the inputs; `N.state.*`, the
state dict; `N.out.0`, the outputs; `N.grad.*`, the gradients of the sum of the outputs times their sines; inputs
are `N.grad.in.0`. An input whose last two dimensions are to be swapped before use, so that it is not contiguous, is in
`swapped`. Run by a Python that has PyTorch and safetensors.
"""

import random
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

ROOT = Path(__file__).resolve().parents[3]
R = random.Random(11)
pick = R.choice


def flag(share=0.5):
    return R.random() < share


class Cases:
    def __init__(self):
        self.lines, self.tensors, self.names = [], {}, set()

    def add(self, name, settings, build, inputs, call=None, training=True, dtype=torch.float32, swap=(),
            leaves=9):
        """One case; `settings` is what Rust builds the module from, `build` what PyTorch does."""
        number = len(self.lines)
        module = build().to(dtype)
        for parameter in module.parameters():
            with torch.no_grad():
                parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.4)
        module.train(training)
        state = {key: value.clone() for key, value in module.state_dict().items()}
        given, tensors = [], {}
        for place, tensor in enumerate(inputs):
            tensor = tensor.to(dtype) if tensor.is_floating_point() else tensor
            stored = tensor.transpose(-1, -2).contiguous() if place in swap else tensor.contiguous()
            tensors[f"{number}.in.{place}"] = stored.clone()
            used = stored.transpose(-1, -2) if place in swap else stored.clone()
            given.append(used.detach().requires_grad_(used.is_floating_point() and place < leaves))
        outputs = (call or (lambda module, *xs: module(*xs)))(module, *given)
        outputs = [x for x in (outputs if isinstance(outputs, (tuple, list)) else [outputs]) if x is not None]
        for place, output in enumerate(outputs):
            tensors[f"{number}.out.{place}"] = output.detach().contiguous().clone()
        floating = [x for x in outputs if x.is_floating_point() and x.requires_grad]
        if floating:
            sum((x * torch.sin(torch.arange(x.numel(), dtype=torch.float64) + 1).to(x.dtype).reshape(x.shape)).sum()
                for x in floating).backward()
        for key, value in state.items():
            tensors[f"{number}.state.{key}"] = value.contiguous()
        for key, parameter in module.named_parameters():
            if parameter.grad is not None:
                tensors[f"{number}.grad.{key}"] = parameter.grad.contiguous()
        for place, tensor in enumerate(given):
            if tensor.grad is not None:
                tensors[f"{number}.grad.in.{place}"] = tensor.grad.contiguous()
        for key, value in module.state_dict().items():
            if not torch.equal(value, state[key]) and key not in dict(module.named_parameters()):
                tensors[f"{number}.after.{key}"] = value.contiguous().clone()
        self.tensors |= tensors
        text = " ".join(f"{key}={value}" for key, value in settings.items())
        kind = str(dtype).split(".")[1]
        self.lines.append(f"{name} training={int(training)} dtype={kind} swapped={int(bool(swap))} leaves={leaves} {text}")
        self.names.add(name)


def some_dtype():
    return pick([torch.float32, torch.float32, torch.float64])


def convolutions(cases):
    for turn in range(36):
        n = 1 + turn % 3
        groups = pick([1, 1, 2])
        channels = groups * R.randint(1, 2), groups * R.randint(1, 2)
        kernel, dilation = R.randint(1, 3), R.randint(1, 2)
        transposed = turn >= 24
        shape = [R.randint(0, 2)] if flag(0.3) else [2]
        shape = ([] if flag(0.25) else shape) + [channels[0]] + [R.randint(5, 7) for _ in range(n)]
        bias, stride, padding = flag(0.7), R.randint(1, 3), R.randint(0, 2)
        settings = dict(n=n, i=channels[0], o=channels[1], kernel=kernel, dilation=dilation, groups=groups, bias=int(bias))
        if transposed:
            extra = R.randint(0, max(stride, dilation) - 1)
            settings |= dict(stride=stride, padding=padding, extra=extra)
            made = getattr(nn, f"ConvTranspose{n}d")
            build = lambda: made(*channels, kernel, stride, padding, extra, groups, bias, dilation)  # noqa: E731
            name = "conv_transpose"
        else:
            mode = pick(["zeros", "zeros", "reflect", "replicate", "circular"])
            named = pick([None, None, "same", "valid"])
            stride = 1 if named == "same" else stride
            settings |= dict(stride=stride, padding=named or padding, mode=mode)
            made = getattr(nn, f"Conv{n}d")
            build = lambda: made(*channels, kernel, stride, named or padding, dilation, groups, bias, mode)  # noqa: E731
            name = "conv"
        swap = (0,) if n > 1 and flag(0.4) else ()
        try:
            cases.add(name, settings, build, [torch.randn(shape)], dtype=some_dtype(), swap=swap)
        except RuntimeError as error:
            print("left out:", settings, str(error)[:80])


def pools(cases):
    for turn in range(30):
        n = 1 + turn % 3
        kernel, stride = R.randint(1, 3), R.randint(1, 3)
        padding, ceil = R.randint(0, kernel // 2), flag()
        shape = ([] if flag(0.3) else [pick([2, 1, 0]) if n == 2 else 2]) + [3] + [R.randint(4, 7) for _ in range(n)]
        settings = dict(n=n, kernel=kernel, stride=stride, padding=padding, ceil=int(ceil))
        kind = ["max", "avg", "lp", "adaptive_avg", "adaptive_max"][turn // 3 % 5]
        swap = (0,) if n > 1 and flag(0.4) else ()
        if kind == "max":
            settings["dilation"] = dilation = R.randint(1, 2)
            build = lambda: getattr(nn, f"MaxPool{n}d")(kernel, stride, padding, dilation, True, ceil)  # noqa: E731
        elif kind == "avg":
            counted, divisor = flag(), pick([None, 3]) if n > 1 else None
            settings |= dict(counted=int(counted), divisor=divisor or 0)
            extra = (divisor,) if n > 1 else ()
            build = lambda: getattr(nn, f"AvgPool{n}d")(kernel, stride, padding, ceil, counted, *extra)  # noqa: E731
        elif kind == "lp":
            settings["p"] = p = pick([1.0, 2.0, 3.0])
            build = lambda: getattr(nn, f"LPPool{n}d")(p, kernel, stride, ceil)  # noqa: E731
        else:
            settings["size"] = size = R.randint(1, 5)
            name = "AdaptiveAvgPool" if kind == "adaptive_avg" else "AdaptiveMaxPool"
            build = lambda: getattr(nn, f"{name}{n}d")(size)  # noqa: E731
        positive = torch.rand(shape) + 0.1 if kind == "lp" else torch.randn(shape)
        try:
            cases.add(f"pool_{kind}", settings, build, [positive], dtype=some_dtype(), swap=swap)
        except (RuntimeError, IndexError, TypeError) as error:
            print("left out:", kind, settings, shape, str(error)[:80])


def norms(cases):
    for turn in range(32):
        n, channels = turn % 4, pick([2, 4])
        training, affine, tracked, bias = flag(), flag(0.7), flag(0.7), flag(0.7)
        momentum = pick([0.1, 0.3, None])
        shape = [pick([2, 3, 1, 0]), channels] + [R.randint(2, 3) for _ in range(n)]
        settings = dict(n=n, channels=channels, affine=int(affine), tracked=int(tracked), bias=int(bias))
        kind = ["batch", "instance", "group", "layer", "rms", "response"][turn % 6]
        swap = (0,) if n > 1 and flag(0.4) else ()
        if kind == "batch":
            settings["momentum"] = momentum
            made = getattr(nn, f"BatchNorm{max(n, 1)}d")
            build = lambda: made(channels, 1e-4, momentum, affine, tracked, bias=bias)  # noqa: E731
        elif kind == "instance":
            n = settings["n"] = max(n, 1)
            shape = ([] if flag(0.3) else [2]) + [channels] + [R.randint(2, 3) for _ in range(n)]
            made = getattr(nn, f"InstanceNorm{n}d")
            build = lambda: made(channels, 1e-4, 0.2, affine, tracked, bias=bias)  # noqa: E731
        elif kind == "group":
            settings["groups"] = groups = pick([1, 2, channels])
            build = lambda: nn.GroupNorm(groups, channels, 1e-4, affine, bias=bias)  # noqa: E731
        elif kind == "layer":
            dims = settings["dims"] = R.randint(1, min(2, n + 1))
            build = lambda: nn.LayerNorm(shape[-dims:], 1e-4, affine, bias)  # noqa: E731
        elif kind == "rms":
            dims = settings["dims"] = R.randint(1, min(2, n + 1))
            eps = settings["eps"] = pick([None, 1e-3])
            build = lambda: nn.RMSNorm(shape[-dims:], eps, affine)  # noqa: E731
        else:
            size = settings["size"] = R.randint(1, 3)
            shape = [2, channels] + [R.randint(2, 3) for _ in range(max(n, 1))]
            build = lambda: nn.LocalResponseNorm(size, 0.3, 0.6, 1.5)  # noqa: E731
        try:
            cases.add(f"norm_{kind}", settings, build, [torch.randn(shape)], training=training, dtype=some_dtype(), swap=swap)
        except (RuntimeError, ValueError) as error:
            print("left out:", kind, settings, shape, str(error)[:80])


def recurrent(cases):
    for turn in range(30):
        kind = ["RNN", "GRU", "LSTM"][turn % 3]
        layers, bias, first, both = R.randint(1, 2), flag(0.7), flag(), flag()
        inputs, hidden, batch, length = R.randint(1, 3), R.randint(2, 3), R.randint(1, 3), R.randint(1, 4)
        proj = R.randint(1, hidden - 1) if kind == "LSTM" and flag(0.3) else 0
        relu, given, packed = kind == "RNN" and flag(), flag(), flag(0.35)
        is_sample = not packed and flag(0.25)
        settings = dict(layers=layers, bias=int(bias), first=int(first), both=int(both), i=inputs, h=hidden, proj=proj,
                        relu=int(relu), given=int(given))
        more = {"nonlinearity": "relu"} if relu else {"proj_size": proj} if proj else {}
        build = lambda: getattr(nn, kind)(inputs, hidden, num_layers=layers, bias=bias, batch_first=first,  # noqa: E731
                                          bidirectional=both, **more)
        shape = [length, inputs] if is_sample else [batch, length, inputs] if first else [length, batch, inputs]
        x, rows = torch.randn(shape), layers * (2 if both else 1)
        states = []
        if given:
            middle = [] if is_sample else [batch]
            states = [torch.randn([rows] + middle + [proj or hidden])]
            if kind == "LSTM":
                states.append(torch.randn([rows] + middle + [hidden]))
        hx = lambda states: None if not states else tuple(states) if kind == "LSTM" else states[0]  # noqa: E731
        flat = lambda h: list(h) if isinstance(h, tuple) else [h]  # noqa: E731
        if packed:
            lengths = [R.randint(1, length) for _ in range(batch)]
            lengths[R.randrange(batch)] = length
            settings["lengths"] = ",".join(map(str, lengths))

            def call(module, x, *states):
                pack = nn.utils.rnn.pack_padded_sequence(x, lengths, first, enforce_sorted=False)
                output, last = module(pack, hx(states))
                return [nn.utils.rnn.pad_packed_sequence(output, first)[0], *flat(last)]
        else:

            def call(module, x, *states):
                output, last = module(x, hx(states))
                return [output, *flat(last)]

        swap = (0,) if flag(0.3) and not is_sample else ()
        cases.add(f"rnn_{kind}", settings, build, [x, *states], call, dtype=some_dtype(), swap=swap)
    for turn in range(9):
        kind = ["RNN", "GRU", "LSTM"][turn % 3]
        inputs, hidden, bias, given = R.randint(1, 3), R.randint(1, 3), flag(0.7), flag()
        leading = pick([[], [2], [0]])
        states = [torch.randn(leading + [hidden]) for _ in range(2 if kind == "LSTM" else 1)] if given else []
        settings = dict(i=inputs, h=hidden, bias=int(bias))
        hx = lambda states: None if not states else tuple(states) if kind == "LSTM" else states[0]  # noqa: E731
        cases.add(f"cell_{kind}", settings, lambda: getattr(nn, f"{kind}Cell")(inputs, hidden, bias),
                  [torch.randn(leading + [inputs]), *states], lambda m, x, *s: m(x, hx(s)), dtype=some_dtype())


def attention(cases):
    for _ in range(24):
        heads, bias, bias_kv, zero, first = pick([1, 2]), flag(0.7), flag(0.3), flag(0.3), flag()
        width, batch, target, source = 2 * heads, R.randint(1, 2), R.randint(1, 3), R.randint(1, 4)
        kdim, vdim = (3, 5) if flag(0.3) else (width, width)
        itself, is_sample = (kdim == width and flag(0.4)), flag(0.2)
        source = target if itself else source
        weights, mask = pick(["none", "average", "heads"]), pick(["none", "float", "bool", "flat", "causal"])
        padding = flag(0.4)
        def shaped(length, size):
            return [length, size] if is_sample else [batch, length, size] if first else [length, batch, size]
        q = torch.randn(shaped(target, width))
        inputs = [q] if itself else [q, torch.randn(shaped(source, kdim)), torch.randn(shaped(source, vdim))]
        settings = dict(width=width, heads=heads, bias=int(bias), bias_kv=int(bias_kv), zero=int(zero), first=int(first),
                        kdim=kdim, vdim=vdim, itself=int(itself), weights=weights, mask=mask, padding=int(padding))
        rows = (1 if is_sample else batch) * heads
        masks = []
        if mask == "float":
            masks.append(torch.randn([rows, target, source]))
        elif mask == "flat":
            masks.append(torch.randn([target, source]))
        elif mask == "bool":
            masks.append(torch.rand([target, source]) < 0.3)
            masks[0][:, 0] = False
        elif mask == "causal":
            masks.append(torch.ones([target, source]).triu(1).bool())
        if padding:
            seen = torch.rand([source] if is_sample else [batch, source]) < 0.3
            seen[..., 0] = False
            if mask in ("float", "flat"):
                seen = torch.zeros(seen.shape).masked_fill(seen, -torch.inf)
            masks.append(seen)

        def call(module, *given):
            xs = [given[0]] * 3 if itself else given[:3]
            rest = list(given[1 if itself else 3:])
            own = rest.pop(0) if mask != "none" else None
            seen = rest.pop(0) if padding else None
            return module(*xs, key_padding_mask=seen, need_weights=weights != "none", attn_mask=own,
                          average_attn_weights=weights != "heads", is_causal=False)

        build = lambda: nn.MultiheadAttention(width, heads, 0.0, bias, bias_kv, zero, kdim, vdim, first)  # noqa: E731
        cases.add("attention", settings, build, inputs + masks, call, dtype=some_dtype())
    for turn in range(10):
        heads, first, before, bias, gelu = pick([1, 2]), flag(), flag(), flag(0.7), flag()
        width, inner = 2 * heads, R.randint(2, 4)
        settings = dict(width=width, heads=heads, first=int(first), before=int(before), bias=int(bias), gelu=int(gelu),
                        inner=inner)
        more = dict(dropout=0.0, activation="gelu" if gelu else "relu", batch_first=first, norm_first=before, bias=bias)
        src, memory = torch.randn([2, 3, width]), torch.randn([2, 3, width])
        if turn % 2:
            cases.add("encoder_layer", settings, lambda: nn.TransformerEncoderLayer(width, heads, inner, **more), [src],
                      dtype=some_dtype(), swap=())
        else:
            cases.add("decoder_layer", settings, lambda: nn.TransformerDecoderLayer(width, heads, inner, **more),
                      [src, memory], dtype=some_dtype())


def tables(cases):
    for _ in range(20):
        rows, width, padding = R.randint(3, 5), R.randint(1, 3), pick([None, 0, -1, 1])
        norm, by_count = pick([None, None, 0.7]), flag(0.3)
        shape = pick([[], [4], [2, 3], [0], [2, 0]])
        settings = dict(rows=rows, width=width, padding=padding, norm=norm, by_count=int(by_count))
        index = torch.randint(0, rows, shape)
        cases.add("embedding", settings,
                  lambda: nn.Embedding(rows, width, padding, norm, 1.5, by_count), [index], dtype=some_dtype())
    for _ in range(20):
        rows, width, padding, mode = R.randint(3, 5), R.randint(1, 3), pick([None, 1]), pick(["sum", "mean", "max"])
        weighted, flat, last = mode == "sum" and flag(), flag(), flag(0.3)
        settings = dict(rows=rows, width=width, padding=padding, mode=mode, weighted=int(weighted), last=int(last and flat))
        index = torch.randint(0, rows, [6] if flat else [2, 3])
        inputs = [index]
        if flat:
            inputs.append(torch.tensor([0, 2, 2, 6] if last else [0, 2, 2]))
        if weighted:
            inputs.append(torch.randn(index.shape))

        def call(module, index, *rest):
            rest = list(rest)
            offsets = rest.pop(0) if flat else None
            return module(index, offsets, rest.pop(0) if weighted else None)

        build = lambda: nn.EmbeddingBag(rows, width, mode=mode, include_last_offset=last and flat,  # noqa: E731
                                        padding_idx=padding)
        settings["flat"] = int(flat)
        cases.add("embedding_bag", settings, build, inputs, call, dtype=some_dtype())


def losses(cases):
    for _ in range(24):
        reduction, classes = pick(["none", "mean", "sum"]), R.randint(2, 4)
        spatial = pick([[], [2], [2, 2]])
        batch = pick([[], [3], [3], [0]]) if not spatial else [2]
        weighted, ignored, smoothing, probable = flag(), pick([-100, 1]), pick([0.0, 0.2]), flag(0.3)
        ignored = -100 if probable else ignored
        x = torch.randn(batch + [classes] + spatial)
        y = torch.softmax(torch.randn(x.shape), len(batch)) if probable else torch.randint(0, classes, batch + spatial)
        weight = torch.rand(classes) + 0.1 if weighted else None
        settings = dict(reduction=reduction, ignored=ignored, smoothing=smoothing, weighted=int(weighted))
        dtype = torch.float32
        inputs = [x, y] + ([weight] if weighted else [])
        cases.add("cross_entropy", settings,
                  lambda: nn.CrossEntropyLoss(weight, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing),
                  inputs, lambda m, x, y, *_: m(x, y), dtype=dtype, leaves=1)
    made = {
        "mse": (nn.MSELoss, {}), "l1": (nn.L1Loss, {}), "smooth_l1": (nn.SmoothL1Loss, {"beta": [0.0, 0.3, 1.0]}),
        "huber": (nn.HuberLoss, {"delta": [0.3, 1.0]}), "kl": (nn.KLDivLoss, {"log_target": [0, 1]}),
        "poisson": (nn.PoissonNLLLoss, {"log_input": [0, 1], "full": [0, 1]}),
        "soft_margin": (nn.SoftMarginLoss, {}), "multilabel_soft_margin": (nn.MultiLabelSoftMarginLoss, {}),
        "bce_logits": (nn.BCEWithLogitsLoss, {}), "hinge": (nn.HingeEmbeddingLoss, {"margin": [0.5, 1.0]}),
    }
    for name, (kind, options) in made.items():
        for _ in range(3):
            reduction, shape = pick(["none", "mean", "sum"]), pick([[3, 2], [2, 3, 2], [0, 2]])
            chosen = {key: pick(values) for key, values in options.items()}
            x, y = torch.randn(shape), torch.rand(shape)
            if name == "poisson" and not chosen["log_input"]:
                x = torch.rand(shape) + 0.5
            if name in ("soft_margin", "hinge"):
                y = torch.sign(y - 0.5)
            if name == "multilabel_soft_margin":
                y = (y > 0.5).float()
            settings = dict(reduction=reduction, **chosen)
            more = {key: bool(v) if isinstance(v, int) else v for key, v in chosen.items()}
            cases.add(f"loss_{name}", settings, lambda: kind(reduction=reduction, **more), [x, y], dtype=some_dtype(),
                      leaves=1)


def others(cases):
    for _ in range(8):
        i, o, bias = R.randint(1, 4), R.randint(1, 4), flag(0.7)
        shape = pick([[], [3], [2, 3], [0], [2, 0, 1]]) + [i]
        cases.add("linear", dict(i=i, o=o, bias=int(bias)), lambda: nn.Linear(i, o, bias), [torch.randn(shape)],
                  dtype=pick([torch.float32, torch.float64]))
    for mode in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area") * 3:
        n = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode) or R.randint(1, 3)
        align, scaled = mode.endswith(("linear", "cubic")) and flag(), flag()
        again = scaled and flag(0.3)
        size = [R.randint(2, 6) for _ in range(n)]
        factors = [pick([0.7, 1.5, 2.0]) for _ in range(n)]
        settings = dict(mode=mode, align=int(align), again=int(again))
        settings |= {"factors": ",".join(map(str, factors))} if scaled else {"size": ",".join(map(str, size))}
        more = dict(scale_factor=tuple(factors)) if scaled else dict(size=tuple(size))
        x = torch.randn([2, 2] + [R.randint(3, 5) for _ in range(n)])
        build = lambda: nn.Upsample(mode=mode, align_corners=align or None, recompute_scale_factor=again or None,  # noqa: E731
                                    **more)
        cases.add("upsample", settings, build, [x], dtype=some_dtype(), swap=(0,) if n > 1 and flag(0.4) else ())
    for _ in range(12):
        kernel, dilation, padding, stride = R.randint(1, 3), R.randint(1, 2), R.randint(0, 1), R.randint(1, 2)
        settings = dict(kernel=kernel, dilation=dilation, padding=padding, stride=stride)
        shape = ([] if flag(0.3) else [2]) + [2, R.randint(5, 6), R.randint(5, 6)]
        cases.add("unfold", settings, lambda: nn.Unfold(kernel, dilation, padding, stride), [torch.randn(shape)],
                  dtype=some_dtype(), swap=(0,) if flag(0.4) else ())
    for mode in ("Zero", "Reflection", "Replication", "Circular") * 4:
        n = R.randint(1, 3)
        widths = [R.randint(0, 2) for _ in range(2 * n)]
        if mode == "Zero":
            widths[R.randrange(2 * n)] = -1
        shape = ([] if flag(0.3) else [2]) + [2] + [R.randint(4, 5) for _ in range(n)]
        settings = dict(n=n, mode=mode, widths=",".join(map(str, widths)))
        cases.add("pad", settings, lambda: getattr(nn, f"{mode}Pad{n}d")(tuple(widths)), [torch.randn(shape)],
                  dtype=some_dtype(), swap=(0,) if n > 1 and flag(0.4) else ())
    for _ in range(6):
        one, two, o, bias = R.randint(1, 3), R.randint(1, 3), R.randint(1, 3), flag()
        leading = pick([[], [3], [2, 2], [0]])
        cases.add("bilinear", dict(i=one, j=two, o=o, bias=int(bias)), lambda: nn.Bilinear(one, two, o, bias),
                  [torch.randn(leading + [one]), torch.randn(leading + [two])], dtype=some_dtype())


def main():
    torch.manual_seed(0)
    cases = Cases()
    for family in (convolutions, pools, norms, recurrent, attention, tables, losses, others):
        family(cases)
    metadata = {f"{number:03}": line for number, line in enumerate(cases.lines)}
    save_file(cases.tensors, str(ROOT / "tests" / "goldens" / "random_modules.safetensors"), metadata)
    print(len(cases.lines), "cases", sorted(cases.names))


if __name__ == "__main__":
    main()
