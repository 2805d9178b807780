"""Arrays and header of an entry on disk, read as untrusted input.

An array takes no more memory than its bytes in the file. An index is returned only if its tables
are consistent: a decoder uses them as offsets and counts.
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


def fraction(text: Any) -> Fraction:
    """Return the fraction of a text, at least 0; ValueError for other values."""
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"its header must have a fraction, got {text!r:.60}")
    return Fraction(text)


def record(kind: type[T], values: Mapping[str, Any]) -> T:
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
        raise ValueError("its time base is 0")
    return info


def check_size(height: int, width: int) -> None:
    """Raise ValueError for a frame size that is not decoded."""
    if min(height, width) < 1 or height * width > MAX_PIXELS:
        raise ValueError(f"its frame size is {height}x{width}")


def check_index(index: StreamIndex) -> None:
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
