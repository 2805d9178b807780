"""What all kinds of extraction may be asked, and how a folder and a record keep it."""

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


@dataclass(frozen=True, kw_only=True)
class EncoderWithEffort(ImageEncoder):
    effort: Annotated[int, Option("Effort of the encoder.", least=0, most=6)] = 4


def test_an_option_of_extracted_frames_is_one_field():
    """Its flag, its bounds, its place in a request and what a worker reads follow from it."""
    [flag] = parameters(EncoderWithEffort, only="effort")
    assert (flag.name, flag.default) == ("effort", 4)
    typed = configured(EncoderWithEffort, {"format": "webp", "effort": 6})
    assert EncoderWithEffort.of_asked(typed.asked()) == replace(typed, quality=80)
    # Requests that do not choose it are those of folders that were made before it.
    assert EncoderWithEffort().asked() == ImageEncoder().asked()
    with pytest.raises(ConfigError, match=r"effort must be in \[0, 6\], got 7"):
        EncoderWithEffort(effort=7)
