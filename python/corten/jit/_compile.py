"""Compiles functions of Python to the text of TorchScript: names become what they mean, branches that never
run are left out, and loops over modules are written out."""

from __future__ import annotations

import ast
import enum
import inspect
import types

import corten
from corten.jit._annotations import evaluated, is_tuple_class
from corten.jit._calls import Calls, is_super
from corten.jit._static import CONSTANTS, Method, Static, Weights
from corten.jit._structure import attribute, is_name, literal, quoted
from corten.jit._types import Type, UnknownTypeError
from corten.jit.frontend import FrontendTypeError, NotSupportedError, SourceRange, UnsupportedNodeError

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Not: "not ", ast.USub: "-", ast.UAdd: "+",
    ast.Invert: "~", ast.And: "and", ast.Or: "or",
}
_NAMES = {
    "FunctionDef": "function definitions", "ClassDef": "class definitions", "Try": "try blocks", "TryStar": "try blocks",
    "Import": "import statements", "ImportFrom": "import statements", "Global": "global variables",
    "Nonlocal": "nonlocal variables", "AsyncFunctionDef": "async function definitions", "AsyncFor": "async for loops",
    "AsyncWith": "async with statements", "Lambda": "lambda functions", "Yield": "yield expressions",
    "YieldFrom": "yield expressions", "Await": "await expressions", "Set": "set literals", "SetComp": "set comprehensions",
    "NamedExpr": "assignment expressions", "Match": "match statements",
}
_EMPTY_CONTEXTS = {"record_function", "strict_fusion", "nullcontext", "optimized_execution", "fuser"}


