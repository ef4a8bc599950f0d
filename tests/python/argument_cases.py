"""Values of every kind, and calls that have them as arguments of every type.

``outcome`` says what a call makes of a value: that it is refused, with which exception, or the
result. A script in ``tests/goldens/make`` writes down what PyTorch makes of them.
"""

import decimal
import enum
import fractions
import warnings

import numpy as np


class Index:
    def __index__(self):
        return 2


class Float:
    def __float__(self):
        return 2.0


class Bool:
    def __bool__(self):
        return True


class Int:
    def __int__(self):
        return 2


class Complex:
    def __complex__(self):
        return 2j


class Two(enum.IntEnum):
    TWO = 2


class OwnInt(int):
    pass


class OwnFloat(float):
    pass


class OwnStr(str):
    pass


NUMPY = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "float32", "float64", "longdouble", "complex64", "complex128")
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64", "complex64", "complex128")


def numbers(torch):
    """Whatever could be taken for a number."""
    values = {
        "False": False, "True": True, "0": 0, "1": 1, "2": 2, "-1": -1, "2**63": 2**63,
        "2**70": 2**70, "0.0": 0.0, "1.0": 1.0, "0.5": 0.5, "nan": float("nan"),
        "inf": float("inf"), "2j": 2j, "1+0j": 1 + 0j, "Fraction": fractions.Fraction(1, 2),
        "Decimal": decimal.Decimal("0.5"), "str 2": "2", "None": None, "__index__": Index(),
        "__float__": Float(), "__bool__": Bool(), "__int__": Int(), "__complex__": Complex(),
        "IntEnum": Two.TWO, "int subclass": OwnInt(2), "float subclass": OwnFloat(0.5),
        "object": object(), "type int": int, "Ellipsis": ...,
    }
    for name in NUMPY:
        values[f"np.{name}(1)"] = getattr(np, name)(1)
        values[f"np.array(1, {name})"] = np.array(1, dtype=getattr(np, name))
    values["np.array([1])"] = np.array([1])
    values["np.array([1.0])"] = np.array([1.0])
    values["np.str_"] = np.str_("2")
    for name in DTYPES:
        values[f"tensor(1, {name})"] = torch.tensor(1, dtype=getattr(torch, name))
    values["tensor(1.0, requires grad)"] = torch.tensor(1.0, requires_grad=True)
    values["tensor(1j, requires grad)"] = torch.tensor(1j, requires_grad=True)
    values["tensor(0.5)"] = torch.tensor(0.5)
    values["tensor([1])"] = torch.tensor([1])
    values["tensor([1.0])"] = torch.tensor([1.0])
    values["tensor([[1]])"] = torch.tensor([[1]])
    values["tensor([1, 2])"] = torch.tensor([1, 2])
    values["Parameter(1.0)"] = torch.nn.Parameter(torch.tensor(1.0))
    values["Parameter(1.0) without gradient"] = torch.nn.Parameter(torch.tensor(1.0), False)
    return values


