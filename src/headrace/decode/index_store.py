"""Index store: stream indexes on disk, so that a known file opens without a scan.

Entries are untrusted input. An array takes no more memory than its bytes in the file. An index is
returned only if its tables are consistent: a decoder uses them as offsets and counts.
"""

import hashlib
import io
import json
import re
import tempfile
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, get_type_hints

import numpy as np
import platformdirs
from numpy.lib import format as npy
from numpy.typing import NDArray

from headrace.errors import CacheError
from headrace.video.container import MAX_PIXELS
from headrace.video.frame_format import Orientation
from headrace.video.image_sequence import ImageSequence
from headrace.video.packet_table import StreamInfo
from headrace.video.random_access import RandomAccess
from headrace.video.reference_decode import VERDICT, FrameStatus
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
    """Store the frame status of an index in its entry, if it has one.

    Images of a sequence may change singly, so their status holds only while they are open.
    """
    if index.store_path is not None and not isinstance(index.source, ImageSequence):
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


def index_of(stored: "EntryArrays", header: dict[str, Any], source: Source) -> StreamIndex:
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
        fingerprint=_record(FileStat, {name: key[name] for name in ("size", "mtime_ns")}),
        info=_stream_info(header["info"]),
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
    _check_index(index)
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


T = TypeVar("T")

UNREADABLE: Final = (
    *(OSError, ValueError, LookupError, TypeError, ArithmeticError, EOFError, RuntimeError),
    *(SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zipfile.LargeZipFile),
)
"""Exceptions raised on reading a file that is not an entry, also by zipfile and NumPy."""
_FRACTION: Final = re.compile(r"[0-9]{1,19}(/[0-9]{1,19})?")
"""Bounds the digits: 1e999999999 would take unbounded time and memory."""


class EntryArrays:
    """Arrays of an entry by name, each read on request. Read-only."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def __contains__(self, name: str) -> bool:
        return f"{name}.npy" in self._archive.NameToInfo

    def read(self, name: str, dtype: Any, *shape: int) -> NDArray[Any]:
        """Return an array of a dtype and shape, -1 for any length.

        Raises one of `UNREADABLE`, also for another dtype or shape.
        """
        content = self._archive.read(f"{name}.npy")
        file = io.BytesIO(content)
        if npy.read_magic(file) != (1, 0):
            raise ValueError(f"{name} has an unknown array format")
        stored, is_fortran, kind = npy.read_array_header_1_0(file)
        is_right = len(stored) == len(shape) and all(
            expected in (-1, length) for expected, length in zip(shape, stored, strict=True)
        )
        if kind != np.dtype(dtype) or not is_right:
            raise ValueError(f"{name} is {kind} {[*stored]}, not {np.dtype(dtype)} {[*shape]}")
        values = np.frombuffer(content, kind, offset=file.tell())
        return values.reshape(stored, order="F" if is_fortran else "C")


@contextmanager
def open_arrays(file: BinaryIO) -> Iterator[tuple[EntryArrays, dict[str, Any]]]:
    """Yield the arrays of an entry, and its parsed header; raises one of `UNREADABLE`."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("it is compressed, so the size of its arrays is unknown")
        if sum(member.compress_size for member in members) > file.seek(0, io.SEEK_END):
            raise ValueError("its table lists more bytes than the file has")
        arrays = EntryArrays(archive)
        header = json.loads(bytes(arrays.read("header", np.uint8, -1)))
        if not isinstance(header, dict):
            raise ValueError("its header is not a JSON object")
        yield arrays, header


def integers(value: Any, minimum: int, maximum: int) -> tuple[int, ...]:
    """Return a JSON list of integers in [minimum, maximum]; ValueError for other values."""
    if not isinstance(value, list) or not all(
        type(number) is int and minimum <= number <= maximum for number in value
    ):
        raise ValueError(
            f"its header must have integers from {minimum} to {maximum}, got {value!r:.60}"
        )
    return tuple(value)


def _fraction(text: Any) -> Fraction:
    """Return the fraction of a text, at least 0; ValueError for other values."""
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"its header must have a fraction, got {text!r:.60}")
    return Fraction(text)


def _record(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass with values; TypeError for an unknown field or a wrong type.

    Only fields whose type is a class are checked.
    """
    for name, expected in _types_of(kind).items():  # type: ignore[arg-type]
        if type(values[name]) is not expected:
            raise TypeError(f"{name} must be {expected.__name__}, got {values[name]!r:.60}")
    return kind(**values)


@cache
def _types_of(kind: type) -> dict[str, type]:
    hints = get_type_hints(kind)
    return {
        field.name: hints[field.name]
        for field in fields(kind)
        if isinstance(hints[field.name], type)
    }


def _stream_info(values: Mapping[str, Any]) -> StreamInfo:
    """Return the stream properties of a header; raises one of `UNREADABLE`."""
    rate = values["nominal_rate"]
    info = _record(
        StreamInfo,
        {
            **values,
            "orientation": _record(Orientation, values["orientation"]),
            "time_base": _fraction(values["time_base"]),
            "nominal_rate": None if rate is None else _fraction(rate),
        },
    )
    if min(info.height, info.width) < 1 or info.height * info.width > MAX_PIXELS:
        raise ValueError(f"its frame size is {info.height}x{info.width}")
    if not info.time_base:
        raise ValueError("its time base is 0")
    return info


def _check_index(index: StreamIndex) -> None:
    """Raise ValueError if the tables of an index are inconsistent."""
    frames, gops, packets = len(index), index.num_gops, index.packets
    first, stop = index.gop_parameter_sets.T
    checks = {
        "no frames": frames > 0 and gops > 0,
        "decreasing timestamps": _is_ascending(index.pts),
        "packet indices out of range": _is_in(index.packet_index, 0, packets - 1)
        and _is_in(index.gop_packet, 0, packets - 1)
        and _is_in(index.doubled, 0, packets - 1),
        "GOPs out of order": index.gop_start[:1].tolist() == [0]
        and _is_in(np.diff(index.gop_start), 1, frames)
        and _is_in(index.gop_start, 0, frames - 1)
        and _is_ascending(index.gop_packet),
        "parameter sets out of range": _is_in(first, 0, len(index.parameter_sets))
        and _is_in(stop - first, 0, len(index.parameter_sets))
        and _is_in(stop, 0, len(index.parameter_sets)),
        "unknown random access codes": _is_in(index.gop_random_access, 0, max(RandomAccess)),
    }
    problems = [problem for problem, is_passed in checks.items() if not is_passed]
    if problems:
        raise ValueError(f"it has {', '.join(problems)}")


def _is_in(values: NDArray[Any], minimum: int, maximum: int) -> bool:
    return not len(values) or bool(values.min() >= minimum and values.max() <= maximum)


def _is_ascending(values: NDArray[np.int64]) -> bool:
    return bool((values[1:] >= values[:-1]).all())
