"""Parts of proxies: encoders, sizes, times for players, and quality."""

from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest

from headrace.errors import BackendError
from headrace.extraction.proxies.encoder import PlayTimes, ProxyFile, ProxyFormat, QualityMeter
from headrace.extraction.proxies.proxy_options import (
    ExactSize,
    ShorterSide,
    check_encoder,
    proxy_size,
)
from headrace.testing.synth import SynthClip, write_clip

BT601 = (5, 1)
"""Matrix and limited range, as FFmpeg's codes."""


def test_the_error_of_a_missing_encoder_lists_the_available_ones(monkeypatch):
    monkeypatch.setattr(av, "codecs_available", {"libx264", "mjpeg", "png"})
    check_encoder("h264")
    with pytest.raises(
        BackendError, match=r"no encoder for hevc \(libx265\); available codecs: h264, mjpeg;"
    ):
        check_encoder("hevc")


def test_encoding_is_deterministic(tmp_path):
    height, width = 64, 86
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=25, gop=10, b_frames=2))
    with av.open(str(clip)) as container:
        small = [f.reformat(width, height, "yuv420p").to_ndarray() for f in container.decode()]
    shape = {"size": (height, width), "pixel_aspect": Fraction(1)}
    proxy_format = ProxyFormat(**shape, codec="h264", gop=8, color=BT601)
    times = PlayTimes(ticks_per_second=25, pts=np.arange(25), duration=np.ones(25, np.int64))
    contents = set()
    for _ in range(60):
        with ProxyFile(tmp_path / "a.mp4", proxy_format, times) as file:
            for planes in small:
                file.write(np.append(planes, np.uint8(BT601)))
            file.finish()
        contents.add((tmp_path / "a.mp4").read_bytes())
    assert len(contents) == 1


SIZES = [
    ("256", (720, 1280), (256, 456)),
    ("256", (1280, 720), (456, 256)),
    ("256", (480, 640), (256, 342)),
    ("256", (200, 300), (200, 300)),
    ("256", (75, 53), (74, 52)),
    ("480", (480, 853), (480, 852)),
    ("256", (1, 9), (2, 8)),
    ("256x256", (720, 1280), (256, 256)),
    (" 64×48 ", (10, 10), (64, 48)),
]


@pytest.mark.parametrize(("text", "upright", "size"), SIZES)
def test_sides_are_even_and_the_shorter_one_is_as_requested(text, upright, size):
    assert proxy_size(text).of(upright) == size


@pytest.mark.parametrize("size", [ShorterSide(256), ExactSize(256, 456)])
def test_a_size_survives_as_text(size):
    assert proxy_size(str(size)) == size


BILLION = 10**9
TIMES = [
    ((5, 7, 10, 11), "1/1000", 1000, (5, 7, 10, 11)),
    ((0, 1, 2, 3), "1001/30000", 30000, (0, 1001, 2002, 3003)),
    ((-9, -5, 0, 1), "1/90000", 90000, (0, 4, 9, 10)),
    ((0, 0, 0, 5), "1/25", 25, (0, 1, 2, 7)),
    ((0, 1 << 40, 1 << 41, 1 << 41), "1/10", 10, (0, (1 << 31) - 1, (1 << 32) - 2, 2**32 - 1)),
    ([k * BILLION for k in range(4)], "1/10000000000", 10**6, tuple(k * 10**5 for k in range(4))),
]


@pytest.mark.parametrize(("pts", "time_base", "ticks", "expected"), TIMES)
def test_times_ascend_from_0_and_equal_the_original_s_if_possible(
    scanned, pts, time_base, ticks, expected
):
    index = scanned(SynthClip(num_frames=4))
    pts, info = np.array(pts, np.int64), replace(index.info, time_base=Fraction(time_base))
    timed = replace(index, pts=pts, duration=np.append(np.diff(pts), 1), info=info)
    times = PlayTimes.of(timed)
    assert (times.ticks_per_second, tuple(times.pts.tolist())) == (ticks, expected)
    assert times.duration.min() >= 1


SIZE = (32, 48)


def quality_of(*pairs):
    """Return the quality of pairs of frames, each given by its luma."""
    meter = QualityMeter(SIZE, "yuv420p")
    for pair in pairs:
        planes = np.full((2, SIZE[0] * 3 // 2, SIZE[1]), 128, np.uint8)
        for plane, luma in zip(planes, pair, strict=True):
            plane[: SIZE[0]] = luma
        frames = (av.VideoFrame.from_ndarray(plane, format="yuv420p") for plane in planes)
        meter.compare(*frames)
    meter.finish()
    return meter


def test_psnr_is_computed_from_the_mean_error_and_from_the_worst_frame():
    errors = np.array([0, 4, 16])
    assert quality_of((100, 100), (100, 102), (100, 104)).psnr == {
        "mean": pytest.approx(10 * np.log10(255**2 / errors.mean()), abs=1e-3),
        "worst": pytest.approx(10 * np.log10(255**2 / errors.max()), abs=1e-3),
    }


def test_equal_frames_have_psnr_100_and_ssim_1_and_ssim_falls_with_lost_structure():
    equal = quality_of((100, 100))
    assert (equal.psnr, equal.ssim) == ({"mean": 100, "worst": 100}, {"mean": 1, "worst": 1})
    steps = np.tile(np.arange(SIZE[1], dtype=np.uint8) % 8 * 30, (SIZE[0], 1))
    ssim = quality_of((steps, steps), (steps, 105)).ssim
    assert ssim["worst"] < 0.1
    assert ssim["mean"] == pytest.approx((1 + ssim["worst"]) / 2, abs=1e-4)
