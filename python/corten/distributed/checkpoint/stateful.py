"""Objects that give their state as a dictionary."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """What has both methods is saved and loaded through them."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as values that a checkpoint can hold."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state that :meth:`state_dict` gave."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
