"""Options of all kinds of extraction, in requests and records."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import pytest

from headrace.cli.config_flags import configured, parameters
from headrace.config_fields import Option
from headrace.errors import ConfigError
from headrace.extraction.features.feature_options import FeatureOptions
from headrace.extraction.features.model_spec import OwnModel
from headrace.extraction.frame_extraction import FrameExtractionOptions
from headrace.extraction.image_encoder import ImageEncoder
from headrace.extraction.proxies.proxy_options import ProxyOptions
from headrace.sampling.selection import EveryNth

KINDS = {
    "frames": (FrameExtractionOptions, {"selection": EveryNth(5)}),
    "features": (FeatureOptions, {"model": OwnModel(build="tests:build")}),
    "proxies": (ProxyOptions, {}),
}


def options(name, **fields):
    kind, required = KINDS[name]
    return kind(**{"sources": ("clip.mp4",), "out": Path("out"), **required, **fields})


def test_requests_and_records_have_all_options_in_this_order(holds):
    lines = []
    for name in KINDS:
        defaults = options(name)
        request = defaults.request(())
        assert request.kind == name
        lines += [f"# {name}", "", *request.asked, "", *defaults.configuration(), ""]
    holds("options.txt", "\n".join(lines))


@pytest.mark.parametrize("name", KINDS)
def test_a_request_records_whether_damaged_frames_are_concealed(name):
    policies = ("skip", "raise", "conceal")
    requests = [options(name, on_error=policy).request(()) for policy in policies]
    assert [request.conceals for request in requests] == [False, False, True]
    assert not list(requests[0].differences(requests[1]))


@dataclass(frozen=True, kw_only=True)
class EncoderWithEffort(ImageEncoder):
    effort: Annotated[int, Option("Effort of the encoder.", least=0, most=6)] = 4


def test_an_option_of_extracted_frames_is_one_field():
    """Flag, bounds, request entry and the worker's value follow from it."""
    [flag] = parameters(EncoderWithEffort, only="effort")
    assert (flag.name, flag.default) == ("effort", 4)
    encoder = configured(EncoderWithEffort, {"format": "webp", "effort": 6})
    assert EncoderWithEffort.of_asked(encoder.asked()) == replace(encoder, quality=80)
    # At its default, a request equals the requests of older folders.
    assert EncoderWithEffort().asked() == ImageEncoder().asked()
    with pytest.raises(ConfigError, match=r"effort must be in \[0, 6\], got 7"):
        EncoderWithEffort(effort=7)
