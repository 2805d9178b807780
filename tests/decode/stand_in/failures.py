"""Faults of a GPU, as clips and limits of the stand-in, and their outcomes."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import av
from av.bitstream import BitStreamFilterContext

from decode import stand_in
from headrace import DecodeJob, Decoder, HeadraceError, StreamIndex, open_decoder
from headrace.decode.gpu.gpu_frames import IDLE_CODECS
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip, write_clip
from headrace.testing.synth_clip import Look

FIRST, NEXT = range(4), range(4, 8)


def failures(work: Path) -> dict[str, list[str]]:
    """Return the outcomes of jobs: "equal" if all frames are delivered, or the error."""
    (work / "failures").mkdir()
    what = unknown, damaged, cropped, resized, wrong, broken, exhausted, reused, in_the_way
    return {each.__name__: list(each(work / "failures", work / "pictures")) for each in what}


def unknown(work: Path, _: Path) -> Iterator[str]:
    """A stream that the GPU does not decode."""
    yield from _jobs(StreamIndex.scan(write_clip(work / "unknown", SynthClip(size=(80, 112)))))


def damaged(work: Path, _: Path) -> Iterator[str]:
    """A stream whose start is damaged."""
    path = write_clip(work / "whole", SynthClip(size=(80, 96)))
    bad = damage_packets(path, work / "damaged.mp4", ordinals=range(24))
    yield from _jobs(StreamIndex.scan(bad))


def cropped(work: Path, pictures: Path) -> Iterator[str]:
    """Pictures cropped on the left, which FFmpeg ignores."""
    path = write_clip(work / "wide", SynthClip(size=(64, 192), container="h264"))
    cut = work / "cropped.ts"
    with av.open(path) as source, av.open(cut, "w") as to:
        stream = to.add_stream_from_template(source.streams.video[0])
        cutting = BitStreamFilterContext("h264_metadata=crop_left=64", source.streams.video[0])
        for packet in [*source.demux(video=0), None]:
            for each in cutting.filter(packet):
                each.stream = stream
                to.mux(each)
    yield from _jobs(_learned(cut, pictures))


def resized(work: Path, pictures: Path) -> Iterator[str]:
    """A stream whose pictures become larger, with jobs after the change."""
    clips = [SynthClip(size=(height, 64), container="h264") for height in (48, 72)]
    parts = [write_clip(work / f"part {clip.size[0]}", clip) for clip in clips]
    whole = work / "resized.h264"
    whole.write_bytes(b"".join(part.read_bytes() for part in parts))
    yield from _jobs(_learned(whole, pictures), FIRST, range(50, 54), range(54, 58))


def wrong(work: Path, pictures: Path) -> Iterator[str]:
    """Pictures with one wrong pixel."""
    index = StreamIndex.scan(write_clip(work / "wrong", SynthClip(size=(48, 80))))
    stand_in.learn(index, work / "right")
    for right in (work / "right").iterdir():
        *rest, last = right.read_bytes()
        (pictures / right.name).write_bytes(bytes([*rest, last ^ 1]))
    yield from _jobs(index)


def broken(work: Path, pictures: Path) -> Iterator[str]:
    """A GPU that fails after some frames, and works again."""
    index = _learned(write_clip(work / "broken", SynthClip(size=(64, 80))), pictures)
    with closing(open_decoder(index, gpu=0)) as decoder:
        yield _outcome(decoder, FIRST)
        with _limit("STAND_IN_FRAMES", 0):
            yield _outcome(decoder, NEXT)
        yield _outcome(decoder, NEXT)


def exhausted(work: Path, pictures: Path) -> Iterator[str]:
    """A GPU with one decoder, which another file uses and then releases."""
    index = _learned(write_clip(work / "exhausted", SynthClip(size=(64, 112))), pictures)
    with (
        _limit("STAND_IN_MOST", 1),
        closing(open_decoder(index, gpu=0)) as first,
        closing(open_decoder(index, gpu=0)) as second,
    ):
        yield _outcome(first, FIRST)
        yield _outcome(second, FIRST)
        first.close()
        yield _outcome(second, FIRST)


def reused(work: Path, pictures: Path) -> Iterator[str]:
    """A GPU without further decoders, and two files with equal parameters."""
    sizes = SynthClip(size=(64, 144), num_frames=24)
    one = _learned(write_clip(work / "one", sizes), pictures)
    other = _learned(write_clip(work / "other", replace(sizes, look=Look(bars=True))), pictures)
    yield from _jobs(one, FIRST)
    with _limit("STAND_IN_MOST", 0):
        yield from _jobs(one, range(12, 16), FIRST, range(2, 20, 5))
        yield from _jobs(other, range(12, 16), FIRST)


def in_the_way(work: Path, pictures: Path) -> Iterator[str]:
    """A GPU with one decoder, idle in the pool, while a file of another size needs one."""
    clips = [SynthClip(size=(64, width)) for width in (160, 176)]
    paths = [write_clip(work / f"rests {clip.size[1]}", clip) for clip in clips]
    one, other = (_learned(path, pictures) for path in paths)
    IDLE_CODECS.clear()
    with _limit("STAND_IN_MOST", 1):
        yield from _jobs(one, FIRST)
        yield from _jobs(other, FIRST)


def _learned(path: Path, pictures: Path) -> StreamIndex:
    index = StreamIndex.scan(path)
    stand_in.learn(index, pictures)
    return index


def _jobs(index: StreamIndex, *jobs: range) -> Iterator[str]:
    """Run jobs in turn on one decoder."""
    with closing(open_decoder(index, gpu=0)) as decoder:
        for job in jobs or (FIRST, NEXT):
            yield _outcome(decoder, job)


def _outcome(decoder: Decoder, job: range) -> str:
    try:
        found = len(list(decoder.run(DecodeJob(tuple(job), goes_on=True))))
    except HeadraceError as error:
        return f"{type(error).__name__}: {error}"
    return "equal" if found == len(job) else f"{found} frames"


@contextmanager
def _limit(name: str, value: int) -> Iterator[None]:
    os.environ[name] = str(value)
    yield
    del os.environ[name]
