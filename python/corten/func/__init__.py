"""Functions of functions: derivatives, vectorisation, and modules as functions of their
parameters."""

from corten.func._derivatives import (
    grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp,
)
from corten.func._modules import (
    functional_call, replace_all_batch_norm_modules_, stack_module_state,
)
from corten._functionalization import functionalize
from corten.func._rearrange import rearrange
from corten._functorch.vmap import vmap

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
    "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]

from corten._homes import adopt as _adopt  # noqa: E402

_adopt(__name__, __all__)