def sequences(torch):
    """Whatever could be taken for a list."""
    return {
        "[]": [], "()": (), "[2]": [2], "(2,)": (2,), "[2, 2]": [2, 2], "(2, 2)": (2, 2),
        "Size": torch.Size([2, 2]), "Size([])": torch.Size([]), "range": range(2),
        "[True]": [True], "[True, True]": [True, True], "[2.0, 2.0]": [2.0, 2.0],
        "[2, 2.0]": [2, 2.0], "[1, 0]": [1, 0], "(0, 1)": (0, 1), "[0]": [0], "[-1]": [-1],
        "[1, -1]": [1, -1], "[2, True]": [2, True], "[None]": [None], "[2, None]": [2, None],
        "['2']": ["2"], "'22'": "22", "[[2, 2]]": [[2, 2]], "[Index]": [Index(), Index()],
        "[np.int64]": [np.int64(2), np.int64(2)], "[np.int32]": [np.int32(2)],
        "[np.uint8]": (np.uint8(2), np.uint8(2)), "[np.float64]": [np.float64(2)],
        "[np.bool_]": [np.bool_(True)], "np int array": np.array([2, 2]),
        "np float array": np.array([2.0, 2.0]), "np empty array": np.array([], dtype=np.int64),
        "[np 0-d]": [np.array(2), np.array(2)], "[tensor]": [torch.tensor(2), torch.tensor(2)],
        "[2, tensor]": [2, torch.tensor(2)], "[float tensor]": [torch.tensor(2.0)],
        "[bool tensor]": [torch.tensor(True)], "[tensor([2])]": [torch.tensor([2])],
        "int tensor": torch.tensor([2, 2]), "float tensor": torch.tensor([2.0, 2.0]),
        "[2, 2, 2]": [2, 2, 2], "(1, 2, 2)": (1, 2, 2), "set": {2}, "dict": {2: 2},
        "generator": (n for n in (2, 2)), "map": map(int, (2, 2)), "[IntEnum]": [Two.TWO],
        "[int subclass]": [OwnInt(2), OwnInt(2)], "[0.5]": [0.5], "[2j]": [2j],
        "[2**63]": [2**63], "bytes": b"\x02\x02", "list of Size": [torch.Size([2])],
        "[float tensor, float tensor]": [torch.ones(2), torch.ones(2)],
        "(float tensor, None)": (torch.ones(2), None), "[float tensor, 2]": [torch.ones(2), 2],
        "[np array]": [np.ones(2), np.ones(2)],
    }


def others(torch):
    """Names and things: dtypes, devices, layouts, formats, generators."""
    values = {f"torch.{name}": getattr(torch, name) for name in DTYPES}
    values |= {
        "float": float, "int": int, "bool": bool, "complex": complex, "str": str,
        "np.float32": np.float32, "np.dtype": np.dtype("float32"), "'float32'": "float32",
        "'torch.float32'": "torch.float32", "'cpu'": "cpu", "'cpu:0'": "cpu:0", "'meta'": "meta",
        "'cpu:x'": "cpu:x", "'bogus'": "bogus", "''": "", "'none'": "none", "'mean'": "mean",
        "'tanh'": "tanh", "'floor'": "floor", "'right'": "right", "'fro'": "fro",
        "str subclass": OwnStr("tanh"), "np.str_ tanh": np.str_("tanh"), "b'tanh'": b"tanh",
        "device cpu": torch.device("cpu"), "device meta": torch.device("meta"),
        "strided": torch.strided, "sparse_coo": torch.sparse_coo,
        "contiguous_format": torch.contiguous_format, "channels_last": torch.channels_last,
        "preserve_format": torch.preserve_format, "Generator": torch.Generator(),
        "'contiguous_format'": "contiguous_format", "'strided'": "strided",
        "Tensor class": torch.Tensor, "finfo": torch.finfo(torch.float32), "list of dtypes":
        [torch.float32],
    }
    return values


