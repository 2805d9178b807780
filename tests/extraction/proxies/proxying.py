"""Proxies as the tests make and read them; imported by children."""

from pathlib import Path

import av

from headrace.decode.index_store import IndexStore
from headrace.extraction.proxies.proxy_making import ProxyMaking
from headrace.extraction.proxies.request import ProxyOptions
from headrace.extraction.proxies.size import proxy_size
from headrace.extraction.proxies.worker import make_proxies


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
