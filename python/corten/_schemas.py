"""Schemas of operators as objects: arguments, results, their types and what they alias."""

from __future__ import annotations

import ast
import functools
import re

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "SchemaType", "parse_schema"]

_ALIAS = re.compile(r"\(([a-z|]+(!)?( -> ([*a-z|]+))?)\)")

#: Types as other places name them.
_NAMES = {"SymInt": "int", "Scalar": "number", "MemoryFormat": "int", "ScalarType": "int", "Layout": "int"}


class SchemaType:
    """The type of an argument: ``Tensor``, ``int[]``, ``Tensor?[]``."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    def kind(self):
        """``TensorType``, ``ListType``, ``OptionalType`` …"""
        if self.text.endswith("?"):
            return "OptionalType"
        if self.text.endswith("]"):
            return "ListType"
        names = {"str": "StringType", "Scalar": "NumberType", "Device": "DeviceObjType", "ScalarType": "IntType",
                 "MemoryFormat": "IntType", "Layout": "IntType"}
        return names.get(self.text, f"{self.text[:1].upper()}{self.text[1:]}Type")

    def getElementType(self):
        """The type of what an optional or a list holds."""
        if self.text.endswith("?"):
            return SchemaType(self.text[:-1])
        return SchemaType(self.text[:self.text.rindex("[")])

    @property
    def annotation_str(self):
        """The type as an annotation."""
        return str(self)

    def isSubtypeOf(self, other):
        """Whether values of this type are values of another one."""
        return self == other or other.text == f"{self.text}?"

    def __str__(self):
        if self.text.endswith("?"):
            return f"Optional[{self.getElementType()}]"
        if self.text.endswith("]"):
            return f"List[{self.getElementType()}]"
        return _NAMES.get(self.text, self.text)

    __repr__ = __str__

    def __eq__(self, other):
        return isinstance(other, SchemaType) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


class AliasInfo:
    """The sets of aliases that a tensor belongs to, and whether it is written to."""

    __slots__ = ("after_set", "before_set", "is_write")

    def __init__(self, is_write, before_set, after_set):
        self.is_write, self.before_set, self.after_set = is_write, before_set, after_set

    def __eq__(self, other):
        return isinstance(other, AliasInfo) and (self.is_write, self.before_set, self.after_set) == (
            other.is_write, other.before_set, other.after_set)

    __hash__ = None


class Argument:
    """One argument or result of a schema."""

    __slots__ = ("N", "alias_info", "default_value", "has_default", "is_out", "kwarg_only", "name", "type")

    def __init__(self, text, kwarg_only=False, is_return=False):
        declared, default = _split_default(text)
        kind, _, name = declared.rpartition(" ")
        if is_return and (not kind or not name.isidentifier()):
            kind, name = declared, ""
        self.name, self.kwarg_only = name, kwarg_only
        self.alias_info = _alias_info(kind)
        kind = _ALIAS.sub("", kind)
        sized = re.search(r"\[(\d+)\]", kind)
        self.N = int(sized.group(1)) if sized else None
        self.type = SchemaType(re.sub(r"\[\d+\]", "[]", kind))
        self.has_default = default is not None
        self.default_value = _default(default, self) if self.has_default else None
        self.is_out = kwarg_only and self.alias_info is not None and self.alias_info.is_write

    def has_default_value(self):
        """Whether the argument can be left out."""
        return self.has_default

    @property
    def real_type(self):
        """The type as the schema writes it."""
        return self.type

    def __repr__(self):
        return f"Argument({self.type} {self.name})"


def _split_default(text):
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "=" and not depth:
            return text[:place], text[place + 1:]
    return text, None


def _default(text, argument):
    import corten

    if text == "None":
        return None
    if text == "contiguous_format":
        return corten.contiguous_format
    if text == "Mean":
        return 1
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text.strip("'\"")
    if argument.type.text == "MemoryFormat" and value == 0:
        return corten.contiguous_format
    if argument.type.text.startswith("bool") and isinstance(value, int):
        return bool(value)
    if argument.type.text.startswith("float") and isinstance(value, int):
        return float(value)
    if argument.type.text.endswith("]") and argument.N and not isinstance(value, list):
        return [value] * argument.N
    return value


def _alias_info(kind):
    found = _ALIAS.search(kind)
    if found is None:
        return None
    inside, write, after = found.group(1), found.group(2), found.group(4)
    before = inside.split(" -> ")[0].rstrip("!")
    before = set(before.split("|"))
    return AliasInfo(bool(write), before, set(after.split("|")) if after else before)


class FunctionSchema(str):
    """The schema of an overload. It is a text, with its parts as attributes."""

    @functools.cached_property
    def _split(self):
        head, _, rest = self.partition("(")
        arguments, _, results = rest.rpartition(" -> ")
        if results.startswith("("):
            results = results[1:-1]
        arguments, results = (_commas(text) for text in (arguments[:-1], results))
        return head, arguments, results

    @property
    def name(self):
        """``aten::add``."""
        return self._split[0].partition(".")[0]

    @property
    def overload_name(self):
        """The part of the name behind the dot, or nothing."""
        return self._split[0].partition(".")[2]

    @functools.cached_property
    def arguments(self):
        """The arguments in order."""
        found, keyword = [], False
        for text in self._split[1]:
            if text == "*":
                keyword = True
            else:
                found.append(Argument(text, keyword))
        return found

    @functools.cached_property
    def returns(self):
        """The results in order."""
        return [Argument(text, is_return=True) for text in self._split[2]]

    @functools.cached_property
    def is_mutable(self):
        """Whether an argument is written to."""
        return any(one.alias_info is not None and one.alias_info.is_write for one in self.arguments)

    @property
    def is_vararg(self):
        """Whether further arguments are taken."""
        return False

    is_varret = is_vararg

    def schema(self):
        """The schema itself."""
        return self

    def __reduce__(self):
        return FunctionSchema, (str(self),)


def _commas(text):
    return [one for one in re.split(r", (?![^\[(]*[\])])", text) if one]


@functools.cache
def parse_schema(text):
    """The schema that a text is."""
    return FunctionSchema(text)
