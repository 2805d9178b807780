"""Extractions of frames, and faulty worker functions for tests; imported by child processes."""

import os
from pathlib import Path

import pytest

from decode.doubles_of_gpu import Double, Fails, stands_in
from extraction import faults
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import scan_videos
from headrace.decode.pyav import PyavDecoder
from headrace.errors import ConfigError
from headrace.extraction.frame_extraction import (
    FrameExtraction,
    FrameExtractionOptions,
    FrameWorker,
    extract_frames,
)
from headrace.extraction.image_encoder import ImageEncoder
from headrace.sampling.selection import selection_of
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex


def at_the_second_video(fault, *arguments):
    faults.before(
        FrameWorker,
        "run_chunk",
        act=fault,
        where=lambda worker, reporter: reporter.payload[0] == 1,
    )
    return extract_frames(*arguments)


def crashes_at_the_second_video(*arguments):
    return at_the_second_video(faults.crash, *arguments)


def hangs_at_the_second_video(*arguments):
    return at_the_second_video(faults.hang, *arguments)


def fails_at_the_second_video(*arguments):
    """A bug of headrace that one file triggers."""
    return at_the_second_video(faults.fail, *arguments)


def interrupts_its_parent(*arguments):
    """Ctrl-C when the second video starts."""
    return at_the_second_video(faults.interrupt_the_parent, *arguments)


def is_killed_once(argument, send):
    """A worker that the system kills once, when memory runs out."""
    mark = Path(argument["claims"]).parent / "killed"
    if mark.exists():
        return extract_frames(argument, send)
    mark.touch()
    return at_the_second_video(faults.kill, argument, send)


def crashes_at_the_twelfth_image(*arguments):
    faults.before(ImageEncoder, "encode", act=faults.crash, calls=11)
    return extract_frames(*arguments)


def crashes_at_a_scan_of_five_frames(*arguments):
    faults.before(
        StreamIndex,
        "scan",
        act=faults.crash,
        where=lambda source, **named: source.path.name == "5.mp4",
    )
    return scan_videos(*arguments)


def crashes_at_the_first_sample(*arguments):
    """A decoder that crashes on a frame."""
    faults.before(
        PyavDecoder, "run", act=faults.crash, where=lambda decoder, job, *rest: job.wanted[0] == 0
    )
    return extract_frames(*arguments)


def full_at_once(argument, send):
    """A disk on which no file can be written."""

    def fail(worker, reporter):
        raise ConfigError("cannot write: no space left on device")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FrameWorker, "run_chunk", fail)
        return extract_frames(argument, send)


def beside_a_gpu(double, *arguments):
    with pytest.MonkeyPatch.context() as patched:
        stands_in(patched, double)
        return extract_frames(*arguments)


def shares_with_a_gpu(*arguments):
    """A machine with a GPU: a double, which decodes jobs as the CPU does."""
    return beside_a_gpu(Double, *arguments)


def has_a_gpu_that_fails(*arguments):
    """A GPU that runs out of memory after two frames of a file."""
    return beside_a_gpu(Fails, *arguments)


def cannot_start(argument, send):
    raise ImportError("no such library")


def before_a_file(end, *arguments):
    faults.before(Path, "replace", act=end, calls=int(os.environ["FILES_BEFORE_THE_END"]))
    return extract_frames(*arguments)


def is_killed_with_its_parent(*arguments):
    """SIGKILL of worker and parent, when the n-th file is written but not renamed."""
    return before_a_file(faults.kill_both, *arguments)


def outlives_its_parent(*arguments):
    """SIGKILL of the parent alone, when the n-th file is written but not renamed."""
    return before_a_file(faults.kill_the_parent, *arguments)


def runs_out_of_room(*arguments):
    """A disk that is full after two images."""
    faults.before(Path, "write_bytes", act=faults.fill_the_disk, calls=2, once=False)
    return extract_frames(*arguments)


def write_clips(folder, lengths, **fields):
    """Write a clip for each number of frames, by default with a keyframe every 10 frames."""
    fields = {"gop": 10, "b_frames": 2, **fields}
    return [
        write_clip(folder / f"clip{number}", SynthClip(num_frames=length, **fields))
        for number, length in enumerate(lengths)
    ]


def options(paths, out, frames="every 5", **fields):
    pictures = ImageEncoder(**{name: fields.pop(name) for name in ("format",) if name in fields})
    shape = FrameFormat(**{name: fields.pop(name) for name in ("size", "crop") if name in fields})
    return FrameExtractionOptions(
        sources=tuple(map(str, paths)),
        selection=selection_of(frames),
        out=Path(out),
        pictures=pictures,
        shape=shape,
        **fields,
    )


def extract(paths, out, store, function=extract_frames, **fields):
    """Run an extraction; return its result."""
    prepared = FrameExtraction.prepare(
        options(paths, out, **fields), store=IndexStore(Path(store)), function=function
    )
    return prepared.run()


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def main(paths, out, store, function):
    extract(paths, out, store, globals()[function], workers=1)
