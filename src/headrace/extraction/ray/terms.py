"""What must hold on a machine before it may work: the same versions, and the folder in sight."""

import platform
from dataclasses import dataclass
from pathlib import Path

from headrace.profiling.machine import versions
from headrace.records import recorded
from headrace.runtime.clock import Clock
from headrace.text_file import write_whole

_SEAL = "seal.txt"


@recorded
@dataclass(frozen=True, kw_only=True)
class Terms:
    """Held against each machine: a machine that differs would give other results, or lose them."""

    folder: str
    """A folder of this run that all machines must see."""
    seal: str
    """What stands in a file there."""
    versions: dict[str, str]
    """Of what computes, by name; on the machine that the run was started on."""

    @classmethod
    def set_in(cls, folder: Path, clock: Clock) -> "Terms":
        """Set them for a round of this process; marks of an earlier one are removed.

        Raises:
            ConfigError: nothing can be written in the folder.
        """
        for path in folder.iterdir():
            path.unlink()
        seal = f"{platform.node()} {clock.now_ns()}\n"
        write_whole(folder / _SEAL, seal)
        return cls(folder=str(folder), seal=seal, versions=versions())

    def mark_of(self, chunk: str) -> Path:
        """Return the file that is there once a machine has begun with a chunk."""
        return Path(self.folder) / f"begun-{chunk}"

    def unmet(self) -> str | None:
        """Return what is amiss on this machine, in words; None: nothing."""
        here = versions()
        for name, version in self.versions.items():
            if here.get(name) != version:
                found = f"has {name} {here[name]}" if name in here else f"lacks {name}"
                return (
                    f"machine {platform.node()} {found}, and the run was started with {version}; "
                    "install the same version on all machines of the cluster"
                )
        try:
            seen = (Path(self.folder) / _SEAL).read_text(encoding="utf-8")
        except OSError:
            seen = None
        if seen != self.seal:
            return (
                f"machine {platform.node()} does not see {self.folder} of this run; give a folder "
                "with -o that all machines of the cluster share"
            )
        return None
