"""Entry arrays: the arrays and the header of an entry on disk, as untrusted input.

An array takes no more memory than its bytes in the file, and an index is returned only if its
tables agree with each other: a decoder uses them as offsets and counts.
"""

import io
import json
import re
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from fractions import Fraction
from functools import cache
from typing import Any, BinaryIO, Final, TypeVar, get_type_hints

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from headrace.video.container import MAX_PIXELS
from headrace.video.frame_format import Orientation
from headrace.video.packet_table import StreamInfo
from headrace.video.random_access import RandomAccess
from headrace.video.stream_index import StreamIndex

T = TypeVar("T")

UNREADABLE: Final = (
    *(OSError, ValueError, LookupError, TypeError, ArithmeticError, EOFError, RuntimeError),
    *(SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zipfile.LargeZipFile),
)
"""Exceptions of reading what is no entry; those of zipfile and NumPy are of these."""
_FRACTION: Final = re.compile(r"[0-9]{1,19}(/[0-9]{1,19})?")
"""A larger number would take time and memory without end: 1e999999999."""


class EntryArrays:
    """Arrays of an entry by name, each read when it is asked for. Read-only."""

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
            raise ValueError(f"{name} is no array of an entry")
        found, is_fortran, kind = npy.read_array_header_1_0(file)
        is_right = len(found) == len(shape) and all(
            wanted in (-1, length) for wanted, length in zip(shape, found, strict=True)
        )
        if kind != np.dtype(dtype) or not is_right:
            raise ValueError(f"{name} is {kind} {[*found]}")
        values = np.frombuffer(content, kind, offset=file.tell())
        return values.reshape(found, order="F" if is_fortran else "C")


@contextmanager
def open_arrays(file: BinaryIO) -> Iterator[tuple[EntryArrays, dict[str, Any]]]:
    """Yield the arrays of an entry, and its parsed header; raises one of `UNREADABLE`."""
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise ValueError("it is compressed, so its size is not what it seems")
        if sum(part.compress_size for part in parts) > file.seek(0, io.SEEK_END):
            raise ValueError("it has more bytes by its table than in the file")
        arrays = EntryArrays(archive)
        header = json.loads(bytes(arrays.read("header", np.uint8, -1)))
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
        yield arrays, header


def integers(value: Any, least: int, most: int) -> tuple[int, ...]:
    """Return a list of JSON as integers; ValueError for other values."""
    if not isinstance(value, list) or not all(
        type(number) is int and least <= number <= most for number in value
    ):
        raise ValueError(f"it has {value!r:.60} in place of numbers")
    return tuple(value)


def fraction(text: Any) -> Fraction:
    """Return a fraction of an entry, at least 0; ValueError for other values."""
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"it has {text!r:.60} in place of a fraction")
    return Fraction(text)


def record(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass of values; TypeError where one is missing, unknown or of another type.

    Only fields whose type is a class are checked.
    """
    for name, wanted in _types_of(kind).items():  # type: ignore[arg-type]
        if type(values[name]) is not wanted:
            raise TypeError(f"{name} is {values[name]!r:.60}")
    return kind(**values)


@cache
def _types_of(kind: type) -> dict[str, type]:
    hints = get_type_hints(kind)
    names = (each.name for each in fields(kind))
    return {name: hints[name] for name in names if isinstance(hints[name], type)}


def stream_info(values: Mapping[str, Any]) -> StreamInfo:
    """Return the stream properties of a header; raises one of `UNREADABLE`."""
    rate = values["nominal_rate"]
    info = record(
        StreamInfo,
        {
            **values,
            "orientation": record(Orientation, values["orientation"]),
            "time_base": fraction(values["time_base"]),
            "nominal_rate": None if rate is None else fraction(rate),
        },
    )
    check_size(info.height, info.width)
    if not info.time_base:
        raise ValueError("its ticks have no duration")
    return info


def check_size(height: int, width: int) -> None:
    """Raise ValueError for frames that are not decoded."""
    if min(height, width) < 1 or height * width > MAX_PIXELS:
        raise ValueError(f"its frames are {height}x{width}")


def check_index(index: StreamIndex) -> None:
    """Raise ValueError if the tables of an index cannot be those of one stream."""
    frames, gops, packets = len(index), index.num_gops, index.packets
    first, stop = index.gop_parameter_sets.T
    tables = {
        "no frame": frames > 0 and gops > 0,
        "times that go back": _is_ascending(index.pts),
        "packets that there are not": _is_in(index.packet_index, 0, packets - 1)
        and _is_in(index.gop_packet, 0, packets - 1)
        and _is_in(index.doubled, 0, packets - 1),
        "GOPs in no order": index.gop_start[:1].tolist() == [0]
        and _is_in(np.diff(index.gop_start), 1, frames)
        and _is_in(index.gop_start, 0, frames - 1)
        and _is_ascending(index.gop_packet),
        "parameter sets that there are not": _is_in(first, 0, len(index.parameter_sets))
        and _is_in(stop - first, 0, len(index.parameter_sets))
        and _is_in(stop, 0, len(index.parameter_sets)),
        "unknown entries": _is_in(index.gop_random_access, 0, max(RandomAccess)),
    }
    wrong = [name for name, is_right in tables.items() if not is_right]
    if wrong:
        raise ValueError(f"it has {', '.join(wrong)}")


def _is_in(values: NDArray[Any], least: int, most: int) -> bool:
    return not len(values) or bool(values.min() >= least and values.max() <= most)


def _is_ascending(values: NDArray[np.int64]) -> bool:
    return bool((values[1:] >= values[:-1]).all())
