"""Calls of every operator of the registry with small arguments, made from the schema or from samples.

``cases`` lists them, ``run`` makes one and writes its result down as data: PyTorch's are in
``tests/goldens/forward_oracle.zip``, made by ``tests/goldens/make/forward_oracle.py``. Samples stand in
``tests/goldens/forward_samples.txt``, an operator and its arguments in a line:

``f2x3`` a tensor of the dtype of the case (``f`` alone: 0-dim), ``f2x3:-1:1`` with values in that range,
``f2x3=1,2,...`` with these values, ``=1,2`` a vector, ``r...`` a tensor whose dtype is real, ``z...`` one
whose imaginary parts are 0, ``i2=0,1`` int64, ``j...`` int32, ``b...`` bool, ``l(a;b)`` a list,
``o(_;a)`` a list with gaps, ``[1,2]`` numbers, ``'sum'`` a string, ``true``, ``3``, ``0.5``, ``_`` None,
``@cpu`` a name of the module, ``name:value`` an argument by name.
"""

import functools
import re
import zlib
from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "goldens" / "forward_samples.txt"
CLASSES = {"bool": ("bool",), "integer": ("int64", "int32", "uint8", "int16", "int8"),
           "half": ("float16", "bfloat16"), "float": ("float32", "float64"),
           "complex": ("complex64", "complex128")}
LAYOUTS = ("contiguous", "strided", "empty", "0-dim")
RANDOM = re.compile(r"rand|dropout|bernoulli|normal|multinomial|poisson|rrelu|binomial|gamma_?$|dirichlet"
                    r"|exponential|cauchy|geometric|uniform|log_normal")
# Functions that take tensors one by one where the operator takes a list.
SPREAD = ("block_diag", "broadcast_tensors", "cartesian_prod", "chain_matmul")
# What the memory holds before anything is written is not compared.
UNWRITTEN = re.compile(r"^(new_)?empty|^_?resize|^set_|^_empty|^new_empty")


class Argument:
    """An argument of a schema."""

    def __init__(self, text, keyword):
        declared, self.name, default = re.fullmatch(r"(.*?) (\w+)(=.*)?", text).groups()
        self.keyword = keyword
        self.default = default[1:] if default else None
        self.written = "!" in declared
        self.type = re.sub(r"\(.*?\)", "", declared).replace("SymInt", "int")
        self.list = self.type.endswith(("]", "]?"))


class Schema:
    """An operator's name and arguments."""

    def __init__(self, text):
        left, _, self.returns = text.rpartition(") -> ")
        self.name, _, inside = left.partition("(")
        self.space, _, self.full = self.name.partition("::")
        self.base, _, self.overload = self.full.partition(".")
        self.arguments, keyword = [], False
        for part in re.split(r", (?![^\[]*\])", inside) if inside else ():
            if part == "*":
                keyword = True
            else:
                self.arguments.append(Argument(part, keyword))
        self.outputs = [a for a in self.arguments if a.written and a.keyword]
        self.written = [a for a in self.arguments if a.written]

    def key(self):
        """What an operator and its in-place and `out` forms have in common."""
        given = [(a.name, a.type) for a in self.arguments if a not in self.outputs]
        if any(kind == "Layout?" for _, kind in given):
            given = [g for g in given if g[0] not in ("dtype", "layout", "device", "pin_memory")]
        base = self.base
        if base.endswith("_") and not base.endswith("__"):
            base = base[:-1]
        return base, tuple(given)


@functools.lru_cache(maxsize=None)
def samples():
    """The lines of the table of samples, by operator."""
    table = {}
    for line in SAMPLES.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, words = line.partition(" | ")
            table.setdefault(name, []).append(words.split())
    return table


def numbers(kind, count, nr):
    """Values that are exact in every dtype of their class, of both signs, in no order."""
    step = next((s for s in (5, 7, 11, 13) if count % s), 1)
    places = [(i * step + 3 * nr) % max(count, 1) for i in range(count)]
    if kind == "bool":
        return [(p * 7 + nr) % 3 != 0 for p in places]
    if kind == "integer":
        return [(p * 5 + nr) % 11 - (0 if nr else 3) for p in places]
    if kind == "complex":
        return [complex((p * 5 + nr) % 23 / 8 - 1.25, (p * 3 + nr) % 17 / 8 - 0.75) for p in places]
    return [(p * 5 + nr) % 23 / 8 - 1.25 for p in places]


