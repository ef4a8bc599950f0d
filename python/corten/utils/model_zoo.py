"""Old names of functions of :mod:`corten.hub`."""

from corten.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
