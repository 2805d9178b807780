"""Names for the calls of a page of messages."""

from types import ModuleType


def names_in(*modules: ModuleType, **more: object) -> dict[str, object]:
    """Return all names of some modules, and more; later modules replace equal names."""
    return {name: value for module in modules for name, value in vars(module).items()} | more
