"""Frames side by side in one picture."""

import numpy as np
import pytest
from PIL import Image

from headrace.errors import ConfigError
from headrace.report.pictures import write_side_by_side


def test_frames_stand_side_by_side_above_their_captions(tmp_path):
    red, blue = (np.full((40, 60, 3), colour, np.uint8) for colour in ((255, 0, 0), (0, 0, 255)))
    write_side_by_side(tmp_path / "two.png", [(red, "first"), (blue, "last")])
    with Image.open(tmp_path / "two.png") as picture:
        assert picture.size == (128, 64)
        assert picture.getpixel((30, 20)) == (255, 0, 0)
        assert picture.getpixel((98, 20)) == (0, 0, 255)
        assert picture.crop((0, 40, 60, 64)).getcolors() != [(60 * 24, (255, 255, 255))]


@pytest.mark.parametrize("name", ["no/such/folder.png", "picture.xyz", "picture"])
def test_a_picture_that_cannot_be_written_is_refused(tmp_path, name):
    frame = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ConfigError, match=r"cannot write the picture .* ends in \.png"):
        write_side_by_side(tmp_path / name, [(frame, "")])
