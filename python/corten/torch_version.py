"""The version as something that compares with strings and tuples."""

from corten._C import __version__ as _version

__all__ = ["TorchVersion"]


def _parts(version):
    if not isinstance(version, str):
        return tuple(int(part) for part in version)
    numbers = []
    for part in version.partition("+")[0].split("."):
        digits = "".join(character for character in part if character.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers)


class TorchVersion(str):
    """A version string whose order is that of its numbers."""

    def __lt__(self, other):
        return _parts(self) < _parts(other)

    def __le__(self, other):
        return _parts(self) <= _parts(other)

    def __gt__(self, other):
        return _parts(self) > _parts(other)

    def __ge__(self, other):
        return _parts(self) >= _parts(other)

    def __eq__(self, other):
        return _parts(self) == _parts(other)

    __hash__ = str.__hash__


__version__ = TorchVersion(_version)