class Maker:
    """Makes the arguments of a case."""

    def __init__(self, torch, kind, dtype, layout):
        self.torch, self.kind, self.layout = torch, kind, layout
        self.dtype = getattr(torch, dtype)
        self.made, self.first = 0, None

    def arrange(self, values, sizes, dtype):
        """A tensor of these values: in order, or with its first dimension innermost, gaps and an offset."""
        torch = self.torch
        if self.layout != "strided":
            return torch.tensor(values, dtype=dtype).reshape(sizes).clone()
        rank = len(sizes)
        tensor = torch.tensor(values, dtype=dtype).reshape(sizes).permute(list(range(rank))[::-1])
        strides, stride = [0] * rank, 2
        for d in range(rank):
            strides[d] = stride
            stride *= max(sizes[d], 1)
        storage = torch.zeros(stride + 3, dtype=dtype)
        result = storage.as_strided(sizes, strides, 1)
        result.copy_(tensor.permute(list(range(rank))[::-1]))
        return result

    def tensor(self, sizes, values=None, low=None, high=None, dtype=None, kind=None, shrink=True):
        """A tensor of the case's layout."""
        kind, dtype = kind or self.kind, dtype or self.dtype
        nr, self.made = self.made, self.made + 1
        count = 1
        for size in sizes:
            count *= size
        if values is not None:
            values = [complex(v, 0.5 * v) if kind == "complex" else v for v in values]
            values = [int(v) if kind in ("integer", "index") else bool(v) if kind == "bool" else v
                      for v in values]
        elif low is not None:
            step = (high - low) / (count + 1)
            values = [low + step * ((i * 5 + nr) % max(count, 1) + 0.75) for i in range(count)]
            if kind in ("integer", "bool"):
                values = [int(v) for v in values]
        else:
            values = numbers(kind, count, nr)
        if self.first is None:
            self.first = sizes[0] if sizes else None
        sizes = list(sizes)
        if self.layout == "empty" and sizes and sizes[0] == self.first:
            sizes, values = [0, *sizes[1:]], []
        if self.layout == "0-dim" and shrink:
            sizes, values = [], values[:1] or [1]
            return self.arrange(values[0], sizes, dtype)
        return self.arrange(values if sizes else values[0], sizes, dtype)

    def word(self, text, argument):
        """A word of the language of samples."""
        torch = self.torch
        if text == "_":
            return None
        if text in ("true", "false"):
            return text == "true"
        if text[0] == "'":
            return text[1:-1]
        if text[0] == "@":
            return getattr(torch, text[1:])
        if text[0] == "[":
            return [self.word(t, argument) for t in text[1:-1].split(",") if t]
        if text[:2] in ("l(", "o("):
            return [self.word(t, argument) for t in text[2:-1].split(";") if t]
        tensor = re.fullmatch(r"([fczrijb])s?(\d+(?:x\d+)*)?(?::([-\d.]+):([-\d.]+))?(?:=(.*))?", text)
        if tensor or text[0] == "=":
            return self.sampled(tensor.groups() if tensor else ("f", None, None, None, text[1:]), text)
        if hasattr(torch, text) and argument.type.startswith("ScalarType"):
            return getattr(torch, text)
        number = float(text) if re.search(r"[.infa]", text) else int(text)
        return float(number) if argument.type.startswith("float") else number

    def sampled(self, groups, text):
        kind, sizes, low, high, values = groups
        values = [float(v) for v in values.split(",")] if values else None
        scalar = text[1:2] == "s"
        shape = [int(n) for n in sizes.split("x")] if sizes else [len(values)] if values and not scalar else []
        torch = self.torch
        dtype, of = {"i": (torch.int64, "index"), "j": (torch.int32, "index"),
                     "b": (torch.bool, "bool")}.get(kind, (None, None))
        if kind == "r" and self.kind == "complex":
            dtype, of = (torch.float32 if self.dtype == torch.complex64 else torch.float64), "float"
        if kind == "z" and self.kind == "complex":
            of = "real"
        if of == "index" and values is None:
            values = [0.0] * functools.reduce(lambda a, b: a * b, shape, 1)
        bounds = (float(low), float(high)) if low else (None, None)
        return self.tensor(shape, values, *bounds, dtype=dtype, kind=of, shrink=of in (None, "float", "real"))

    def required(self, argument):
        """A value for an argument without a sample, from its type and name."""
        torch, kind, name = self.torch, argument.type, argument.name
        base = kind.rstrip("?").partition("[")[0]
        if argument.list and base == "Tensor":
            return [self.tensor([2, 3]), self.tensor([2, 3])]
        if kind.endswith("?"):
            return None
        if argument.list:
            if name in ("size", "sizes"):
                return [0, 3] if self.layout == "empty" else [] if self.layout == "0-dim" else [2, 3]
            if base == "Scalar":
                return [2, 3]
            if base == "float":
                return [1.0]
            return [True] if base == "bool" else [0]
        if base == "Tensor":
            if name == "mask":
                return self.tensor([2, 3], dtype=torch.bool, kind="bool")
            return self.tensor([2, 3])
        if base == "int":
            return {"dim": -1, "dim0": 0, "dim1": -1, "dtype": None}.get(name, 2 if name == "n" else 1)
        return {"Scalar": {"bool": True, "integer": 2, "half": 1.5, "float": 1.5, "complex": 0.5 + 1.5j}[self.kind],
                "float": 0.5, "bool": False, "str": "sum", "ScalarType": torch.float32,
                "Device": torch.device("cpu"), "Layout": torch.strided,
                "MemoryFormat": torch.contiguous_format}.get(base)

    def arguments(self, schema, words):
        """Positional and keyword arguments, as lists of pairs of an argument and its value."""
        declared = [a for a in schema.arguments if a not in schema.outputs]
        given = {}
        for place, word in enumerate(words or ()):
            name, colon, value = word.partition(":")
            if colon and any(a.name == name for a in declared):
                given[name] = value
            else:
                given[declared[place].name] = word
        tensors = any(a.type.startswith("Tensor") for a in declared)
        positional, keywords = [], {}
        for argument in declared:
            if argument.name in given:
                value = self.word(given[argument.name], argument)
            elif argument.name == "dtype" and not tensors and argument.type.startswith("ScalarType"):
                value = self.dtype
            elif argument.type.startswith("Generator"):
                value = self.torch.Generator().manual_seed(7)
            elif argument.default is not None:
                continue
            elif words is not None and argument.type.endswith("?"):
                value = None
            else:
                value = self.required(argument)
            if argument.keyword or len(positional) < declared.index(argument):
                keywords[argument.name] = value
            else:
                positional.append(value)
        return positional, keywords


