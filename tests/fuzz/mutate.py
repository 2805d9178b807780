"""Mutations of valid inputs, determined by the random generator.

JSON and JSON lines are changed as values, everything else as bytes.
"""

import json
from random import Random
from typing import Any

_INTEGERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 0.5, -1.5, 1e308, float("nan")),
    *("", "0", "1/0", "1e999999999", "nan", "\0", "/etc/hosts", "../../x", "a" * 5000, "\ud800"),
    *("{chunk_index:>9999999999}", "{episode_index.__class__}", [], {}, [[]], [0] * 300),
)
_DEPTH = 30_000
"""Nested brackets, too many for a recursive parser."""


def mutated(data: bytes, random: Random, head: int = 0) -> bytes:
    """Return a mutated copy of `data`; its first `head` bytes stay.

    A quarter of the mutations change bytes, even of JSON.
    """
    if head:
        return data[:head] + mutated(data[head:], random)
    if random.randrange(4) and (lines := _as_json(data)):
        number = random.randrange(len(lines))
        lines[number] = _mutated_value(lines[number], random)
        return b"\n".join(map(_as_bytes, lines))
    copy = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        _mutate_bytes(copy, random)
    return bytes(copy)


def _as_json(data: bytes) -> list[Any]:
    """Return the JSON value of a text, or of each line; empty: not JSON."""
    try:
        return [json.loads(data)]
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in data.splitlines()]
    except (ValueError, RecursionError):
        return []


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def _mutated_value(value: Any, random: Random) -> Any:
    """Return a value with one change; sometimes bytes of too deeply nested JSON."""
    if random.randrange(200) == 0:
        return b"[" * _DEPTH + b"]" * _DEPTH
    parent, key = {"": value}, ""
    root: Any = parent
    while isinstance(inner := parent[key], dict | list) and inner and random.randrange(5):
        parent = inner
        key = random.choice([*inner]) if isinstance(inner, dict) else random.randrange(len(inner))
    action = random.randrange(8)
    if action == 0 and parent is not root:
        del parent[key]
    elif action == 1 and isinstance(parent[key], int | float):
        parent[key] += random.choice((-1, 1, -1000, 1000, 10**9))
    elif action == 2 and isinstance(parent[key], str):
        text = bytearray(parent[key].encode(errors="replace"))
        _mutate_bytes(text, random)
        parent[key] = text.decode(errors="replace")
    elif action == 3 and isinstance(parent[key], list):
        parent[key] = parent[key] * random.choice((2, 7))
    else:
        parent[key] = random.choice(_VALUES)
    return root[""]


def _mutate_bytes(data: bytearray, random: Random) -> None:
    at, action = random.randrange(len(data) + 1), random.randrange(7)
    if action == 0:
        del data[at:]
    elif action == 1:
        del data[at : at + random.choice((1, 2, 4, 8, 64))]
    elif action == 2:
        data[at:at] = random.randbytes(random.choice((1, 2, 4, 8, 64)))
    elif action == 3:
        data[at:at] = data[at : at + random.randrange(200)]
    elif action == 4 and at < len(data):
        data[at] ^= 1 << random.randrange(8)
    elif action == 5 and at < len(data):
        data[at] = random.randrange(256)
    else:
        size = random.choice((1, 2, 4, 8))
        order = random.choice(("big", "little"))
        number = random.choice(_INTEGERS) & ((1 << 8 * size) - 1)
        data[at : at + size] = number.to_bytes(size, order)
