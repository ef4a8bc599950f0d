"""Compiles TorchScript to functions of Python: every node of the source is checked against a list, and made
into an expression that reaches only local names, declared attributes and operators."""

from __future__ import annotations

import ast
import operator

from corten.jit import _operators, _running
from corten.jit._signature import Signature
from corten.jit._types import Type, UnknownTypeError, dotted, parse

_BINARY = {
    ast.Add: ("add", "__add__", operator.add), ast.Sub: ("sub", "__sub__", operator.sub),
    ast.Mult: ("mul", "__mul__", operator.mul), ast.Div: ("div", "__truediv__", operator.truediv),
    ast.FloorDiv: ("floordiv", "__floordiv__", operator.floordiv), ast.Mod: ("remainder", "__mod__", operator.mod),
    ast.Pow: ("pow", "__pow__", operator.pow), ast.MatMult: ("matmul", "__matmul__", operator.matmul),
    ast.BitAnd: ("__and__", "__and__", operator.and_), ast.BitOr: ("__or__", "__or__", operator.or_),
    ast.BitXor: ("__xor__", "__xor__", operator.xor), ast.LShift: ("__lshift__", "__lshift__", operator.lshift),
    ast.RShift: ("__rshift__", "__rshift__", operator.rshift),
}
_COMPARE = {
    ast.Eq: ("eq", "__eq__", operator.eq), ast.NotEq: ("ne", "__ne__", operator.ne), ast.Lt: ("lt", "__lt__", operator.lt),
    ast.LtE: ("le", "__le__", operator.le), ast.Gt: ("gt", "__gt__", operator.gt), ast.GtE: ("ge", "__ge__", operator.ge),
}
_HELPERS = {
    "__h_get": _running.get, "__h_put": _running.put, "__h_method": _running.method, "__h_call": _running.call,
    "__h_has": _running.has, "__h_entered": _running.entered, "__h_fork": _running.fork, "__h_item": _running.item,
    "__h_set": _running.set_item, "__h_delete": _running.delete_item, "__h_isof": _running.is_of, "__h_assert": _running.checked, "__h_mark": _running.MARK,
    **{f"__h_{names[0]}": _running.binary(*names) for names in (*_BINARY.values(), *_COMPARE.values())},
}
#: Functions of Python's that code may call, and what they are here.
_CALLABLE = {
    "int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool", "complex": "aten::Complex", "str": "aten::str",
    "print": "prim::Print", "min": "prim::min", "max": "prim::max", "abs": "aten::abs", "round": "aten::round",
    "ord": "aten::ord", "chr": "aten::chr", "hex": "aten::hex", "oct": "aten::oct", "bin": "aten::bin",
    "sorted": "aten::sorted", "list": "aten::list", "dict": "aten::dict", "divmod": "aten::divmod", "pow": "aten::pow",
    "sum": "aten::sum", "all": "aten::all", "any": "aten::any", "rangelist": "prim::rangelist",
}
_PYTHON = {"range": range, "enumerate": lambda *given: list(enumerate(*given)), "zip": lambda *given: list(zip(*given)),
           "len": _running.length, "tuple": lambda *given: tuple(*given), "reversed": lambda given: list(reversed(given))}
_NUMBERS = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf")), "nanj": complex(0, float("nan"))}
_EXCEPTIONS = {
    "Exception", "RuntimeError", "ValueError", "TypeError", "AssertionError", "IndexError", "KeyError",
    "NotImplementedError", "AttributeError", "StopIteration", "ArithmeticError", "ZeroDivisionError",
}
_LONGEST = 1 << 24


class SourceError(RuntimeError):
    """Source that is no TorchScript."""


