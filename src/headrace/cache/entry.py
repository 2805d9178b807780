"""Encoding of a result as bytes: header, raw arrays, checksum; nothing in it is executed.

    magic | length of header | header, JSON | arrays, little-endian, one after another | checksum

The header holds the text of the key, and name, dtype and shape of each array. The checksum covers
everything before it, so that all damage is detected.
"""

import hashlib
import json
import struct
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from headrace.cache.key import ChunkKey
from headrace.errors import CacheError, ConfigError

Arrays = dict[str, np.ndarray[Any, Any]]
"""Result: name → array."""

WRONG_CHECKSUM: Final = "does not match its checksum"
"""Damage of an entry, or of a frame in a spill store."""
MAX_HEADER_BYTES: Final = 4 << 20
"""Max bytes of a header; a longer one is damage. A key of 100,000 pts takes 1 MB."""
MAX_ARRAYS: Final = 64
"""Max arrays of a result."""

_MAGIC: Final = b"HRC1"
_LENGTH: Final = struct.Struct("<I")
_START: Final = len(_MAGIC) + _LENGTH.size
_CHECKSUM_BYTES: Final = 16
_TYPES: Final = {
    np.dtype(name).str: np.dtype(name)
    for name in (
        *("bool", "<f2", "<f4", "<f8", "i1", "<i2", "<i4", "<i8"),
        *("u1", "<u2", "<u4", "<u8"),
    )
}


@dataclass(frozen=True, eq=False)
class CacheEntry:
    """Key and result of one chunk."""

    key: ChunkKey
    """Inputs of the result."""
    arrays: Arrays


def encode(entry: CacheEntry) -> bytes:
    """Return the bytes of an entry; copies each array once.

    Raises:
        ConfigError: an array is not bool, integer or float of 16 to 64 bits, the number of arrays
            is 0 or too large, or the header is too long.
    """
    if not 1 <= len(entry.arrays) <= MAX_ARRAYS:
        raise ConfigError(f"a result must have 1 to {MAX_ARRAYS} arrays, got {len(entry.arrays)}")
    tables, parts = [], []
    for name, array in entry.arrays.items():
        kind = array.dtype.newbyteorder("<")
        if kind.str not in _TYPES:
            raise ConfigError(f"array {name!r} of a result must hold numbers, got {array.dtype}")
        tables.append({"name": name, "dtype": kind.str, "shape": list(array.shape)})
        parts.append(np.ascontiguousarray(array, kind).tobytes())
    header = json.dumps({"key": entry.key.text, "arrays": tables}).encode()
    if len(header) > MAX_HEADER_BYTES:
        raise ConfigError(
            f"the header of a result has {len(header)} bytes, more than {MAX_HEADER_BYTES}; use "
            "chunks of fewer frames"
        )
    body = b"".join((_MAGIC, _LENGTH.pack(len(header)), header, *parts))
    return body + _checksum(body)


def decode(content: bytes, digest: str | None = None) -> CacheEntry:
    """Return the entry encoded in `content`.

    Sizes are checked against the length of `content` before memory is allocated. The arrays are
    writable copies.

    Args:
        content: The bytes.
        digest: Expected digest of the key; None: any.

    Raises:
        CacheError: the entry is damaged, or has another key.
    """
    view = memoryview(content)
    if len(view) < _START + _CHECKSUM_BYTES or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise CacheError("is not a cache entry")
    body = view[:-_CHECKSUM_BYTES]
    if _checksum(body) != view[-_CHECKSUM_BYTES:]:
        raise CacheError(WRONG_CHECKSUM)
    (length,) = _LENGTH.unpack_from(body, len(_MAGIC))
    if length > min(MAX_HEADER_BYTES, len(body) - _START):
        raise CacheError("has a header longer than the entry")
    try:
        header = json.loads(bytes(body[_START : _START + length]))
        key = ChunkKey.of_text(header["key"])
        arrays = _arrays(header["arrays"], body[_START + length :])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CacheError(f"has an invalid header: {error}") from error
    if digest not in (None, key.digest):
        raise CacheError(f"belongs to another key, {key.digest}")
    return CacheEntry(key, arrays)


def _arrays(tables: list[dict[str, Any]], payload: memoryview) -> Arrays:
    """Return copies of the arrays of a payload.

    Raises:
        ValueError: the arrays contradict the tables; other errors for a malformed table.
    """
    if not 1 <= len(tables) <= MAX_ARRAYS:
        raise ValueError(f"it has {len(tables)} arrays")
    arrays: Arrays = {}
    offset = 0
    for table in tables:
        kind, shape = _TYPES[table["dtype"]], table["shape"]
        if not isinstance(table["name"], str) or any(type(n) is not int or n < 0 for n in shape):
            raise ValueError(f"array {len(arrays)} has no valid name and shape")
        size = prod(shape) * kind.itemsize
        if size > len(payload) - offset:
            raise ValueError("its arrays are longer than the entry")
        arrays[table["name"]] = np.ndarray(shape, kind, payload, offset).copy()
        offset += size
    if offset != len(payload) or len(arrays) != len(tables):
        raise ValueError("its arrays do not match their description")
    return arrays


def _checksum(body: bytes | memoryview) -> bytes:
    """Return a BLAKE2b digest: about 1 GB a second."""
    return hashlib.blake2b(body, digest_size=_CHECKSUM_BYTES).digest()
