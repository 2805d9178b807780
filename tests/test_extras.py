"""A missing extra has the same error everywhere, and is imported only where it is used."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from headrace.cache.cache_url import open_cache
from headrace.decode.open_decoder import usable_backends
from headrace.errors import BackendError
from headrace.extraction.features.export import export
from headrace.extraction.features.feature_folder import FeatureFolder
from headrace.extraction.features.feature_options import on_ray, sized
from headrace.extraction.frame_extraction import FrameExtraction, FrameExtractionOptions
from headrace.extraction.ray.settings import RaySettings
from headrace.extras import Extra, extras, require
from headrace.loaders.manifest import Manifest
from headrace.runs.model_setup import StartupTimer
from headrace.runs.run_options import TracingOptions
from headrace.runs.tracers import prepare_tracers
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.sampling.selection import EveryNth
from headrace.sinks.result_rows import open_boxes, open_predictions
from headrace.sinks.web.open_page import open_web_view
from headrace.sinks.web.web_options import WebOptions

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
BROUGHT = (
    *("pyarrow", "safetensors", "redis", "ray", "nvtx", "tensorboard", "torchcodec"),
    *("PyNvVideoCodec", "starlette", "uvicorn", "prometheus_client"),
)
"""Packages of extras, as imported."""
BEHIND = (
    *("headrace.cache.redis_store", "headrace.runtime.asgi_server", "headrace.runtime.asgi_server"),
    *("headrace.sinks.web.", "headrace.extraction.ray.", "torch.utils.tensorboard"),
)
"""Prefixes of modules that import such a package at their top."""


def frames(out: Path) -> FrameExtraction:
    options = FrameExtractionOptions(sources=("a.mp4",), out=out, selection=EveryNth(1))
    return FrameExtraction.prepare(options)


def marks(**options: object) -> None:
    prepare_tracers(TracingOptions(**options), StartupTimer(SYSTEM_CLOCK))


LEFT_OUT = ", or leave out --predictions for JSON lines"
DOORS = {
    "redis": (lambda out: open_cache("redis://h"), "a cache server needs redis", ""),
    "nvtx": (lambda out: marks(nvtx=True), "a run with NVTX ranges needs nvtx", ""),
    "tensorboard": (
        *(lambda out: marks(tensorboard=out), "a log for TensorBoard needs tensorboard", ""),
    ),
    "web": (
        lambda out: open_web_view(WebOptions(), None, ()),
        "a run that is shown as a web page or as metrics needs starlette",
        "",
    ),
    "ray": (lambda out: on_ray(RaySettings()), "--ray needs pyarrow", ""),
    "ray, sized": (lambda out: sized(RaySettings()), "--ray needs pyarrow", ""),
    "safetensors": (
        lambda out: export(None, out, "safetensors"),
        "an export as safetensors needs safetensors",
        ", or export npy",
    ),
    "parquet, frames": (frames, "the table of the frames, frames.parquet, needs pyarrow", ""),
    "parquet, features": (FeatureFolder, "a table of features needs pyarrow", ""),
    "parquet, predictions": (
        lambda out: open_predictions("parquet", out, (), top_k=1),
        "a table of predictions needs pyarrow",
        LEFT_OUT,
    ),
    "parquet, boxes": (
        lambda out: open_boxes("parquet", out, ()),
        "a table of boxes needs pyarrow",
        ", or give --no-parquet for coco.json alone",
    ),
    "parquet, manifest": (
        lambda out: Manifest.read("rows.parquet"),
        "the manifest rows.parquet needs pyarrow",
        ", or write it as CSV or JSON lines",
    ),
}
"""Extra → call that needs it, start of the error, and the alternative in the error."""

BACKENDS = {"torchcodec": "torchcodec", "pynvvideocodec": "PyNvVideoCodec"}


@pytest.fixture
def bare(monkeypatch):
    """Pretend that no extra is installed."""

    def nowhere(package):
        raise PackageNotFoundError(package)

    for name in [*sys.modules]:
        if name.startswith(BEHIND) or name.partition(".")[0] in BROUGHT:
            monkeypatch.delitem(sys.modules, name)
    for package in BROUGHT:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("headrace.extras.version", nowhere)


@pytest.mark.parametrize("door", DOORS)
def test_each_call_without_its_extra_names_the_command(bare, tmp_path, door):
    ask, needs, instead = DOORS[door]
    with pytest.raises(BackendError) as caught:
        ask(tmp_path / "out")
    added = f"pip install 'headrace[{door.partition(',')[0]}]'"
    assert str(caught.value) == f"{needs}, not installed here; {added}{instead}"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_backend_has_its_reason_in_the_list_of_backends(bare):
    found = usable_backends()
    assert found == {
        "pyav": None,
        **{
            name: f"the backend {name} needs {package}, not installed here; "
            f"pip install 'headrace[{name}]', or leave backend out"
            for name, package in BACKENDS.items()
        },
    }


def test_an_import_that_fails_for_another_reason_has_this_reason():
    with pytest.raises(BackendError) as caught, require("web", "a page", "leave it out"):
        raise ImportError("libssl.so: cannot open shared object file\nmore")
    assert str(caught.value) == (
        "a page needs web, which cannot be imported (libssl.so: cannot open shared object file); "
        "pip install 'headrace[web]', or leave it out"
    )


def test_the_extras_of_the_package_are_listed_with_their_packages():
    found = {extra.name: extra for extra in extras()}
    assert set(found) == set(PROJECT["project"]["optional-dependencies"])
    assert found["dev"].packages["pytest"]
    assert found["bench"].command == "pip install 'headrace[bench]'"


def test_an_extra_is_installed_if_all_its_packages_are():
    assert Extra("x", {"a": "1", "b": "2"}).is_installed
    assert not Extra("x", {"a": "1", "b": None}).is_installed
    lowest = {"pydantic": "2.10", "rich": "13"}
    installed = {"pydantic": "2.9.3", "rich": "13.0", "typer": None, "jinja2": "3.1"}
    assert Extra("run", installed, lowest).lacking() == ["pydantic>=2.10", "typer"]
