"""What batches took of a device's memory when `headrace bench memory` measured it, kept on disk."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import platformdirs

from headrace.decode.index_store import IndexStore
from headrace.models.gpu_memory import KnownPeaks
from headrace.records import from_dict, to_dict
from headrace.text_file import write_whole

VERSION: Final = 1
"""Raised whenever the same figures would mean something else; older tables are ignored."""


@dataclass(frozen=True, kw_only=True)
class MemoryKey:
    """All that figures of memory depend on; a table of another key is never used."""

    device: str
    """Name of the GPU, or of the processor."""
    memory_bytes: int
    """All that the device has."""
    driver: str | None
    """Version of the GPU's driver; None where there is none, or the system does not tell."""
    torch: str
    """Version of PyTorch."""
    model: str
    """torchvision's name of it."""
    precision: str
    prep_level: str
    input: tuple[int, ...]
    """Shape of one picture or clip as the model takes it; of a model that takes pictures as they
    are, that of 1 x 1 pixel."""
    version: int = VERSION


@dataclass(frozen=True, kw_only=True)
class MemoryCell:
    """One batch that was measured."""

    size: tuple[int, int]
    """(height, width) of its frames."""
    batch_size: int
    peak_bytes: int
    """With its frames and their preprocessing: of a GPU, what PyTorch reserved of it; on the CPU
    all that the process had in main memory."""
    model_bytes: int | None
    """The model alone, on a batch that is preprocessed already; None on the CPU."""


@dataclass(frozen=True, kw_only=True)
class MemoryTable:
    """What was measured of one key."""

    key: MemoryKey
    measured: str
    """The day, as 2026-11-22."""
    cells: tuple[MemoryCell, ...]

    def of_model(self) -> KnownPeaks | None:
        """Return the peaks of the model alone, whatever was decoded; None where none is known."""
        return self._known({cell.batch_size: cell.model_bytes for cell in self.cells})

    def of_frames(self, picture_size: tuple[int, int]) -> KnownPeaks | None:
        """Return the peaks of batches with frames of this size, or the next larger one measured.

        None where all that was measured is smaller.
        """
        height, width = picture_size
        sizes = {cell.size for cell in self.cells if cell.size[0] * cell.size[1] >= height * width}
        if not sizes:
            return None
        nearest = min(sizes, key=lambda size: (size[0] * size[1], size))
        return self._known(
            {cell.batch_size: cell.peak_bytes for cell in self.cells if cell.size == nearest}
        )

    def with_cells(self, cells: Sequence[MemoryCell], measured: str) -> "MemoryTable":
        """Return the table with cells that were measured anew; others stay."""
        merged = {(cell.size, cell.batch_size): cell for cell in (*self.cells, *cells)}
        return replace(self, cells=tuple(merged.values()), measured=measured)

    def _known(self, peaks: dict[int, int | None]) -> KnownPeaks | None:
        known = {size: peak for size, peak in peaks.items() if peak is not None}
        origin = f"the memory table of {self.measured} (headrace bench memory)"
        return KnownPeaks(peaks=known, origin=origin) if known else None


class MemoryTables:
    """Tables kept in a folder, one JSON file for each key.

    Writing is atomic, so processes may share a folder. Nothing in it is ever executed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(platformdirs.user_cache_dir("headrace")) / "memory"
        """Where tables lie; by default in the user's cache folder."""

    @classmethod
    def beside(cls, store: IndexStore | None) -> "MemoryTables":
        """Return those that lie beside an index store; None: in the user's cache folder."""
        return cls(None if store is None else store.folder.parent / "memory")

    def load(self, key: MemoryKey) -> MemoryTable | None:
        """Return the table of a key; None where there is none that can be read."""
        try:
            path = self.entry(key)
            found = from_dict(MemoryTable, json.loads(path.read_bytes()), file=path)
        except (OSError, ValueError):
            return None
        return found if found.key == key and found.cells else None

    def keep(self, key: MemoryKey, cells: Sequence[MemoryCell], measured: str) -> Path:
        """Keep cells that were measured, with those that were before; return the file.

        Raises:
            ConfigError: it cannot be written.
        """
        known = self.load(key) or MemoryTable(key=key, measured=measured, cells=())
        table = known.with_cells(cells, measured)
        path = self.entry(key)
        with suppress(OSError):  # what cannot be made cannot be written into, which says why
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(to_dict(table), ensure_ascii=False, indent=1) + "\n")
        return path

    def entry(self, key: MemoryKey) -> Path:
        """Return where the table of a key lies, whether it exists or not."""
        name = repr(sorted(asdict(key).items())).encode()
        return self.folder / f"{hashlib.sha256(name).hexdigest()[:40]}.json"
