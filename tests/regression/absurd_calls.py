"""Calls operators with absurd numbers and with tensors that are absurdly large without memory.

Run as ``absurd_calls.py NAME...`` with qualified names of operators (``NAME/CASE`` begins at a case).
A number in place of a name is that of an expression below. Before each call a line says which one it is,
so that who reads them knows where the process ended: ``SIGALRM`` means that a call took too long.
"""

import json
import os
import random
import re
import resource
import signal
import sys
import warnings

import corten as torch

INTS = (2**40, 2**62, 2**63 - 1, -(2**63), -(2**40))
FLOATS = (1e300, -1e300, float("inf"), float("nan"), 2.0**40)
SPARE = 1 << 29
SECONDS = 10
TRIALS = 120

#: They read objects or files of their own; polynomials take as many steps as their degree says.
SKIPPED = re.compile(r"aten::(from_file|set_\.|_thnn|record_stream|set_data|special_.*_polynomial_)|image::write_file")

SHAPES = ((3,), (2, 3), (3, 3), (2, 3, 4), (1, 2, 4, 4), (1, 1, 4, 4, 4), (), (1, 3), (2, 2, 4), (4, 2))
KINDS = ("float", "float", "float", "int", "bool", "complex", "double")


def parameters_of(schema):
    """The type, name and default of each parameter; options of factories are left out."""
    text = schema[schema.index("(") + 1 : schema.rindex(") -> ")]
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    found, named = [], False
    for part in parts:
        if part in ("*", ""):
            named = named or part == "*"
            continue
        part = re.sub(r"\([^)]*\)", "", part)
        kind, name, default = re.fullmatch(r"(\S+) (\w+)(?:=(.*))?", part).groups()
        found.append((kind.replace("SymInt", "int"), name, default, named))
    return found


def tensor(kind, shape, choose):
    count = 1
    for size in shape:
        count *= size
    if kind == "bool":
        return torch.ones(shape, dtype=torch.bool)
    if kind == "int":
        return torch.tensor([choose.randrange(2) for _ in range(count)], dtype=torch.int64).reshape(shape)
    values = [choose.random() + 0.5 for _ in range(count)]
    dtype = {"float": torch.float32, "double": torch.float64, "complex": torch.complex64}[kind]
    return torch.tensor(values, dtype=dtype).reshape(shape)


def value_of(kind, name, choose, profile):
    """A value of a type that may make sense."""
    base, _, rest = kind.partition("[")
    optional = kind.endswith("?")
    if optional and choose.random() < 0.4:
        return None
    if rest and base.rstrip("?") in ("int", "float", "bool", "Scalar"):
        digits = re.match(r"\d+", rest)
        length = int(digits.group()) if digits else choose.choice((1, 2, 2, 3))
        pool = {"float": (0.5, 1.0), "bool": (True, False), "Scalar": (1, 0.5)}.get(base, None)
        if pool is None:
            if name.startswith("dim"):
                return sorted(choose.sample(range(3), min(length, 3)))
            pool = choose.choice(((1,), (2,), (1, 2, 3), (0,), (2, 3), (4,)))
        return [choose.choice(pool) for _ in range(length)]
    if base.rstrip("?") == "Tensor":
        if rest:
            return [value_of("Tensor", name, choose, profile) for _ in range(choose.choice((1, 2, 2, 3)))]
        wanted = "int" if re.search(r"ind|target|offset|lengths|labels", name) else profile[0]
        if choose.random() < 0.2:
            wanted = choose.choice(KINDS)
        shape = profile[1] if choose.random() < 0.7 else choose.choice(SHAPES)
        return tensor(wanted, shape, choose)
    simple = {
        "int": (0, 1, 2, -1, 3), "float": (0.5, 0.0, 1.0), "Scalar": (1, 0.5, 2), "bool": (False, True),
        "ScalarType": (torch.float32, torch.int64), "str": TEXTS.get(name, ("sum", "mean", "trunc", "none")),
        "MemoryFormat": (torch.contiguous_format,), "Device": (torch.device("cpu"),),
        "Layout": (torch.strided,), "Generator": (None,), "Storage": (torch.zeros(4).untyped_storage(),),
    }
    return choose.choice(simple[base.rstrip("?")])


TEXTS = {"indexing": ("ij", "xy"), "equation": ("i,i->", "ij,jk->ik", "i,j->ij"), "side": ("left",),
         "reduce": ("sum", "amax"), "padding": ("same", "valid"), "driver": (None,), "UPLO": ("L", "U"),
         "ord": ("fro", "nuc"), "mode": ("constant", "reflect", "reduced"), "norm": ("ortho", None),
         "approximate": ("none", "tanh"), "rounding_mode": ("trunc", "floor")}


