"""Clips and servers for the tests of live sources."""

import pytest

from headrace.decode.index_store import IndexStore
from headrace.testing.synth import SynthClip
from live.rtsp import RtspServer, needs_server


@pytest.fixture
def clip(written):
    """Ten seconds of 30 frames each, a keyframe every half second."""
    return written(SynthClip(num_frames=300, gop=15))


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "indexes")


@pytest.fixture
def serve(clip):
    """Return a function: login, what is served, a key -> a server, which ends with the test."""
    needs_server()
    servers = []

    def start(*login, path=clip, **given):
        servers.append(RtspServer(*login, **given))
        servers[-1].start(path)
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def rtsp(serve):
    """A server that serves the clip, without a password."""
    return serve()
