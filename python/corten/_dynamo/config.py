"""Settings of the compiler. `disable` has an effect; the others are kept."""

from corten.utils._config_module import install_config_module as _install

cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
disable = False
suppress_errors = False
verbose = False
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
optimize_ddp = True

_install(__name__)
