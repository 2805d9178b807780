"""Workers of the tests that are at several chunks at a time; imported by children."""

import os
import signal
from pathlib import Path

from headrace.runtime.speaker import claimed_chunks


def begins_all_then_dies_of_the_second(argument, send):
    """As a worker that decodes several at a time, one of which crashes its decoder."""
    speakers = list(claimed_chunks(argument, send))
    for speaker in speakers:
        speaker.begin()
    for speaker in speakers:
        if speaker.told == "bad":
            os.kill(os.getpid(), signal.SIGSEGV)
    for speaker in speakers:
        speaker.done()


def dies_when_all_but_the_second_are_read(argument, send):
    speakers = list(claimed_chunks(argument, send))
    for speaker in speakers:
        speaker.begin()
    for speaker in speakers:
        if speaker.told != "bad":
            speaker.has_read()
    _note(argument, speakers)
    if any(speaker.told == "bad" for speaker in speakers):
        os.kill(os.getpid(), signal.SIGSEGV)
    for speaker in speakers:
        speaker.done()


def dies_in_the_model(argument, send):
    """All is decoded; what comes then dies of one of them."""
    speakers = list(claimed_chunks(argument, send))
    for speaker in speakers:
        speaker.begin()
        speaker.has_read()
    if any(speaker.told == "bad" for speaker in speakers):
        os.kill(os.getpid(), signal.SIGABRT)
    for speaker in speakers:
        speaker.done()


def runs_out_of_memory(argument, send):
    for speaker in claimed_chunks(argument, send):
        speaker.begin()
        if speaker.told == "bad":
            raise MemoryError
        speaker.done()


def is_killed(argument, send):
    for speaker in claimed_chunks(argument, send):
        speaker.begin()
        if speaker.told == "bad":
            os.kill(os.getpid(), signal.SIGKILL)
        speaker.done()


def _note(argument, speakers):
    with Path(argument["notes"]).open("a") as notes:
        notes.write(" ".join(speaker.chunk for speaker in speakers) + "\n")
