"""Invalid requests raise the errors of a page."""

import io
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import headrace
from decode.backends import WHY_NOT
from decode.pictures_made import made_frame, semiplanar
from decode.pynvvideocodec_played import plays
from headrace.decode import converter, protocol
from headrace.decode import decoder_config as decoding
from headrace.decode import image_files as pictures
from headrace.decode import open_decoder as open
from headrace.decode import torchcodec_decoder as mappings
from headrace.decode.capabilities import Capabilities
from headrace.decode.gpu import tensor_converter as tensor_convert
from headrace.video import frame_format as shape
from headrace.video.stream_index import StreamIndex
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message
from tests.kit.synth_recipes import write_recipe

MODULES = (converter, decoding, mappings, open, pictures, protocol, shape, tensor_convert)
ON_GPU = decoding.DecoderConfig(device="cuda:0")
LIBRARY = decoding.DecoderConfig(backend="pynvvideocodec", device="cuda:0")
TORCHCODEC = decoding.DecoderConfig(backend="torchcodec")
AUTO = decoding.DecoderConfig(device="auto", keeps_on_device=True)
KEPT, KEPT_ON_GPU = (replace(AUTO, device=device) for device in ("cpu", "cuda:0"))
MORE = {"Capabilities": Capabilities, "io": io, "np": np, "semiplanar": semiplanar, "torch": torch}


@pytest.fixture
def names(written, scanned, tmp_path, monkeypatch):
    """Names for the calls of the page, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names = names_in(*MODULES, **globals()) | MORE
    names |= {name: getattr(headrace, name) for name in headrace.__all__}
    return names | {
        "by_library": lambda index: (plays(monkeypatch), open.open_decoder(index, None, LIBRARY)),
        "clip": written,
        "frame": made_frame,
        "index": scanned,
        "changed": lambda index, **info: replace(index, info=replace(index.info, **info)),
        "open": headrace.open,
        "path": Path,
        "recipe": lambda name: StreamIndex.scan(write_recipe(name, tmp_path)),
    }


def closed(path):
    """Return a closed file."""
    with path.open("rb") as file:
        return file


def file(name, content):
    """Write a file and return its path."""
    Path(name).write_bytes(content)
    return Path(name)


def picture(name, **options):
    """Write an image and return its path."""
    Image.new("RGB", (40, 30), (255, 0, 0)).save(name, **options)
    return Path(name)


def read(index, *wanted, shape=None, decoding=None, out=None, **job):
    """Return frames of a new decoder."""
    with closing(open.open_decoder(index, shape, decoding)) as decoder:
        return list(decoder.run(protocol.DecodeJob(wanted, **job), out))


def video(use, path, **options):
    """Return the result of `use` on an open video."""
    with headrace.open(path, **options) as reader:
        return use(reader)


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_invalid_requests_are_refused(names, call, message):
    if "TORCHCODEC" in call and WHY_NOT["torchcodec"]:
        pytest.skip(WHY_NOT["torchcodec"])
    check_message(call, message, names)
