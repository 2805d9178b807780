"""Frames are exact: after any seek, and with any flags of keyframes."""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from av.codec import Codec
from av.video.frame import PictureType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decode.linear import linear_frames, linear_in_two
from headrace import Crop, DecodeJob, FrameFormat, StreamIndex
from headrace.decode.pyav import PyavDecoder
from headrace.decode.seek_check import check_parity
from headrace.testing import damage
from headrace.testing.synth import KINDS, Look, SynthClip, read_number
from headrace.testing.synth_containers import CODECS_IN, PIXEL_FORMATS
from headrace.testing.synth_encoders import can_encode
from headrace.video import nal
from headrace.video.content_digest import digest_of
from headrace.video.random_access import KEYFRAME_RULES, RandomAccess, classify_keyframe
from media import real_clips
from tests.kit.rewrite_streams import strip_index
from tests.kit.synth_draw_clip import FIXED_SIZES

FULL = FrameFormat()


SMALL = FrameFormat(size=(32, 48), crop=Crop(top=2, left=4, height=40, width=46))


@pytest.fixture(scope="module")
def linear():
    """Function: clip and format -> index and every frame of a linear decode."""
    shapes: dict[tuple[Path, FrameFormat], tuple[StreamIndex, list]] = {}

    def read(path: Path, shape: FrameFormat = FULL) -> tuple[StreamIndex, list]:
        if (path, shape) not in shapes:
            shapes[path, shape] = StreamIndex.scan(path), linear_frames(path, shape)
        return shapes[path, shape]

    return read


def differing(index, expected, shape, jobs, *, goes_on=True) -> list[int]:
    """Run jobs on one decoder; return the indices of wrong, missing or unordered frames."""
    wrong: list[int] = []
    with closing(PyavDecoder(index, shape)) as decoder:
        for wanted in jobs:
            got = list(decoder.run(DecodeJob(tuple(wanted), goes_on=goes_on)))
            wrong += [n for n, frame in got if not np.array_equal(frame, expected[n])]
            if [n for n, _ in got] != list(wanted):
                wrong += wanted
    return wrong


def scattered(index, count: int) -> list[list[int]]:
    """Jobs of one frame each, in random order."""
    return [[k] for k in random.Random(0).sample(range(len(index)), min(count, len(index)))]


@pytest.mark.parametrize("kind", KINDS)
def test_every_synthetic_frame_equals_linear_decode_and_carries_its_number(written, linear, kind):
    """In random order, in one job, and by last jobs."""
    index, expected = linear(written(kind))
    assert [read_number(frame) for frame in expected] == list(range(KINDS[kind].num_frames))
    assert len(index) == len(expected)
    everything = range(len(index))
    assert differing(index, expected, FULL, scattered(index, 60)) == []
    assert differing(index, expected, FULL, [everything]) == []
    jobs = [*scattered(index, 16), everything, *scattered(index, 4)]
    assert differing(index, expected, FULL, jobs, goes_on=False) == []


@pytest.mark.parametrize("kind", KINDS)
def test_frames_shaped_while_converting_equal_linear_decode(written, linear, kind):
    index, expected = linear(written(kind), SMALL)
    assert differing(index, expected, SMALL, scattered(index, 16)) == []


