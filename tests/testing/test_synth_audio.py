"""Files without video are just that."""

from pathlib import Path

import av
import numpy as np

from headrace.testing.synth_audio import write_audio


def test_sound_alone_has_no_video_stream(tmp_path: Path) -> None:
    path = write_audio(tmp_path / "tone")
    assert path.name == "tone.mp3"
    with av.open(str(path)) as container:
        assert [stream.type for stream in container.streams] == ["audio"]
        samples = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    assert len(samples) > 40_000
    assert samples.std() > 0.1


def test_cover_art_shows_as_a_video_stream_of_one_attached_picture(tmp_path: Path) -> None:
    with av.open(str(write_audio(tmp_path / "song", cover_art=True))) as container:
        (video,) = container.streams.video
        assert video.disposition == av.stream.Disposition.attached_pic
        assert len(list(container.decode(video))) == 1
        assert len(container.streams.audio) == 1
