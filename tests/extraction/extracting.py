"""What the workers of the tests do, and a run of its own to be killed; imported by children."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from decode.doubles_of_gpu import Fails, stands_in
from headrace.decode.index_store import IndexStore
from headrace.decode.pyav import PyavDecoder
from headrace.decode.scanning import scan_videos
from headrace.extraction.forecast import make_samples
from headrace.extraction.frame_extraction import FrameExtraction
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.frame_worker import FrameWorker, extract_frames
from headrace.extraction.pictures import Pictures
from headrace.sampling.selection import selection_of
from headrace.video.stream_index import StreamIndex


def crashes_at_the_second_video(argument, send):
    """As a decoder that a file makes crash."""
    _doing(lambda: os.kill(os.getpid(), signal.SIGSEGV))
    return extract_frames(argument, send)


def hangs_at_the_second_video(argument, send):
    """As a decoder that a file makes hang."""
    _doing(lambda: signal.sigwait([signal.SIGUSR1]))
    return extract_frames(argument, send)


def fails_at_the_second_video(argument, send):
    """As code of ours that a file finds a fault in."""

    def fail():
        raise ZeroDivisionError("no such number")

    _doing(fail)
    return extract_frames(argument, send)


def crashes_at_the_twelfth_picture(argument, send):
    left, encode = 11, Pictures.encode

    def crashing(self, frame):
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        return encode(self, frame)

    Pictures.encode = crashing
    return extract_frames(argument, send)


def crashes_at_a_scan_of_five_frames(argument, send):
    scan = StreamIndex.scan

    def crashing(source, **given):
        if source.path.name == "5.mp4":
            os.kill(os.getpid(), signal.SIGSEGV)
        return scan(source, **given)

    StreamIndex.scan = crashing
    return scan_videos(argument, send)


def crashes_at_the_first_sample(argument, send):
    """As a decoder that a frame makes crash."""
    run = PyavDecoder.run

    def crashing(self, job, out=None):
        if job.wanted[0] == 0:
            os.kill(os.getpid(), signal.SIGSEGV)
        return run(self, job, out)

    PyavDecoder.run = crashing
    return make_samples(argument, send)


def shares_with_a_gpu(argument, send):
    """As on a machine with a GPU: a double of one takes jobs, and gives what the CPU gives."""
    with pytest.MonkeyPatch.context() as patched:
        stands_in(patched)
        return extract_frames(argument, send)


def has_a_gpu_that_fails(argument, send):
    """As where the GPU has no memory left after two frames of a file."""
    with pytest.MonkeyPatch.context() as patched:
        stands_in(patched, Fails)
        return extract_frames(argument, send)


def is_killed_once(argument, send):
    """As a worker that the system kills when it runs out of memory."""
    mark = Path(argument["claims"]).parent / "killed"
    if not mark.exists():
        mark.touch()
        _doing(lambda: os.kill(os.getpid(), signal.SIGKILL))
    return extract_frames(argument, send)


def cannot_begin(argument, send):
    raise ImportError("no such library")


def interrupts_its_parent(argument, send):
    """Ctrl-C when the second video is begun."""

    def interrupt():
        os.kill(os.getppid(), signal.SIGINT)
        signal.sigwait([signal.SIGUSR1])

    _doing(interrupt)
    return extract_frames(argument, send)


def is_killed_with_its_parent(argument, send):
    """Kill -9 to both when the file of a certain number is whole but not yet in its place."""
    _before_a_file(lambda: (_kill_parent(), os.kill(os.getpid(), signal.SIGKILL)))
    return extract_frames(argument, send)


def outlives_its_parent(argument, send):
    """Kill -9 to its parent alone, at that moment; it has not heard of that yet."""
    _before_a_file(_kill_parent)
    return extract_frames(argument, send)


def runs_out_of_room(argument, send):
    """A disk that is full after two pictures."""
    left, write = 2, Path.write_bytes

    def full(self, content):
        nonlocal left
        left -= 1
        if left < 0:
            self.touch()
            raise OSError(28, "No space left on device")
        return write(self, content)

    Path.write_bytes = full
    return extract_frames(argument, send)


def options(paths, out, frames="every 5", **given):
    pictures = Pictures(**{name: given.pop(name) for name in ("format", "size") if name in given})
    return FrameOptions(
        sources=tuple(map(str, paths)),
        selection=selection_of(frames),
        out=Path(out),
        pictures=pictures,
        **given,
    )


def extract(paths, out, store, function=extract_frames, **given):
    """Run an extraction; return what it came to."""
    asked = options(paths, out, **given)
    prepared = FrameExtraction.prepare(asked, store=IndexStore(store), function=function)
    return prepared.run()


def _kill_parent():
    os.kill(os.getppid(), signal.SIGKILL)


def _before_a_file(end):
    left = int(os.environ["FILES_BEFORE_THE_END"])
    replace = Path.replace

    def dying(self, target):
        nonlocal left
        left -= 1
        if left == -1:
            end()
        return replace(self, target)

    Path.replace = dying


def _doing(fault):
    done = FrameWorker.do

    def do(self, speaker):
        if speaker.told[0] == 1:
            fault()
        done(self, speaker)

    FrameWorker.do = do


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    from extraction import extracting

    asked["function"] = getattr(extracting, asked["function"])
    asked["store"] = Path(asked["store"])
    extracting.extract(**asked)
