"""Which traversal of nested dictionaries is in use: none is named except while an older checkpoint is read."""

_derived_version = None
