"""Cache key: the inputs of a result, as a value."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final

from headrace.errors import ConfigError

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
