"""What the calls of a page of messages may name."""

from types import ModuleType


def names_in(*modules: ModuleType, **more: object) -> dict[str, object]:
    """Return all names in some modules, of equal ones that in the last of these, and more."""
    return {name: value for module in modules for name, value in vars(module).items()} | more
