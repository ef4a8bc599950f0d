"""How the machines of a program meet."""

from __future__ import annotations

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousParameters",
    "RendezvousTimeoutError",
]


class RendezvousError(Exception):
    """Machines did not meet."""


class RendezvousClosedError(RendezvousError):
    """The program has ended."""


class RendezvousTimeoutError(RendezvousError):
    """Machines did not come in time."""


class RendezvousConnectionError(RendezvousError):
    """The store of the machines was lost."""


class RendezvousParameters:
    """Where machines meet, and how many.

    Args:
        backend: ``static`` or ``c10d``.
        endpoint: ``host:port``.
        run_id: The name of the program.
        min_nodes: How many machines it needs.
        max_nodes: How many it takes.
        local_addr: The address of this machine.
        **kwargs: Settings by name: ``rank``, ``timeout``, ``last_call_timeout``, ``is_host``.
    """

    def __init__(self, backend, endpoint, run_id, min_nodes, max_nodes, local_addr=None, **kwargs):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the "
                f"minimum number of rendezvous nodes ({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr = min_nodes, max_nodes, local_addr
        self.config = kwargs

    def get(self, key, default=None):
        """A setting."""
        return self.config.get(key, default)

    def get_as_bool(self, key, default=None):
        """A setting as a truth value.

        Raises:
            ValueError: It is none.
        """
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in ("1", "true", "t", "yes", "y"):
            return True
        if text in ("0", "false", "f", "no", "n"):
            return False
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key, default=None):
        """A setting as a number.

        Raises:
            ValueError: It is none.
        """
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError as error:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid integer value."
            ) from error
