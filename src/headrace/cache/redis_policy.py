"""Whether a Redis or Valkey server is set up to be a cache, read off its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SETTINGS: Final = ("maxmemory", "maxmemory-policy", "save", "appendonly")
"""The settings that matter."""
_ADVICE: Final = "deploy/redis.conf has settings that fit"


@dataclass(frozen=True)
class Policy:
    """What a server does when it is full, and whether it writes to disk."""

    bound_bytes: int | None
    """Of all it keeps; 0: none; None: it does not tell."""
    eviction: str | None
    """What goes when it is full; None: it does not tell."""
    saves: bool | None
    """Whether it writes what it keeps to disk; None: it does not tell."""

    @classmethod
    def of_settings(cls, settings: Mapping[str, str]) -> "Policy":
        """Return what the settings of a server come to."""
        bound = settings.get("maxmemory", "")
        saves = None
        if "save" in settings or "appendonly" in settings:
            saves = bool(settings.get("save")) or settings.get("appendonly") == "yes"
        return cls(
            int(bound) if bound.isdecimal() else None, settings.get("maxmemory-policy"), saves
        )

    def problems(self) -> list[str]:
        """Return what will hurt, one line each; empty for a server that is set up as a cache."""
        found = []
        if self.bound_bytes is None and self.eviction is None:
            return [f"does not tell what it does when it is full; {_ADVICE}"]
        if self.bound_bytes == 0:
            found.append("has no maxmemory, so it takes all memory of its machine")
        elif self.eviction == "noeviction":
            found.append("has the policy noeviction, so once full it keeps nothing new")
        elif self.eviction is not None and self.eviction.startswith("volatile-"):
            found.append(
                f"has the policy {self.eviction}, under which results never go, so once full it "
                "keeps nothing new"
            )
        if self.saves:
            found.append("writes what it keeps to disk, which a cache need not")
        return [*found, _ADVICE] if found else []
