"""Workers of the tests that make proxies, and a run of its own to be killed."""

import json
import os
import signal
import sys
from pathlib import Path

from extraction.proxies.proxying import make
from headrace.extraction.proxies import making, worker
from headrace.extraction.proxies.encoder import ProxyFile
from headrace.extraction.proxies.worker import make_proxies


def _at_frame(number, act):
    """Have `act` called when the frame with this number of all is to be written."""
    left, write = number, ProxyFile.write

    def writing(self, packed):
        nonlocal left
        left -= 1
        if left < 0:
            act()
        return write(self, packed)

    ProxyFile.write = writing


def crashes_in_the_second_video(argument, send):
    """As a decoder that a file makes crash: the longest comes first."""
    make_proxy = making.make_proxy

    def crashing(decoder, *given):
        if decoder.index.source.path.name == "clip1.mp4":
            os.kill(os.getpid(), signal.SIGSEGV)
        return make_proxy(decoder, *given)

    worker.make_proxy = crashing
    return make_proxies(argument, send)


def runs_out_of_room(argument, send):
    """A disk that is full when the second proxy is put in its place."""
    left, replace = 1, os.replace

    def full(self, target):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    worker.Path.replace = full
    return make_proxies(argument, send)


def is_rotten(argument, send):
    """A disk that gives back other bytes than were written."""
    packets_of = making.packets_of

    def rotten(path, *given):
        with path.open("r+b") as file:
            file.seek(2000)
            file.write(bytes(200))
        return packets_of(path, *given)

    making.packets_of = rotten
    return make_proxies(argument, send)


def is_killed_with_its_parent(argument, send):
    """Kill -9 to both in the middle of a proxy, or between its files: by a number in the folder."""

    def kill():
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    moment = os.environ["HEADRACE_TEST_MOMENT"]
    if moment == "facts":
        worker.write_proxy_entry = lambda *given: kill()
    elif moment == "entry":
        worker.Ledger.write = lambda *given: kill()
    else:
        _at_frame(int(moment), kill)
    return make_proxies(argument, send)


if __name__ == "__main__":
    from extraction.proxies import proxy_workers

    paths, out, store, name = json.loads(sys.argv[1])
    make(paths, out, Path(store), function=getattr(proxy_workers, name), workers=1)
