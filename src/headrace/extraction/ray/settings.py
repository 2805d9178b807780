"""Settings of a Ray cluster, as values; nothing here imports Ray."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.errors import ConfigError
from headrace.units import check_integers

AUTO: Final = "auto"
"""Address of the cluster with this machine."""
_PORTS: Final = 65_536
_MAX_CHUNKS: Final = 16
"""Max chunks per call: enough that a model rarely waits between calls."""
_CALLS_PER_ACTOR: Final = 8
"""Calls per actor: several, so that faster or earlier actors run more of them."""


@dataclass(frozen=True, kw_only=True)
class ActorResources:
    """Resources of one actor."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0

    @classmethod
    def of(cls, device: str) -> "ActorResources":
        """Return the resources of one worker: one core on "cpu", one GPU and one core on "cuda"."""
        return cls(num_gpus=0.0 if device == "cpu" else 1.0)

    def with_cores_of(self, machines: Sequence[Mapping[str, float]]) -> "ActorResources":
        """Return these resources with the cores per GPU of machines with GPUs.

        Args:
            machines: Resources of each machine, by Ray's names.
        """
        if not self.num_gpus:
            return self
        shares = [
            machine.get("CPU", 0.0) // machine["GPU"]
            for machine in machines
            if machine.get("GPU", 0.0) >= 1
        ]
        return replace(self, num_cpus=max(1.0, min(shares, default=1.0)))

    def times_in(self, resources: Mapping[str, float]) -> int:
        """Return the number of actors that fit on a machine with `resources`, by Ray's names."""
        needs = {"CPU": self.num_cpus, "GPU": self.num_gpus}
        return int(
            min(resources.get(name, 0.0) // amount for name, amount in needs.items() if amount)
        )


@dataclass(frozen=True, kw_only=True)
class RaySettings:
    """Address of a cluster, and the share of it to use.

    Raises:
        ConfigError: the address is a Ray client address, or empty; a number is below 1.
    """

    address: str = AUTO
    """`auto`, or HOST:PORT of the head of the cluster with this machine."""
    slot: ActorResources = ActorResources()
    most_actors: int | None = None
    """Maximum number of actors; None: as many as fit."""

    def __post_init__(self) -> None:
        check_integers(1, most_actors=self.most_actors)
        if "://" in self.address:
            raise ConfigError(
                f"--ray must be auto or HOST:PORT, got {self.address}; run the command on a "
                "machine of the cluster: `ray start --address=HOST:PORT` adds this one"
            )
        host, _, port = self.address.rpartition(":")
        if self.address != AUTO and not (host and port.isdecimal() and int(port) < _PORTS):
            raise ConfigError(f"--ray must be auto or HOST:PORT, got {self.address!r}")

    def actors_for(self, fitting: int, calls: int | None) -> int:
        """Return the number of actors for `calls` calls, if `fitting` actors fit."""
        return min(limit for limit in (fitting, calls, self.most_actors) if limit is not None)


def call_size(chunks: int, actors: int) -> int:
    """Return the number of chunks per call."""
    return max(1, min(_MAX_CHUNKS, chunks // (_CALLS_PER_ACTOR * max(1, actors))))
