"""Position of training, and the check that a state belongs to a loader."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.units import check_counts

_LARGEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True, order=True)
class Position:
    """Position of training; with the seed, all that resuming needs."""

    epoch: int = 0
    offset: int = 0
    """Offset in the epoch: slots that all ranks together have delivered, or steps of cameras."""

    @classmethod
    def from_state(cls, state: dict[str, int], offset_key: str) -> "Position":
        """Return the position in a state.

        Args:
            state: The saved state.
            offset_key: Its key of the offset: "slot" or "step".

        Raises:
            ConfigError: a key is missing, or its value is no integer >= 0.
        """
        for name in ("epoch", offset_key):
            if name not in state:
                raise ConfigError(
                    f"a state says epoch and {offset_key}, this one only {', '.join(state)}; "
                    f"{name} must be an integer >= 0, got none"
                )
            check_counts(0, _LARGEST, **{name: state[name]})
        return cls(epoch=state["epoch"], offset=state[offset_key])


def check_identity(state: dict[str, int], identity: dict[str, int], needed: str) -> None:
    """Check that `state` has every entry of `identity`.

    Args:
        state: The saved state.
        identity: Identity of the loader that resumes.
        needed: What must be the same to resume, for the message.

    Raises:
        ConfigError: entries differ (names all of them), or it is no state.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(
            f"a state is a dict, as state_dict() gives it, got {type(state).__name__}"
        )
    different = [name for name in identity if state.get(name) != identity[name]]
    if different:
        differences = ", ".join(
            f"{name} {state.get(name)} (here {identity[name]})" for name in different
        )
        raise ConfigError(
            f"this state does not belong to this loader: {differences}; resume with the "
            f"same {needed}"
        )
