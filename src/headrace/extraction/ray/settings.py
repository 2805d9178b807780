"""What is asked of a Ray cluster, as values; nothing here imports Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.errors import ConfigError
from headrace.units import check_integers

AUTO: Final = "auto"
"""The address of the cluster that this machine is part of."""
_PORTS: Final = 65_536
_MOST_CHUNKS: Final = 16
"""Chunks in a call: enough that a model never waits long between calls."""
_CALLS_PER_ACTOR: Final = 8
"""So that actors that are quicker, or begin earlier, do more."""


@dataclass(frozen=True, kw_only=True)
class ActorResources:
    """What one actor takes up of a cluster."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0

    @classmethod
    def of(cls, device: str) -> "ActorResources":
        """Return that of one worker on a device, "cpu" or "cuda": a core, or a GPU and a core."""
        return cls(num_gpus=0.0 if device == "cpu" else 1.0)

    def with_cores_of(self, machines: Sequence[Mapping[str, float]]) -> "ActorResources":
        """Return this slot with the cores that a GPU has on each machine that has one.

        Args:
            machines: What each has, by Ray's names.
        """
        if not self.num_gpus:
            return self
        shares = [
            each.get("CPU", 0.0) // each["GPU"] for each in machines if each.get("GPU", 0.0) >= 1
        ]
        return replace(self, num_cpus=max(1.0, min(shares, default=1.0)))

    def times_in(self, resources: Mapping[str, float]) -> int:
        """Return how many fit in one machine with such resources, by Ray's names."""
        wanted = {"CPU": self.num_cpus, "GPU": self.num_gpus}
        return int(min(resources.get(name, 0.0) // each for name, each in wanted.items() if each))


@dataclass(frozen=True, kw_only=True)
class RaySettings:
    """Which cluster, and how much of it.

    Raises:
        ConfigError: the address is one of Ray's client, or empty; a number is below 1.
    """

    address: str = AUTO
    """`auto`, or HOST:PORT of the head of a cluster that this machine is part of."""
    slot: ActorResources = ActorResources()
    most_actors: int | None = None
    """None: as many as fit."""

    def __post_init__(self) -> None:
        check_integers(1, most_actors=self.most_actors)
        if "://" in self.address:
            raise ConfigError(
                f"--ray takes auto or HOST:PORT, got {self.address}; run the command on a machine "
                "of the cluster: `ray start --address=HOST:PORT` makes this one part of it"
            )
        host, _, port = self.address.rpartition(":")
        if self.address != AUTO and not (host and port.isdecimal() and int(port) < _PORTS):
            raise ConfigError(f"--ray takes auto or HOST:PORT, got {self.address!r}")

    def actors_for(self, fitting: int, calls: int | None) -> int:
        """Return how many actors work, where `fitting` find a slot and there are so many calls."""
        return min(each for each in (fitting, calls, self.most_actors) if each is not None)


def call_size(chunks: int, actors: int) -> int:
    """Return how many chunks an actor is given at a time."""
    return max(1, min(_MOST_CHUNKS, chunks // (_CALLS_PER_ACTOR * max(1, actors))))
