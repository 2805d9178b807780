"""Proxies as the tests make and read them, and what their workers do; imported by children."""

import errno
import os
from pathlib import Path

import av

from extraction.faults import before, crash, fill_the_disk, kill_both
from headrace.decode.index_store import IndexStore
from headrace.extraction.journal import Journal
from headrace.extraction.proxies import make_proxy as making
from headrace.extraction.proxies.encoder import ProxyFile
from headrace.extraction.proxies.make_proxy import ProxyWorker, make_proxies
from headrace.extraction.proxies.proxy_extraction import ProxyMaking
from headrace.extraction.proxies.proxy_options import ProxyOptions, proxy_size


def options(paths, out, size="64", **given):
    return ProxyOptions(
        sources=tuple(map(str, paths)), out=Path(out), size=proxy_size(size), **given
    )


def make(paths, out, store, function=make_proxies, **given):
    """Make proxies; return what it came to."""
    asked = options(paths, out, **given)
    return ProxyMaking.prepare(asked, store=IndexStore(store), function=function).run()


def plain_frames(path):
    """Every frame of a proxy by a plain linear decode, as a player would: VideoFrame."""
    with av.open(str(path)) as container:
        yield from container.decode(video=0)


def plain_packets(path):
    with av.open(str(path)) as container:
        yield from (packet for packet in container.demux(video=0) if packet.size)


def crashes_in_the_second_video(*given):
    """As a decoder that a file makes crash: the longest comes first."""

    def is_second(worker, decoder, *rest):
        return decoder.index.source.path.name == "clip1.mp4"

    before(ProxyWorker, "_make", act=crash, where=is_second)
    return make_proxies(*given)


def runs_out_of_room(*given):
    """A disk that is full when the second proxy is put in its place."""
    before(Path, "replace", act=fill_the_disk, calls=1, once=False)
    return make_proxies(*given)


def is_rotten(*given):
    """A disk that gives back other bytes, in a packet or in the MP4's boxes, or none."""

    def rot(path, *rest):
        box, after = os.environ["HEADRACE_TEST_MOMENT"].split()
        if box == "read":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with path.open("r+b") as file:
            file.seek(path.read_bytes().index(box.encode()) + int(after))
            file.write(bytes(200))

    before(making, "packets_of", act=rot)
    return make_proxies(*given)


def is_killed_with_its_parent(*given):
    """Kill -9 to both in the middle of a proxy, or between its files: by a number in the folder."""
    moment = os.environ["HEADRACE_TEST_MOMENT"]
    if moment == "facts":
        before(making, "write_proxy_entry", act=kill_both)
    elif moment == "entry":
        before(Journal, "write", act=kill_both)
    else:
        before(ProxyFile, "write", act=kill_both, calls=int(moment))
    return make_proxies(*given)


def main(paths, out, store):
    make(paths, out, Path(store), is_killed_with_its_parent, workers=1)