def parsed(source, name):
    """The tree of a file.

    Raises:
        RuntimeError: It is not of the syntax that is common to TorchScript and Python.
    """
    if len(source) > _LONGEST:
        raise SourceError(f"{name} is larger than source can be")
    try:
        return ast.parse(source, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SourceError(f"{name}: {error}") from None


class Compiler:
    """Compiles one function or method of a file. ``unit`` finds classes, functions and constants."""

    def __init__(self, unit, filename, owner=None):
        self.unit, self.filename, self.owner = unit, filename, owner
        self.globals = {"__builtins__": {}, **_HELPERS}
        self.names = set()
        self.depth = 0

    def function(self, node):
        """The function that a definition means, with its signature."""
        try:
            return self._function(node)
        except RecursionError:
            raise SourceError(f"{self.filename}: the code is nested too deeply") from None
        except UnknownTypeError as error:
            raise SourceError(f"{self.filename}, line {node.lineno}: {error}") from None

    def _function(self, node):
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.posonlyargs or node.decorator_list:
            raise self.error(node, "functions take arguments by name")
        given = [*arguments.args, *arguments.kwonlyargs]
        self.names = {self.identifier(one, one.arg) for one in given} | self.assigned(node.body)
        kinds = [self.kind(one.annotation) for one in given]
        if self.owner is not None and given and given[0].annotation is None:
            kinds[0] = Type(self.owner.name, (), self.owner)
        made = ast.FunctionDef(
            name=node.name if node.name.isidentifier() else "function",
            args=ast.arguments(
                posonlyargs=[], args=[ast.arg(arg=one.arg) for one in arguments.args],
                kwonlyargs=[ast.arg(arg=one.arg) for one in arguments.kwonlyargs],
                defaults=[self.expression(one) for one in arguments.defaults],
                kw_defaults=[None if one is None else self.expression(one) for one in arguments.kw_defaults],
            ),
            body=self.body(node.body), decorator_list=[], returns=None, type_comment=None,
        )
        tree = ast.Module(body=[ast.copy_location(made, node)], type_ignores=[])
        ast.fix_missing_locations(tree)
        local = {}
        exec(compile(tree, self.filename, "exec"), self.globals, local)
        function = local[made.name]
        function._script_signature = Signature(node, given, kinds, len(arguments.defaults), self)
        return function

    def value_of(self, node):
        """The value of an expression outside of functions: of a default, or a member of an enum."""
        made = ast.Expression(body=self.expression(node))
        ast.fix_missing_locations(made)
        return eval(compile(made, self.filename, "eval"), self.globals)

    def error(self, node, message):
        """An error about a node, with its line."""
        return SourceError(f"{self.filename}, line {getattr(node, 'lineno', '?')}: {message}")

    def identifier(self, node, name):
        """A name of code, which is none of this module's."""
        if name.startswith("__"):
            raise self.error(node, f"the name {name[:80]!r} is reserved")
        return name

    def assigned(self, body):
        """The names that a body assigns."""
        found = set()
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(self.identifier(node, node.id))
        return found

    def kind(self, annotation):
        """The type of an annotation."""
        return parse(annotation, self.unit.find_class)

    def constant(self, value):
        """An expression for a value that stands for itself."""
        name = f"__h_c{len(self.globals)}"
        self.globals[name] = value
        return ast.Name(id=name, ctx=ast.Load())

    def helper(self, name, *arguments, keywords=()):
        """A call of a helper."""
        return ast.Call(func=ast.Name(id="__h_" + name, ctx=ast.Load()), args=list(arguments), keywords=list(keywords))

    # Statements

    def body(self, statements):
        """A body of statements."""
        return [made for statement in statements for made in self.statement(statement)] or [ast.Pass()]

    def statement(self, node):
        """The statements that one of code becomes."""
        action = _STATEMENTS.get(type(node))
        if action is None:
            raise self.error(node, f"{type(node).__name__} is no statement of TorchScript")
        found = action(self, node)
        return [ast.copy_location(made, node) for made in (found if isinstance(found, list) else [found])]

    def assign(self, node):
        """``a, b, = f()`` and all that is on the left of an assignment."""
        if len(node.targets) != 1:
            raise self.error(node, "an assignment has one target")
        return self.assign_to(node.targets[0], self.expression(node.value), node)

    def assign_to(self, target, value, node):
        """The assignment of an expression to a target."""
        if isinstance(target, (ast.Name, ast.Tuple, ast.List)):
            return ast.Assign(targets=[self.target(target)], value=value)
        if isinstance(target, ast.Attribute):
            name = self.attribute_name(target)
            return ast.Expr(self.helper("put", self.expression(target.value), ast.Constant(name), value))
        if isinstance(target, ast.Subscript):
            key = self.index(target.slice)
            return ast.Expr(self.helper("set", self.expression(target.value), key, value))
        raise self.error(node, "this cannot be assigned to")

    def target(self, node):
        """Names on the left of an assignment, or of a loop."""
        if isinstance(node, ast.Name):
            return ast.Name(id=self.identifier(node, node.id), ctx=ast.Store())
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple(elts=[self.target(one) for one in node.elts], ctx=ast.Store())
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Name):
            return ast.Starred(value=self.target(node.value), ctx=ast.Store())
        raise self.error(node, "only names can be unpacked to")

    def nested(self, node):
        """The function without arguments that a fork runs."""
        arguments = node.args
        if node.name != "__forked_function" or any((arguments.args, arguments.kwonlyargs, arguments.vararg, arguments.kwarg)):
            raise self.error(node, "functions are not defined inside of others")
        empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.FunctionDef(
            name="__h_forked", args=empty, body=self.body(node.body), decorator_list=[], returns=None, type_comment=None
        )

    def annotated(self, node):
        """``a : int = 1``."""
        self.kind(node.annotation)
        if node.value is None:
            return ast.Pass()
        return self.assign_to(node.target, self.expression(node.value), node)

    def augmented(self, node):
        """``a += 1``, in place for tensors and lists."""
        kind = type(node.op)
        if kind not in _BINARY:
            raise self.error(node, "this operation is not part of TorchScript")
        target = node.target
        if isinstance(target, ast.Name):
            return ast.AugAssign(target=self.target(target), op=node.op, value=self.expression(node.value))
        read = ast.copy_location(_loaded(target), node)
        made = self.constant(_IN_PLACE[kind])
        value = ast.Call(func=made, args=[self.expression(read), self.expression(node.value)], keywords=[])
        return self.assign_to(target, value, node)

    def branch(self, node):
        """``if``."""
        other = self.body(node.orelse) if node.orelse else []
        return ast.If(test=self.expression(node.test), body=self.body(node.body), orelse=other)

    def loop(self, node):
        """``for``."""
        if node.orelse:
            raise self.error(node, "else branches of for loops aren't supported")
        return ast.For(
            target=self.target(node.target), iter=self.expression(node.iter), body=self.body(node.body), orelse=[]
        )

    def while_loop(self, node):
        """``while``."""
        if node.orelse:
            raise self.error(node, "else branches of while loops aren't supported")
        return ast.While(test=self.expression(node.test), body=self.body(node.body), orelse=[])

    def with_block(self, node):
        """``with``."""
        made = [
            ast.withitem(
                context_expr=self.helper("entered", self.expression(one.context_expr)),
                optional_vars=None if one.optional_vars is None else self.target(one.optional_vars),
            )
            for one in node.items
        ]
        return ast.With(items=made, body=self.body(node.body), type_comment=None)

    def asserted(self, node):
        """``assert``."""
        message = [] if node.msg is None else [self.expression(node.msg)]
        return ast.Expr(self.helper("assert", ast.Constant(None), self.expression(node.test), *message))

    def raised(self, node):
        """``raise``, of an exception with at most a message."""
        value = node.exc
        arguments = value.args if isinstance(value, ast.Call) else []
        name = value.func if isinstance(value, ast.Call) else value
        if not isinstance(name, ast.Name) or name.id not in _EXCEPTIONS:
            raise self.error(node, "only exceptions of Python's can be raised")
        message = self.expression(arguments[0]) if arguments else ast.Constant("")
        function = self.constant(_operators.operator("prim::RaiseException"))
        return ast.Expr(ast.Call(func=function, args=[message, ast.Constant(f"builtins.{name.id}")], keywords=[]))

    def deleted(self, node):
        """``del`` of elements."""
        made = []
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                made.append(ast.Expr(self.helper("delete", self.expression(target.value), self.index(target.slice))))
            elif isinstance(target, ast.Name):
                made.append(ast.Delete(targets=[ast.Name(id=self.identifier(target, target.id), ctx=ast.Del())]))
            else:
                raise self.error(node, "only names and elements can be deleted")
        return made

    # Expressions

    def expression(self, node):
        """The expression that one of code becomes."""
        action = _EXPRESSIONS.get(type(node))
        if action is None:
            raise self.error(node, f"{type(node).__name__} is no expression of TorchScript")
        return ast.copy_location(action(self, node), node)

    def literal(self, node):
        """Numbers, strings and None. Strings are bytes of UTF-8 in TorchScript."""
        value = node.value
        if isinstance(value, str):
            try:
                value = value.encode("latin-1").decode("utf-8")
            except UnicodeError:
                pass
        elif not (value is None or isinstance(value, (bool, int, float, complex))):
            raise self.error(node, f"constants of {type(value).__name__} are not part of TorchScript")
        return ast.Constant(value)

    def name(self, node):
        """A local name, a number, or nothing."""
        if node.id == "__forked_function":
            return ast.Name(id="__h_forked", ctx=ast.Load())
        if node.id in self.names:
            return ast.Name(id=node.id, ctx=ast.Load())
        if node.id in _NUMBERS:
            return self.constant(_NUMBERS[node.id])
        found = self.unit.global_value(node.id)
        if found is not None:
            return self.constant(found)
        raise self.error(node, f"undefined value {node.id[:80]}")

    def attribute_name(self, node):
        """A name behind a point, which is none of Python's own."""
        if node.attr.startswith("__"):
            raise self.error(node, f"the attribute {node.attr[:80]!r} is reserved")
        return node.attr

    def attribute(self, node):
        """``a.b``, constants of the archive, functions and classes by their qualified names."""
        root = _root(node)
        if root is not None and root not in self.names:
            name = dotted(node)
            if root == "CONSTANTS":
                return self.constant(self.unit.constant_of(name))
            if root == "__torch__":
                return self.constant(self.unit.find_value(name))
            raise self.error(node, f"undefined value {name[:80]}")
        return self.helper("get", self.expression(node.value), ast.Constant(self.attribute_name(node)))

    def subscript(self, node):
        """``a[b]``."""
        return self.helper("item", self.expression(node.value), self.index(node.slice))

    def index(self, node):
        """What stands in brackets."""
        if isinstance(node, ast.Slice):
            given = (node.lower, node.upper, node.step)
            parts = [ast.Constant(None) if one is None else self.expression(one) for one in given]
            return ast.Call(func=self.constant(slice), args=parts, keywords=[])
        if isinstance(node, ast.Tuple):
            return ast.Tuple(elts=[self.index(one) for one in node.elts], ctx=ast.Load())
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return ast.Constant(Ellipsis)
        return self.expression(node)

    def tuple(self, node):
        """``(a, b)``."""
        return ast.Tuple(elts=[self.expression(one) for one in node.elts], ctx=ast.Load())

    def list(self, node):
        """``[a, b]``."""
        return ast.List(elts=[self.expression(one) for one in node.elts], ctx=ast.Load())

    def dict(self, node):
        """``{a: b}``."""
        if any(key is None for key in node.keys):
            raise self.error(node, "dictionaries cannot be unpacked")
        return ast.Dict(keys=list(map(self.expression, node.keys)), values=list(map(self.expression, node.values)))

    def comprehension(self, node):
        """``[f(x) for x in xs]`` and the same of dictionaries."""
        if len(node.generators) != 1 or node.generators[0].is_async:
            raise self.error(node, "a comprehension has one loop")
        loop = node.generators[0]
        made = ast.comprehension(
            target=self.target(loop.target), iter=self.expression(loop.iter), ifs=list(map(self.expression, loop.ifs)),
            is_async=0,
        )
        if isinstance(node, ast.DictComp):
            return ast.DictComp(key=self.expression(node.key), value=self.expression(node.value), generators=[made])
        return ast.ListComp(elt=self.expression(node.elt), generators=[made])

    def binary(self, node):
        """``a + b``."""
        names = _BINARY[type(node.op)]
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            function = self.constant(_operators.operator("aten::percentFormat"))
            return ast.Call(func=function, args=[self.expression(node.left), self.expression(node.right)], keywords=[])
        return self.helper(names[0], self.expression(node.left), self.expression(node.right))

    def unary(self, node):
        """``-a``, ``not a``."""
        return ast.UnaryOp(op=node.op, operand=self.expression(node.operand))

    def boolean(self, node):
        """``a and b``."""
        return ast.BoolOp(op=node.op, values=list(map(self.expression, node.values)))

    def compare(self, node):
        """``a < b``, ``a is b``, ``a in b``; chains as in Python."""
        if len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            name = _COMPARE[type(node.ops[0])][0]
            return self.helper(name, self.expression(node.left), self.expression(node.comparators[0]))
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            function = self.constant(_operators.operator("aten::__contains__"))
            arguments = [self.expression(node.comparators[0]), self.expression(node.left)]
            made = ast.Call(func=function, args=arguments, keywords=[])
            return made if isinstance(node.ops[0], ast.In) else ast.UnaryOp(op=ast.Not(), operand=made)
        return ast.Compare(
            left=self.expression(node.left), ops=node.ops, comparators=list(map(self.expression, node.comparators))
        )

    def choice(self, node):
        """``a if c else b``."""
        return ast.IfExp(*map(self.expression, (node.test, node.body, node.orelse)))

    def call(self, node):
        """A call of any kind."""
        function = node.func
        if isinstance(function, ast.Name):
            return self.call_of_name(node, function.id)
        if not isinstance(function, ast.Attribute):
            return self.helper("call", self.expression(function), *self.arguments(node), keywords=self.keywords(node))
        root = _root(function)
        if root is not None and root not in self.names:
            return self.call_of_dotted(node, root, dotted(function))
        name = function.attr  # names with underscores are looked up in what classes declare, too
        value, arguments = self.expression(function.value), self.arguments(node)
        return self.helper("method", value, ast.Constant(name), *arguments, keywords=self.keywords(node))

    def call_of_dotted(self, node, root, name):
        """``torch.add(…)``, ``ops.ns.op(…)``, ``__torch__.a.f(…)``."""
        if root == "torch":
            qualified, overload = "aten::" + name.partition(".")[2], ""
        elif root == "ops":
            space, _, rest = name.partition(".")[2].partition(".")
            short, _, overload = rest.partition(".")
            qualified = f"{space}::{short}"
        elif root == "__torch__":
            made, _, last = name.rpartition(".")
            if last == "__new__":
                declared = self.unit.find_class(made)
                return ast.Call(func=self.constant(declared.empty), args=[], keywords=[])
            found = self.unit.find_value(name)
            return ast.Call(func=self.constant(found), args=self.arguments(node), keywords=self.keywords(node))
        else:
            raise self.error(node, f"undefined value {name[:80]}")
        function = self.unit.operator(qualified, overload)
        return ast.Call(func=self.constant(function), args=self.arguments(node), keywords=self.keywords(node))

    def arguments(self, node):
        """The arguments of a call by place."""
        return [
            ast.Starred(value=self.expression(one.value), ctx=ast.Load()) if isinstance(one, ast.Starred)
            else self.expression(one) for one in node.args
        ]

    def keywords(self, node):
        """The arguments of a call by name."""
        if any(one.arg is None or one.arg.startswith("__") for one in node.keywords):
            raise self.error(node, "arguments have names")
        return [ast.keyword(arg=one.arg, value=self.expression(one.value)) for one in node.keywords]

    def call_of_name(self, node, name):
        """A call of a local value, of one of the language's own forms, or of a function of Python's."""
        if name in self.names:
            function = ast.Name(id=name, ctx=ast.Load())
            return self.helper("call", function, *self.arguments(node), keywords=self.keywords(node))
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, node)
        arguments = self.arguments(node)
        if name in _PYTHON:
            return ast.Call(func=self.constant(_PYTHON[name]), args=arguments, keywords=[])
        if name in _CALLABLE:
            function = self.constant(self.unit.operator(_CALLABLE[name], ""))
            if name in ("min", "max") and len(arguments) == 1 or name == "list" and not arguments:
                function = self.constant({"min": min, "max": max, "list": list}[name])
            return ast.Call(func=function, args=arguments, keywords=self.keywords(node))
        found = self.unit.global_value(name)
        if found is None:
            raise self.error(node, f"undefined value {name[:80]}")
        return ast.Call(func=self.constant(found), args=arguments, keywords=self.keywords(node))

    def special_value(self, node):
        """``annotate(T, x)``, ``unchecked_cast(T, x)``: the value."""
        kind = self.kind(node.args[0])
        value = self.expression(node.args[1])
        if kind.name == "float":
            return ast.Call(func=self.constant(_as_float), args=[value], keywords=[])
        return value

    def special_nothing(self, node):
        """``uninitialized(T)``."""
        self.kind(node.args[0])
        return ast.Constant(None)

    def special_isinstance(self, node):
        """``isinstance(x, T)``."""
        given = node.args[1]
        kinds = [self.kind(one) for one in (given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given])]
        return self.helper("isof", self.expression(node.args[0]), *map(self.constant, kinds))

    def special_getattr(self, node):
        """``getattr(x, "0")``."""
        name = self.text(node.args[1])
        return self.helper("get", self.expression(node.args[0]), ast.Constant(name), *map(self.expression, node.args[2:]))

    def special_setattr(self, node):
        """``setattr(x, "0", v)``."""
        name = self.text(node.args[1])
        return self.helper("put", self.expression(node.args[0]), ast.Constant(name), self.expression(node.args[2]))

    def special_hasattr(self, node):
        """``hasattr(x, "a")``."""
        return self.helper("has", self.expression(node.args[0]), ast.Constant(self.text(node.args[1])))

    def special_fork(self, node):
        """``fork(f, x)``."""
        return self.helper("fork", *self.arguments(node), keywords=self.keywords(node))

    def text(self, node):
        """The name of an attribute in a string."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node.value.startswith("__"):
            raise self.error(node, "the name of an attribute is a string that does not begin with two underscores")
        return node.value


def _as_float(value):
    return float(value) if type(value) is int else value


def _root(node):
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _loaded(node):
    made = ast.parse(ast.unparse(node), mode="eval").body
    return made


_IN_PLACE = {
    ast.Add: operator.iadd, ast.Sub: operator.isub, ast.Mult: operator.imul, ast.Div: operator.itruediv,
    ast.FloorDiv: operator.ifloordiv, ast.Mod: operator.imod, ast.Pow: operator.ipow, ast.MatMult: operator.imatmul,
    ast.BitAnd: operator.iand, ast.BitOr: operator.ior, ast.BitXor: operator.ixor, ast.LShift: operator.ilshift,
    ast.RShift: operator.irshift,
}
_STATEMENTS = {
    ast.Assign: Compiler.assign, ast.AnnAssign: Compiler.annotated, ast.AugAssign: Compiler.augmented,
    ast.Expr: lambda self, node: ast.Expr(self.expression(node.value)), ast.If: Compiler.branch, ast.For: Compiler.loop,
    ast.While: Compiler.while_loop, ast.With: Compiler.with_block, ast.Assert: Compiler.asserted,
    ast.Raise: Compiler.raised, ast.Delete: Compiler.deleted,
    ast.Return: lambda self, node: ast.Return(None if node.value is None else self.expression(node.value)),
    ast.Pass: lambda self, node: ast.Pass(), ast.Break: lambda self, node: ast.Break(),
    ast.Continue: lambda self, node: ast.Continue(), ast.FunctionDef: Compiler.nested,
}
_EXPRESSIONS = {
    ast.Constant: Compiler.literal, ast.Name: Compiler.name, ast.Attribute: Compiler.attribute,
    ast.Subscript: Compiler.subscript, ast.Tuple: Compiler.tuple, ast.List: Compiler.list, ast.Dict: Compiler.dict,
    ast.ListComp: Compiler.comprehension, ast.DictComp: Compiler.comprehension, ast.BinOp: Compiler.binary,
    ast.UnaryOp: Compiler.unary, ast.BoolOp: Compiler.boolean, ast.Compare: Compiler.compare, ast.IfExp: Compiler.choice,
    ast.Call: Compiler.call,
}
_SPECIAL = {
    "annotate": Compiler.special_value, "unchecked_cast": Compiler.special_value,
    "uninitialized": Compiler.special_nothing, "isinstance": Compiler.special_isinstance,
    "getattr": Compiler.special_getattr, "setattr": Compiler.special_setattr, "hasattr": Compiler.special_hasattr,
    "fork": Compiler.special_fork,
}
