"""Frame barcode: a frame's number as dark and light blocks in its upper five eighths.

Five rows of six blocks: a guard row (three light, three dark), then sixteen bits of the number and
eight bits of a CRC, light for one.
"""

from itertools import pairwise
from typing import Final

NUMBERS: Final = 1 << 16
"""Number of different barcodes: numbers from 0 up to this."""

MIN_SIDE: Final = 32
"""Smallest height and width, in pixels, at which a number survives compression."""

DARK: Final = 40
LIGHT: Final = 215
"""Levels of the blocks of 0 and 1."""

COLUMNS: Final = 6
_ROWS: Final = 5
_GUARD = (1, 1, 1, 0, 0, 0)
_CRC8_POLYNOMIAL = 0x07


def blocks_of(number: int) -> tuple[int, ...]:
    """Return 1 for a light block, 0 for a dark one, row by row; the number modulo `NUMBERS`."""
    payload = (number % NUMBERS).to_bytes(2, "big")
    word = int.from_bytes(payload + bytes([_crc8(payload)]), "big")
    return _GUARD + tuple(word >> bit & 1 for bit in reversed(range(24)))


def grid_of(size: tuple[int, ...]) -> list[tuple[slice, slice]]:
    """Return rows and columns of each block in a frame of (height, width), row by row."""
    height, width = size
    rows = edges_of(code_height(height), _ROWS)
    return [(row, column) for row in rows for column in edges_of(width, COLUMNS)]


def code_height(height: int) -> int:
    """Return the height of the barcode in a frame."""
    return height * 5 // 8


def edges_of(length: int, parts: int) -> list[slice]:
    """Return the slices that cut `length` pixels into parts of equal length, rounded."""
    edges = [round(length * part / parts) for part in range(parts + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _crc8(payload: bytes) -> int:
    """Return the CRC-8 of 16 bits; any one, two or three wrong bits of the 24 are detected."""
    remainder = 0xFF
    for byte in payload:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder << 1 ^ (_CRC8_POLYNOMIAL if remainder & 0x80 else 0)
            remainder &= 0xFF
    return remainder