def x_of(torch):
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def calls(torch):
    """What is called with a value, by the type of the argument that the value is for."""
    F = torch.nn.functional

    def x():
        return x_of(torch)

    def image():
        return torch.arange(16.0).view(1, 1, 4, 4)

    def weight():
        return torch.ones(1, 1, 2, 2)

    def flags():
        return torch.tensor([[True, False], [False, True]])

    def places():
        return torch.tensor([0, 1])

    return {
        "Tensor": (numbers, {
            "add": lambda v: torch.add(v, 1), "add second": lambda v: torch.add(x(), v),
            "add method": lambda v: x().add(v), "add_": lambda v: x().add_(v),
            "+": lambda v: x() + v, "reversed +": lambda v: v + x(), "- ": lambda v: x() - v,
            "*": lambda v: x() * v, "/": lambda v: x() / v, "//": lambda v: x() // v,
            "%": lambda v: x() % v, "==": lambda v: x() == v, "<": lambda v: x() < v,
            "& of ints": lambda v: places() & v, "| of bools": lambda v: flags() | v,
            "<< of ints": lambda v: places() << v, "mul_": lambda v: x().mul_(v),
            "int mul_": lambda v: places().mul_(v), "int add": lambda v: places() + v,
            "sub": lambda v: torch.sub(x(), v), "rsub": lambda v: torch.rsub(x(), v),
            "div mode": lambda v: torch.div(x(), v, rounding_mode="floor"),
            "neg": lambda v: torch.neg(v), "sin": lambda v: torch.sin(v),
            "relu": lambda v: F.relu(v), "copy_": lambda v: x().copy_(v),
            "where": lambda v: torch.where(flags(), v, x()),
            "where number": lambda v: torch.where(flags(), v, 2),
            "maximum": lambda v: torch.maximum(x(), v), "matmul": lambda v: torch.matmul(x(), v),
            "eq": lambda v: torch.eq(x(), v), "lerp": lambda v: torch.lerp(x(), x(), v),
            "setitem": lambda v: x().__setitem__(0, v),
            "logical_and": lambda v: torch.logical_and(x(), v),
            "bitwise_and": lambda v: torch.bitwise_and(places(), v),
            "atan2": lambda v: torch.atan2(x(), v), "remainder": lambda v: torch.remainder(x(), v),
            "floor_divide": lambda v: torch.floor_divide(x(), v),
            "true_divide": lambda v: torch.true_divide(x(), v),
            "is_tensor": torch.is_tensor, "numel": lambda v: torch.numel(v),
        }),
        "Tensor?": (numbers, {
            "linear bias": lambda v: F.linear(x(), x(), v),
            "clamp min": lambda v: torch.clamp(x(), min=v),
            "clamp positional": lambda v: torch.clamp(x(), v, 3),
            "clip_": lambda v: x().clip_(v), "clamp_max": lambda v: torch.clamp_max(x(), v),
            "bincount": lambda v: torch.bincount(places(), v),
            "layer_norm weight": lambda v: F.layer_norm(x(), (2,), v),
            "grad": lambda v: setattr(x(), "grad", v),
            "quantile": lambda v: torch.quantile(x(), v),
        }),
        "Scalar": (numbers, {
            "full": lambda v: torch.full((2,), v), "full keyword":
            lambda v: torch.full((2,), fill_value=v), "fill_": lambda v: x().fill_(v),
            "full_like": lambda v: torch.full_like(x(), v),
            "new_full": lambda v: x().new_full((2,), v),
            "alpha": lambda v: torch.add(x(), x(), alpha=v),
            "sub_ alpha": lambda v: x().sub_(x(), alpha=v),
            "int alpha": lambda v: torch.add(places(), places(), alpha=v),
            "value": lambda v: torch.addcmul(x(), x(), x(), value=v),
            "beta": lambda v: torch.addmm(x(), x(), x(), beta=v),
            "arange": lambda v: torch.arange(v), "arange end": lambda v: torch.arange(0, v),
            "arange step": lambda v: torch.arange(0, 4, v), "linspace":
            lambda v: torch.linspace(v, 4, 3), "masked_fill":
            lambda v: torch.masked_fill(x(), flags(), v),
            "index_fill_": lambda v: x().index_fill_(0, places(), v),
            "leaky_relu": lambda v: F.leaky_relu(x(), v), "elu": lambda v: F.elu(x(), v),
            "hardtanh": lambda v: F.hardtanh(x(), v, 3), "threshold":
            lambda v: F.threshold(x(), v, 0), "softplus": lambda v: F.softplus(x(), v),
            "pow": lambda v: torch.pow(x(), v), "pow base": lambda v: torch.pow(v, x()),
            "**": lambda v: x() ** v, "int **": lambda v: places() ** v,
            "scalar_tensor": lambda v: torch.scalar_tensor(v), "xlogy":
            lambda v: torch.xlogy(v, x()), "norm": lambda v: torch.norm(x(), p=v),
            "dist": lambda v: torch.dist(x(), x() * 2, v), "renorm":
            lambda v: torch.renorm(x(), 2, 0, v), "tensor": lambda v: torch.tensor(v),
            "as_tensor": lambda v: torch.as_tensor(v), "Tensor of": lambda v: torch.tensor([v]),
            "lerp scalar": lambda v: torch.lerp(x(), x() * 2, weight=v),
            "fmod": lambda v: torch.fmod(x(), v), "float_power":
            lambda v: torch.float_power(x(), v), "scatter value":
            lambda v: x().scatter_(0, torch.tensor([[0, 1]]), v),
            "histc": lambda v: torch.histc(x(), 2, 0, v), "vander": lambda v: torch.isin(x(), v),
            "fill_diagonal_": lambda v: x().fill_diagonal_(v),
            "hardshrink": lambda v: F.hardshrink(x(), v), "celu": lambda v: F.celu(x(), v),
            "result_type": lambda v: torch.result_type(x(), v),
            "can_cast": lambda v: torch.result_type(v, 1),
        }),
        "float": (numbers, {
            "torch.dropout": lambda v: torch.dropout(x(), v, False),
            "dropout": lambda v: F.dropout(x(), v, training=False),
            "nn.Dropout": lambda v: torch.nn.Dropout(v).eval()(x()),
            "nn.Dropout training": lambda v: torch.nn.Dropout(v)(x()).shape,
            "alpha_dropout": lambda v: F.alpha_dropout(x(), v),
            "feature_dropout": lambda v: F.dropout1d(x(), v, False),
            "layer_norm": lambda v: F.layer_norm(x(), (2,), None, None, v),
            "layer_norm keyword": lambda v: F.layer_norm(x(), (2,), eps=v),
            "batch_norm": lambda v: F.batch_norm(x(), None, None, training=True, momentum=v),
            "batch_norm eps": lambda v: F.batch_norm(x(), None, None, training=True, eps=v),
            "group_norm": lambda v: F.group_norm(x(), 1, eps=v),
            "label_smoothing": lambda v: F.cross_entropy(x(), places(), label_smoothing=v),
            "CrossEntropyLoss": lambda v: torch.nn.CrossEntropyLoss(label_smoothing=v)(
                x(), places()),
            "huber_loss": lambda v: F.huber_loss(x(), x() * 2, delta=v),
            "smooth_l1_loss": lambda v: F.smooth_l1_loss(x(), x() * 2, beta=v),
            "isclose": lambda v: torch.isclose(x(), x() * 2, v),
            "allclose": lambda v: torch.allclose(x(), x() * 2, atol=v),
            "pairwise_distance": lambda v: F.pairwise_distance(x(), x() * 2, v),
            "cosine_similarity": lambda v: F.cosine_similarity(x(), x(), eps=v),
            "margin_ranking_loss": lambda v: F.margin_ranking_loss(x(), x(), x(), v),
            "cdist": lambda v: torch.cdist(x(), x() * 2, v), "uniform_":
            lambda v: x().uniform_(v, 8).shape, "normal_": lambda v: x().normal_(v, 1).shape,
            "normal": lambda v: torch.normal(v, 1.0, (2,)).shape,
            "normal std": lambda v: torch.normal(0.0, v, (2,)).shape,
            "exponential_": lambda v: x().exponential_(v).shape,
            "bernoulli": lambda v: torch.bernoulli(x(), v).shape,
            "bernoulli_": lambda v: x().bernoulli_(v).shape,
            "gumbel_softmax": lambda v: F.gumbel_softmax(x(), v).shape,
            "normalize": lambda v: F.normalize(x(), v), "scale_factor":
            lambda v: F.interpolate(image(), scale_factor=v).shape,
            "triplet": lambda v: F.triplet_margin_loss(x(), x(), x() * 2, v),
            "poisson": lambda v: F.poisson_nll_loss(x(), x(), eps=v),
            "kaiser": lambda v: torch.kaiser_window(4, beta=v),
            "attention": lambda v: F.scaled_dot_product_attention(x(), x(), x(), None, v).shape,
            "hamming_window": lambda v: torch.hamming_window(4, True, v),
            "trapezoid": lambda v: torch.trapezoid(x(), dx=v),
        }),
        "float?": (numbers, {
            "pad": lambda v: F.pad(x(), (1, 1), value=v),
            "pad constant": lambda v: F.pad(x(), (1, 1), "constant", v),
            "ConstantPad1d": lambda v: torch.nn.ConstantPad1d(1, v)(x()),
            "nan_to_num": lambda v: torch.nan_to_num(x(), v),
            "posinf": lambda v: torch.nan_to_num(x(), posinf=v),
            "logit": lambda v: torch.logit(x() / 8, v),
            "attention scale": lambda v: F.scaled_dot_product_attention(x(), x(), x(), scale=v),
            "matrix_rank": lambda v: torch.linalg.matrix_rank(x(), atol=v),
            "rms_norm": lambda v: F.rms_norm(x(), (2,), eps=v),
        }),
        "int": (numbers, {
            "unsqueeze": lambda v: torch.unsqueeze(x(), v), "size": lambda v: x().size(v),
            "stride": lambda v: x().stride(v), "cumsum": lambda v: torch.cumsum(x(), v),
            "cumsum keyword": lambda v: torch.cumsum(x(), dim=v),
            "topk": lambda v: torch.topk(x(), v)[0], "eye": lambda v: torch.eye(v),
            "randperm": lambda v: torch.randperm(v).shape, "narrow":
            lambda v: torch.narrow(x(), 0, v, 1), "chunk": lambda v: torch.chunk(x(), v),
            "select": lambda v: x().select(0, v), "tril": lambda v: torch.tril(x(), v),
            "one_hot": lambda v: F.one_hot(places(), v), "softmax": lambda v: F.softmax(x(), v),
            "torch.softmax": lambda v: torch.softmax(x(), v), "repeat_interleave":
            lambda v: torch.repeat_interleave(x(), v), "hamming_window":
            lambda v: torch.hamming_window(v), "getitem": lambda v: x()[v],
            "diagonal": lambda v: torch.diagonal(x(), v), "linspace steps":
            lambda v: torch.linspace(0, 1, v), "manual_seed":
            lambda v: torch.Generator().manual_seed(v).initial_seed(), "transpose":
            lambda v: x().transpose(0, v), "t": lambda v: torch.cat([x()], v), "stack":
            lambda v: torch.stack([x()], v), "groups": lambda v: F.conv2d(
                image(), weight(), groups=v), "padding_idx": lambda v: F.embedding(
                    places(), x(), v), "slice": lambda v: x()[:v], "matrix_power":
            lambda v: torch.linalg.matrix_power(x(), v), "rot90": lambda v: torch.rot90(x(), v),
            "combinations": lambda v: torch.combinations(places(), v), "Linear":
            lambda v: torch.nn.Linear(v, 2).weight.shape, "gather": lambda v: torch.gather(
                x(), v, torch.tensor([[0]])), "index_select": lambda v: torch.index_select(
                    x(), v, places()), "len split": lambda v: torch.split(x(), v),
            "shape index": lambda v: x().shape[v], "flatten": lambda v: torch.flatten(x(), v),
        }),
        "int?": (numbers, {
            "argmax": lambda v: torch.argmax(x(), v), "argmax keyword":
            lambda v: torch.argmax(x(), dim=v), "squeeze": lambda v: x().squeeze(v),
            "sum": lambda v: torch.sum(x(), v), "max": lambda v: torch.max(x(), v),
            "unique": lambda v: torch.unique(x(), dim=v), "mean": lambda v: x().mean(v),
            "std correction": lambda v: torch.std(x(), correction=v), "all":
            lambda v: torch.all(x(), v), "prod": lambda v: torch.prod(x(), v), "median":
            lambda v: torch.median(x(), v), "count_nonzero": lambda v: torch.count_nonzero(x(), v),
            "softmax dtype": lambda v: F.log_softmax(x(), dim=v), "quantile dim":
            lambda v: torch.quantile(x(), 0.5, v), "logsumexp":
            lambda v: torch.logsumexp(x(), v), "roll dims": lambda v: torch.roll(x(), 1, v),
        }),
        "int list": (lambda torch: numbers(torch) | sequences(torch), {
            "zeros": lambda v: torch.zeros(v).shape, "ones keyword":
            lambda v: torch.ones(size=v).shape, "view": lambda v: torch.arange(4).view(v),
            "reshape": lambda v: torch.arange(4).reshape(v), "torch.reshape":
            lambda v: torch.reshape(torch.arange(4), v), "expand":
            lambda v: torch.tensor(1).expand(v), "permute": lambda v: x().permute(v),
            "torch.permute": lambda v: torch.permute(x(), v), "sum": lambda v: torch.sum(x(), dim=v),
            "repeat": lambda v: x().repeat(v), "tile": lambda v: torch.tile(x(), v),
            "flip": lambda v: torch.flip(x(), v), "empty_strided":
            lambda v: torch.empty_strided(v, (1, 1)).shape, "new_zeros":
            lambda v: x().new_zeros(v), "broadcast_to": lambda v: torch.broadcast_to(
                torch.tensor(1), v), "split": lambda v: torch.split(x(), v), "roll":
            lambda v: torch.roll(x(), v), "full": lambda v: torch.full(v, 1.0).shape, "randn":
            lambda v: torch.randn(v).shape, "layer_norm": lambda v: F.layer_norm(x(), v),
            "resize_": lambda v: torch.zeros(4).resize_(v).shape, "as_strided":
            lambda v: torch.arange(8).as_strided(v, (1, 1)), "amax": lambda v: torch.amax(x(), v),
            "Size": lambda v: torch.Size(v), "movedim": lambda v: torch.movedim(x(), v, v),
            "tensordot": lambda v: torch.tensordot(x(), x(), v), "pad": lambda v: F.pad(x(), v),
            "fft": lambda v: torch.fft.fftn(x(), v).shape, "Tensor": lambda v: torch.Tensor(
                v).shape, "unflatten": lambda v: torch.arange(4).unflatten(0, v), "randint":
            lambda v: torch.randint(1, v), "norm dim": lambda v: torch.linalg.norm(x(), dim=v),
        }),
        "int[2]": (lambda torch: numbers(torch) | sequences(torch), {
            "stride": lambda v: F.conv2d(image(), weight(), stride=v), "padding":
            lambda v: F.conv2d(image(), weight(), padding=v), "max_pool2d":
            lambda v: F.max_pool2d(image(), v), "avg_pool2d": lambda v: F.avg_pool2d(image(), v),
            "adaptive": lambda v: F.adaptive_avg_pool2d(image(), v), "unfold":
            lambda v: F.unfold(image(), v), "Conv2d": lambda v: torch.nn.Conv2d(
                1, 1, v).weight.shape, "MaxPool2d": lambda v: torch.nn.MaxPool2d(v)(image()),
            "conv1d": lambda v: F.conv1d(x()[None], torch.ones(1, 2, 1), stride=v),
            "interpolate": lambda v: F.interpolate(image(), v).shape,
        }),
        "bool": (numbers, {
            "keepdim": lambda v: torch.sum(x(), 0, v), "keepdim keyword":
            lambda v: torch.sum(x(), 0, keepdim=v), "sort": lambda v: torch.sort(x(), 0, v)[0],
            "dropout": lambda v: torch.dropout(x(), 0.0, v), "requires_grad_":
            lambda v: x().requires_grad_(v).requires_grad, "requires_grad":
            lambda v: torch.zeros(2, requires_grad=v).requires_grad, "attribute":
            lambda v: setattr(x(), "requires_grad", v), "argmax keepdim":
            lambda v: torch.argmax(x(), 0, v), "equal_nan": lambda v: torch.allclose(
                x(), x(), equal_nan=v), "unbiased": lambda v: torch.var(x(), v), "var dim":
            lambda v: torch.var(x(), 0, v), "embedding": lambda v: F.embedding(
                places(), x(), sparse=v), "training": lambda v: F.dropout(x(), 0.0, v),
            "inplace": lambda v: F.relu(x(), v), "tensor": lambda v: torch.tensor(
                1.0, requires_grad=v).requires_grad, "to copy": lambda v: x().to(
                    torch.float32, copy=v), "non_blocking": lambda v: x().to("cpu", v),
            "ceil_mode": lambda v: F.max_pool2d(image(), 2, ceil_mode=v), "periodic":
            lambda v: torch.hann_window(4, v), "set_grad_enabled":
            lambda v: torch.set_grad_enabled(v) and torch.set_grad_enabled(True) and None,
            "Linear bias": lambda v: torch.nn.Linear(2, 2, v).bias is None, "train":
            lambda v: torch.nn.Linear(2, 2).train(v).training,
        }),
        "bool?": (numbers, {
            "stable": lambda v: torch.sort(x(), stable=v)[0], "pin_memory":
            lambda v: torch.zeros(2, pin_memory=v), "argsort": lambda v: torch.argsort(
                x(), stable=v), "onesided": lambda v: torch.stft(
                    torch.ones(8), 4, window=torch.ones(4), onesided=v, return_complex=True).shape,
        }),
        "str": (lambda torch: numbers(torch) | others(torch), {
            "gelu": lambda v: F.gelu(x(), approximate=v), "div": lambda v: torch.div(
                x(), x(), rounding_mode=v), "reduction": lambda v: F.mse_loss(
                    x(), x(), reduction=v), "side": lambda v: torch.searchsorted(
                        x(), x(), side=v), "ord": lambda v: torch.linalg.norm(x(), v),
            "indexing": lambda v: torch.meshgrid(places(), places(), indexing=v),
            "padding": lambda v: F.conv2d(image(), weight(), padding=v), "scatter":
            lambda v: x().scatter_reduce(0, torch.tensor([[0, 1]]), x(), v),
        }),
        "ScalarType": (lambda torch: numbers(torch) | others(torch), {
            "zeros": lambda v: torch.zeros(2, dtype=v), "to": lambda v: x().to(v), "to keyword":
            lambda v: x().to(dtype=v), "sum": lambda v: x().sum(dtype=v), "type":
            lambda v: x().type(v), "tensor": lambda v: torch.tensor(1, dtype=v), "empty_like":
            lambda v: torch.empty_like(x(), dtype=v).dtype, "softmax": lambda v: F.softmax(
                x(), 0, dtype=v), "view": lambda v: x().view(v).dtype, "arange":
            lambda v: torch.arange(3, dtype=v), "promote_types": lambda v: torch.promote_types(
                v, torch.float32), "finfo": lambda v: torch.finfo(v).bits, "iinfo":
            lambda v: torch.iinfo(v).bits, "as_tensor": lambda v: torch.as_tensor([1], dtype=v),
            "new_zeros": lambda v: x().new_zeros(2, dtype=v), "is_floating_point":
            lambda v: torch.can_cast(v, torch.float64), "full": lambda v: torch.full(
                (2,), 1, dtype=v),
        }),
        "Device": (lambda torch: {
            name: value for name, value in (numbers(torch) | others(torch)).items()
            # PyTorch takes numbers for those of accelerators, which only some builds have.
            if not (isinstance(value, (int, np.integer, Index)) and not isinstance(value, bool))
        }, {
            "zeros": lambda v: torch.zeros(2, device=v).device, "to": lambda v: x().to(
                device=v).device, "device": torch.device, "tensor": lambda v: torch.tensor(
                    1.0, device=v).device, "empty_like": lambda v: torch.empty_like(
                        x(), device=v).device, "new_ones": lambda v: x().new_ones(
                            2, device=v).device, "Generator": lambda v: torch.Generator(v).device,
            "arange": lambda v: torch.arange(2, device=v).device,
        }),
        "Layout": (others, {
            "zeros": lambda v: torch.zeros(2, layout=v).layout, "empty_like":
            lambda v: torch.empty_like(x(), layout=v).layout, "to_sparse":
            lambda v: x().to_sparse(layout=v).layout,
        }),
        "MemoryFormat": (others, {
            "contiguous": lambda v: image().contiguous(memory_format=v).stride(), "clone":
            lambda v: image().clone(memory_format=v).stride(), "empty": lambda v: torch.empty(
                (1, 2, 2, 2), memory_format=v).stride(), "to": lambda v: image().to(
                    memory_format=v).stride(), "is_contiguous": lambda v: image().is_contiguous(
                        memory_format=v), "ones_like": lambda v: torch.ones_like(
                            image(), memory_format=v).stride(),
        }),
        "Generator": (others, {
            "rand": lambda v: torch.rand(2, generator=v).shape, "randperm":
            lambda v: torch.randperm(2, generator=v).shape, "uniform_": lambda v: x().uniform_(
                generator=v).shape, "bernoulli": lambda v: torch.bernoulli(
                    x() / 8, generator=v).shape, "multinomial": lambda v: torch.multinomial(
                        x(), 1, generator=v).shape,
        }),
        "Tensor[]": (lambda torch: numbers(torch) | sequences(torch), {
            "cat": lambda v: torch.cat(v), "cat keyword": lambda v: torch.cat(tensors=v), "stack":
            lambda v: torch.stack(v), "meshgrid": lambda v: torch.meshgrid(v, indexing="ij"),
            "broadcast_tensors": lambda v: torch.broadcast_tensors(v), "block_diag":
            lambda v: torch.block_diag(v), "index_put_": lambda v: x().index_put_(
                v, torch.tensor(9.0)), "getitem": lambda v: x()[v], "einsum":
            lambda v: torch.einsum("i,i", v), "hstack": lambda v: torch.hstack(v),
            "cartesian_prod": lambda v: torch.cartesian_prod(v), "add_n": lambda v: sum(v),
        }),
    }


