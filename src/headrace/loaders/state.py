"""Where training stands, and whether a state may be loaded: it belongs where it was taken."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.units import check_counts

_LATEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True, order=True)
class Position:
    """How far training has come; with the seed, all there is to resume from."""

    epoch: int = 0
    place: int = 0
    """In the epoch: slots that all ranks together have delivered, or steps of camera streams."""

    @classmethod
    def of(cls, state: dict[str, int], place: str) -> "Position":
        """Return the position that a state says.

        Args:
            state: As it was saved.
            place: What it calls the place: "slot" or "step".

        Raises:
            ConfigError: it says none.
        """
        for name in ("epoch", place):
            if name not in state:
                raise ConfigError(
                    f"a state says epoch and {place}, this one only {', '.join(state)}; "
                    f"{name} must be an integer >= 0, got none"
                )
            check_counts(0, _LATEST, **{name: state[name]})
        return cls(epoch=state["epoch"], place=state[place])


def check_identity(state: dict[str, int], mine: dict[str, int], needed: str) -> None:
    """Check that `state` has every entry of `mine`.

    Args:
        state: As it was saved.
        mine: Facts of the loader that is to go on from it.
        needed: What must be the same to resume, in words.

    Raises:
        ConfigError: one differs; names all that do. Or it is no state.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(
            f"a state is a dict, as state_dict() gives it, got {type(state).__name__}"
        )
    differ = [name for name in mine if state.get(name) != mine[name]]
    if differ:
        said = ", ".join(f"{name} {state.get(name)} (here {mine[name]})" for name in differ)
        raise ConfigError(
            f"this state does not belong to this loader: {said}; resume with the same {needed}"
        )
