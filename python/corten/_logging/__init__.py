"""What compiled functions say of themselves: ``torch._logging.set_logs`` and the variable ``TORCH_LOGS``.

A setting is a list such as ``TORCH_LOGS="graph_breaks,+dynamo,fusion"``: names of components, with ``+`` for more and
``-`` for less than usual, and names of artifacts.
"""

from __future__ import annotations

import functools
import logging
import os

__all__ = ["getArtifactLogger", "set_logs", "warning_once"]

#: Loggers of components.
_COMPONENTS = {
    "all": "torch", "dynamo": "torch._dynamo", "aot": "torch._functorch", "inductor": "torch._inductor",
    "dynamic": "torch.fx.experimental.symbolic_shapes", "export": "torch.export", "onnx": "torch.onnx",
    "distributed": "torch.distributed", "fsdp": "torch.distributed.fsdp", "dtensor": "torch.distributed._tensor",
    "c10d": "torch.distributed.distributed_c10d", "ddp": "torch.nn.parallel.distributed",
}
#: What is said of compiled functions, and the logger that says it.
_ARTIFACTS = {
    "graph_breaks": "torch._dynamo", "graph": "torch._dynamo", "graph_code": "torch._dynamo",
    "fusion": "torch._inductor", "recompiles": "torch._dynamo", "perf_hints": "torch._inductor",
}
#: Artifacts of PyTorch's compiler that this one does not have: there are no guards, and no code that is printed.
_WITHOUT = {
    "aot_graphs", "aot_graphs_effects", "aot_joint_graph", "autograd_trace", "bytecode", "cudagraphs",
    "compiled_autograd", "compiled_autograd_verbose", "ddp_graphs", "graph_region_expansion", "graph_sizes", "guards",
    "hierarchical_compile", "inductor_metrics", "kernel_code", "loop_ordering", "node_runtime_estimation", "output_code",
    "overlap", "post_grad_graphs", "pre_grad_graphs", "recompiles_verbose", "schedule", "side_effects", "sym_node",
    "trace_bytecode", "trace_call", "trace_source", "verbose_guards",
}
_FORMAT = "%(levelname).1s%(asctime)s %(process)d %(name)s] %(message)s"
_on = set()
_said = set()


def set_logs(*, modules=None, **settings):
    """Sets levels of components (``dynamo=logging.DEBUG``) and switches artifacts (``graph_breaks=True``) on or off. All
    that is not named is as at the start. ``modules`` is a dictionary of further loggers and their levels.

    Raises:
        ValueError: A name that is neither.
    """
    _reset()
    for name, value in settings.items():
        if name in _COMPONENTS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"Expected a level for component {name}, but got {value!r}")
            _set_level(_COMPONENTS[name], value)
        elif name in _ARTIFACTS or name in _WITHOUT:
            if not isinstance(value, bool):
                raise ValueError(f"Expected bool value for artifact {name}, but got {value!r}")
            (_on.add if value else _on.discard)(name)
        else:
            known = ", ".join(sorted([*_COMPONENTS, *_ARTIFACTS]))
            raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {name}. Known: {known}")
    for name, level in (modules or {}).items():
        _set_level(name, level)
    _say_what_is_without()


def _reset():
    _on.clear()
    for name in set(_COMPONENTS.values()):
        logger = logging.getLogger(name)
        logger.setLevel(logging.NOTSET)
        for handler in [handler for handler in logger.handlers if getattr(handler, "_of_set_logs", False)]:
            logger.removeHandler(handler)


def _set_level(name, level):
    logger = logging.getLogger(name)
    logger.setLevel(level)
    _add_handler(logger)


def _add_handler(logger):
    if not logging.getLogger().handlers and not any(getattr(one, "_of_set_logs", False) for one in logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        handler._of_set_logs = True
        logger.addHandler(handler)


def _say_what_is_without():
    without = sorted(_on & _WITHOUT)
    if without:
        warning_once(logging.getLogger("torch._logging"), "nothing is logged for %s: compiled functions have none",
                     ", ".join(without))


def _from_environment(text):
    """The settings in the variable.

    Raises:
        ValueError: It names what there is not.
    """
    settings, modules = {}, {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name = word.lstrip("+-")
        level = {"+": logging.DEBUG, "-": logging.ERROR}.get(word[0], logging.INFO)
        if name in _COMPONENTS:
            settings[name] = level
        elif name in _ARTIFACTS or name in _WITHOUT:
            settings[name] = word[0] != "-"
        elif "." in name:
            modules[name] = level
        else:
            raise ValueError(f"Invalid log settings: {text}, must be a comma separated list of fully qualified module "
                             "names, registered log names or registered artifact names")
    return {**settings, "modules": modules}


@functools.lru_cache(None)
def _read_environment():
    text = os.environ.get("TORCH_LOGS", "")
    if text:
        set_logs(**_from_environment(text))


def artifacts():
    """The artifacts that are switched on."""
    _read_environment()
    return _on


class _ArtifactLogger(logging.LoggerAdapter):
    """A logger that speaks while its artifact is switched on."""

    def __init__(self, logger, artifact):
        super().__init__(logger, {})
        self._artifact = artifact

    def isEnabledFor(self, level):
        return self._artifact in artifacts()

    def log(self, level, message, *args, **kwargs):
        """Logs whatever the level of the logger is."""
        if self.isEnabledFor(level):
            _add_handler(self.logger)
            kept, self.logger.level = self.logger.level, min(level, self.logger.level or level)
            try:
                self.logger._log(level, message, args, **kwargs)
            finally:
                self.logger.level = kept


def getArtifactLogger(module_qname, artifact_name):
    """The logger of an artifact.

    Raises:
        ValueError: There is no such artifact.
    """
    if artifact_name not in _ARTIFACTS and artifact_name not in _WITHOUT:
        raise ValueError(f"Artifact name: {artifact_name} not registered, please call register_artifact("
                         f"{artifact_name!r}) in torch._logging.registrations.")
    return _ArtifactLogger(logging.getLogger(module_qname), artifact_name)


def warning_once(logger, *args, **kwargs):
    """Warns of the same thing once."""
    key = (logger.name, *map(str, args))
    if key not in _said:
        _said.add(key)
        logger.warning(*args, **kwargs)


def report(function, programs, breaks, reports):
    """Logs what a call of a compiled function recorded."""
    name = getattr(function, "__qualname__", type(function).__name__)
    for operator, why, line in breaks:
        _artifact("graph_breaks", "Graph break in %s at %s: %s: %s", name, line or "an unknown line", operator, why)
    for number, program in enumerate(programs):
        listed = "".join(f"\n  {operator}" + (f"  # {line}" if line else "") for operator, line in program)
        _artifact("graph", "program %d of %s:%s", number, name, listed)
        _artifact("graph_code", "program %d of %s:%s", number, name, listed)
    for number, (groups, saved) in enumerate(reports):
        listed = "".join(
            "\n  " + ", ".join(programs[number][node][0] for node in group) if number < len(programs) else ""
            for group in groups)
        _artifact("fusion", "program %d of %s: %d groups run together, %d bytes of memory traffic saved%s", number,
                  name, len(groups), saved, listed)


def _artifact(artifact, message, *args):
    if artifact in _on:
        getArtifactLogger(_ARTIFACTS[artifact], artifact).log(logging.DEBUG, message, *args)
