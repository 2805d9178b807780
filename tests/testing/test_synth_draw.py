"""Files drawn at random can be written, are the same each time, and cover what there is."""

from collections import Counter
from pathlib import Path
from random import Random

import av
import pytest

from headrace.testing.synth_codecs import PIXEL_FORMATS
from headrace.testing.synth_containers import CODECS_IN
from headrace.testing.synth_draw import Draw, draw_clip, write_draw
from headrace.testing.synth_draw_clip import draw_synth_clip

SEEDS = range(40)


def draws(count: int) -> list[Draw]:
    return [draw_clip(Random(seed)) for seed in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_draw_is_written_as_a_file_that_opens(seed: int, tmp_path: Path) -> None:
    draw = draw_clip(Random(seed))
    path = write_draw(tmp_path / "drawn", draw)
    assert path == tmp_path / f"drawn.{draw.clip.container}"
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        assert context.codec.canonical_name == draw.clip.codec.replace("h263p", "h263")


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_the_same_draw_is_the_same_file(seed: int, tmp_path: Path) -> None:
    draw = draw_clip(Random(seed))
    first, second = (write_draw(tmp_path / name, draw) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_a_draw_follows_from_the_seed() -> None:
    assert draws(20) == draws(20)
    assert len({draw.name for draw in draws(200)}) == 200


def test_a_name_holds_neither_spaces_nor_slashes() -> None:
    assert not any(set(" /") & set(draw.name) for draw in draws(500))


def test_a_name_says_what_happens_to_the_clip() -> None:
    clip = draw_synth_clip(Random(0))
    draw = Draw(clip=clip, rewrite="held_times", start_ordinal=7, flipped_ordinals=(3, 9))
    assert draw.name.endswith("-held_times-cut7-flipped3,9")
    assert draw.is_damaged


def test_draws_cover_codecs_containers_and_structures() -> None:
    drawn = draws(3000)
    clips = [draw.clip for draw in drawn]
    assert {clip.codec for clip in clips} >= {"h264", "hevc", "mpeg2video", "av1", "svq1", "rv10"}
    assert {clip.container for clip in clips} == set(CODECS_IN) - {"dv"}
    assert {clip.structure for clip in clips} == {
        *(None, "b_pyramid", "intra_refresh", "hidden_packets", "interlaced")
    }
    assert {clip.b_frames for clip in clips} >= {0, 1, 2, 3, 4, 8}
    assert {draw.rewrite for draw in drawn} == {
        *(None, "held_times", "missing_times", "every_sample_sync", "show_existing", "intra_only")
    }
    shares = Counter(
        {
            "cut": sum(draw.start_ordinal > 0 for draw in drawn),
            "damaged": sum(draw.is_damaged for draw in drawn),
            "two sizes": sum(draw.second_size is not None for draw in drawn),
            "open": sum(clip.open_gop for clip in clips),
            "late": sum(clip.timing.start_seconds > 0 for clip in clips),
            "uneven": sum(bool(clip.timing.durations_seconds) for clip in clips),
        }
    )
    assert min(shares.values()) > 30


def test_every_codec_of_a_container_has_a_pixel_format() -> None:
    needs_none = "yuv420p"
    for codecs in CODECS_IN.values():
        assert all(PIXEL_FORMATS.get(codec, (needs_none,)) for codec in codecs)
