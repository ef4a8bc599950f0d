"""Archives, under the names of their home in PyTorch."""

from corten.jit._archive import load  # noqa: F401
from corten.jit._writing import save  # noqa: F401
