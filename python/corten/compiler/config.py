"""Settings of compilation: kept, and without effect."""

from corten.utils._config_module import install_config_module as _install

job_id = None
pgo_extra_read_key = None
pgo_extra_write_key = None
cache_key_tag = ""
force_disable_caches = False
compile_on_one_rank = False
dynamic_sources = ""
dynamic_values = ""
unbacked_sources = ""
static_sources = ""

_install(__name__)
