"""Annotated videos of frames that came as they came."""

from fractions import Fraction

import av
import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.models.results import Labels
from headrace.sinks.annotated_parts import AnnotatedParts
from headrace.sinks.seen import Seen
from headrace.video.frames import FrameBatch


def seen(number, *, source=0, pts=None, side=64):
    batch = FrameBatch(
        frames=np.zeros((1, side, side, 3), np.uint8),
        video=source,
        index=np.array([number]),
        pts=np.array([number if pts is None else pts]),
        time_base=Fraction(1, 30),
    )
    return Seen(batch=batch, labels=Labels(names=(("cat",),), confidence=((0.5,),)))


def lengths(folder, sink):
    found = {}
    for name in sink.outputs:
        with av.open(str(folder / name)) as container:
            found[name] = len(list(container.decode(video=0)))
    return found


def test_one_source_is_one_file(tmp_path):
    sink = AnnotatedParts(tmp_path, 1)
    for number in range(5):
        sink.write(seen(number))
    sink.close()
    sink.close()
    assert lengths(tmp_path, sink) == {"annotated.mp4": 5}


@pytest.mark.parametrize("change", [{"side": 96}, {"pts": 0}], ids=["another size", "times anew"])
def test_what_one_file_cannot_hold_goes_on_in_another(tmp_path, change):
    sink = AnnotatedParts(tmp_path, 2)
    for number in range(5):
        sink.write(seen(number, source=1))
    sink.write(seen(5, source=1, **change))
    sink.write(seen(0, source=0))
    sink.close()
    assert lengths(tmp_path, sink) == {
        "annotated-1.mp4": 5,
        "annotated-1.2.mp4": 1,
        "annotated-0.mp4": 1,
    }


def test_a_folder_that_is_gone_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot write .*annotated\.mp4"):
        AnnotatedParts(tmp_path / "gone", 1).write(seen(0))