#: Functions that are no operators of the registry, or take numbers in ways that the walk does not find;
#: ``n`` is an absurd number.
EXPRESSIONS = (
    "one[torch.zeros(1, dtype=torch.int64).expand(n)]",
    "one[torch.ones(1, dtype=torch.bool).expand(n)]",
    "one.index_put((torch.zeros(1, dtype=torch.int64).expand(n),), torch.ones(1))",
    "one.scatter(0, torch.zeros(1, dtype=torch.int64).expand(n), 1.0)",
    "torch.repeat_interleave(torch.tensor([n, n]))",
    "torch.repeat_interleave(torch.ones(2), torch.tensor([n, 1]))",
    "torch.repeat_interleave(torch.ones(2), n)",
    "torch.tril_indices(n, n)", "torch.triu_indices(n, n)", "torch.tril_indices(n, 1, -n)",
    "torch.tril_indices(n, 0)", "torch.triu_indices(n, 3, n - 2)", "torch.tril_indices(3, n, n)",
    "torch.arange(n)", "torch.arange(0, n, 3, dtype=torch.int8)", "torch.arange(n, 0, -1)",
    "torch.eye(n)", "torch.zeros(n)", "torch.empty(n, n)", "torch.full((n, 2), 1)", "torch.randn(n)",
    "torch.linspace(0, 1, n)", "torch.logspace(0, 1, n)", "torch.randperm(n)", "torch.rand(n, 0)",
    "F.one_hot(torch.tensor([0]), n)", "F.one_hot(torch.tensor([n]))", "torch.bincount(torch.tensor([n]))",
    "torch.bincount(torch.tensor([1]), minlength=n)", "torch.histc(torch.ones(3), n)",
    "torch.histogram(torch.ones(3), n)", "torch.histogramdd(torch.ones(3, 2), bins=[n, n])",
    "torch.combinations(torch.ones(3), n)", "torch.combinations(torch.ones(40), 12)",
    "torch.combinations(torch.ones(3), n, with_replacement=True)",
    "torch.cartesian_prod(torch.ones(1).expand(n), torch.ones(2))",
    "torch.cartesian_prod(*[torch.ones(100)] * 10)", "torch.meshgrid(*[torch.ones(1).expand(n)] * 3)",
    "torch.ones(2).repeat(n)", "torch.ones(2).repeat(n, n)", "torch.tile(torch.ones(2), (n, 2))",
    "F.pad(torch.ones(2), (n, n))", "F.pad(torch.ones(1, 2), (n, 1), mode='reflect')",
    "F.pad(torch.ones(1, 2), (n, 1), mode='circular')", "F.pad(torch.ones(1, 2), (n, 1), mode='replicate')",
    "F.unfold(image, n)", "F.unfold(image, 2, padding=n)", "F.unfold(image, 1, dilation=n, stride=n)",
    "F.fold(torch.ones(1, 4, 4), n, 2)", "F.fold(torch.ones(1, 4, 4), 4, 1, padding=n)",
    "F.interpolate(image, n)", "F.interpolate(image, scale_factor=float(n))",
    "F.interpolate(image, scale_factor=float(n), mode='bilinear')",
    "F.interpolate(image[:0], (n, 1), mode='bicubic')", "F.interpolate(image[:0], (n, 1))",
    "F.conv2d(image, torch.ones(1, 1, 2, 2), padding=n)", "F.conv2d(image, torch.ones(1, 1, 1, 1), dilation=n)",
    "F.conv2d(image, torch.ones(1, 1, 2, 2), padding=n, stride=n)",
    "F.conv_transpose2d(image, torch.ones(1, 1, 2, 2), stride=n)",
    "F.conv_transpose1d(image[0], torch.ones(1, 1, 2), output_padding=n, stride=n)",
    "F.conv1d(torch.ones(1, 1, 1).expand(1, 1, n), torch.ones(1, 1, 3), stride=n)",
    "F.max_pool2d(image, n, padding=n)", "F.max_pool2d(image, 2, dilation=n)",
    "F.avg_pool2d(image, n, 1, padding=n)", "F.lp_pool2d(image, 2, n)",
    "F.adaptive_max_pool2d(image, n)", "F.adaptive_avg_pool2d(image, (n, 1))",
    "F.max_unpool1d(torch.ones(1, 1, 2), torch.zeros(1, 1, 2, dtype=torch.int64), 2, output_size=(n,))",
    "F.fractional_max_pool2d(image, 2, output_size=n)",
    "F.embedding_bag(torch.zeros(1, dtype=torch.int64).expand(n), torch.ones(2, 3), torch.tensor([0]))",
    "F.embedding_bag(torch.tensor([0]), torch.ones(2, 0), torch.zeros(1, dtype=torch.int64).expand(n))",
    "F.embedding(torch.zeros(1, dtype=torch.int64).expand(n), torch.ones(2, 3))",
    "torch.kron(torch.ones(1).expand(n), torch.ones(3))",
    "torch.tensordot(torch.ones(2), torch.ones(2), n)", "torch.outer(torch.ones(1).expand(n), torch.ones(3))",
    "torch.einsum('i,j->ij', torch.ones(1).expand(n), torch.ones(1).expand(n))",
    "torch.multinomial(torch.ones(3), n, replacement=True)", "torch.vander(torch.ones(3), n)",
    "torch.stft(torch.ones(8), n, return_complex=True)",
    "torch.stft(torch.ones(8), 4, n, return_complex=True)",
    "torch.istft(torch.ones(3, 2, dtype=torch.complex64), 4, length=n)",
    "torch.fft.fft(torch.ones(3), n)", "torch.fft.rfft(torch.ones(3), n)", "torch.fft.irfft(torch.ones(3), n)",
    "torch.fft.fft2(torch.ones(3, 3), (n, n))", "torch.fft.fftfreq(n)", "torch.fft.hfft(torch.ones(3), n)",
    "torch.block_diag(torch.ones(1, 1).expand(n, 1), torch.ones(1, 1).expand(1, n))",
    "torch.diag_embed(torch.ones(1).expand(n))", "torch.diag_embed(torch.ones(2), n)",
    "torch.diag(torch.ones(2), n)", "torch.diagflat(torch.ones(1).expand(n))",
    "torch.hann_window(n)", "torch.kaiser_window(n)", "torch.bartlett_window(n)",
    "torch.signal.windows.gaussian(n)", "torch.signal.windows.cosine(n)",
    "torch.ones(4).as_strided((n,), (1,))", "torch.ones(4).as_strided((n, n), (0, 0)).clone()",
    "torch.ones(1).expand(n).clone()", "torch.ones(1).expand(n).tolist()", "torch.ones(1).expand(n).numpy().copy()",
    "torch.ones(4).unfold(0, n, 1)", "torch.ones(0, 4).unfold(0, 0, n)", "torch.ones(4).chunk(n)",
    "torch.ones(0).chunk(n)", "torch.ones(0).tensor_split(n)", "torch.ones(1).expand(n).unbind()",
    "torch.ones(1).expand(n).split(1)", "torch.empty(0, n).unbind(1)", "list(torch.empty(n, 0))[:1]",
    "torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (n,)).to_dense()",
    "torch.sparse_coo_tensor(torch.tensor([[n - 1]]), torch.ones(1))",
    "torch.sparse_coo_tensor(torch.tensor([[0], [0]]), torch.ones(1), (n, n)).coalesce()",
    "torch.sparse_coo_tensor(torch.tensor([[0], [0]]), torch.ones(1), (n, n)).to_sparse_csr()",
    "torch.sparse_coo_tensor(size=(n, n)) + torch.sparse_coo_tensor(size=(n, n))",
    "torch.ones(1).expand(n).to_sparse()", "torch.ones(1, 1).expand(n, 1).to_sparse_csr()",
    "torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, n)).to_dense()",
    "torch.nn.utils.rnn.pad_packed_sequence(torch.nn.utils.rnn.pack_sequence([torch.ones(2)]), total_length=n)",
    "torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 1), [n])",
    "torch.nn.utils.rnn.pad_sequence([torch.ones(1).expand(n), torch.ones(1)])",
    "torch.nn.Linear(n, n)", "torch.nn.Embedding(n, n)", "torch.nn.Conv2d(n, 1, n)", "torch.nn.LSTM(n, n)",
    "torch.nn.LayerNorm(n)", "torch.nn.Bilinear(n, n, n)", "torch.nn.PixelShuffle(n)(torch.ones(1, 4, 2, 2))",
    "torch.nn.functional.pixel_unshuffle(image, n)", "F.channel_shuffle(image, n)", "F.group_norm(image, n)",
    "F.local_response_norm(image, n)", "F.affine_grid(torch.ones(1, 2, 3), (1, 1, n, n))",
    "F.ctc_loss(torch.zeros(2, 1, 2), torch.ones(1, 1), torch.tensor([2]), torch.tensor([n]))",
    "torch.bucketize(torch.ones(1).expand(n), torch.ones(2))", "torch.searchsorted(torch.ones(2), torch.ones(1).expand(n))",
    "torch.topk(torch.ones(3), n)", "torch.kthvalue(torch.ones(3), n)", "torch.sort(torch.ones(1).expand(n))",
    "torch.unique(torch.ones(1).expand(n))", "torch.nonzero(torch.ones(1).expand(n))",
    "torch.masked_select(torch.ones(1).expand(n), torch.ones(1, dtype=torch.bool))",
    "torch.cat([torch.ones(1).expand(n)] * 2)", "torch.stack([torch.ones(1).expand(n)] * 2)",
    "torch.matrix_power(torch.eye(2), n)", "torch.linalg.matrix_power(torch.eye(2, dtype=torch.float64) * 2, n)",
    "torch.linalg.vander(torch.ones(2), N=n)", "torch.roll(torch.ones(3), n)", "torch.rot90(torch.ones(2, 2), n)",
    "torch.diff(torch.ones(3), n)", "torch.gradient(torch.ones(3), edge_order=n)",
    "torch.cov(torch.ones(1).expand(n))", "torch.trapezoid(torch.ones(1).expand(n))",
    "torch.renorm(torch.ones(1, 1).expand(n, 1), 2, 0, 1)", "torch.cdist(torch.ones(1, 1).expand(n, 1), torch.ones(2, 1))",
    "torch.pdist(torch.ones(1, 1).expand(n, 1))", "torch.segment_reduce(torch.ones(3), 'sum', lengths=torch.tensor([n]))",
    "torch.ones(3).resize_(n)", "torch.UntypedStorage(n)", "torch.ones(3).untyped_storage().resize_(n)",
    "torch.Size([2]) * n", "torch.Size([2, 3]) * n", "torch.tensor(range(n))", "torch.frombuffer(bytearray(8), dtype=torch.uint8, count=n)",
    "torch.quasirandom.SobolEngine(2).draw(n)", "torch.quasirandom.SobolEngine(2).fast_forward(n)",
    "torch.quasirandom.SobolEngine(n)", "torch.Generator().manual_seed(n)", "torch.get_rng_state()[:n]",
    "next(iter(torch.utils.data.RandomSampler(range(3), num_samples=n, replacement=True)))",
    "torch.utils.data.random_split(range(3), [n, 1])", "next(iter(torch.utils.data.WeightedRandomSampler([1.0], n)))",
    "torch.nested.nested_tensor([torch.ones(2)]).to_padded_tensor(0.0, (1, n))",
    "torch.distributions.Multinomial(n, torch.ones(2)).sample()", "torch.distributions.Binomial(n, torch.ones(2) / 2).sample()",
    "torch.distributions.Normal(0, 1).sample((n,))", "torch.special.multigammaln(torch.ones(2) * 9, n)",
    "repr(torch.ones(1).expand(n))", "format(torch.ones(1).expand(n, 1, 1))",
)
#: What goes over every element of an expanded tensor may take as long as there are elements.
LONG = re.compile("expand")