class FunctionCompiler(Calls):
    """Compiles one function. ``module`` and ``owner`` are the module and the class's text of a method;
    ``inlines`` says that attributes of the module never change, as in the library's own methods."""

    def __init__(self, program, source, node, space, module=None, owner=None, inlines=False, function=None):
        self.program, self.source, self.node, self.space = program, source, node, space
        self.module, self.owner, self.inlines, self.function = module, owner, inlines, function
        self.locals, self.bindings, self.count, self.unrolled = set(), {}, 0, 0
        self.lists = set()  # local names that are lists, as far as that is seen

    # Definitions

    def text(self, name):
        """The definition under a name."""
        arguments = self.node.args
        if arguments.vararg or arguments.kwarg:
            raise self.refused(
                self.node, "Compiled functions can't take variable number of arguments or use keyword-only arguments with "
                "defaults")
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        if self.owner is not None:
            self.bindings[names[0]] = Static(self.module, "self")
        self.locals = {*names, *_assigned(self.node)} - set(self.bindings)
        given = self._parameters(arguments)
        returned = self._returned()
        body = self.block(self.node.body)
        end = "" if returned is None else f" -> {returned}"
        lines = [f"def {name}({', '.join(given)}){end}:", *(f"  {line}" for line in body)]
        return "\n".join(lines) + "\n"

    def _parameters(self, arguments):
        """The arguments with their types and defaults."""
        listed = [*arguments.posonlyargs, *arguments.args]
        comment = self._type_comment()
        values = self._defaults(arguments)
        made = []
        if self.owner is not None:
            made.append(f"self: {self.owner.name}")
            listed = listed[1:]
        for place, one in enumerate((*listed, *arguments.kwonlyargs)):
            if place == len(listed):
                made.append("*")
            if comment is not None and one.annotation is None and place < len(comment[0]):
                kind = self.kind(comment[0][place])
            else:
                kind = Type("Tensor") if one.annotation is None else self.kind(one.annotation)
            text = f"{one.arg}: {kind}"
            if one.arg in values:
                text += f"={self._default(one, values[one.arg], kind)}"
            made.append(text)
        return made

    def _default(self, node, value, kind):
        base = "float" if str(kind) in ("float", "Optional[float]", "List[float]", "Optional[List[float]]") else None
        if isinstance(value, corten.Tensor):
            return self.program.structure.constant(value)
        if isinstance(value, tuple) and kind.name == "List":
            value = list(value)
        if isinstance(value, enum.Enum):
            return self.value_text(Static(value), node)
        return literal(value, base)

    def _defaults(self, arguments):
        """The values of defaults by the names of arguments."""
        if self.function is not None and inspect.isfunction(self.function):
            listed = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
            values = self.function.__defaults__ or ()
            found = dict(zip(listed[len(listed) - len(values):], values))
            return {**found, **(self.function.__kwdefaults__ or {})}
        listed = arguments.args
        found = {}
        for one, value in zip(listed[len(listed) - len(arguments.defaults):], arguments.defaults):
            known = self.static(value)
            if known is None:
                raise self.refused(value, "defaults of arguments are constants")
            found[one.arg] = known.value
        return found

    def _type_comment(self):
        """The types of a comment such as ``# type: (Tensor) -> Tensor``."""
        for line in self.source.lines[:self.node.body[0].lineno]:
            head, _, comment = line.partition("# type:")
            if comment.strip().startswith("(") and "->" in comment:
                inside, _, returned = comment.strip().rpartition("->")
                parsed = ast.parse(inside.strip(), mode="eval").body
                kinds = list(parsed.elts) if isinstance(parsed, ast.Tuple) else [parsed]
                return kinds, ast.parse(returned.strip(), mode="eval").body
        return None

    def _returned(self):
        if self.node.returns is not None:
            return self.kind(self.node.returns)
        comment = self._type_comment()
        return None if comment is None else self.kind(comment[1])

    def kind(self, annotation):
        """The type of an annotation."""
        try:
            if isinstance(annotation, ast.Constant):
                value = annotation.value
            else:
                value = ast.unparse(annotation)
            return evaluated(value, self.space, self.program.annotations)
        except UnknownTypeError as error:
            raise FrontendTypeError(SourceRange(self.source, annotation), str(error)) from None

    def refused(self, node, message):
        """An error about a node of source."""
        return NotSupportedError(SourceRange(self.source, node), message)

    def fresh(self):
        """A new local name."""
        self.count += 1
        return f"_{self.count}"

    # Statements

    def block(self, statements):
        """The lines of a body."""
        lines = []
        for statement in statements:
            action = _STATEMENTS.get(type(statement))
            if action is None:
                raise self.unsupported(statement)
            lines += action(self, statement)
        return lines or ["pass"]

    def unsupported(self, node):
        """The error about a statement or expression that TorchScript does not have."""
        name = type(node).__name__
        return UnsupportedNodeError(SourceRange(self.source, node), f"{_NAMES.get(name, name)} aren't supported")

    def _indented(self, statements):
        return [f"  {line}" for line in self.block(statements)]

    def _expression_statement(self, node):
        value = node.value
        if isinstance(value, ast.Constant):
            return []
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and is_super(value.func.value):
            if value.func.attr == "__init__":
                return []
        text = self.expression(value)
        return [f"{self.fresh()} = {text}" if isinstance(value, ast.Call) and not _gives_nothing(text) else text]

    def _assign(self, node):
        known = self.static(node.value)
        names = [one for one in node.targets if isinstance(one, ast.Name)]
        if known is not None and names and len(names) == len(node.targets) and self._is_bound(known):
            for one in names:
                self.bindings[one.id] = known
            return []
        lines, text = [], self.expression(node.value)
        if isinstance(node.value, (ast.List, ast.ListComp)):
            self.lists.update(one.id for one in names)
        for place, target in enumerate(node.targets):
            lines.append(f"{self.target(target)} = {text}")
            text = self.expression(target) if isinstance(target, ast.Name) else text
        return lines

    def _is_bound(self, known):
        value = known.value
        return known.text is not None or isinstance(
            value, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, Method, Weights)
        ) or isinstance(value, type) and not isinstance(value, enum.EnumMeta)

    def target(self, node):
        """The left of an assignment."""
        if isinstance(node, ast.Name):
            self.bindings.pop(node.id, None)
            self.locals.add(node.id)
            return node.id
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [
                f"({self.target(one)})" if isinstance(one, (ast.Tuple, ast.List)) else self.target(one) for one in node.elts
            ]
            return ", ".join(parts) + ","
        if isinstance(node, ast.Starred):
            return "*" + self.target(node.value)
        if isinstance(node, ast.Attribute):
            owner = self.static(node.value)
            if owner is not None and isinstance(owner.value, corten.nn.Module):
                self.program.declare_attribute(owner.value, node.attr, self, node)
                return attribute(owner.text, node.attr)
            return f"{self.expression(node.value)}.{node.attr}"
        if isinstance(node, ast.Subscript):
            return f"{self.expression(node.value)}[{self.index(node.slice)}]"
        raise self.unsupported(node)

    def _annotated(self, node):
        if node.value is None:
            return []
        kind = self.kind(node.annotation)
        if isinstance(node.target, ast.Name):
            return [f"{self.target(node.target)} : {kind} = {self.expression(node.value)}"]
        return [f"{self.target(node.target)} = annotate({kind}, {self.expression(node.value)})"]

    def _augmented(self, node):
        text = self.expression(node.value)
        if isinstance(node.target, ast.Name):
            self.bindings.pop(node.target.id, None)
        return [f"{self.target(node.target)} {_OPERATORS[type(node.op)]}= {text}"]

    def _if(self, node):
        known = self.static(node.test)
        if known is not None:
            chosen = node.body if self.truth(known.value) else node.orelse
            return self.block(chosen) if chosen else []
        before = dict(self.bindings)
        lines = [f"if {self.expression(node.test)}:", *self._indented(node.body)]
        self.bindings = dict(before)
        if node.orelse:
            lines += ["else:", *self._indented(node.orelse)]
        self.bindings = before
        return lines

    def _for(self, node):
        if node.orelse:
            raise self.refused(node, "else branches of for loops aren't supported")
        modules = self.modules_of(node.iter)
        if modules is None:
            text = self.expression(node.iter)
            self._forget(node.target)
            return [f"for {self.target(node.target).rstrip(',')} in {text}:", *self._indented(node.body)]
        lines = []
        self.unrolled += 1
        for one in modules:
            lines += self._bind(node.target, one)
            lines += [line for line in self.block(node.body) if line != "pass"]
        self.unrolled -= 1
        return lines

    def _forget(self, target):
        for one in ast.walk(target):
            if isinstance(one, ast.Name):
                self.bindings.pop(one.id, None)
                self.locals.add(one.id)

    def _bind(self, target, value):
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, tuple):
            return [line for one, item in zip(target.elts, value) for line in self._bind(one, item)]
        if isinstance(target, ast.Name) and isinstance(value, Static):
            self.bindings[target.id] = value
            return []
        raise self.refused(target, "this loop over modules cannot be unrolled")

    def _while(self, node):
        if node.orelse:
            raise self.refused(node, "else branches of while loops aren't supported")
        return [f"while {self.expression(node.test)}:", *self._indented(node.body)]

    def _leave(self, node):
        if self.unrolled:
            raise self.refused(node, "break and continue are not supported in loops over modules, which are unrolled")
        return ["break" if isinstance(node, ast.Break) else "continue"]

    def _return(self, node):
        return ["return None" if node.value is None else f"return {self.expression(node.value)}"]

    def _raise(self, node):
        if node.exc is None:
            raise self.refused(node, "raise needs an exception")
        value = node.exc
        called = isinstance(value, ast.Call)
        known = self.static(value.func if called else value)
        if known is None or not isinstance(known.value, type) or not issubclass(known.value, BaseException):
            raise self.refused(node, "only classes of exceptions can be raised")
        message = self.expression(value.args[0]) if called and value.args else '""'
        kind = known.value
        name = f"{kind.__module__}.{kind.__qualname__}"
        # The second line is never reached: it tells the type checker that nothing follows.
        return [f"ops.prim.RaiseException(str({message}), {quoted(name)})", 'raise AssertionError("")']

    def _assert(self, node):
        known = self.static(node.test)
        if known is not None and self.truth(known.value):
            return []
        message = "" if node.msg is None else f", {self.expression(node.msg)}"
        return [f"assert {self.expression(node.test)}{message}"]

    def _with(self, node):
        lines, opened = [], []
        for item in node.items:
            call = item.context_expr
            known = self.static(call.func) if isinstance(call, ast.Call) else None
            if known is not None and getattr(known.value, "__name__", "") in _EMPTY_CONTEXTS:
                continue
            if known is not None and getattr(known.value, "__name__", "") in ("no_grad", "enable_grad", "set_grad_enabled"):
                name, made = self.fresh(), self.program.grad_mode(known.value.__name__)
                arguments = "".join(f"{one}, " for one in self.arguments(call))
                lines += [f"{name} = {made}.__new__({made})", f"{self.fresh()} = ({name}).__init__({arguments})"]
                opened.append(name)
            else:
                text = self.expression(call)
                opened.append(text if item.optional_vars is None else f"{text} as {self.target(item.optional_vars)}")
        if not opened:
            return lines + self.block(node.body)
        return [*lines, f"with {', '.join(opened)}:", *self._indented(node.body)]

    def _delete(self, node):
        return [f"del {', '.join(map(self.expression, node.targets))}"]

    # Expressions

    def expression(self, node):
        """The text of an expression."""
        known = self.static(node)
        if known is not None:
            return self.value_text(known, node)
        action = _EXPRESSIONS.get(type(node))
        if action is None:
            raise self.unsupported(node)
        return action(self, node)

    def value_text(self, known, node):
        """The text of a value that is known."""
        value = known.value
        if known.text is not None:
            return known.text
        if isinstance(value, Weights):
            return value.text
        if isinstance(value, Method):
            if isinstance(value.function, property):
                self.program.method(value.module, value.name, value.function.fget)
                return f"{value.text}.{value.name}()"
            raise self.refused(node, f"the method {value.name!r} is no value")
        if value is Ellipsis:
            return "..."
        if isinstance(value, enum.Enum):
            return f"{self.program.declare(type(value))}.{value.name}"
        if isinstance(value, list) and not value:
            return "[]" if isinstance(node, ast.List) else "annotate(List[int], [])"
        if isinstance(value, (*CONSTANTS, list, tuple)) and not is_tuple_class(type(value)):
            try:
                return literal(value)
            except RuntimeError:
                pass
        if isinstance(value, types.FunctionType):
            return self.program.function(value, self, node)
        raise self.refused(node, f"python value of type '{type(value).__name__}' cannot be used as a value. Perhaps it is a "
                           "closed over global variable? If so, please consider passing it in as an argument or use a local "
                           "varible instead.")

    def _name(self, node):
        if node.id not in self.locals:
            raise self.refused(node, f"undefined value {node.id}")
        return node.id

    def _attribute(self, node):
        owner = self.static(node.value)
        if owner is not None and isinstance(owner.value, corten.nn.Module) and owner.text is not None:
            self.program.declare_attribute(owner.value, node.attr, self, node)
            return attribute(owner.text, node.attr)
        return f"{self.operand(node.value)}.{node.attr}"

    def operand(self, node):
        """An expression in front of a point or bracket."""
        text = self.expression(node)
        return text if is_name(text.replace(".", "_")) else f"({text})"

    def _subscript(self, node):
        return f"{self.operand(node.value)}[{self.index(node.slice)}]"

    def index(self, node):
        """What stands in brackets."""
        if isinstance(node, ast.Slice):
            lower, upper, step = ("" if one is None else self.expression(one) for one in (node.lower, node.upper, node.step))
            return f"{lower}:{upper}" + (f":{step}" if step else "")
        if isinstance(node, ast.Tuple):
            return ", ".join(map(self.index, node.elts))
        return self.expression(node)

    def _tuple(self, node):
        return "(" + "".join(f"{self.expression(one)}, " for one in node.elts) + ")"

    def _list(self, node):
        return "[" + ", ".join(map(self.expression, node.elts)) + "]"

    def _dict(self, node):
        if any(key is None for key in node.keys):
            raise self.refused(node, "Dict expansion ('**') is not supported")
        pairs = zip(map(self.expression, node.keys), map(self.expression, node.values))
        return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"

    def _comprehension(self, node):
        if len(node.generators) != 1:
            raise self.refused(node, "Only a single generator is currently supported")
        loop = node.generators[0]
        if loop.ifs:
            raise self.refused(node, "Comprehension ifs are not supported yet")
        modules = self.modules_of(loop.iter)
        if modules is not None:
            made = []
            for one in modules:
                self._bind(loop.target, one)
                made.append(self.expression(node.elt))
            return "[" + ", ".join(made) + "]"
        iterated = self.expression(loop.iter)
        self._forget(loop.target)
        target = self.target(loop.target).rstrip(",")
        if isinstance(node, ast.DictComp):
            return "{" + f"{self.expression(node.key)}: {self.expression(node.value)} for {target} in {iterated}" + "}"
        return f"[{self.expression(node.elt)} for {target} in {iterated}]"

    def _binary(self, node):
        return f"({self.expression(node.left)} {_OPERATORS[type(node.op)]} {self.expression(node.right)})"

    def _unary(self, node):
        return f"({_OPERATORS[type(node.op)]}{self.expression(node.operand)})"

    def _boolean(self, node):
        decides = isinstance(node.op, ast.Or)
        found = [(one, self.static(one)) for one in node.values]
        left = [one for one, known in found if known is None or self.truth(known.value) == decides]
        return "(" + f" {_OPERATORS[type(node.op)]} ".join(map(self.expression, left)) + ")"

    def _compare(self, node):
        parts, left = [], self.expression(node.left)
        for operator, other in zip(node.ops, node.comparators):
            right = self.expression(other)
            parts.append(f"({left} {_OPERATORS[type(operator)]} {right})")
            left = right
        return parts[0] if len(parts) == 1 else "(" + " and ".join(parts) + ")"

    def _choice(self, node):
        known = self.static(node.test)
        if known is not None:
            return self.expression(node.body if self.truth(known.value) else node.orelse)
        return f"({self.expression(node.body)} if {self.expression(node.test)} else {self.expression(node.orelse)})"

    def _joined(self, node):
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += part.value
            elif part.format_spec is not None or part.conversion not in (-1, 115):
                raise self.refused(part, "Don't support formatting in JoinedStr")
            else:
                text += "{}"
                values.append(self.expression(part.value))
        return f"({quoted(text)}).format({', '.join(values)})"

    def _starred(self, node):
        return f"*{self.expression(node.value)}"


