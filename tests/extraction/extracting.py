"""Extractions of pictures, and what their workers do in the tests; imported by children."""

import os
from pathlib import Path

import pytest

from decode.doubles_of_gpu import Double, Fails, stands_in
from extraction import faults
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import scan_videos
from headrace.decode.pyav import PyavDecoder
from headrace.errors import ConfigError
from headrace.extraction.frame_extraction import FrameExtraction, FrameExtractionOptions
from headrace.extraction.frame_worker import FrameWorker, extract_frames
from headrace.extraction.image_encoder import ImageEncoder
from headrace.sampling.selection import selection_of
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex


def at_the_second_video(fault, *given):
    faults.before(
        FrameWorker, "do", act=fault, where=lambda worker, speaker: speaker.payload[0] == 1
    )
    return extract_frames(*given)


def crashes_at_the_second_video(*given):
    return at_the_second_video(faults.crash, *given)


def hangs_at_the_second_video(*given):
    return at_the_second_video(faults.hang, *given)


def fails_at_the_second_video(*given):
    """As code of ours that a file finds a fault in."""
    return at_the_second_video(faults.fail, *given)


def interrupts_its_parent(*given):
    """Ctrl-C when the second video is begun."""
    return at_the_second_video(faults.interrupt_the_parent, *given)


def is_killed_once(argument, send):
    """As a worker that the system kills when it runs out of memory."""
    mark = Path(argument["claims"]).parent / "killed"
    if mark.exists():
        return extract_frames(argument, send)
    mark.touch()
    return at_the_second_video(faults.kill, argument, send)


def crashes_at_the_twelfth_picture(*given):
    faults.before(ImageEncoder, "encode", act=faults.crash, calls=11)
    return extract_frames(*given)


def crashes_at_a_scan_of_five_frames(*given):
    faults.before(
        StreamIndex,
        "scan",
        act=faults.crash,
        where=lambda source, **named: source.path.name == "5.mp4",
    )
    return scan_videos(*given)


def crashes_at_the_first_sample(*given):
    """As a decoder that a frame makes crash."""
    faults.before(
        PyavDecoder, "run", act=faults.crash, where=lambda decoder, job, *rest: job.wanted[0] == 0
    )
    return extract_frames(*given)


def full_at_once(argument, send):
    """As where no file can be written."""

    def fail(worker, speaker):
        raise ConfigError("cannot write: no space left on device")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FrameWorker, "do", fail)
        return extract_frames(argument, send)


def beside_a_gpu(double, *given):
    with pytest.MonkeyPatch.context() as patched:
        stands_in(patched, double)
        return extract_frames(*given)


def shares_with_a_gpu(*given):
    """As on a machine with a GPU: a double of one takes jobs, and gives what the CPU gives."""
    return beside_a_gpu(Double, *given)


def has_a_gpu_that_fails(*given):
    """As where the GPU has no memory left after two frames of a file."""
    return beside_a_gpu(Fails, *given)


def cannot_begin(argument, send):
    raise ImportError("no such library")


def before_a_file(end, *given):
    faults.before(Path, "replace", act=end, calls=int(os.environ["FILES_BEFORE_THE_END"]))
    return extract_frames(*given)


def is_killed_with_its_parent(*given):
    """Kill -9 to both when the file of a certain number is whole but not yet in its place."""
    return before_a_file(faults.kill_both, *given)


def outlives_its_parent(*given):
    """Kill -9 to its parent alone, at that moment; it has not heard of that yet."""
    return before_a_file(faults.kill_the_parent, *given)


def runs_out_of_room(*given):
    """A disk that is full after two pictures."""
    faults.before(Path, "write_bytes", act=faults.fill_the_disk, calls=2, once=False)
    return extract_frames(*given)


def write_clips(folder, lengths, **given):
    """Clips of so many frames each, with a keyframe every ten unless asked otherwise."""
    plain = {"gop": 10, "b_frames": 2, **given}
    return [
        write_clip(folder / f"clip{number}", SynthClip(num_frames=length, **plain))
        for number, length in enumerate(lengths)
    ]


def options(paths, out, frames="every 5", **given):
    pictures = ImageEncoder(**{name: given.pop(name) for name in ("format",) if name in given})
    shape = FrameFormat(**{name: given.pop(name) for name in ("size", "crop") if name in given})
    return FrameExtractionOptions(
        sources=tuple(map(str, paths)),
        selection=selection_of(frames),
        out=Path(out),
        pictures=pictures,
        shape=shape,
        **given,
    )


def extract(paths, out, store, function=extract_frames, **given):
    """Run an extraction; return what it came to."""
    asked = options(paths, out, **given)
    prepared = FrameExtraction.prepare(asked, store=IndexStore(Path(store)), function=function)
    return prepared.run()


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def main(paths, out, store, function):
    extract(paths, out, store, globals()[function], workers=1)
