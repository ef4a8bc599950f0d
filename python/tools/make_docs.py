"""Writes the reference: a page of Markdown per operator and per module, with examples that ran.

    python python/tools/make_docs.py [FOLDER] [NAME ...]

The folder is ``out/docs`` unless another one is given; names restrict the pages to some operators and
modules. What a page says is the registry's: schemas, documentation, derivative and implementation;
devices and dtypes are those with which the example was seen to run.
"""

from __future__ import annotations

import inspect
import pathlib
import sys

import corten
import doc_examples
from corten import _C

HOME = pathlib.Path(__file__).resolve().parent.parent.parent
NAMESPACES = ("special", "linalg", "fft")
DTYPES = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "int64", "int32",
          "int16", "int8", "uint8", "bool")
DERIVATIVES = {
    "formula": "has a derivative, and that one has its own where the formula is differentiable",
    "composite": "differentiated through the operators that it is made of",
    "none": "not differentiable", "unknown": "not known",
}


def overloads():
    """The public operators: ``{name: [what the registry says of each overload]}``."""
    found = {}
    for op in _C._ops():
        space, _, rest = op["name"].partition("::")
        name = rest.partition(".")[0]
        if space == "aten" and not name.startswith("_") and (op["function"] or op["method"] or op["python"]):
            found.setdefault(name, []).append(op)
    for name in [name for name in found if name.endswith("_") and name[:-1] in found]:
        found[name[:-1]] += found.pop(name)
    return found


def family(ops):
    """The family's name: that of the file that declares it."""
    return pathlib.PurePath(ops[0]["source"].partition(":")[0]).stem


def paths(name, ops):
    """How programs call an operator: as a function, or as a method."""
    for space in NAMESPACES:
        short = name.removeprefix(f"{space}_")
        if any(space in op["python"] for op in ops) and short != name:
            yield f"torch.{space}.{short}", False
    if any(op["function"] for op in ops) and hasattr(corten, name):
        yield f"torch.{name}", False
    if any("_nn" in op["python"] for op in ops):
        public = hasattr(corten.nn.functional, name)
        yield f"torch.nn.functional.{name}" if public else f"torch._C._nn.{name}", False
    if any(op["method"] for op in ops):
        yield name, True


def find_example(name, ops):
    """The first call of an overload that works, the plainest overloads first."""
    found = doc_examples.given(name)
    if found is not None:
        return found
    plain = sorted((op for op in ops if op["kind"] != "out"), key=lambda op: len(op["schema"]))
    for op in plain:
        schema = op["schema"].partition("::")[2]
        if schema.partition("(")[0].partition(".")[0].endswith("_") and not name.endswith("_"):
            continue
        for path, method in paths(name, ops):
            found = doc_examples.example(schema, path, method)
            if found is not None:
                return found
    return None


def runs(x, call, change):
    try:
        doc_examples.evaluate(x, call, change)
    except Exception:
        return False
    return True


def support(x, call):
    """Lines on the devices and dtypes with which the example runs."""
    devices = ["cpu"]
    if x is None or runs(x, call, lambda tensor: tensor.to("meta")):
        devices.append("meta (shapes without data)")
    yield f"- Devices: {', '.join(devices)}"
    if x is not None:
        found = [name for name in DTYPES
                 if runs(x, call, lambda tensor, name=name: tensor.to(getattr(corten, name)))]
        yield f"- Dtypes of `x` in the example: {', '.join(found)}"


def fenced(language, *lines):
    return [f"```{language}", *lines, "```", ""]


def shown(x, call, value):
    """The example as it looks at a prompt."""
    start = [f">>> x = {x}"] if x is not None and "x" in call.replace("torch.", "") else []
    return fenced("python", *start, f">>> {call}", doc_examples.printed(value))


def operator_page(name, ops):
    """The text of an operator's page."""
    lines = [f"# {name}", "", *dict.fromkeys(op["doc"] for op in ops), ""]
    lines += fenced("", *(op["schema"].partition("::")[2] for op in ops))
    called = [f"`x.{path}`" if method else f"`{path}`" for path, method in paths(name, ops)]
    lines += [f"- Called as {', '.join(called)}", f"- Family: {family(ops)} (`{ops[0]['source']}`)"]
    gradient = dict.fromkeys(DERIVATIVES[op["gradient"]] for op in ops if op["kind"] != "out")
    lines += [f"- Derivative: {'; '.join(gradient)}", f"- Implementation: {ops[0]['implementation']}"]
    found = find_example(name, ops)
    if found is None:
        return "\n".join([*lines, ""]) + "\n"
    x, call, value = found
    return "\n".join([*lines, *support(x, call), "", "## Example", "", *shown(x, call, value)])


def module_page(cls):
    """The text of a module's page."""
    lines = [f"# torch.nn.{cls.__name__}", "", inspect.getdoc(cls) or "", ""]
    lines += fenced("", f"{cls.__name__}{inspect.signature(cls)}")
    made, module, inputs, output = doc_examples.module_example(cls)
    if module is None:
        return "\n".join(lines)
    prompt = [f">>> module = {made}", ">>> module", repr(module)]
    if output is not None:
        shape = list(output.shape) if isinstance(output, corten.Tensor) else None
        prompt += [f">>> module({inputs}){'.shape' if shape is not None else ''}",
                   f"torch.Size({shape})" if shape is not None else doc_examples.printed(output)]
    lines += ["## Example", "", *fenced("python", *prompt)]
    state = [f"| `{key}` | {list(value.shape)} | {str(value.dtype).removeprefix('torch.')} |"
             for key, value in module.state_dict().items()]
    if state:
        lines += ["## State", "", "| name | shape | dtype |", "|---|---|---|", *state, ""]
    return "\n".join(lines)


def modules():
    """The module classes of ``torch.nn``."""
    for name in sorted(corten.nn.modules.__all__):
        value = getattr(corten.nn, name)
        if isinstance(value, type) and issubclass(value, corten.nn.Module) and value is not corten.nn.Module:
            yield name, value


def first_sentence(text):
    return (text or "").partition("\n\n")[0].replace("\n", " ")


def main(arguments):
    folder = pathlib.Path(arguments[0]) if arguments else HOME / "out" / "docs"
    wanted = set(arguments[1:])
    index, families = ["# Reference", ""], {}
    for name, ops in overloads().items():
        if not wanted or name in wanted:
            families.setdefault(family(ops), []).append((name, ops))
    for kind, members in sorted(families.items()):
        (folder / "operators" / kind).mkdir(parents=True, exist_ok=True)
        index += [f"## {kind}", ""]
        for name, ops in sorted(members, key=lambda member: member[0]):
            (folder / "operators" / kind / f"{name}.md").write_text(operator_page(name, ops))
            index.append(f"- [{name}](operators/{kind}/{name}.md): {ops[0]['doc']}")
        index.append("")
    (folder / "modules").mkdir(parents=True, exist_ok=True)
    index += ["## Modules", ""]
    for name, cls in modules():
        if not wanted or name in wanted:
            (folder / "modules" / f"{name}.md").write_text(module_page(cls))
            index.append(f"- [{name}](modules/{name}.md): {first_sentence(inspect.getdoc(cls))}")
    (folder / "index.md").write_text("\n".join([*index, ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
