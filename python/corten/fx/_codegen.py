"""How graphs become functions: the head, the body and the last line of generated code."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import corten
from corten.utils import _pytree as pytree
from corten.utils._dtype_abbrs import dtype_abbrs

from ._code import PythonCode, Writer

__all__ = ["CodeGen"]

_COLORS = {"red": "\033[31m", "blue": "\033[34m", "dim": "\033[2m", "dim_blue": "\033[2m\033[34m",
           "dim_green": "\033[2m\033[32m"}
_COUNTER = re.compile(r"# COUNTER: (\d+)")


class _PyTreeInfo(NamedTuple):
    """The trees of the arguments and of the result of a function whose graph has leaves only."""

    orig_args: list
    in_spec: object
    out_spec: object


class _Style:
    """What is written beside the statements."""

    def __init__(self, verbose, include_stride, include_device, colored, expanded_def, additional_meta):
        self.verbose, self.expanded, self.additional = verbose, expanded_def, additional_meta or ()
        self.stride, self.device, self.colored = include_stride, include_device, colored
        self.written = None

    def paint(self, color, text):
        return f"{_COLORS[color]}{text}\033[0m" if self.colored else text

    def note(self, node):
        """The type of a node's value as it is written in verbose code."""
        if not self.verbose:
            return ""
        meta = node.meta
        value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
        if isinstance(value, corten.Tensor):
            text, kind = self._tensor(value), type(value)
            plain = kind is corten.Tensor or kind.__name__ in ("FakeTensor", "Parameter")
            return f': "{text}"' if plain else f': "{kind.__name__}({text})"'
        if _is_symbolic(value):
            return f': "Sym({CodeGen._sym_repr(value)})"'
        if type(value).__name__ == "TensorMetadata":
            return f': "{dtype_abbrs[value.dtype]}{_shape(value.shape)}"'
        return ""

    def _tensor(self, value):
        stride = _shape(value.stride()) if self.stride and value.layout == corten.strided else ""
        device = str(value.device) if self.device else ""
        return (
            self.paint("red", dtype_abbrs[value.dtype]) + self.paint("blue", _shape(value.shape))
            + self.paint("dim_blue", stride) + self.paint("dim_green", device)
        )

    def comment(self, node):
        """Where a node was recorded, if that differs from the one before."""
        if not self.verbose or node.op in ("placeholder", "output"):
            return ""
        more = ", ".join(f"{key}: {node.meta[key]}" for key in self.additional if key in node.meta)
        custom = node.meta.get("custom") or {}
        short = {key: value if len(str(value)) <= 40 else f"{str(value)[:40]}..." for key, value in custom.items()}
        place = _innermost(node.stack_trace) or "No stacktrace found for following nodes"
        if node.meta.get("autograd_backward") and not place.startswith("No stacktrace"):
            place = f"Backward of forward node: {place}"
        again = node.meta.get("recompute")
        line = f"#{f' Annotation: {short}' if short else ''}{f' recompute: {again.name}' if again else ''} {place}"
        line = "\n" + self.paint("dim", (f"# {more} " if more else "") + line) + "\n"
        if line == self.written:
            return ""
        self.written = line
        return line


def _is_symbolic(value):
    return isinstance(value, (corten.SymInt, corten.SymFloat, corten.SymBool))


def _shape(sizes):
    return f"[{', '.join(map(str, sizes))}]"


def _innermost(trace):
    """The last frame of a stack trace in one line."""
    lines = (trace or "").strip().split("\n")
    for place in range(len(lines) - 2, -1, -1):
        found = re.match(r'^File "(.+)", line (\d+), in (.+)$', lines[place].strip())
        if found:
            return f"File: {found[1]}:{found[2]} in {found[3]}, code: {lines[place + 1].strip()}"
    return None


def _last_uses(nodes):
    """For every node, the values that nothing behind it needs."""
    seen, found = set(), {}
    for user in reversed(nodes):
        for node in user.all_input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found


