"""Lists and dictionaries in the arguments of nodes: changed by new arguments only."""

from __future__ import annotations

__all__ = ["immutable_dict", "immutable_list"]


def _refused(self, *args, **kwargs):
    raise NotImplementedError(
        f"'{type(self).__name__}' object does not support mutation. If you are attempting to modify "
        "the kwargs or args of a torch.fx.Node object, instead create a new copy of it and assign "
        "the copy to the node:\n    new_args = ... # copy and mutate args\n    node.args = new_args\n"
    )


class immutable_list(list):  # noqa: N801
    """A list that does not change."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refused
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refused

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return type(self), (tuple(self),)


class immutable_dict(dict):  # noqa: N801
    """A dictionary that does not change."""

    clear = pop = popitem = setdefault = update = _refused
    __delitem__ = __ior__ = __setitem__ = _refused

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return type(self), (dict(self),)
