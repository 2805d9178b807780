"""Images with false headers take no memory, and are refused by name."""

import io
import resource

import pytest
from PIL import Image

from forked import in_a_fork
from headrace.decode.image_files import read_image, upright_size
from headrace.errors import MediaError


@pytest.fixture
def lying(tmp_path):
    """PNG with a chunk of pixels that claims 4 GB."""
    file = io.BytesIO()
    Image.new("RGB", (16, 12)).save(file, "PNG")
    content = bytearray(file.getvalue())
    at = content.index(b"IDAT")
    content[at - 4 : at] = (2**32 - 16).to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(content)
    return tmp_path / "a.png"


@pytest.mark.parametrize("read", [upright_size, read_image])
def test_false_chunk_length_is_damage(lying, read):
    def check():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        try:
            read(lying)
        except MediaError as error:
            return str(lying) in str(error)
        return read is upright_size  # the size is stored before

    assert in_a_fork(check)
