"""The Y'CbCr of known colours, against the figures of the standards."""

from typing import Literal

import numpy as np
import pytest

from headrace.testing.synth_colour import Colour, tags_of, to_ycbcr

Matrix = Literal["bt601", "bt709", "bt2020"]


@pytest.mark.parametrize(
    ("matrix", "full_range", "rgb", "expected"),
    [
        ("bt601", False, (255, 255, 255), (235, 128, 128)),
        ("bt601", False, (0, 0, 0), (16, 128, 128)),
        ("bt601", False, (255, 0, 0), (81, 90, 240)),
        ("bt601", False, (0, 255, 0), (145, 54, 34)),
        ("bt601", False, (0, 0, 255), (41, 240, 110)),
        ("bt709", False, (255, 0, 0), (63, 102, 240)),
        ("bt709", False, (0, 255, 0), (173, 42, 26)),
        ("bt709", False, (0, 0, 255), (32, 240, 118)),
        ("bt709", True, (255, 255, 255), (255, 128, 128)),
        ("bt709", True, (0, 0, 0), (0, 128, 128)),
        ("bt709", True, (0, 255, 0), (182, 30, 12)),
        ("bt2020", False, (255, 0, 0), (74, 97, 240)),
        ("bt2020", False, (0, 0, 255), (29, 240, 119)),
    ],
)
def test_colours_have_the_levels_of_the_standard(
    matrix: Matrix, full_range: bool, rgb: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    picture = np.full((2, 4, 3), rgb, np.uint8)
    planes = to_ycbcr(picture, Colour(matrix=matrix, full_range=full_range))
    assert planes.shape == (3, 2, 4)
    assert tuple(planes[:, 0, 0]) == expected


def test_tags_are_the_code_points_of_h273() -> None:
    assert tags_of(Colour(matrix="bt601")) == (6, 6, 6, 1)
    assert tags_of(Colour(matrix="bt709", full_range=True)) == (1, 1, 1, 2)
    assert tags_of(Colour(matrix="bt2020")) == (9, 9, 14, 1)
