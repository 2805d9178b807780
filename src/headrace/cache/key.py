"""Cache key: the inputs of a result, as a value; and the encoding of key and result as bytes.

    magic | length of header | header, JSON | arrays, little-endian, one after another | checksum

The header holds the text of the key, and name, dtype and shape of each array. The checksum covers
everything before it, so that all damage is detected. Nothing in an entry is executed.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any, Final

import numpy as np

from headrace.errors import CacheError, ConfigError

FORMAT: Final = 1
"""Version of the keys; increase it when keys of the same request change."""

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]
"""Values of a key: JSON, so that it reads the same everywhere."""

_GROUPS: Final = ("selection", "decode", "preprocess", "model", "numerics")
_MAX_BITS: Final = 128
"""Max bits of an integer; Python limits integers parsed from text."""
_NAMES: Final = ("format", "kind", "content", *_GROUPS)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ChunkKey:
    """Inputs of the result of one chunk. Two keys are equal when all inputs are.

    Everything that changes a result must be in the key. Paths, file names and batch sizes are left
    out: equal frames give equal results. Values are text, finite numbers, booleans, None, and lists
    and mappings of these, with text as keys; `1` and `1.0` are different.

    Raises:
        ConfigError: a value has another type; the message names it.
    """

    kind: str
    """Kind of the computation, with its version: `features 1`."""
    content: str
    """Digest of the whole file: see `ContentDigests`."""
    selection: Mapping[str, Any]
    """Stream, and frames or clips of the chunk: pts and time base, not rates."""
    decode: Mapping[str, Any]
    """Inputs of decoding: backend, kind of device, version of FFmpeg, policy for damage."""
    preprocess: Mapping[str, Any]
    """Steps from pixels to the model input."""
    model: Mapping[str, Any]
    """Name, layers, and checksum of the weights."""
    numerics: Mapping[str, Any]
    """Precision, kind of device, version of PyTorch; empty if irrelevant."""

    def __post_init__(self) -> None:
        for name in ("kind", "content"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ConfigError(f"{name} of a cache key must be text, got {value!r}")
        for name in _GROUPS:
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise ConfigError(f"{name} of a cache key must be a mapping, got {value!r}")
            object.__setattr__(self, name, _plain(value, name))
        facts = {"format": FORMAT, **{name: getattr(self, name) for name in _NAMES[1:]}}
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "_digest", hashlib.sha256(text.encode()).hexdigest())

    @property
    def text(self) -> str:
        """The whole key as canonical JSON: ASCII, names sorted, no spaces."""
        return str(vars(self)["_text"])

    @property
    def digest(self) -> str:
        """SHA-256 of `text`, 64 hexadecimal digits: the name of the result in a store."""
        return str(vars(self)["_digest"])

    @classmethod
    def of_text(cls, text: str | bytes) -> "ChunkKey":
        """Return the key from its text.

        Raises:
            ConfigError: the text is not a key, or has another format.
        """
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"a cache key must be JSON, got {_start_of(text)}") from error
        if not isinstance(facts, dict) or set(facts) != set(_NAMES):
            raise ConfigError(
                f"a cache key must have {', '.join(_NAMES)} and nothing else, got {_start_of(text)}"
            )
        if facts.pop("format") != FORMAT:
            raise ConfigError(f"the cache key does not have format {FORMAT}; create it again")
        return cls(**facts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkKey) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"ChunkKey({self.digest[:12]}…, {self.kind})"


@dataclass(frozen=True)
class KeyDifference:
    """One difference between two keys."""

    name: str
    """Dotted path: `preprocess.crop`; in a list, the first differing position: `pts[3]`."""
    first: Plain
    """Value in the first key; None also if it is missing there."""
    second: Plain


def differences(first: ChunkKey, second: ChunkKey) -> list[KeyDifference]:
    """Return the differences between two keys, by name; empty when they are equal."""
    return list(_differences("", json.loads(first.text), json.loads(second.text)))


def _differences(name: str, first: Any, second: Any) -> Iterator[KeyDifference]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted({*first, *second}):
            path, pair = f"{name}.{key}" if name else key, (first.get(key), second.get(key))
            if (key in first) != (key in second):
                yield KeyDifference(path, *pair)
            else:
                yield from _differences(path, *pair)
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for k, pair in enumerate(zip(first, second, strict=True)):
            if _differ(*pair):
                yield from _differences(f"{name}[{k}]", *pair)
                return
    elif _differ(first, second):
        yield KeyDifference(name, first, second)


def _differ(first: Any, second: Any) -> bool:
    """Return whether two values differ as text: 1, 1.0 and True are equal in Python."""
    return json.dumps(first, sort_keys=True) != json.dumps(second, sort_keys=True)


def _plain(value: Any, name: str) -> Plain:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an enumeration as its value
    if isinstance(value, Integral) and int(value).bit_length() <= _MAX_BITS:
        return int(value)
    if isinstance(value, float) and value - value == 0:
        return float(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str.__str__(key): _plain(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [_plain(inner, f"{name}[{k}]") for k, inner in enumerate(value)]
    raise ConfigError(
        f"{name} of a cache key must be text, a finite number of at most {_MAX_BITS} bits, a "
        "boolean, None, or a list or mapping of these with text as names, got "
        + (repr(value) if isinstance(value, float) else type(value).__name__)
    )


def _start_of(text: str | bytes) -> str:
    return ascii(text[:60]) + ("…" if len(text) > 60 else "")


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
