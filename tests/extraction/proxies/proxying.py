"""Making and reading of proxies, and faulty workers for tests; imported by child processes."""

import errno
import os
from pathlib import Path

import av

from extraction.faults import before, crash, fill_the_disk, kill_both
from headrace.decode.index_store import IndexStore
from headrace.extraction.journal import Journal
from headrace.extraction.proxies import encoder, proxy_extraction
from headrace.extraction.proxies.encoder import ProxyFile
from headrace.extraction.proxies.proxy_extraction import ProxyMaking, ProxyWorker, make_proxies
from headrace.extraction.proxies.proxy_options import ProxyOptions, proxy_size


def make(paths, out, store, function=make_proxies, *, size="64", **fields):
    """Make proxies; return the result."""
    options = ProxyOptions(
        sources=tuple(map(str, paths)), out=Path(out), size=proxy_size(size), **fields
    )
    return ProxyMaking.prepare(options, store=IndexStore(store), function=function).run()


def plain_frames(path):
    """Yield every frame of a proxy from a linear decode, as in a player."""
    with av.open(str(path)) as container:
        yield from container.decode(video=0)


def plain_packets(path):
    with av.open(str(path)) as container:
        yield from (packet for packet in container.demux(video=0) if packet.size)


def crashes_in_the_second_video(*arguments):
    """A decoder that crashes on a file; the longest video is first."""

    def is_second(worker, decoder, *rest):
        return decoder.index.source.path.name == "clip1.mp4"

    before(ProxyWorker, "_make", act=crash, where=is_second)
    return make_proxies(*arguments)


def runs_out_of_room(*arguments):
    """A disk that is full when the second proxy is renamed."""
    before(Path, "replace", act=fill_the_disk, calls=1, once=False)
    return make_proxies(*arguments)


def has_a_damaged_disk(*arguments):
    """A disk that returns wrong bytes, in a packet or in the boxes of the MP4, or fails."""

    def damage(path, *rest):
        box, offset = os.environ["HEADRACE_TEST_MOMENT"].split()
        if box == "read":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with path.open("r+b") as file:
            file.seek(path.read_bytes().index(box.encode()) + int(offset))
            file.write(bytes(200))

    before(encoder, "packets_of", act=damage)
    return make_proxies(*arguments)


def is_killed_with_its_parent(*arguments):
    """SIGKILL of worker and parent after the n-th frame of a proxy, or between its files."""
    moment = os.environ["HEADRACE_TEST_MOMENT"]
    if moment == "facts":
        before(proxy_extraction, "write_proxy_entry", act=kill_both)
    elif moment == "entry":
        before(Journal, "write", act=kill_both)
    else:
        before(ProxyFile, "write", act=kill_both, calls=int(moment))
    return make_proxies(*arguments)


def main(paths, out, store):
    make(paths, out, Path(store), is_killed_with_its_parent, workers=1)
