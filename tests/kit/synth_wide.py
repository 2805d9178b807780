"""More named kinds of clip, as recorders, broadcasters, browsers and archives write them.

Like `KINDS`, they show the numbers 0, 1, 2... in order when read from first to last. Not all of
them allow random access to every frame.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from headrace.testing.synth_clip import Look, SynthClip, Timing
from headrace.testing.synth_containers import Codec, Container

_FRAGMENTED = (("movflags", "frag_keyframe+empty_moov+default_base_moof"),)
_MEDIUM = ("preset", "medium")


def _x264(parameters: str) -> tuple[tuple[str, str], ...]:
    """Return options of a recorder that lets x264 choose its B-frames."""
    return (_MEDIUM, ("x264-params", f"b-adapt=1:weightp=2:ref=3:{parameters}"))


_OPEN_PYRAMID = SynthClip(num_frames=120, gop=30, b_frames=3, open_gop=True, structure="b_pyramid")
_OPEN_GOPS = replace(_OPEN_PYRAMID, encoder_options=_x264("scenecut=40"))
_QUARTER_PEL = (("flags", "+mv4+qpel"),)
_HEVC_OPEN_GOPS = SynthClip(
    codec="hevc", num_frames=90, gop=30, b_frames=4, open_gop=True, structure="b_pyramid"
)
_INTRA_REFRESH = SynthClip(num_frames=120, gop=30, structure="intra_refresh")
_MPEG2 = SynthClip(codec="mpeg2video", container="mpg", num_frames=90, b_frames=2, open_gop=True)
_AV1 = SynthClip(codec="av1", gop=32, encoder_options=(("crf", "20"),))


def _plain(
    codec: Codec, container: Container, pixel_format: str = "yuv420p", **more: Any
) -> SynthClip:
    return SynthClip(codec=codec, container=container, look=Look(pixel_format=pixel_format), **more)


def _in(name: str, clip: SynthClip, *containers: Container) -> dict[str, SynthClip]:
    """Return the same clip in several containers, with their names as suffixes."""
    return {f"{name}_{each}": replace(clip, container=each) for each in containers}


_MPEG1 = replace(_MPEG2, codec="mpeg1video")
_CINEPAK = _plain("cinepak", "avi", "rgb24", num_frames=30, size=(48, 64))
_HEADERS = ("dump_extra=freq=keyframe",)
_TEN_MINUTES = Timing(start_seconds=Fraction(600))
_CERTAIN = (("error-resilient", "1"), ("auto-alt-ref", "0"))
_OPEN_AV1 = (("svtav1-params", "irefresh-type=1"),)
_DV: dict[str, Any] = {"num_frames": 10, "size": (576, 720), "frame_rate": Fraction(25)}

WIDE_KINDS: Mapping[str, SynthClip] = MappingProxyType(
    {
        # H.264 with entry points that are not IDR.
        "h264_intra_refresh_30": replace(_INTRA_REFRESH, encoder_options=(_MEDIUM,)),
        "h264_intra_refresh_b": replace(_INTRA_REFRESH, b_frames=2),
        "h264_intra_refresh_ts": replace(_INTRA_REFRESH, container="ts"),
        "h264_intra_refresh_flv": replace(_INTRA_REFRESH, container="flv"),
        **_in("h264_open_pyramid", _OPEN_GOPS, "mp4", "mkv", "ts", "mxf"),
        **_in("hevc_open_pyramid", _HEVC_OPEN_GOPS, "mp4", "mkv", "ts"),
        # H.264 and HEVC with other tools.
        "h264_eight_b_frames": SynthClip(gop=30, b_frames=8, structure="b_pyramid"),
        "h264_slices": SynthClip(encoder_options=(("x264-params", "slices=4:cabac=0"),)),
        "h264_many_refs": SynthClip(b_frames=3, encoder_options=_x264("ref=16:weightb=1")),
        "h264_interlaced": SynthClip(b_frames=2, structure="interlaced"),
        "h264_interlaced_ts": SynthClip(
            container="ts", b_frames=2, open_gop=True, structure="interlaced", num_frames=60
        ),
        "h264_access_units": SynthClip(bitstream_filters=("h264_metadata=aud=insert",)),
        "h264_headers_within": SynthClip(b_frames=2, bitstream_filters=_HEADERS),
        "h264_rgb": SynthClip(b_frames=2, look=Look(pixel_format="rgb24")),
        "h264_444": SynthClip(b_frames=2, look=Look(pixel_format="yuv444p")),
        "h264_lossless": SynthClip(b_frames=2, encoder_options=(("x264-params", "qp=0"),)),
        "h264_fragmented": SynthClip(b_frames=2, container_options=_FRAGMENTED),
        "hevc_fragmented": SynthClip(codec="hevc", b_frames=3, container_options=_FRAGMENTED),
        "h264_3gp": SynthClip(container="3gp"),
        "h264_flv": SynthClip(container="flv", b_frames=2),
        "h264_wmv": SynthClip(container="wmv"),
        "h264_nut": SynthClip(container="nut", b_frames=2),
        "h264_m2ts": SynthClip(container="m2ts", b_frames=2),
        "h264_mpg": SynthClip(container="mpg", b_frames=2),
        "hevc_mpg": SynthClip(codec="hevc", container="mpg", b_frames=3),
        "hevc_annex_b": SynthClip(codec="hevc", container="hevc", b_frames=3),
        # MPEG-1 and MPEG-2.
        "mpeg2_mpg": replace(_MPEG2, open_gop=False),
        "mpeg2_mpg_open_gop": _MPEG2,
        "mpeg2_mpg_no_b_frames": replace(_MPEG2, b_frames=0, open_gop=False),
        "mpeg2_mpg_interlaced": replace(_MPEG2, structure="interlaced"),
        "mpeg2_mpg_422": replace(_MPEG2, look=Look(pixel_format="yuv422p")),
        "mpeg2_mpg_late_start": replace(_MPEG2, timing=_TEN_MINUTES),
        **_in("mpeg2", _MPEG2, "vob", "svcd"),
        "mpeg2_ts": replace(_MPEG2, container="ts"),
        "mpeg2_ts_interlaced": replace(_MPEG2, container="ts", structure="interlaced"),
        **_in("mpeg2", _MPEG2, "m2v", "mxf", "avi", "mkv", "mp4"),
        "mpeg1_mpg": replace(_MPEG1, open_gop=False),
        "mpeg1_mpg_open_gop": _MPEG1,
        **_in("mpeg1", _MPEG1, "m1v", "ts"),
        # MPEG-4 part 2, H.263 and their descendants.
        "mpeg4_ts": SynthClip(codec="mpeg4", container="ts", b_frames=2),
        "mpeg4_m4v": SynthClip(codec="mpeg4", container="m4v", b_frames=2),
        "mpeg4_3gp": SynthClip(codec="mpeg4", container="3gp"),
        "mpeg4_quarter_pel": _plain("mpeg4", "mkv", b_frames=2, encoder_options=_QUARTER_PEL),
        "h263_3gp": _plain("h263", "3gp"),
        "h263_avi": _plain("h263", "avi"),
        "h263_raw": _plain("h263", "h263"),
        "h263p_avi": _plain("h263p", "avi"),
        "h261_avi": SynthClip(codec="h261", container="avi", size=(144, 176)),
        "flv1": _plain("flv1", "flv"),
        "rv10": _plain("rv10", "rm"),
        "rv20": _plain("rv20", "rm"),
        "wmv1": _plain("wmv1", "wmv"),
        "wmv2": _plain("wmv2", "wmv"),
        "msmpeg4v2_avi": _plain("msmpeg4v2", "avi"),
        "msmpeg4v3_avi": _plain("msmpeg4v3", "avi"),
        "msmpeg4v3_wmv": _plain("msmpeg4v3", "wmv"),
        # Older codecs whose frames depend on the last one.
        "cinepak_avi": _CINEPAK,
        "svq1_mov": _plain("svq1", "mov", "yuv410p"),
        "snow_avi": _plain("snow", "avi"),
        "qtrle_mov": _plain("qtrle", "mov", "rgb24"),
        "zmbv_avi": replace(_plain("zmbv", "avi", "bgr0"), num_frames=16),
        "flashsv2_flv": _plain("flashsv2", "flv", "bgr24"),
        "gif": _plain("gif", "gif", "bgr8"),
        "apng": _plain("apng", "apng", "rgb24"),
        # Codecs for editing and archives: independent frames.
        "prores_mov": _plain("prores", "mov", "yuv422p10le"),
        "prores_mxf": _plain("prores", "mxf", "yuv422p10le"),
        "dnxhd_mxf": _plain("dnxhd", "mxf", "yuv422p", size=(128, 256)),
        "dvvideo_dv": _plain("dvvideo", "dv", **_DV),
        "cfhd_mov": _plain("cfhd", "mov", "yuv422p10le"),
        "jpeg2000_mxf": _plain("jpeg2000", "mxf", "rgb24"),
        "huffyuv_avi": _plain("huffyuv", "avi", "yuv422p"),
        "ffvhuff_avi": _plain("ffvhuff", "avi"),
        "utvideo_avi": _plain("utvideo", "avi"),
        "magicyuv_mov": _plain("magicyuv", "mov"),
        "rawvideo_avi": _plain("rawvideo", "avi"),
        "rawvideo_nut": _plain("rawvideo", "nut"),
        "png_mov": _plain("png", "mov", "rgb24"),
        "ffv1_inter": _plain("ffv1", "mkv", encoder_options=(("g", "12"), ("coder", "1"))),
        "mjpeg_avi": _plain("mjpeg", "avi", "yuvj422p"),
        "mjpeg_mov": _plain("mjpeg", "mov", "yuvj420p"),
        "mjpeg_mkv": _plain("mjpeg", "mkv", "yuvj420p"),
        "mjpeg_raw": _plain("mjpeg", "mjpeg", "yuvj420p"),
        # Codecs of browsers.
        "vp8_ogg": _plain("vp8", "ogg"),
        "vp8_ivf": _plain("vp8", "ivf"),
        "vp9_mp4": SynthClip(codec="vp9", gop=32),
        "vp9_ivf": SynthClip(codec="vp9", container="ivf", gop=32),
        "vp9_444": _plain("vp9", "webm", "yuv444p"),
        "vp9_error_resilient": _plain("vp9", "webm", gop=32, encoder_options=_CERTAIN),
        "av1_mp4": _AV1,
        "av1_ivf": replace(_AV1, container="ivf"),
        "av1_obu": replace(_AV1, container="obu"),
        "av1_open_gop": _plain("av1", "mkv", num_frames=90, gop=30, encoder_options=_OPEN_AV1),
        "av1_10_bit": _plain("av1", "webm", "yuv420p10le"),
    }
)
"""Name of the kind -> its clip."""