class Operator:
    """An operator of the registry with the calls that are made of it."""

    def __init__(self, entry, functional):
        self.schema = Schema(entry["schema"])
        self.entry = entry
        table = samples()
        own = self.schema.space not in ("quantized", "quantized_decomposed")  # names of others, with other arguments
        self.samples = own and (table.get(self.schema.full) or table.get(functional)) or [None]
        self.name = self.schema.name
        self.random = bool(RANDOM.search(self.schema.base)) or "Generator" in entry["schema"]
        self.unwritten = bool(UNWRITTEN.search(self.schema.base))

    def cases(self):
        """Sample, dtype class, dtype and layout of every call, and the key of its result."""
        turn = zlib.crc32(self.schema.key()[0].encode())
        for nr, words in enumerate(self.samples):
            for kind, dtypes in CLASSES.items():
                dtype = dtypes[(turn + nr) % len(dtypes)]
                for layout in LAYOUTS:
                    yield words, kind, dtype, layout, f"{nr} {dtype} {layout}"

    def roads(self):
        """The public functions and methods of the operator."""
        base, found = self.schema.base, []
        if self.entry["function"]:
            found.append(("torch", base))
        if self.entry["method"]:
            found.append(("Tensor", base))
        for home in self.entry["python"]:
            prefix = f"{home}_"
            found.append((home, base[len(prefix):] if base.startswith(prefix) else base))
        return found


