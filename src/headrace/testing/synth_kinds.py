"""Named kinds of clips, on which every decoder must agree with a linear decode."""

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

from headrace.testing.synth_clip import Look, SynthClip, Timing
from headrace.testing.synth_pixels import Colour

_UNEVEN = (
    *(Fraction(ticks, 90_000) for ticks in (3000, 1500, 6000, 3003, 4500, 3000, 2997)),
    Fraction(5),
    *(Fraction(ticks, 90_000) for ticks in (3000, 9000, 1500, 3000, 3750)),
)

KINDS: Mapping[str, SynthClip] = MappingProxyType(
    {
        # References between frames.
        "h264": SynthClip(),
        "h264_b_frames": SynthClip(b_frames=2),
        "h264_b_pyramid": SynthClip(b_frames=3, gop=16, structure="b_pyramid"),
        "h264_open_gop": SynthClip(b_frames=2, open_gop=True),
        "h264_intra_refresh": SynthClip(structure="intra_refresh"),
        "h264_long_gop": SynthClip(num_frames=270, size=(64, 96), gop=250, b_frames=2),
        "h264_one_frame": SynthClip(num_frames=1),
        "hevc": SynthClip(codec="hevc", b_frames=3, structure="b_pyramid"),
        "hevc_open_gop": SynthClip(codec="hevc", b_frames=3, open_gop=True, structure="b_pyramid"),
        "vp8": SynthClip(codec="vp8", container="webm"),
        "vp8_hidden": SynthClip(codec="vp8", container="webm", structure="hidden_packets"),
        "vp9": SynthClip(codec="vp9", container="webm", gop=32),
        "vp9_hidden": SynthClip(codec="vp9", container="webm", gop=32, structure="hidden_packets"),
        "av1": SynthClip(codec="av1", container="webm", gop=24),
        "mpeg4": SynthClip(codec="mpeg4", b_frames=2),
        "mpeg4_open_gop": SynthClip(codec="mpeg4", b_frames=2, open_gop=True),
        "mjpeg": SynthClip(codec="mjpeg", look=Look(pixel_format="yuvj420p")),
        "ffv1": SynthClip(codec="ffv1", container="mkv"),
        # Display times.
        "vfr_mp4": SynthClip(b_frames=2, timing=Timing(durations_seconds=_UNEVEN)),
        "vfr_mkv": SynthClip(b_frames=2, container="mkv", timing=Timing(durations_seconds=_UNEVEN)),
        "late_start": SynthClip(b_frames=2, timing=Timing(start_seconds=Fraction(5))),
        "preroll": SynthClip(b_frames=2, timing=Timing(preroll=5)),
        "ts": SynthClip(b_frames=2, container="ts", timing=Timing(start_seconds=Fraction(1))),
        "ts_late_start": SynthClip(
            b_frames=2, container="ts", timing=Timing(start_seconds=Fraction(31_815))
        ),
        "ts_negative_start": SynthClip(
            b_frames=2, container="ts", timing=Timing(start_seconds=Fraction(-5))
        ),
        "avi_mpeg4": SynthClip(codec="mpeg4", b_frames=2, container="avi"),
        "avi_h264": SynthClip(b_frames=2, container="avi"),
        "annex_b": SynthClip(b_frames=2, container="h264"),
        # Storage of frames.
        "rotated_90": SynthClip(b_frames=2, look=Look(rotation=90)),
        "rotated_180": SynthClip(b_frames=2, look=Look(rotation=180)),
        "rotated_270": SynthClip(b_frames=2, look=Look(rotation=270)),
        "mirrored": SynthClip(b_frames=2, look=Look(mirrored=True)),
        "mirrored_and_rotated": SynthClip(b_frames=2, look=Look(rotation=90, mirrored=True)),
        "odd_size": SynthClip(codec="vp9", container="webm", size=(75, 53)),
        "odd_size_444": SynthClip(b_frames=2, size=(75, 53), look=Look(pixel_format="yuv444p")),
        "h264_10_bit": SynthClip(b_frames=2, look=Look(pixel_format="yuv420p10le")),
        "hevc_10_bit": SynthClip(codec="hevc", b_frames=3, look=Look(pixel_format="yuv420p10le")),
        "bt601": SynthClip(look=Look(colour=Colour(matrix="bt601"), bars=True)),
        "bt709": SynthClip(look=Look(colour=Colour(matrix="bt709"), bars=True)),
        "bt709_full": SynthClip(
            look=Look(colour=Colour(matrix="bt709", full_range=True), bars=True)
        ),
        "bt2020": SynthClip(
            codec="hevc",
            look=Look(pixel_format="yuv420p10le", colour=Colour(matrix="bt2020"), bars=True),
        ),
    }
)
"""Name of a kind → its clip. All carry the numbers 0, 1, 2... in display order."""
