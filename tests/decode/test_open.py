"""Opening a video for decoding."""

from contextlib import closing

import pytest

from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder, open_index
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, OpenError
from headrace.testing.synth import KINDS, read_number, write_clip


def test_a_decoder_opens_from_a_path_or_an_index(tmp_path):
    path, store = write_clip(tmp_path / "clip", KINDS["h264"]), IndexStore(tmp_path / "store")
    for source in (str(path), path, open_index(path, store)):
        with closing(open_decoder(source, store=store)) as decoder:
            [(_, frame)] = decoder.run(DecodeJob((31,)))
            assert read_number(frame) == 31
    assert (store.counters.misses, store.counters.hits) == (1, 2)


def test_an_unknown_backend_is_refused_by_name(tmp_path):
    with pytest.raises(BackendError, match="no backend 'gpu'; there is pyav"):
        open_decoder(tmp_path / "clip.mp4", decoding=Decoding(backend="gpu"))


def test_opening_touches_no_video_until_a_job_runs(tmp_path):
    path, store = write_clip(tmp_path / "clip", KINDS["h264"]), IndexStore(tmp_path / "store")
    with closing(open_decoder(path, store=store)) as decoder:
        assert decoder.counters.opens == 0
    with pytest.raises(OpenError):
        open_decoder(tmp_path / "missing.mp4", store=store)
