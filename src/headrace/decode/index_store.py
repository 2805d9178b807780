"""The index store: indexes on disk, so that a known file is opened without reading it again."""

import hashlib
import json
import tempfile
import zipfile
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from headrace.errors import CacheError
from headrace.video.frame_format import Orientation
from headrace.video.frame_status import VERDICT, FrameStatus
from headrace.video.packet_table import StreamInfo
from headrace.video.source import FileStat, Source
from headrace.video.stream_index import CountBy, StreamIndex

VERSION = 4
"""Raised whenever an index of the same file would come out different; older entries are rebuilt."""

_FRAMES = ("pts", "duration", "ordinal", "is_droppable")
_GOPS = ("gop_start", "gop_ordinal", "gop_pts", "gop_dts", "gop_position", "gop_trust")
"""Columns of one table each: every array in the entry costs time when it is opened."""
_ARRAYS = ("signature", "told", "gop_told", "doubled")
_TYPES = {"is_droppable": np.bool_, "gop_trust": np.uint8}
"""Where it is not int64."""
_VERDICTS = "verdicts"


@dataclass(kw_only=True)
class StoreCounters:
    """How the store served so far."""

    hits: int = 0
    """Indexes taken from disk: no packet was read."""
    misses: int = 0
    """Indexes made by a scan."""
    damaged: int = 0
    """Entries that could not be read and were made again; also counted as misses."""


class IndexStore:
    """Indexes kept in a folder, one file each.

    An entry is valid while the path, size and time of change of its video are the same. Writing is
    atomic, so processes may share a folder. Nothing in it is ever executed: arrays and JSON only.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(platformdirs.user_cache_dir("headrace")) / "index"
        """Where entries lie; by default in the user's cache folder."""
        self.counters = StoreCounters()

    def load(self, source: Source) -> StreamIndex:
        """Return the index of `source`, from disk when it is known, by a scan when it is not.

        A scan that cannot be stored (a full disk, a read-only folder) is returned all the same; one
        of a source without a path is not stored.

        Raises:
            OpenError: it cannot be opened as video.
            ScanError: no frame can be found in it.
        """
        if not source.has_path:
            self.counters.misses += 1
            return StreamIndex.scan(source)
        found = self.find(source)
        return self.scan(source) if found is None else found

    def find(self, source: Source) -> StreamIndex | None:
        """Return the index of `source` from disk; None where it is not known. Never scans.

        Raises:
            OpenError: it cannot be opened as a file.
        """
        try:
            found = _read(self.entry(source), source, source.fingerprint())
        except CacheError:
            self.counters.damaged += 1
            return None
        self.counters.hits += found is not None
        return found

    def scan(self, source: Source) -> StreamIndex:
        """Scan `source` anew, and keep what was found. Raises as `load` does."""
        self.counters.misses += 1
        return self._scanned(source, None)

    def verify(self, source: Source) -> StreamIndex:
        """Scan `source` anew by decoding all of it, and keep what was found of each frame.

        From then on every picture that is read is held against that of this decode. Raises as
        `load` does.
        """
        return self._scanned(source, "decode")

    def _scanned(self, source: Source, count_by: CountBy | None) -> StreamIndex:
        path = self.entry(source)
        index = replace(StreamIndex.scan(source, count_by=count_by), kept_in=path)
        _write(path, index)
        return index

    def entry(self, source: Source) -> Path:
        """Return where the entry of `source` lies, whether it exists or not."""
        return self.folder / f"{hashlib.sha256(source.key).hexdigest()[:40]}.npz"


def keep_verdicts(index: StreamIndex) -> None:
    """Keep what was found out about frames with the entry of their index, if it has one."""
    if index.kept_in is not None:
        _write(index.kept_in, index)


def _key(fingerprint: FileStat) -> dict[str, Any]:
    return {"version": VERSION, **asdict(fingerprint)}


def _read(path: Path, source: Source, fingerprint: FileStat) -> StreamIndex | None:
    """Return the stored index, or None when there is none for this version of the file.

    Raises:
        CacheError: there is an entry and it cannot be read.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if any(part.compress_type != zipfile.ZIP_STORED for part in stored.zip.infolist()):
                raise ValueError("it is compressed, so its size is not what it seems")
            header = json.loads(bytes(stored["header"]))
            if header["key"] != _key(fingerprint):
                return None
            return replace(index_of(stored, header, source), kept_in=path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CacheError(f"index entry {path} cannot be read: {error}") from error


def index_of(stored: Any, header: dict[str, Any], source: Source) -> StreamIndex:
    """Return the index that `arrays_of` put away.

    Args:
        stored: Its arrays, by name.
        header: Its header, parsed.
        source: The video it is of; it is not looked at.

    Raises:
        ValueError, KeyError, TypeError: it is something else.
    """
    arrays = {name: stored[name] for name in _ARRAYS}
    for table, names in (("frames", _FRAMES), ("gops", _GOPS)):
        for name, column in zip(names, stored[table], strict=True):
            arrays[name] = column.astype(_TYPES.get(name, np.int64), copy=False)
    known = stored.get(_VERDICTS)
    if known is not None and (known.dtype, len(known)) != (VERDICT, len(arrays["pts"])):
        raise ValueError("its verdicts are not those of its frames")
    facts = {**header["index"], "problems": tuple(header["index"]["problems"])}
    key = header["key"]
    return StreamIndex(
        source=source,
        fingerprint=FileStat(size=key["size"], mtime_ns=key["mtime_ns"]),
        info=_info(header["info"]),
        verdicts=FrameStatus(len(arrays["pts"]), known),
        **arrays,
        **facts,
    )


def arrays_of(index: StreamIndex, **facts: Any) -> dict[str, NDArray[Any]]:
    """Return an index as named arrays, a header among them; `facts`, as JSON has them, go there."""
    header = {
        **facts,
        "key": _key(index.fingerprint),
        "info": _plain_info(index.info),
        "index": {
            "packets": index.packets,
            "counted_by": index.counted_by,
            "is_seekable": index.is_seekable,
            "is_told_once": index.is_told_once,
            "problems": list(index.problems),
        },
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    arrays = {name: getattr(index, name) for name in _ARRAYS}
    for table, names in (("frames", _FRAMES), ("gops", _GOPS)):
        arrays[table] = np.stack([getattr(index, name).astype(np.int64) for name in names])
    if index.verdicts.table is not None:
        arrays[_VERDICTS] = index.verdicts.table
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


def _plain_info(info: StreamInfo) -> dict[str, Any]:
    plain = asdict(info)
    plain["time_base"] = str(info.time_base)
    plain["nominal_rate"] = None if info.nominal_rate is None else str(info.nominal_rate)
    return plain


def _info(plain: dict[str, Any]) -> StreamInfo:
    rate = plain["nominal_rate"]
    return StreamInfo(
        **{
            **plain,
            "orientation": Orientation(**plain["orientation"]),
            "time_base": Fraction(plain["time_base"]),
            "nominal_rate": None if rate is None else Fraction(rate),
        }
    )
