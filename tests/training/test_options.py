"""What a user types: flat, with the defaults there always were, and told by help()."""

import inspect

import pytest

from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.windows.loader import CameraWindowLoader
from headrace.training.clip_loader import ClipLoader
from headrace.training.loader import FrameLoader

SHARED = {
    "memory_budget": "1GiB",
    "lookahead": None,
    "decoding": None,
    "gpu": None,
    "workers": None,
    "transform": None,
    "batch_transform": None,
    "device": None,
    "pin_memory": False,
    "rank": None,
    "num_replicas": None,
    "left_early": None,
    "stall_seconds": 120.0,
    "store": None,
}
SAMPLES = {
    **SHARED,
    "size": (256, 256),
    "fit": "stretch",
    "interpolation": "area",
    "dtype": "uint8",
    "hold": "rgb",
    "seed": None,
    "drop_last": False,
    "on_error": "raise",
    "quarantine": None,
    "persistent": True,
}
CAMERAS = {
    **SHARED,
    "group_num": 4,
    "cameras": None,
    "size": None,
    "fit": "stretch",
    "interpolation": "area",
    "view": None,
    "augment": None,
    "ragged": None,
    "alignment": None,
    "metadata": None,
    "moments": None,
    "tail": "pad",
    "seq_split": 1,
    "shuffle": False,
    "seed": 0,
    "num_of_file": None,
    "on_error": "raise",
}
WINDOWS = {
    **SAMPLES,
    "batch_size": 1,
    "size": None,
    "view": None,
    "augment": None,
    "metadata": None,
    "num_moments": None,
    "stride": None,
    "delta_seconds": None,
    "tolerance_ms": 50.0,
    "moments": None,
    "keys": None,
    "boundary": "pad",
    "sampling": None,
    "weights": None,
    "class_balance": None,
    "cameras": None,
    "alignment": None,
}
LOADERS = [
    (FrameLoader, "videos", {**SAMPLES, "batch_size": 128, "sampling": None}),
    (ClipLoader, "videos", {**SAMPLES, "batch_size": 8, "clips": None}),
    (CameraLoader, "layout", CAMERAS),
    (CameraWindowLoader, "layout", WINDOWS),
]


@pytest.mark.parametrize(("loader", "first", "defaults"), LOADERS)
def test_arguments_are_keywords_with_these_defaults(loader, first, defaults):
    positional, *keywords = inspect.signature(loader).parameters.values()
    assert (positional.name, positional.kind) == (first, positional.POSITIONAL_OR_KEYWORD)
    assert positional.default is positional.empty
    assert {each.kind for each in keywords} == {positional.KEYWORD_ONLY}
    found = {each.name: each.default for each in keywords if each.name != "clock"}
    assert found == defaults
    assert all(each.annotation is not each.empty for each in (positional, *keywords))


@pytest.mark.parametrize(("loader", "first", "defaults"), LOADERS)
def test_help_says_what_each_argument_is(loader, first, defaults):
    documented = inspect.getdoc(loader.__init__)
    assert documented.startswith("Open the index of every")
    for name in (first, *defaults, "clock"):
        assert documented.count(f"\n    {name}: ") == 1, name


def test_a_loader_says_its_own_of_what_others_say_too():
    assert "Frames of each camera" in inspect.getdoc(CameraLoader.__init__)
    assert "Requests for single frames" in inspect.getdoc(ClipLoader.__init__)


@pytest.mark.parametrize(("loader", "first", "defaults"), LOADERS)
def test_an_argument_that_there_is_not_is_told_by_the_name_of_the_loader(loader, first, defaults):
    message = f"{loader.__name__} has no argument 'stale_seconds'; did you mean stall_seconds"
    with pytest.raises(TypeError, match=message):
        loader([], stale_seconds=3)
    with pytest.raises(TypeError, match=rf"{loader.__name__}.__init__\(\) missing .* '{first}'"):
        loader()
