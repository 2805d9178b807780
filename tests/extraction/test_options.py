"""What all kinds of extraction may be asked, and how a folder and a record keep it."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.extraction.features.request import FeatureOptions
from headrace.extraction.features.spec import OwnModel
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.proxies.request import ProxyOptions
from headrace.sampling.selection import EveryNth

KINDS = {
    "frames": (FrameOptions, {"selection": EveryNth(5)}),
    "features": (FeatureOptions, {"model": OwnModel(build="tests:build")}),
    "proxies": (ProxyOptions, {}),
}


def options(name, **given):
    kind, needed = KINDS[name]
    return kind(**{"sources": ("clip.mp4",), "out": Path("out"), **needed, **given})


REFUSED = [
    ({"sources": ()}, "give at least one video"),
    ({"workers": 0}, "workers must be an integer >= 1, got 0"),
    ({"on_error": "stop"}, "'stop'"),
    ({"stall_seconds": 0}, "stall_seconds must be > 0, got 0"),
]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("wrong", "words"), REFUSED)
def test_what_cannot_be_is_refused(name, wrong, words):
    with pytest.raises(ConfigError, match=words):
        options(name, **wrong)


FIELDS = [
    ("frames", "frames format quality size prefix damaged", "out workers rate decode"),
    (
        "features",
        "frames clip_len stride model_name layer weights prep_level model device precision "
        "dtype damaged",
        "out batch_size workers ray cache rate decode",
    ),
    ("proxies", "size gop codec damaged", "out workers"),
]


@pytest.mark.parametrize(("name", "asked", "means"), FIELDS)
def test_a_folder_and_a_record_have_all_by_name_in_this_order(name, asked, means):
    plain = options(name)
    request = plain.request(())
    assert (request.kind, " ".join(request.asked)) == (name, asked)
    recorded = f"sources {asked} {means} on_error retry stall_seconds"
    assert " ".join(plain.configuration()) == recorded


@pytest.mark.parametrize("name", KINDS)
def test_a_request_says_whether_damaged_frames_are_shown(name):
    asked = [options(name, on_error=each).request(()) for each in ("skip", "raise", "conceal")]
    assert [request.conceals for request in asked] == [False, False, True]
    assert not list(asked[0].differences(asked[1]))
