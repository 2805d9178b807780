"""Clips of which proxies are made, and an index store for all tests."""

import pytest

from headrace.testing.synth import SynthClip, write_clip

LENGTHS = (48, 25, 30)


@pytest.fixture(scope="package")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [
        write_clip(folder / f"clip{number}", SynthClip(num_frames=n, gop=30, b_frames=2))
        for number, n in enumerate(LENGTHS)
    ]


@pytest.fixture(scope="package")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")
