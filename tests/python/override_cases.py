"""Calls of everything that ``__torch_function__`` may take over, and what it is told."""

import functools
import inspect


def stand_in(torch, of_tensors):
    """A class that notes what it is asked for: one of tensors, or of other objects."""
    seen = []

    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append((func, args, kwargs or {}))
        return -1

    body = {"__torch_function__": classmethod(__torch_function__)}
    bases = (torch.Tensor,) if of_tensors else ()
    kind = type("Noting", bases, body)
    return seen, (lambda: torch.ones(5).as_subclass(kind)) if of_tensors else kind


def lookup(torch, name):
    """What a name such as ``torch.Tensor.shape.__get__`` stands for."""
    return functools.reduce(getattr, name.split(".")[1:], torch)


def value(torch, spec, make):
    """An argument: an object that takes calls over, several of them, a dtype, or what is written."""
    if spec == "T":
        return make()
    if spec == "TT":
        return [make(), make()]
    if isinstance(spec, str) and spec.startswith("dtype:"):
        return getattr(torch, spec[6:])
    return spec[5:] if isinstance(spec, str) else spec


def call(torch, name, args, kwargs, of_tensors):
    """Calls by name; returns what was seen of it, or the exception."""
    seen, make = stand_in(torch, of_tensors)
    given = [value(torch, one, make) for one in args]
    named = {key: value(torch, one, make) for key, one in kwargs.items()}
    del seen[:]
    try:
        if name.endswith(".__get__"):
            getattr(given[0], name.split(".")[-2])
        elif name.startswith("torch.Tensor."):
            getattr(torch.Tensor, name.split(".")[-1])(*given, **named)
        else:
            lookup(torch, name)(*given, **named)
    except Exception as error:
        if not seen:
            return error
    return seen[0] if seen else None


def described(name_of, seen):
    """The function's name, how many arguments it got by position, and the names of the others."""
    func, args, kwargs = seen
    return [name_of(func), len(args), sorted(kwargs)]


def arguments(torch, func, override, annotated):
    """Arguments by which PyTorch's own declarations say that a function can be called."""
    simple = {
        "Tensor": "T", "TensorList": "TT", "ITensorListRef": "TT", "Scalar": 3.5, "bool": False,
        "c10::List<::std::optional<Tensor>>": "TT", "SymInt": 1, "Dimname": "text:",
        "c10::string_view": "text:", "ScalarType": "dtype:float32", "double": 1.0,
    }

    def of(arg):
        kind = arg["simple_type"].removesuffix("?")
        if kind in ("IntArrayRef", "SymIntArrayRef"):
            size = arg.get("size", 2)
            return 1 if size == 1 else [1] * size
        if kind.startswith("int"):
            return 0
        if kind.startswith("float"):
            return 1.0
        return simple.get(kind)

    if func in annotated:
        args, kwargs = [], {}
        for arg in annotated[func]:
            if str(arg.get("is_kwarg_only")) == "True":
                kwargs[arg["name"]] = of(arg)
            else:
                args.append(of(arg))
        return args, kwargs
    spec = inspect.getfullargspec(override)
    count = len(spec.args) - len(spec.defaults or ()) + (2 if spec.varargs else 0)
    return ["T"] * count, {}