def _gives_nothing(text):
    return text.startswith(("print(", "torch.warn(", "ops.prim.RaiseException("))


def _assigned(node):
    """The names that a function assigns."""
    return {
        one.id for statement in node.body for one in ast.walk(statement)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }


_STATEMENTS = {
    ast.Expr: FunctionCompiler._expression_statement, ast.Assign: FunctionCompiler._assign,
    ast.AnnAssign: FunctionCompiler._annotated, ast.AugAssign: FunctionCompiler._augmented, ast.If: FunctionCompiler._if,
    ast.For: FunctionCompiler._for, ast.While: FunctionCompiler._while, ast.Break: FunctionCompiler._leave,
    ast.Continue: FunctionCompiler._leave, ast.Return: FunctionCompiler._return, ast.Raise: FunctionCompiler._raise,
    ast.Assert: FunctionCompiler._assert, ast.With: FunctionCompiler._with, ast.Delete: FunctionCompiler._delete,
    ast.Pass: lambda self, node: [],
}
_EXPRESSIONS = {
    ast.Name: FunctionCompiler._name, ast.Attribute: FunctionCompiler._attribute,
    ast.Subscript: FunctionCompiler._subscript, ast.Tuple: FunctionCompiler._tuple, ast.List: FunctionCompiler._list,
    ast.Dict: FunctionCompiler._dict, ast.ListComp: FunctionCompiler._comprehension,
    ast.GeneratorExp: FunctionCompiler._comprehension, ast.DictComp: FunctionCompiler._comprehension,
    ast.BinOp: FunctionCompiler._binary, ast.UnaryOp: FunctionCompiler._unary, ast.BoolOp: FunctionCompiler._boolean,
    ast.Compare: FunctionCompiler._compare, ast.IfExp: FunctionCompiler._choice, ast.JoinedStr: FunctionCompiler._joined,
    ast.Call: FunctionCompiler._call, ast.Starred: FunctionCompiler._starred,
}
