"""What all kinds of extraction may be asked, and how a folder and a record keep it."""

from pathlib import Path

import pytest

from headrace.extraction.features.feature_options import FeatureOptions
from headrace.extraction.features.model_spec import OwnModel
from headrace.extraction.frame_extraction import FrameExtractionOptions
from headrace.extraction.proxies.proxy_options import ProxyOptions
from headrace.sampling.selection import EveryNth

KINDS = {
    "frames": (FrameExtractionOptions, {"selection": EveryNth(5)}),
    "features": (FeatureOptions, {"model": OwnModel(build="tests:build")}),
    "proxies": (ProxyOptions, {}),
}


def options(name, **given):
    kind, needed = KINDS[name]
    return kind(**{"sources": ("clip.mp4",), "out": Path("out"), **needed, **given})


def test_a_folder_and_a_record_have_all_by_name_in_this_order(holds):
    lines = []
    for name in KINDS:
        plain = options(name)
        request = plain.request(())
        assert request.kind == name
        lines += [f"# {name}", "", *request.asked, "", *plain.configuration(), ""]
    holds("options.txt", "\n".join(lines))


@pytest.mark.parametrize("name", KINDS)
def test_a_request_says_whether_damaged_frames_are_shown(name):
    asked = [options(name, on_error=each).request(()) for each in ("skip", "raise", "conceal")]
    assert [request.conceals for request in asked] == [False, False, True]
    assert not list(asked[0].differences(asked[1]))
