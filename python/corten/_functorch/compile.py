"""The names of ``functorch.compile``."""

from __future__ import annotations

from corten.fx.experimental.proxy_tensor import make_fx  # noqa: F401

from .aot_autograd import (  # noqa: F401
    aot_function, aot_module, aot_module_simplified, compiled_function, compiled_module, get_aot_compilation_context,
    get_aot_graph_name, get_graph_being_compiled, make_boxed_compiler, make_boxed_func,
)
from .compilers import (  # noqa: F401
    debug_compile, default_decompositions, draw_graph_compile, memory_efficient_fusion, nnc_jit, nop, print_compile,
    ts_compile,
)
from .partitioners import default_partition, draw_graph, min_cut_rematerialization_partition  # noqa: F401
