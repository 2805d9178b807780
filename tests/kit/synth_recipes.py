"""Named files that no encoder writes: cut, joined, rewritten or damaged after encoding.

path = write_recipe("h264_cut_at_open_gop_mp4", tmp_path)

Every way of decoding must give what a linear decode gives, its errors too. Not every frame shows a
readable number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from headrace.testing import damage
from headrace.testing.damage import concatenate, join_packets
from headrace.testing.synth import KINDS, write_clip
from headrace.testing.synth_clip import Look, SynthClip
from headrace.testing.synth_containers import Codec, Container
from tests.kit import rewrite_mp4, rewrite_pes, rewrite_streams
from tests.kit.rewrite_vp9 import RESILIENT, intra_only, scale_references, show_existing
from tests.kit.synth_fields import write_field_pictures
from tests.kit.synth_wide import WIDE_KINDS

Change = Callable[[Path, Path], Path]
"""Reads a finished file, writes another and returns it."""
Join = Callable[[Sequence[Path], Path], Path]


class Recipe(NamedTuple):
    """How a file is made."""

    clips: tuple[SynthClip, ...]
    """The clips that are encoded first."""
    make: Callable[[list[Path], Path], Path]
    """Makes the file from the paths of those clips."""
    container: Container
    """The suffix of the file."""


def write_recipe(
    name: str, folder: Path, encoded: Callable[[SynthClip], Path] | None = None
) -> Path:
    """Write the file `name` of `RECIPES` into `folder` and return its path.

    Takes 0.03 to 0.4 s. The same recipe gives the same bytes with the same libraries. `encoded`
    returns the file of a clip that several recipes share; None: the clips are encoded.
    """
    recipe = RECIPES[name]
    out = folder / f"{name}.{recipe.container}"
    with TemporaryDirectory() as parts:
        paths = []
        for place, clip in enumerate(recipe.clips):
            path = Path(parts) / f"part{place}.{clip.container}"
            paths.append(copyfile(encoded(clip), path) if encoded else write_clip(path, clip))
        return recipe.make(paths, out)


def written_in(folder: Path) -> Callable[[str | SynthClip], Path]:
    """Return a function: a clip, or the name of a kind or recipe -> its file, written once."""
    numbers = count()

    @cache
    def written(what: str | SynthClip) -> Path:
        if isinstance(what, SynthClip):
            return write_clip(folder / f"clip-{next(numbers)}", what)
        if what in RECIPES:
            return write_recipe(what, folder, written)
        return write_clip(folder / what, {**KINDS, **WIDE_KINDS}[what])

    return written


def _from(clip: SynthClip, change: Change, container: Container | None = None) -> Recipe:
    return Recipe((clip,), lambda paths, out: change(paths[0], out), container or clip.container)


def _cut(clip: SynthClip, *, keyframe: int, and_packets: int = 0) -> Recipe:
    """Start at a keyframe, or some packets after it."""

    def cut(path: Path, out: Path) -> Path:
        start = damage.keyframe_ordinals(path)[keyframe] + and_packets
        return damage.cut_by_stream_copy(path, out, start_ordinal=start)

    return _from(clip, cut)


def _flipped(clip: SynthClip, *, every: int) -> Recipe:
    ordinals = range(every // 2, clip.num_frames, every)
    return _from(clip, partial(damage.damage_packets, ordinals=ordinals))


def _two_sizes(clip: SynthClip, join: Join = join_packets, to: Container | None = None) -> Recipe:
    other = replace(clip, size=(64, 96))
    return Recipe((clip, other), lambda paths, out: join(paths, out), to or clip.container)


def _two_descriptions(first: SynthClip, **changes: Any) -> Recipe:
    second = replace(first, **changes)
    join = rewrite_mp4.join_descriptions
    return Recipe((first, second), lambda paths, out: join(paths[0], paths[1], out), "mp4")


def _fields(container: Container) -> Recipe:
    clip = SynthClip(codec="mpeg2video", container=container, num_frames=60, gop=15)
    return Recipe((), lambda _, out: write_field_pictures(out, clip), container)


def _sets_told_once(codec: Literal["h264", "hevc"], container: Container) -> Recipe:
    """A clip, followed by one with other picture parameter sets."""
    clip = SynthClip(codec=codec, container=codec, num_frames=48)
    parameters = "chroma-qp-offset=6" if codec == "h264" else "cbqpoffs=6:crqpoffs=-6"
    name = "x264-params" if codec == "h264" else "x265-params"
    other = replace(clip, encoder_options=((name, parameters),))
    return Recipe((clip, other), rewrite_streams.tell_sets_once, container)


def _begins_intra_only(*, kept_in: int) -> Recipe:
    def make(path: Path, out: Path) -> Path:
        start = damage.keyframe_ordinals(path)[1]
        whole = path.with_name(f"whole{path.suffix}")
        intra_only(path, whole, ordinals=[start], kept_in=kept_in)
        return damage.cut_by_stream_copy(whole, out, start_ordinal=start)

    return _from(_RESILIENT_VP9, make)


def _two_views(path: Path, out: Path) -> Path:
    views = rewrite_streams.announce_second_view(path, path.with_name("views.ts"))
    return damage.cut_by_stream_copy(views, out, start_ordinal=0)


def _clip(codec: Codec, container: Container, *, b_frames: int = 0) -> SynthClip:
    return SynthClip(codec=codec, container=container, b_frames=b_frames, num_frames=60)


_OPEN = SynthClip(num_frames=90, gop=15, b_frames=3, open_gop=True, structure="b_pyramid")
_OPEN_MKV, _OPEN_TS = replace(_OPEN, container="mkv"), replace(_OPEN, container="ts")
_OPEN_HEVC = replace(_OPEN, codec="hevc")
_INTRA_REFRESH = SynthClip(num_frames=90, gop=30, structure="intra_refresh")
_MPG = SynthClip(codec="mpeg2video", container="mpg", num_frames=90, b_frames=2, open_gop=True)
_MPG_TS, _VOB = replace(_MPG, container="ts"), replace(_MPG, container="vob")
_HELD = SynthClip(container="ts", num_frames=180, gop=30)
_H263 = SynthClip(codec="h263", container="3gp", num_frames=60)
_MPEG4 = _clip("mpeg4", "mp4", b_frames=2)
_LOSSLESS = SynthClip(b_frames=2, encoder_options=(("x264-params", "qp=0"),), num_frames=60, gop=15)
_444 = SynthClip(num_frames=60, look=Look(pixel_format="yuv444p"))
_H264_TS, _HEVC_TS = _clip("h264", "ts", b_frames=2), _clip("hevc", "ts", b_frames=2)
_VP9 = _clip("vp9", "webm")
_RESILIENT_VP9 = replace(_VP9, gop=15, encoder_options=RESILIENT)
_AV1 = _clip("av1", "webm")
_RESIZING = ("svtav1-params", "resize-mode=1:resize-denom=12:resize-kf-denom=8")
_SCALED_AV1 = replace(_AV1, encoder_options=(("crf", "12"), _RESIZING))
_MJPEG = replace(_clip("mjpeg", "avi"), look=Look(pixel_format="yuvj420p"))

_EVERY = partial(rewrite_mp4.lie_about_keyframes, lie="every")
_SHIFTED = partial(rewrite_mp4.lie_about_keyframes, lie="shifted")
_ONE_IN_TWELVE = partial(rewrite_pes.drop_times, keep_every=12)
_LOST = partial(damage.drop_packets, ordinals=[20, 47, 48])
_OLD_BUILD = rewrite_streams.pose_as_x264_build
_SHOWN_LATER = partial(show_existing, ordinals=range(1, 60, 7))
_SHOWN_APART = partial(show_existing, ordinals=[15, 20, 30, 45], separate=True)

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        # First packets that cannot all be decoded.
        "h264_cut_at_open_gop_mp4": _cut(_OPEN, keyframe=1),
        "h264_cut_at_open_gop_mkv": _cut(_OPEN_MKV, keyframe=1),
        "h264_cut_at_open_gop_ts": _cut(_OPEN_TS, keyframe=1),
        "h264_cut_inside_open_gop_mp4": _cut(_OPEN, keyframe=1, and_packets=6),
        "h264_cut_before_open_gop_mp4": _cut(_OPEN, keyframe=2, and_packets=-2),
        "h264_cut_inside_mkv": _cut(_OPEN_MKV, keyframe=1, and_packets=6),
        "h264_cut_at_intra_refresh_mp4": _cut(_INTRA_REFRESH, keyframe=1),
        "hevc_cut_at_open_gop_mp4": _cut(_OPEN_HEVC, keyframe=1),
        "hevc_cut_inside_mp4": _cut(_OPEN_HEVC, keyframe=1, and_packets=6),
        "mpeg2_cut_at_open_gop_ts": _cut(_MPG_TS, keyframe=1),
        "mpeg4_cut_inside_mp4": _cut(_MPEG4, keyframe=1, and_packets=3),
        "vp9_cut_inside_webm": _cut(_VP9, keyframe=1, and_packets=3),
        "cinepak_cut_inside_avi": _cut(WIDE_KINDS["cinepak_avi"], keyframe=1, and_packets=3),
        "h263_cut_inside_3gp": _cut(_H263, keyframe=1, and_packets=3),
        # Times that repeat or are missing.
        "h264_held_times_ts": _from(_HELD, rewrite_pes.hold_times),
        "h264_held_times_mp4": _from(replace(_HELD, container="mp4"), rewrite_mp4.hold_times),
        "h264_missing_times_ts": _from(_HELD, rewrite_pes.drop_times),
        "mpeg2_held_times_mpg": _from(_MPG, rewrite_pes.hold_times),
        "mpeg2_held_times_ts": _from(_MPG_TS, rewrite_pes.hold_times),
        "mpeg2_missing_times_mpg": _from(_MPG, _ONE_IN_TWELVE),
        "mpeg2_missing_times_vob": _from(_VOB, _ONE_IN_TWELVE),
        "mpeg2_missing_times_ts": _from(_MPG_TS, rewrite_pes.drop_times),
        # False keyframes.
        "h263_every_sample_sync_3gp": _from(_H263, _EVERY),
        "h263_shifted_sync_3gp": _from(_H263, _SHIFTED),
        "mpeg4_every_sample_sync_mp4": _from(_MPEG4, _EVERY),
        # Flipped bits, lost packets.
        "h264_flipped_mp4": _flipped(replace(_OPEN, open_gop=False), every=30),
        "h264_flipped_open_gop_ts": _flipped(_OPEN_TS, every=30),
        "hevc_flipped_mp4": _flipped(_OPEN_HEVC, every=20),
        "mpeg2_flipped_mpg": _flipped(_MPG, every=30),
        "mpeg4_flipped_avi": _flipped(replace(_MPEG4, container="avi"), every=20),
        "vp9_flipped_webm": _flipped(_VP9, every=30),
        "h264_lost_packets_ts": _from(_OPEN_TS, _LOST),
        "hevc_lost_packets_ts": _from(replace(_OPEN_HEVC, container="ts"), _LOST),
        # Data that a stream has only once.
        "h264_sets_told_once_mp4": _sets_told_once("h264", "mp4"),
        "h264_sets_told_once_mkv": _sets_told_once("h264", "mkv"),
        "hevc_sets_told_once_mkv": _sets_told_once("hevc", "mkv"),
        "h264_old_build_mp4": _from(_LOSSLESS, _OLD_BUILD),
        "h264_old_build_ts": _from(replace(_LOSSLESS, container="ts"), _OLD_BUILD),
        "h264_old_build_444_mp4": _from(_444, _OLD_BUILD),
        # VP9 and MPEG-2 that FFmpeg does not encode.
        "vp9_show_existing_webm": _from(_RESILIENT_VP9, _SHOWN_LATER),
        "vp9_show_existing_keyframes_webm": _from(_RESILIENT_VP9, _SHOWN_APART),
        "vp9_intra_only_webm": _from(_RESILIENT_VP9, partial(intra_only, ordinals=[15, 45])),
        "vp9_begins_intra_only_webm": _begins_intra_only(kept_in=0xFF),
        "vp9_begins_without_references_webm": _begins_intra_only(kept_in=0x01),
        "mpeg2_fields_mpg": _fields("mpg"),
        "mpeg2_fields_ts": _fields("ts"),
        "mpeg2_fields_m2v": _fields("m2v"),
        "hevc_two_views_ts": _from(_HEVC_TS, rewrite_streams.announce_second_view),
        "hevc_two_views_mp4": _from(_HEVC_TS, _two_views, "mp4"),
        # Frames that change their size, and streams with new settings.
        "h264_two_sizes_ts": _two_sizes(_H264_TS),
        "h264_two_sizes_and_clocks_ts": _two_sizes(_H264_TS, concatenate),
        "h264_two_sizes_annex_b": _two_sizes(_clip("h264", "h264", b_frames=2), concatenate),
        "h264_two_sizes_mkv": _two_sizes(_H264_TS, to="mkv"),
        "h264_two_sizes_flv": _two_sizes(_H264_TS, to="flv"),
        "hevc_two_sizes_ts": _two_sizes(_clip("hevc", "ts", b_frames=3)),
        "mpeg2_two_sizes_ts": _two_sizes(_clip("mpeg2video", "ts", b_frames=2)),
        "mpeg2_two_sizes_mpg": _two_sizes(_clip("mpeg2video", "mpg", b_frames=2), concatenate),
        "mpeg2_two_sizes_m2v": _two_sizes(_clip("mpeg2video", "m2v", b_frames=2), concatenate),
        "mjpeg_two_sizes_avi": _two_sizes(_MJPEG),
        "vp8_two_sizes_webm": _two_sizes(_clip("vp8", "webm")),
        "vp9_two_sizes_webm": _two_sizes(_VP9),
        "vp9_two_sizes_mp4": _two_sizes(_clip("vp9", "mp4")),
        "vp9_scaled_references_webm": _two_sizes(
            _RESILIENT_VP9, lambda paths, out: scale_references(paths[0], paths[1], out, ordinal=30)
        ),
        "av1_two_sizes_webm": _two_sizes(replace(_AV1, encoder_options=(("crf", "20"),))),
        "av1_scaled_references_webm": _from(_SCALED_AV1, Path.rename),
        "h264_two_descriptions_mp4": _two_descriptions(
            SynthClip(b_frames=2), encoder_options=(("x264-params", "ref=2:cabac=0"),)
        ),
        "h264_two_descriptions_and_sizes_mp4": _two_descriptions(
            SynthClip(b_frames=2), size=(64, 96)
        ),
        "hevc_two_descriptions_and_sizes_mp4": _two_descriptions(
            SynthClip(codec="hevc", b_frames=3), size=(64, 96)
        ),
    }
)
"""Name of the file -> its recipe."""
