"""Pixels of a proxy are its original's, whatever the original is stored as."""

from contextlib import closing
from fractions import Fraction

import av
import numpy as np
import pytest

from extraction.proxies.proxying import make, plain_frames
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.decode.proxy_rows import read_rows
from headrace.testing.synth import KINDS, read_bars, read_number, write_clip
from headrace.video.shape import FrameShape
from tests.kit.synth_recipes import write_recipe

STORED = [
    *("h264_one_frame", "h264_long_gop", "vp9_hidden", "mpeg4_open_gop", "ffv1", "vfr_mkv"),
    *("preroll", "ts_negative_start", "annex_b", "rotated_90", "mirrored_and_rotated"),
    *("odd_size", "odd_size_444", "hevc_10_bit", "bt601", "bt709", "bt709_full", "bt2020"),
]
_GREY_LEVELS = 3.0


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    return [write_clip(folder / name, KINDS[name]) for name in STORED]


@pytest.fixture(scope="module", params=["h264", "mjpeg"])
def proxies(request, originals, store, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param) / "out"
    assert make(originals, out, store, size="96", codec=request.param, on_error="raise").is_all
    return {row.name: (row, out / row.proxy) for row in read_rows(out)}


def rgb(path):
    return [frame.to_ndarray(format="rgb24") for frame in plain_frames(path)]


@pytest.mark.parametrize("name", STORED)
def test_every_frame_is_that_of_the_original(proxies, name):
    row, path = proxies[name]
    assert [read_number(frame) for frame in rgb(path)] == list(range(row.frames))


@pytest.mark.parametrize("name", [name for name in STORED if KINDS[name].look.bars])
def test_colours_come_back_within_three_grey_levels(proxies, store, name):
    row, path = proxies[name]
    with closing(
        open_decoder(row.path, FrameShape(size=(row.height, row.width)), store=IndexStore(store))
    ) as decoder:
        [(_, original)] = decoder.run(DecodeJob((0,), goes_on=False))
    assert np.abs(read_bars(rgb(path)[0]) - read_bars(original)).max() <= _GREY_LEVELS


def test_sizes_are_even_upright_and_not_larger_than_the_original(proxies):
    sizes = {name: (row.height, row.width) for name, (row, _) in proxies.items()}
    assert sizes["odd_size"] == (74, 52)
    assert sizes["rotated_90"] == (96, 128)
    assert sizes["h264_long_gop"] == (64, 96)


def test_players_are_told_of_pixels_that_are_not_square_and_decoders_are_not(
    originals, store, tmp_path
):
    """So decoders may still be shared."""
    wide, tall = (originals[STORED.index(name)] for name in ("h264_one_frame", "odd_size"))
    make([wide, tall], tmp_path / "out", store, size="64x64")
    told = set()
    for row, aspect in zip(
        read_rows(tmp_path / "out"), (Fraction(4, 3), Fraction(53, 75)), strict=True
    ):
        with av.open(str(tmp_path / "out" / row.proxy)) as container:
            stream = container.streams.video[0]
            assert (stream.height, stream.width) == (64, 64)
            assert stream.sample_aspect_ratio == aspect
            told.add(stream.codec_context.extradata)
    assert len(told) == 1


@pytest.mark.parametrize("recipe", ["h264_two_sizes_mkv", "mjpeg_two_sizes_avi"])
def test_frames_that_change_their_size_come_in_that_of_the_proxy(recipe, store, tmp_path):
    path = write_recipe(recipe, tmp_path)
    assert make([path], tmp_path / "out", store, size="64").is_all
    [row] = read_rows(tmp_path / "out")
    frames = rgb(tmp_path / "out" / row.proxy)
    assert {frame.shape for frame in frames} == {(row.height, row.width, 3)}
    # Two clips, one behind the other; each counts from 0.
    assert [read_number(frame) for frame in frames] == [*range(60), *range(row.frames - 60)]