class CodeGen:
    """Writes a graph as a function whose parameters are the graph's inputs."""

    #: How numbers that are not known are written.
    _sym_repr = staticmethod(repr)

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The first line, for these parameters."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if not expanded_def:
            return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"
        lines = []
        for parameter in free_vars:
            name, mark, rest = parameter.partition("#")
            lines.append(f"    {name.rstrip()},{f'  # {rest.lstrip()}' if mark else ''}\n")
        return f"def {self._func_name}(\n{''.join(lines)}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None, repr_fn=None):
        """The last line."""
        write = repr_fn or repr
        if descs is None or not isinstance(output_args, (list, tuple)):
            return f"return {write(output_args)}"
        return f"return {_expanded(output_args, descs, write)}"

    def process_inputs(self, *args):
        """The inputs of the graph for the arguments of the function."""
        return args

    def process_outputs(self, outputs):
        """The result of the function for the output of the graph."""
        return outputs

    def additional_globals(self):
        """Names that the code uses beside those of nodes, with their objects."""
        return []

    def _gen_python_code(self, nodes, root_module, namespace=None, *, verbose=False, include_stride=False,
                         include_device=False, colored=False, expanded_def=False, additional_meta=None):
        style = _Style(verbose, include_stride, include_device, colored, expanded_def, additional_meta)
        writer, nodes, parameters, body = Writer(root_module), list(nodes), [], []
        for place, (node, gone) in enumerate(_with_last_uses(nodes)):
            body += filter(None, [style.comment(node), f"# COUNTER: {place}\n"])
            if node.op == "placeholder":
                parameters.append(self._parameter(node, writer, style))
                raw = node.target.replace("*", "")
                body += [f"{node!r} = {raw}\n"] if raw != repr(node) else []
                continue
            line = writer.statement(node, style.note(node), functools.partial(self._result, node, writer, style))
            lost = style.paint("dim", " = ".join([*map(repr, gone), "None"]))
            body += [line, f";  {lost}\n" if gone else "\n"]
        if not body:
            body.append("pass\n")
        if self._body_transformer:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.globals[name] = value
        return self._assembled(writer, parameters, body, expanded_def)

    def _parameter(self, node, writer, style):
        note = style.note(node) or (f" : {writer.annotation(node.type)}" if node.type else "")
        default = f" = {writer.value(node.args[0])}" if node.args else ""
        description = node.meta.get("desc") if style.expanded else None
        return f"{node.target}{note}{default}" + (f"  # {description}" if description is not None else "")

    def _result(self, node, writer, style, value):
        descriptions = node.meta.get("desc") if style.expanded else None
        return self.generate_output(value, descs=descriptions, repr_fn=writer.value)

    def _assembled(self, writer, parameters, body, expanded_def):
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self.gen_fn_def(parameters, writer.returns, **({"expanded_def": True} if expanded_def else {}))
        lines, numbers, current, first = [], {}, None, head.count("\n") + 1
        for line in "".join(body).split("\n"):
            counter = _COUNTER.search(line)
            if counter is None:
                numbers[len(lines) + first] = current
                lines.append(line)
            else:
                current = int(counter[1])
        text = "\n".join(f"    {line}" for line in "\n".join(lines).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wraps}\n\n{head}\n{text}", writer.globals, numbers, wraps.count("\n") + 4)


def _with_last_uses(nodes):
    """Nodes with the values that are dropped behind them."""
    last = _last_uses(nodes)
    for node in nodes:
        if node.op in ("placeholder", "output"):
            yield node, []
        else:
            yield node, last.get(node, []) + ([] if node.users else [node])


def _expanded(items, descriptions, write):
    left, right = "()" if isinstance(items, tuple) else "[]"
    lines = "".join(f"    {write(item)},  # {text}\n" for item, text in zip(items, descriptions))
    return f"{left}\n{lines}{right}"


class _BoxedCodeGen(CodeGen):
    """Writes a function of one list of inputs, which it empties."""

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        names = [name.split(":")[0].split("=")[0].strip() for name in free_vars if name != "self"]
        if names:
            lines.append("    args_iter = iter(args_list)")
            lines += [f"    {name} = next(args_iter)" for name in names]
            lines.append("    args_list.clear()")
        return "\n".join(lines)


class _PyTreeCodeGen(CodeGen):
    """Writes a function of trees around a graph of leaves."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        """The leaves of the arguments."""
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out):
        """The tree of a list of leaves."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        return pytree.tree_unflatten(list(out) if isinstance(out, (list, tuple)) else [out], self.pytree_info.out_spec)

    def gen_var_bindings(self, fn_args, free_vars, expanded_def):
        """The lines that take the arguments apart."""
        spec = self.pytree_info.in_spec
        given = f"[{', '.join(fn_args)}]"
        if _is_args_and_kwargs(spec):
            count = spec.child(0).num_children
            names = zip(spec.child(1).context, self.pytree_info.orig_args[count:])
            named = ", ".join(f"'{key}':{name}" for key, name in names)
            given = f"([{', '.join(self.pytree_info.orig_args[:count])}], {{{named}}})"
        typed = [name for name in free_vars if ":" in name]
        lines = ""
        if typed and expanded_def:
            lines = "\n    " + "\n    ".join(typed)
        elif typed:
            lines = "\n    " + "; ".join(typed) + ";\n"
        bare = ", ".join(name.split(":")[0].split("#")[0] for name in free_vars)
        return f"{lines}\n    {bare}, = fx_pytree.tree_flatten_spec({given}, self._in_spec)"

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        head = super().gen_fn_def(names[:], maybe_return_annotation, expanded_def=expanded_def)
        if free_vars:
            head += self.gen_var_bindings(names, free_vars, expanded_def)
        return head

    def generate_output(self, output_args, *, descs=None, repr_fn=None):
        if not (self.pytree_info and self.pytree_info.out_spec):
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        write = repr_fn or repr
        if descs is not None and isinstance(output_args, (list, tuple)):
            return f"return pytree.tree_unflatten({_expanded(output_args, descs, write)}, self._out_spec)"
        return f"return pytree.tree_unflatten({write(output_args)}, self._out_spec)"


def _is_args_and_kwargs(spec):
    if spec.type is not tuple or spec.num_children != 2:
        return False
    return spec.child(0).type is tuple and spec.child(1).type is dict