def copied(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [copied(item) for item in value] if isinstance(value, list) else value


def call(name, parameters, values):
    """Calls the operator with fresh tensors."""
    positional, named, by_name = [], {}, False
    for (_, parameter, _, keyword), value in zip(parameters, values):
        by_name = by_name or keyword or value is LEFT_OUT
        if value is LEFT_OUT:
            continue
        if by_name:
            named[parameter] = value
        else:
            positional.append(value)
    return torch._C._op_call(name, *positional, **named)


LEFT_OUT = object()


def baseline(name, parameters):
    """Arguments that the operator takes, or the last that were tried."""
    choose = random.Random(name)
    values = []
    for trial in range(TRIALS):
        profile = choose.choice(KINDS), choose.choice(SHAPES)
        values = [
            LEFT_OUT if default is not None and (trial % 2 == 0 or choose.random() < 0.5)
            else value_of(kind, parameter, choose, profile)
            for kind, parameter, default, _ in parameters
        ]
        try:
            call(name, parameters, [copied(value) for value in values])
            return values, True
        except Exception:  # noqa: BLE001 the next one may be right
            continue
    return values, False


def wide_tensors(like):
    """Tensors with many elements in little memory, tensors of absurd numbers, and empty ones."""
    like = like if isinstance(like, torch.Tensor) else torch.ones(3)
    one = like.reshape(-1)[:1].clone() if like.numel() else torch.ones(1)
    yield "expanded", one.expand(2**40)
    if like.dim():
        rest = max(like.numel() // max(like.shape[-1], 1), 1).bit_length()
        yield "expanded first", one.expand(2**40, *like.shape[1:])
        yield "expanded last", one.expand(*like.shape[:-1], 2**40)
        yield "expanded to the limit", one.expand(*like.shape[:-1], 2 ** (62 - rest))
    if like.dim() > 1:
        yield "expanded everywhere", one.expand(*[2 ** (60 // like.dim())] * like.dim())
    yield "empty and wide", one.expand(0, 2**40)
    if not like.is_floating_point() and not like.is_complex() and like.dtype != torch.bool:
        for number in INTS:
            yield f"filled with {number}", torch.full_like(like, number)
    else:
        yield "filled with 1e300", torch.full_like(like, 1e30)


def cases(parameters, values):
    """What is changed, the arguments, and whether there are many elements to go over."""
    for at, (kind, name, default, _) in enumerate(parameters):
        base, _, rest = kind.partition("[")
        base = base.rstrip("?")

        def changed(value, at=at):
            return [copied(old) if at != place else value for place, old in enumerate(values)]

        if base in ("int", "Scalar", "float"):
            numbers = INTS if base == "int" else FLOATS if base == "float" else INTS + FLOATS
            for number in numbers:
                if not rest:
                    yield f"{name}={number}", changed(number), False
                    continue
                old = values[at] if isinstance(values[at], list) and values[at] else [1, 1]
                yield f"{name}=[{number}, ...]", changed([number] * len(old)), False
                yield f"{name}=[{number}, 1...]", changed([number] + old[1:]), False
                yield f"{name}=[..., {number}]", changed(old[:-1] + [number]), False
            if rest and base == "int":
                yield f"{name}=[2 ** 31, ...]", changed([2**31] * 2), False
        elif base == "Tensor":
            old = values[at]
            first = old[0] if isinstance(old, list) and old else old
            for what, wide in wide_tensors(first):
                yield f"{name} {what}", changed([wide] * len(old) if isinstance(old, list) else wide), True
    tensors = [place for place, value in enumerate(values) if isinstance(value, torch.Tensor)]
    if len(tensors) > 1:
        for number in (2**40, 2**62):
            wide = [value.reshape(-1)[:1].expand(number) if place in tensors else copied(value)
                    for place, value in enumerate(values)]
            yield f"all tensors expanded to {number}", wide, True


def arguments_of(name):
    """The parameters, the cases, and whether the operator took the arguments that they were made of."""
    parameters = parameters_of(torch._C._op_schema(name))
    values, sound = baseline(name, parameters)
    return parameters, list(cases(parameters, values)), sound


def limit_memory():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def say(*words):
    os.write(1, (json.dumps(words) + "\n").encode())


def evaluate(number):
    """Calls an expression with every absurd number."""
    text = EXPRESSIONS[number]
    space = {"torch": torch, "F": torch.nn.functional, "image": torch.ones(1, 1, 4, 4), "one": torch.ones(3)}
    for n in (*INTS, 2**31):
        yield text, f"n={n}", dict(space, n=n)


def judge(run, number, what, many, name):
    """Calls, and says what comes of it besides a result or an ordinary exception."""
    say("call", name, number, what, many)
    signal.setitimer(signal.ITIMER_REAL, 0.5 if many else SECONDS)
    try:
        run()
    except MemoryError:
        pass
    except Exception as error:  # noqa: BLE001 the class and the text are judged by the reader
        ordinary = (RuntimeError, IndexError, ValueError, TypeError, OverflowError, StopIteration,
                    NotImplementedError, AssertionError, BufferError)
        if not isinstance(error, ordinary) or re.search("INTERNAL ASSERT|panic", str(error)):
            say("error", f"{type(error).__name__}: {error}"[:500])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main(names):
    warnings.simplefilter("ignore")
    if "ASAN_OPTIONS" not in os.environ:
        limit_memory()
    # The default action ends the process, also while it is in a kernel.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for name in names:
        name, _, first = name.partition("/")
        signal.alarm(60)
        if name.isdigit():
            made = [(what, lambda text=text, space=space: eval(text, space), LONG.search(text) is not None)
                    for text, what, space in evaluate(int(name))]
            say("operator", name, True)
        else:
            parameters, found, sound = arguments_of(name)
            made = [(what, lambda values=values: call(name, parameters, values), many)
                    for what, values, many in found]
            say("operator", name, sound)
        for number, (what, run, many) in enumerate(made):
            if number >= int(first or 0):
                judge(run, number, what, many, name)


if __name__ == "__main__":
    main(sys.argv[1:])