def operators(entries):
    """Every operator of the registry."""
    functional = {}
    for entry in entries:
        schema = Schema(entry["schema"])
        if entry["kind"] in ("functional", "view"):
            functional.setdefault(schema.key(), schema.full)
    return [Operator(entry, functional.get(Schema(entry["schema"]).key())) for entry in entries]


def find(torch, operator, road):
    """What a road to an operator calls."""
    schema = operator.schema
    if road is None:
        packet = getattr(getattr(torch.ops, schema.space), schema.base)
        return getattr(packet, schema.overload or "default")
    home, name = road
    owner = {"torch": torch, "Tensor": torch.Tensor, "_nn": torch._C._nn}.get(home)
    if owner is None:
        for part in home.split("."):
            owner = getattr(owner or torch, part)
    found = getattr(owner, name)
    if not callable(found):
        return lambda self: getattr(self, name)
    if home == "torch" and name in SPREAD:
        return lambda tensors, **keywords: found(*tensors, **keywords)
    if home == "torch" and name == "tensordot":
        return lambda self, other, first, second, **keywords: found(self, other, (first, second), **keywords)
    return found


class Pool:
    """Values of results, each once."""

    def __init__(self):
        self.places, self.parts, self.size = {}, [], 0

    def add(self, data):
        if data not in self.places:
            self.places[data] = self.size
            self.parts.append(data)
            self.size += len(data)
        return self.places[data]


def raw(torch, tensor):
    """The bytes of a tensor's elements in order."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype.is_complex and tensor.element_size() == 4:
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy().tobytes()


def outcome(torch, value, add, view=False, unwritten=False):
    """A result as data: what JSON holds, with the bytes of tensors given to `add`."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return ["sparse", str(value.layout).rpartition(".")[2],
                    outcome(torch, value.to_dense(), add, False, unwritten)]
        described = ["tensor", str(value.dtype).rpartition(".")[2], list(value.shape), list(value.stride()),
                     None if unwritten else add(raw(torch, value))]
        return described + [value.storage_offset()] if view else described
    if isinstance(value, (list, tuple)):
        return ["list", *(outcome(torch, v, add, view, unwritten) for v in value)]
    if value is None or isinstance(value, (bool, int, str)):
        return ["value", type(value).__name__, value]
    if isinstance(value, (float, complex)):
        return ["number", type(value).__name__, repr(value)]
    return ["value", type(value).__name__, str(value).rpartition(".")[2]]


def outputs(torch, expected, schema):
    """Empty tensors of the dtypes that results have, for the arguments `out`."""
    expected = expected[1:] if len(schema.outputs) > 1 or schema.outputs[0].list else [expected]
    made = {}
    for argument, wanted in zip(schema.outputs, expected):
        if argument.list:
            made[argument.name] = [torch.empty(0, dtype=getattr(torch, w[1])) for w in expected]
        else:
            made[argument.name] = torch.empty(0, dtype=getattr(torch, wanted[1]))
    return made


def run(torch, operator, case, add, road=None, wanted=None):
    """Makes a call and gives its result as data; an exception is its class."""
    words, kind, dtype, layout, _ = case
    schema = operator.schema
    try:
        positional, keywords = Maker(torch, kind, dtype, layout).arguments(schema, words)
    except (OverflowError, ValueError, IndexError) as error:
        raise AssertionError(f"{schema.name} {case}: {error!r}") from error
    made = outputs(torch, wanted, schema) if schema.outputs else {}
    if made and road is not None:
        keywords["out"] = next(iter(made.values())) if len(made) == 1 else tuple(made.values())
    else:
        keywords.update(made)
    call = find(torch, operator, road)
    if operator.random:
        torch.manual_seed(11)
    try:
        result = call(*positional, **keywords)
        written = dict(zip((a.name for a in schema.arguments), positional)) | keywords | made
        after = [written[a.name] for a in schema.written if a.name in written]
        told = [result, *after] if after else [result]
        return ["list", *(outcome(torch, r, add, operator.entry["kind"] == "view", operator.unwritten)
                          for r in told)]
    except Exception as error:  # pylint: disable=broad-exception-caught
        return ["error", type(error).__name__, str(error)[:300]]
