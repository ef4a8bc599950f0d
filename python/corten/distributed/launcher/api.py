"""Starting the processes of a program, and starting them again when one fails."""

from __future__ import annotations

import dataclasses
import os
import uuid

from corten.distributed.elastic._agent import Agent, signals_as_exceptions
from corten.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclasses.dataclass
class LaunchConfig:
    """How a program starts.

    Args:
        min_nodes: How many machines it needs.
        max_nodes: How many it takes.
        nproc_per_node: How many processes each has.
        logs_specs: Where streams go.
        run_id: The name of the run, the same on all machines.
        role: The name of the processes.
        rdzv_endpoint: Where machines meet, ``host:port``.
        rdzv_backend: ``static``, where each machine has its ``rank`` in ``rdzv_configs``, or ``c10d``.
        rdzv_configs: ``rank``, ``timeout`` in seconds, ``last_call_timeout`` in seconds, ``is_host``.
        max_restarts: How often all processes start again when one fails.
        monitor_interval: Seconds between looks at the processes.
        start_method: How processes of functions start.
        log_line_prefix_template: What stands before each line that is shown from a file.
        local_addr: The address of this machine.
        signals_to_handle: Which signals end the processes as well.
        virtual_local_rank: Whether each process sees one GPU, as the first.
        shutdown_timeout: Seconds from a signal to SIGKILL.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: object = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict = dataclasses.field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict = dataclasses.field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: object = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list | None = None
    duplicate_stderr_filters: list | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        if self.shutdown_timeout < 0:
            raise ValueError(f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}")
        absent = {
            "numa_options": self.numa_options, "duplicate_stdout_filters": self.duplicate_stdout_filters,
            "duplicate_stderr_filters": self.duplicate_stderr_filters,
        }
        for name, value in absent.items():
            if value:
                raise NotImplementedError(f"LaunchConfig: {name} is not supported")
        if self.rdzv_backend not in ("static", "c10d"):
            raise ValueError(
                f"The rendezvous backend '{self.rdzv_backend}' is not registered. Did you forget to call "
                "`register`? There are `static` and `c10d`."
            )


class elastic_launch:  # noqa: N801
    """``elastic_launch(config, function)(*args)`` runs a function or a command in all processes.

    Args:
        config: How they start.
        entrypoint: The function or the command.
    """

    def __init__(self, config, entrypoint):
        self._config = config
        self._entrypoint = entrypoint

    def __call__(self, *args):
        """Runs it; what functions gave, by global rank.

        Raises:
            ChildFailedError: Processes failed more often than they may.
        """
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config, entrypoint, args):
    """As :class:`elastic_launch`."""
    if not config.run_id:
        config.run_id = str(uuid.uuid4().int)
    try:
        with signals_as_exceptions(config.signals_to_handle):
            return Agent(config, entrypoint, args).run()
    except SignalException:
        raise
    finally:
        close = getattr(config.logs_specs, "close", None)
        if close is not None:
            close()
