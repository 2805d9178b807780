"""Clips and servers for the tests of live sources."""

import pytest

from headrace.decode.index_store import IndexStore
from headrace.testing.synth import SynthClip
from live.rtsp import RtspServer, needs_server


@pytest.fixture
def clip(written):
    """Ten seconds at 30 frames per second, with a keyframe every half second."""
    return written(SynthClip(num_frames=300, gop=15))


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "indexes")


@pytest.fixture
def serve(clip):
    """Return a function: login, path and key -> a server, stopped after the test."""
    needs_server()
    servers = []

    def start(*login, path=clip, **options):
        servers.append(RtspServer(*login, **options))
        servers[-1].start(path)
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def rtsp(serve):
    """A server of the clip without a password."""
    return serve()