def text(number):
    """Three digits, with zero for what is lost in rounding, and one zero."""
    return f"{number:.3g}" if not abs(number) < 1e-5 else "0"


def shown(torch, result):
    """A result as text: dtype, sizes and elements of tensors."""
    if isinstance(result, torch.Tensor):
        if result.device.type == "meta" or result.numel() > 64:
            return f"{result.dtype} {tuple(result.shape)}"
        if result.layout != torch.strided:
            return f"{result.dtype} {tuple(result.shape)} {result.layout}"
        values = result.detach().to(torch.complex128).reshape(-1).tolist()
        values = [text(v.real) + (text(v.imag) + "j" if abs(v.imag) > 1e-5 else "") for v in values]
        grad = ", requires grad" if result.requires_grad else ""
        return f"{result.dtype} {tuple(result.shape)} {' '.join(values)}{grad}"
    if isinstance(result, (list, tuple)) and not isinstance(result, torch.Size):
        return f"({', '.join(shown(torch, one) for one in result)})"
    if isinstance(result, torch.Size):
        return f"Size {list(result)}"
    return repr(result).replace("corten.", "torch.")


def outcome(torch, call, value):
    """What a call makes of a value."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            result = call(value)
        except Exception as error:  # pylint: disable=broad-except
            return type(error).__name__
    return shown(torch, result).replace("corten.", "torch.")


def table(torch):
    """All outcomes: by the type of the argument and the call, which values lead to them."""
    found = {}
    for kind, (values, functions) in calls(torch).items():
        found[kind] = {}
        for name, function in functions.items():
            outcomes = {}
            # Made anew for each call: iterators end, and results may share memory.
            for label, value in values(torch).items():
                outcomes.setdefault(outcome(torch, function, value), []).append(label)
            found[kind][name] = outcomes
    return found
