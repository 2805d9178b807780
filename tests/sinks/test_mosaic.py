"""The pictures of all sources in one."""

import numpy as np
import pytest

from headrace.sinks.caption import Caption
from headrace.sinks.mosaic import Tile, mosaic

CAPTION = Caption("street sign", "93%   #7")


def tile(height: int, width: int, *, age_seconds: float = 0.0) -> Tile:
    frame = np.full((height, width, 3), 96, np.uint8)
    return Tile(frame=frame, caption=CAPTION, name="door", age_seconds=age_seconds)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(36, 64)], (36, 64)),
        ([(1080, 1920)], (540, 960)),
        ([(1920, 1080)], (960, 540)),
        ([(720, 1280)] * 2, (360, 1280)),
        ([(720, 1280)] * 3, (720, 1280)),
        ([(720, 1280)] * 5, (480, 1281)),
        ([(36, 64), (720, 1280)], (360, 1280)),
    ],
)
def test_all_sources_stand_side_by_side(sizes, expected):
    assert mosaic([tile(*each) for each in sizes]).size == expected[::-1]


def test_an_old_tile_beside_others_says_so():
    fresh, same, old = (
        mosaic([tile(360, 640), tile(360, 640, age_seconds=age)]).tobytes()
        for age in (0.5, 1.5, 12)
    )
    assert fresh == same != old
