"""Whether a state may be loaded: it belongs to what it was taken from."""

from headrace.errors import ConfigError


def check_identity(state: dict[str, int], mine: dict[str, int], needed: str) -> None:
    """Check that `state` has every entry of `mine`.

    Args:
        state: As it was saved.
        mine: Facts of the loader that is to go on from it.
        needed: What must be the same to resume, in words.

    Raises:
        ConfigError: one differs; names all that do.
    """
    differ = [name for name in mine if state.get(name) != mine[name]]
    if differ:
        said = ", ".join(f"{name} {state.get(name)} (here {mine[name]})" for name in differ)
        raise ConfigError(
            f"this state does not belong to this loader: {said}; resume with the same {needed}"
        )
