"""What the namespace says of itself."""

from __future__ import annotations

import corten

from corten.array_api._dtypes import types_of_kind


class Info:
    """The inspection functions of the standard."""

    def capabilities(self):
        """What arrays can do, which the standard leaves open."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """The device of new arrays."""
        return corten.get_default_device()

    def default_dtypes(self, *, device=None):
        """The data types of new arrays by their kinds."""
        real = corten.get_default_dtype()
        return {
            "real floating": real, "complex floating": real.to_complex(), "integral": corten.int64,
            "indexing": corten.int64,
        }

    def devices(self):
        """The devices that arrays can be on."""
        found = [corten.device("cpu")]
        if corten.cuda.is_available():
            found += [corten.device("cuda", index) for index in range(corten.cuda.device_count())]
        return found

    def dtypes(self, *, device=None, kind=None):
        """The data types of a kind, of several, or all, by their names."""
        return types_of_kind(kind)


def __array_namespace_info__():
    """The inspection functions of the standard."""
    return Info()
