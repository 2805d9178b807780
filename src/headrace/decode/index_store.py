"""Index store: stream indexes on disk, so that a known file opens without a scan."""

import hashlib
import json
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import platformdirs
from numpy.typing import NDArray

from headrace.decode.entry_arrays import (
    UNREADABLE,
    EntryArrays,
    check_index,
    integers,
    open_arrays,
    record,
    stream_info,
)
from headrace.errors import CacheError
from headrace.video.frame_status import VERDICT, FrameStatus
from headrace.video.source import FileStat, Source
from headrace.video.stream_index import CountBy, StreamIndex

VERSION = 4
"""Version of the entries; raised when the index of an unchanged file changes. Older entries are
rebuilt."""

_FRAMES = ("pts", "duration", "packet_index", "is_disposable")
_GOPS = ("gop_start", "gop_packet", "gop_pts", "gop_dts", "gop_position", "gop_random_access")
"""Columns of the frame and the GOP table; one array each, because every array slows opening."""
_ARRAYS = {
    "signature": "signature",
    "told": "parameter_sets",
    "gop_told": "gop_parameter_sets",
    "doubled": "doubled",
}
"""Name in the entry -> field of `StreamIndex`."""
_TYPES = {"is_disposable": np.bool_, "gop_random_access": np.uint8}
"""Dtypes that are not int64."""
_VERDICTS = "verdicts"
_MAX_PACKETS: Final = 2**32


@dataclass(kw_only=True)
class StoreCounters:
    """Counts of lookups."""

    hits: int = 0
    """Indexes read from disk, without reading a packet."""
    misses: int = 0
    """Indexes built by a scan."""
    damaged: int = 0
    """Entries that could not be read and were rebuilt; also counted as misses."""


class IndexStore:
    """Stream indexes in a folder, one file each.

    An entry is valid while its video's path, size and modification time are unchanged. Writes are
    atomic, so processes may share a folder. Entries hold arrays and JSON only; nothing is executed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(platformdirs.user_cache_dir("headrace")) / "index"
        """Folder of the entries; by default in the user's cache folder."""
        self.counters = StoreCounters()

    def load(self, source: Source) -> StreamIndex:
        """Return the index of `source`, from disk if known, else by a scan.

        The index is returned even if it cannot be stored (full disk, read-only folder). A source
        without a path is scanned each time.

        Raises:
            OpenError: it cannot be opened as video.
            ScanError: no frame can be found in it.
        """
        if not source.has_path:
            self.counters.misses += 1
            return StreamIndex.scan(source)
        index = self.find(source)
        return self.scan(source) if index is None else index

    def find(self, source: Source) -> StreamIndex | None:
        """Return the index of `source` from disk; None if it is not known. Never scans.

        Raises:
            OpenError: it cannot be opened as a file.
        """
        try:
            index = _read(self.entry(source), source, source.fingerprint())
        except CacheError:
            self.counters.damaged += 1
            return None
        self.counters.hits += index is not None
        return index

    def scan(self, source: Source) -> StreamIndex:
        """Scan `source`, and store the index. Raises as `load` does."""
        self.counters.misses += 1
        return self._scan(source, None)

    def verify(self, source: Source) -> StreamIndex:
        """Scan `source` by decoding all of it, and store each frame's status.

        Later reads compare every frame with this decode. Raises as `load` does.
        """
        return self._scan(source, "decode")

    def _scan(self, source: Source, count_by: CountBy | None) -> StreamIndex:
        path = self.entry(source)
        index = replace(StreamIndex.scan(source, count_by=count_by), store_path=path)
        _write(path, index)
        return index

    def entry(self, source: Source) -> Path:
        """Return the path of the entry of `source`, which need not exist."""
        return self.folder / f"{hashlib.sha256(source.key).hexdigest()[:40]}.npz"


def save_frame_status(index: StreamIndex) -> None:
    """Store the frame status of an index in its entry, if it has one."""
    if index.store_path is not None:
        _write(index.store_path, index)


def _key(fingerprint: FileStat) -> dict[str, Any]:
    return {"version": VERSION, **asdict(fingerprint)}


def _read(path: Path, source: Source, fingerprint: FileStat) -> StreamIndex | None:
    """Return the stored index; None if the entry is missing or for another version of the file.

    Raises:
        CacheError: the entry exists and cannot be read.
    """
    try:
        with path.open("rb") as file, open_arrays(file) as (stored, header):
            if header["key"] != _key(fingerprint):
                return None
            return replace(index_of(stored, header, source), store_path=path)
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        raise CacheError(f"index entry {path} cannot be read: {error}") from error


def index_of(stored: EntryArrays, header: dict[str, Any], source: Source) -> StreamIndex:
    """Return the index that `arrays_of` stored.

    Args:
        stored: Arrays of the entry.
        header: Parsed header of the entry.
        source: The video; the file is not opened.

    Raises one of `UNREADABLE`: the entry is invalid.
    """
    facts, key = header["index"], header["key"]
    [packets] = integers([facts["packets"]], 1, _MAX_PACKETS)
    frames = stored.read("frames", np.int64, len(_FRAMES), -1)
    gops = stored.read("gops", np.int64, len(_GOPS), -1)
    arrays = {
        name: column.astype(_TYPES.get(name, np.int64), copy=False)
        for names, table in ((_FRAMES, frames), (_GOPS, gops))
        for name, column in zip(names, table, strict=True)
    }
    has_status = _VERDICTS in stored
    status = stored.read(_VERDICTS, VERDICT, frames.shape[1]) if has_status else None
    index = StreamIndex(
        source=source,
        fingerprint=record(FileStat, {name: key[name] for name in ("size", "mtime_ns")}),
        info=stream_info(header["info"]),
        frame_status=FrameStatus(frames.shape[1], status),
        signature=stored.read("signature", np.int64, packets),
        parameter_sets=stored.read("told", np.uint8, -1),
        gop_parameter_sets=stored.read("gop_told", np.int64, gops.shape[1], 2),
        doubled=stored.read("doubled", np.int64, -1),
        needs_one_codec=bool(facts["is_told_once"]),
        packets=packets,
        counted_by="decode" if facts["counted_by"] == "decode" else "packets",
        is_seekable=bool(facts["is_seekable"]),
        problems=tuple(map(str, facts["problems"])),
        **arrays,
    )
    check_index(index)
    return index


def arrays_of(index: StreamIndex, **facts: Any) -> dict[str, NDArray[Any]]:
    """Return an index as named arrays with a header; `facts` are JSON values for the header."""
    info = index.info
    header = {
        **facts,
        "key": _key(index.fingerprint),
        "info": {
            **asdict(info),
            "time_base": str(info.time_base),
            "nominal_rate": None if info.nominal_rate is None else str(info.nominal_rate),
        },
        "index": {
            "packets": index.packets,
            "counted_by": index.counted_by,
            "is_seekable": index.is_seekable,
            "is_told_once": index.needs_one_codec,
            "problems": list(index.problems),
        },
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays = {name: getattr(index, field) for name, field in _ARRAYS.items()}
    for table, names in (("frames", _FRAMES), ("gops", _GOPS)):
        arrays[table] = np.stack([getattr(index, name).astype(np.int64) for name in names])
    if index.frame_status.table is not None:
        arrays[_VERDICTS] = index.frame_status.table
    return {"header": text, **arrays}


def _write(path: Path, index: StreamIndex) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                np.savez(file, allow_pickle=False, **arrays_of(index))
                file.close()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError:
        return
