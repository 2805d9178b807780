"""Helpers of decoder tests: decode frames and collect missing ones."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from headrace import DecodeError, DecodeJob, StreamIndex, open_decoder, open_device_decoder
from headrace.decode.decoder_config import ON_CPU
from headrace.decode.parallel_scan import scan_videos
from headrace.decode.pyav import PyavDecoder
from headrace.testing import damage


def frames_of(index, shape=None, decoding=ON_CPU, wanted=None):
    """Return all frames, or the wanted ones, in order, of a new decoder."""
    wanted = tuple(range(len(index)) if wanted is None else wanted)
    open_one = open_device_decoder if decoding.keeps_on_device else open_decoder
    with closing(open_one(index, shape, decoding)) as decoder:
        frames = dict(decoder.run(DecodeJob(wanted, goes_on=False)))
    assert tuple(frames) == wanted
    return list(frames.values())


def run(decoder, wanted, *, goes_on=True, conceals=False):
    """Return the delivered frames of a job by index, and the missing indices."""
    job = DecodeJob(tuple(wanted), goes_on=goes_on, conceals=conceals)
    frames = {}
    try:
        for number, frame in decoder.run(job):
            frames[number] = frame
    except DecodeError as error:
        return frames, error.missing
    return frames, ()


def decoded(index, wanted=None, **job):
    """Return frames, missing and concealed indices of a job of all or the wanted frames.

    The job runs on a new decoder: see `run`.
    """
    with closing(PyavDecoder(index)) as decoder:
        wanted = range(len(index)) if wanted is None else wanted
        return *run(decoder, wanted, **job), decoder.concealed


def run_apart(module, *arguments, **environment):
    """Return the JSON that a module prints in a new process."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    command = [sys.executable, "-m", module, *map(str, arguments)]
    env = {**os.environ, **environment, "PYTHONPATH": path}
    return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)


def interrupts_its_parent(argument, send):
    """Scan in a child that interrupts its parent once during a scan."""

    def scan(source, **given):
        if argument["worker"] == "worker 1":
            os.kill(os.getppid(), signal.SIGINT)
        signal.sigwait([signal.SIGUSR1])

    StreamIndex.scan = scan
    return scan_videos(argument, send)


def reported_damage(good, folder):
    """Write a copy of a clip with damage in its second GOP that FFmpeg reports; return it."""
    bad = folder / f"bad{good.suffix}"
    for seed in range(40):
        damage.damage_packets(good, bad, ordinals=[13, 15], seed=seed)
        if any(StreamIndex.scan(bad, count_by="decode").problems):
            return bad
    raise AssertionError("no damage that FFmpeg reports")


def with_junk(good, folder, at):
    """Return the index of a copy of a VP9 clip with a packet that outputs no frame."""

    def swap(ordinal, payload):
        return [b"\x86\xff\xff\xff" * 4 if ordinal == at else payload]

    bad = damage.rewrite_packets(good, folder / f"bad{good.suffix}", swap)
    return StreamIndex.scan(bad, count_by="packets")
