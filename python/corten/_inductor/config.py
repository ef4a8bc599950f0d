"""Settings of the compiler: kept, and without effect but for ``freezing``; see docs/compile.md."""

from types import SimpleNamespace

from corten.utils._config_module import install_config_module as _install

fx_graph_cache = True
max_autotune = False
coordinate_descent_tuning = False
coordinate_descent_check_all_directions = False
force_fuse_int_mm_with_mul = False
epilogue_fusion = False
freezing = False
triton = SimpleNamespace(unique_kernel_names=True, cudagraphs=False, cudagraph_trees=True)
cpp = SimpleNamespace(threads=-1, simdlen=None)

_install(__name__)