@pytest.mark.parametrize("samples", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", real_clips())
def test_every_real_frame_equals_linear_decode(path, samples):
    """All in one job, then some at random; and single frames at full size.

    The more GOPs, the more frames: each costs a decode of half a GOP.
    """
    index, shape = StreamIndex.scan(path), FrameFormat(size=(96, 96))
    count = samples * (2 + index.num_gops // 2)
    single, several = scattered(index, count), scattered(index, 2 * count)
    expected, whole = linear_in_two(path, shape, {frame for [frame] in single})
    assert len(index) == len(expected)
    assert differing(index, expected, shape, [range(len(index)), *several]) == []
    assert differing(index, whole, FULL, single, goes_on=False) == []


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_sequence_of_jobs_equals_linear_decode(written, linear, data):
    """Jobs in any order on one decoder, with and without seeks."""
    index, expected = linear(written(data.draw(st.sampled_from(sorted(KINDS)))))
    frame = st.integers(0, len(index) - 1)
    jobs = data.draw(st.lists(st.sets(frame, min_size=1, max_size=8), min_size=1, max_size=6))
    assert differing(index, expected, FULL, [sorted(job) for job in jobs]) == []


class OffByOne(PyavDecoder):
    """Delivers the neighbour of every single requested frame."""

    def run(self, job: DecodeJob, out=None) -> Iterator[tuple[int, np.ndarray]]:
        if len(job.wanted) > 1:
            yield from super().run(job, out)
        else:
            [wanted] = job.wanted
            other = min(wanted + 1, len(self.index) - 1)
            yield from ((wanted, f) for _, f in super().run(DecodeJob((other,)), out))


def test_seek_check_detects_neighbouring_frames(written):
    found = check_parity(written("h264_b_frames"), num_frames=9, open_one=OffByOne)
    assert len(found.mismatches) >= found.compared - 1 > 5


def test_undecodable_frames_are_listed_separately(written, tmp_path):
    bad = damage.damage_packets(written(SynthClip()), tmp_path / "bad.mp4", ordinals=[24])
    found = check_parity(bad, num_frames=200)
    assert found.mismatches == ()
    assert set(found.undecodable) >= set(range(24, 36))


@pytest.mark.parametrize("b_frames", [0, 2])
def test_frames_are_equal_after_a_clock_restart(b_frames, written, tmp_path):
    part = written(SynthClip(container="ts", b_frames=b_frames))
    found = check_parity(damage.concatenate([part] * 3, tmp_path / "joined.ts"), num_frames=400)
    assert (found.backend, found.frames, found.compared) == ("pyav", 144, 144)
    assert (found.mismatches, found.undecodable, found.refused) == ((), (), ())


FRAMES = 26


UNMARKED = (
    *("apng", "cfhd", "cinepak", "flashsv", "flashsv2", "gif", "msrle", "msvideo1", "qtrle", "roq"),
    *("rpza", "smc", "svq1"),
)
"""Codecs that are not intra-only, have an encoder, and are unverified."""


PALETTES = SynthClip(
    codec="msrle", container="avi", look=Look(pixel_format="pal8", palette_turns=True)
)


def clips(*codecs: str) -> list[SynthClip]:
    """Return a clip of each codec in each of its pixel formats, in AVI if possible."""
    found = [
        SynthClip(
            codec=codec,
            container=next(each for each in ("avi", *CODECS_IN) if codec in CODECS_IN[each]),
            num_frames=FRAMES,
            size=FIXED_SIZES.get(codec, (96, 128)),
            gop=6,
            look=Look(pixel_format=pixel_format),
        )
        for codec in codecs
        for pixel_format in PIXEL_FORMATS.get(codec, ("yuv420p",))
    ]
    return [clip for clip in found if can_encode(clip)]


def name(clip: SynthClip) -> str:
    return f"{clip.codec}-{clip.container}-{clip.look.pixel_format}"


def decoded(path: Path, start: int, *, lies: bool) -> dict[int, tuple[int, bool]]:
    """Return packet -> (digest, keyframe flag) of the frames decoded from packet `start` on."""
    found = {}
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        context.thread_count, context.copy_opaque = 1, True
        for packet_index, packet in enumerate(container.demux(stream)):
            if packet.size and packet_index < start:
                continue
            if packet.size:
                packet.opaque = (packet_index,)
                packet.is_keyframe |= lies
            try:
                frames = context.decode(packet if packet.size else None)
            except av.error.InvalidDataError:
                continue  # it refuses to start here
            for frame in frames:
                is_marked = frame.key_frame and frame.pict_type == PictureType.I
                at = frame.opaque[0] if isinstance(frame.opaque, tuple) else packet_index
                found[at] = digest_of(frame), is_marked
    return found


@pytest.mark.parametrize("clip", clips(*KEYFRAME_RULES), ids=name)
@pytest.mark.parametrize("lies", [False, True])
def test_decoding_from_each_trusted_keyframe_equals_linear_decode(clip, lies, written):
    """For any keyframe flags of the container: with `lies` all packets are flagged."""
    path = written(clip)
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        codec = context.codec.canonical_name
        length = nal.length_size(codec, context.extradata)
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    whole = decoded(path, 0, lies=lies)
    entries = 0
    for start, packet in enumerate(packets):
        found = classify_keyframe(codec, memoryview(packet), length, is_intra_only=False)
        from_here = decoded(path, start, lies=lies) if found else {}
        _, is_marked = from_here.get(start, (0, False))
        if found and (found == RandomAccess.GUARANTEED or is_marked):
            entries += 1
            assert from_here == {at: frame for at, frame in whole.items() if at >= start}
    # FFmpeg 7 flags no keyframe of H.261, so no entry is trusted.
    is_blind = codec == "h261" and av.library_versions["libavcodec"] < (62,)
    assert entries >= (0 if is_blind else 2)


def test_every_trusted_codec_with_an_encoder_is_tested():
    shown = {clip.codec for clip in clips(*KEYFRAME_RULES)}
    assert set(KEYFRAME_RULES) - shown <= {"theora"}, "theora needs the ffmpeg of the system"


def test_codecs_are_guaranteed_or_unverified():
    codecs = []
    for each in sorted(av.codecs_available):
        try:
            codecs.append(Codec(each, "r"))
        except av.codec.codec.UnknownCodecError:
            continue
    videos = {c.canonical_name: c for c in codecs if c.type == "video"}

    def believed(codec: str) -> RandomAccess:
        is_intra_only = bool(videos[codec].intra_only)
        return classify_keyframe(codec, memoryview(b""), 0, is_intra_only=is_intra_only)

    found = {codec: believed(codec) for codec in videos if codec not in KEYFRAME_RULES}
    checked = {codec for codec, how_far in found.items() if how_far == RandomAccess.UNVERIFIED}
    between = {codec for codec in found if not videos[codec].intra_only}
    assert checked == between | ({"fraps", "mscc", "mss2", "srgc"} & set(videos))
    assert set(found.values()) == {RandomAccess.UNVERIFIED, RandomAccess.GUARANTEED}
    assert set(UNMARKED) <= checked


@pytest.mark.parametrize("clip", clips(*UNMARKED), ids=name)
def test_frames_of_untrusted_codecs_are_right(clip, written, tmp_path):
    path = written(clip)
    assert_right(path)
    if clip.container == "avi":
        assert_right(strip_index(path, tmp_path / "stripped.avi"))


def assert_right(path: Path) -> None:
    found = check_parity(path, num_frames=FRAMES)
    assert (found.mismatches, found.refused, found.undecodable) == ((), (), ())
    assert (StreamIndex.scan(path).gop_random_access[1:] == RandomAccess.UNVERIFIED).all()


@pytest.mark.parametrize("codec", ["msrle", "rawvideo"])
@pytest.mark.parametrize("has_index", [True, False])
def test_a_changing_palette_has_the_right_colors(codec, has_index, written, tmp_path):
    path = written(replace(PALETTES, codec=codec))
    if not has_index:
        path = strip_index(path, tmp_path / "stripped.avi")
    found = check_parity(path, num_frames=100)
    assert (found.compared, found.mismatches, found.refused) == (48, (), ())


def test_a_keyframe_of_the_container_only_starts_no_gop(written, tmp_path):
    whole = written(replace(PALETTES, look=Look(pixel_format="pal8")))
    stripped = strip_index(whole, tmp_path / "stripped.avi")
    with av.open(str(stripped)) as container:
        assert all(packet.is_keyframe for packet in container.demux(video=0) if packet.size)
    index = StreamIndex.scan(stripped)
    assert index.gop_start.tolist() == StreamIndex.scan(whole).gop_start.tolist() == [0, 12, 24, 36]


def test_the_linear_reference_handles_palettes(written):
    """The reference returns equal frames for any palette."""
    turned = linear_frames(written(PALETTES))
    plain = linear_frames(written(replace(PALETTES, look=Look(pixel_format="pal8"))))
    assert all(np.array_equal(*pair) for pair in zip(turned, plain, strict=True))
