"""Tables of measured memory per batch, stored on disk by `headrace bench memory`."""

import hashlib
import json
from bisect import bisect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import platformdirs

from headrace.atomic_file import write_whole
from headrace.decode.index_store import IndexStore
from headrace.records import from_dict, to_dict

VERSION: Final = 1
"""Version of the tables. Increase it when a figure changes meaning; older tables are ignored."""


@dataclass(frozen=True, kw_only=True)
class KnownPeaks:
    """Measured peak memory of batches of one model on this device."""

    peaks: Mapping[int, int]
    """Frames in a batch -> peak bytes; at least one entry."""
    origin: str
    """Name of the source of the figures, for messages."""


@dataclass(frozen=True, kw_only=True)
class MemoryKey:
    """Everything that memory figures depend on; a table is used only for an equal key."""

    device: str
    """Name of the GPU, or of the processor."""
    memory_bytes: int
    """Total memory of the device."""
    driver: str | None
    """Version of the GPU's driver; None without a GPU, or if unknown."""
    torch: str
    """Version of PyTorch."""
    model: str
    """torchvision's name."""
    precision: str
    prep_level: str
    input: tuple[int, ...]
    """Shape of one image or clip of the model input; 1 x 1 pixel for models of any input size."""
    version: int = VERSION


@dataclass(frozen=True, kw_only=True)
class MemoryCell:
    """One measured batch."""

    size: tuple[int, int]
    """(height, width) of its frames."""
    batch_size: int
    peak_bytes: int
    """Peak memory with frames and preprocessing: reserved by PyTorch on a GPU, all memory of the
    process on the CPU."""
    model_bytes: int | None
    """Peak memory of the model alone, on a preprocessed batch; None on the CPU."""


@dataclass(frozen=True, kw_only=True)
class MemoryTable:
    """Measured batches of one key."""

    key: MemoryKey
    measured: str
    """Date of the measurement: 2026-11-22."""
    cells: tuple[MemoryCell, ...]

    def of_model(self) -> KnownPeaks | None:
        """Return the peaks of the model alone, for any frame size; None: not measured."""
        return self._known_peaks({cell.batch_size: cell.model_bytes for cell in self.cells})

    def of_frames(self, frame_size: tuple[int, int]) -> KnownPeaks | None:
        """Return the peaks of batches whose frames have this or the next larger measured size.

        None: all measured frames are smaller.
        """
        height, width = frame_size
        sizes = {cell.size for cell in self.cells if cell.size[0] * cell.size[1] >= height * width}
        if not sizes:
            return None
        nearest = min(sizes, key=lambda size: (size[0] * size[1], size))
        return self._known_peaks(
            {cell.batch_size: cell.peak_bytes for cell in self.cells if cell.size == nearest}
        )

    def _known_peaks(self, peaks: dict[int, int | None]) -> KnownPeaks | None:
        known = {size: peak for size, peak in peaks.items() if peak is not None}
        origin = f"the memory table of {self.measured} (headrace bench memory)"
        return KnownPeaks(peaks=known, origin=origin) if known else None


class MemoryTables:
    """Tables in a folder, one JSON file per key. Writes are atomic: processes may share it."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(platformdirs.user_cache_dir("headrace")) / "memory"
        """Folder of the tables; default: in the user's cache folder."""

    @classmethod
    def beside(cls, store: IndexStore | None) -> "MemoryTables":
        """Return the tables beside an index store; None: in the user's cache folder."""
        return cls(None if store is None else store.folder.parent / "memory")

    def load(self, key: MemoryKey) -> MemoryTable | None:
        """Return the table of a key; None if it is missing or unreadable."""
        try:
            path = self.entry(key)
            table = from_dict(MemoryTable, json.loads(path.read_bytes()), file=path)
        except (OSError, ValueError, RecursionError):
            return None
        return table if table.key == key and table.cells else None

    def keep(self, key: MemoryKey, cells: Sequence[MemoryCell], measured: str) -> Path:
        """Add measured cells to the table of a key; return its path.

        Raises:
            ConfigError: the file cannot be written.
        """
        known = self.load(key)
        all_cells = (*(known.cells if known else ()), *cells)
        merged = {(cell.size, cell.batch_size): cell for cell in all_cells}
        table = MemoryTable(key=key, measured=measured, cells=tuple(merged.values()))
        path = self.entry(key)
        with suppress(OSError):  # the write below raises if the folder is missing
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(to_dict(table), ensure_ascii=False, indent=1) + "\n")
        return path

    def entry(self, key: MemoryKey) -> Path:
        """Return the path of the table of a key, existing or not."""
        name = repr(sorted(asdict(key).items())).encode()
        return self.folder / f"{hashlib.sha256(name).hexdigest()[:40]}.json"


def predicted_peak(peaks: Mapping[int, int], batch_size: int) -> int:
    """Return the estimated peak bytes of a batch size, on the line through two known sizes.

    A model uses its weights plus constant bytes per frame. The line goes through the two sizes next
    to `batch_size`. With one known size, its peak is scaled in proportion, an overestimate. The
    result is at least the peak of every smaller size.

    Args:
        peaks: Frames in a batch -> peak bytes; at least one entry.
        batch_size: Frames in a batch, at least 1.
    """
    known = sorted(peaks)
    lower_bound = max((peaks[size] for size in known if size <= batch_size), default=0)
    if batch_size in peaks:
        return lower_bound
    if len(known) == 1:
        [size] = known
        return max(lower_bound, -(-peaks[size] * batch_size // size))
    above = min(max(1, bisect(known, batch_size)), len(known) - 1)
    low, high = known[above - 1], known[above]
    return max(
        lower_bound, round(peaks[high] - bytes_per_frame(peaks, low, high) * (high - batch_size))
    )


def bytes_per_frame(peaks: Mapping[int, int], low: int, high: int) -> float:
    """Return the growth of the peak per frame between two known batch sizes, in bytes."""
    return (peaks[high] - peaks[low]) / (high - low)
