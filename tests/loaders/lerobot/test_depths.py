"""Depth videos: the codes as they were written, in the unit requested, beside pictures."""

import numpy as np
import pytest
import torch

from decode.backends import needs_torchcodec
from headrace import BackendError, ConfigError, DecoderConfig
from loaders.lerobot.drawn import CAMERAS, Drawn, codes_of, number_of
from loaders.videos import contents, resumed, samples

TOP, DEPTH = CAMERAS
SIZES = [(48, 64), (36, 48), (64, 96), (48, 64)]
"""Those of the pictures, smaller and larger ones."""
KEPT = {
    "by default": {},
    "by logarithm": {"video.depth_min": 0.5, "video.depth_max": 4.0, "video.shift": 1.5},
    "evenly": {"video.use_log": False, "video.depth_min": 0.0, "video.depth_max": 2.0},
    "of old": {"is_depth_map": False, "video.is_depth_map": True},
}


HALF = 0.5001
"""Rounding to a millimetre."""


def assert_near(depths, expected, error=HALF):
    np.testing.assert_allclose(depths.numpy(), expected, rtol=2e-6, atol=error)


def metres_of(codes, kept):
    """Return the depths of codes by the definition of LeRobot, float64."""
    low, high = kept.get("video.depth_min", 0.01), kept.get("video.depth_max", 10.0)
    part, shift = codes / 4095, kept.get("video.shift", 3.5)
    if not kept.get("video.use_log", True):
        return low + part * (high - low)
    first, last = np.log(low + shift), np.log(high + shift)
    return np.exp(first + part * (last - first)) - shift


@pytest.fixture
def drawn_with(folder_of):
    """Return `drawn_with(size, kept)`: a dataset whose second camera shows depths."""

    def made(size=(48, 64), kept=None):
        sizes = {TOP: (48, 64), DEPTH: size}
        return folder_of(Drawn(lengths=(5, 4), sizes=sizes, depths={DEPTH: kept or {}}))

    return made


def codes_of_items(size, deltas=(0,)):
    """Return the codes of the items of all 9 rows, [9, T, 1, H, W]."""
    rows = [(0, f, 5) for f in range(5)] + [(1, f, 4) for f in range(4)]
    return np.stack(
        [
            [codes_of(number_of(1, e, min(max(f + d, 0), stop - 1)), size)[None] for d in deltas]
            for e, f, stop in rows
        ]
    )


@pytest.mark.parametrize(("kept", "size"), [*zip(KEPT.values(), SIZES, strict=True)], ids=KEPT)
def test_depths_are_those_that_were_written(lerobot, frames_of, drawn_with, size, kept):
    folder = drawn_with(size, kept)
    expected = metres_of(codes_of_items(size)[:, 0], kept)
    for unit, scale, error in (("mm", 1000, HALF), ("m", 1, 2e-6)):
        loader = lerobot(folder, depth_output_unit=unit)
        depths = torch.cat([batch[DEPTH] for batch in loader])
        assert (depths.dtype, depths.shape) == (torch.float32, (9, 1, *size))
        assert_near(depths, expected * scale, error)
        if unit == "mm":
            assert torch.equal(depths, depths.round())
        items = frames_of(folder, {"depth_output_unit": unit}).__getitems__(range(9))
        assert torch.equal(torch.stack([item[DEPTH] for item in items]), depths)


def test_pictures_beside_depths_are_those_without(lerobot, folder_of, drawn_with):
    plain = folder_of(Drawn(lengths=(5, 4), sizes={TOP: (48, 64), DEPTH: (64, 96)}))
    for batch, other in zip(lerobot(drawn_with((64, 96))), lerobot(plain), strict=True):
        assert [*batch] == [*other]
        assert torch.equal(batch[TOP], other[TOP])


@pytest.mark.parametrize(
    "plan", [{"hold": "packed"}, {"lookahead": 1}, {"size": (32, 40)}], ids=str
)
def test_windows_of_depths_are_the_same_by_any_plan(lerobot, drawn_with, plan):
    folder, deltas = drawn_with((36, 48)), (-2, 0, 1)
    given = {"delta_timestamps": {DEPTH: [d / 10 for d in deltas]}, "sampling": None, "seed": 4}
    whole = dict(samples(lerobot(folder, **given), "index", DEPTH))
    expected = metres_of(codes_of_items((36, 48), deltas), {})
    for index, depths in whole.items():
        assert_near(depths, expected[index] * 1000)
    for index, depths in samples(lerobot(folder, **given, **plan), "index", DEPTH):
        assert torch.equal(depths, whole[index])


def test_depths_alone_are_read(lerobot, folder_of):
    drawn = Drawn(lengths=(2, 1), sizes={DEPTH: (48, 64)}, depths={DEPTH: {}})
    [batch] = lerobot(folder_of(drawn))
    codes = np.stack([codes_of(number_of(0, *row), (48, 64))[None] for row in drawn.rows])
    assert_near(batch[DEPTH], metres_of(codes, {}) * 1000)


def test_depths_are_given_to_no_transform(lerobot, frames_of, drawn_with):
    folder = drawn_with()
    given = {"image_transforms": lambda pictures: pictures * 0}
    plain, changed = (next(iter(lerobot(folder, **options))) for options in ({}, given))
    assert torch.equal(plain[DEPTH], changed[DEPTH])
    assert not changed[TOP].any()
    item = frames_of(folder, given)[0]
    assert torch.equal(item[DEPTH], plain[DEPTH][0])
    assert not item[TOP].any()


@pytest.mark.parametrize(
    ("recorded", "unit", "factor"),
    [("m", "mm", 1000), ("mm", "m", 1 / 1000), ("mm", "mm", 1), (None, "m", 1)],
)
def test_statistics_are_in_the_unit_requested(lerobot, drawn_with, recorded, unit, factor):
    kept = {"depth_unit": recorded} if recorded else {}
    loader = lerobot(drawn_with(kept=kept), depth_output_unit=unit)
    stored, stats = loader._windows.folder.stats[DEPTH], loader.stats[DEPTH]
    assert stats["count"] == stored["count"]
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(stats[name], stored[name] * factor)


def test_options_that_depths_exclude_are_refused(lerobot, drawn_with, tmp_path):
    for options, words in (
        ({"spill": tmp_path / "spill"}, "depth frames or different sizes"),
        ({"hold": "yuv420"}, "hold='yuv420'"),
        ({"depth_output_unit": "cm"}, "depth_output_unit"),
    ):
        with pytest.raises(ConfigError, match=words):
            lerobot(drawn_with(), **options)


@needs_torchcodec
def test_torchcodec_decodes_no_depths(lerobot, drawn_with):
    with pytest.raises(BackendError, match="dtype must be uint8, got uint16"):
        lerobot(drawn_with(), decoding=DecoderConfig(backend="torchcodec"))


@pytest.mark.parametrize(
    "kept", [{"video.depth_min": -4.0, "video.shift": 1.0}, {"depth_unit": "cm"}], ids=str
)
def test_depths_without_a_logarithm_or_a_known_unit_are_refused(lerobot, drawn_with, kept):
    folder = drawn_with(kept=kept)
    with pytest.raises(ConfigError, match=r"metadata of .* is not as LeRobot writes it"):
        lerobot(folder)


def test_a_loader_of_depths_goes_on_from_its_state(lerobot, drawn_with):
    options = {"root": drawn_with((36, 48)), "sampling": None, "seed": 9}
    begun, after, whole = (lerobot(**options) for _ in range(3))
    assert contents(resumed(begun, after, 1)) == contents(whole)
