"""Optional parts, and what adds them."""

from headrace.profiling.extras import Extra, extras


def test_the_extras_of_the_package_are_listed_with_their_packages():
    found = {extra.name: extra for extra in extras()}
    assert set(found) == {
        *(
            "run",
            "dev",
            "parquet",
            "safetensors",
            "web",
            "redis",
            "ray",
            "nvtx",
            "tensorboard",
            "torchcodec",
            "pynvvideocodec",
            "trainers",
            "bench",
        ),
    }
    assert "pytest" in found["dev"].packages
    assert found["dev"].packages["pytest"]
    assert found["bench"].command == "pip install 'headrace[bench]'"


def test_an_extra_is_installed_when_all_of_it_is():
    assert Extra("x", {"a": "1", "b": "2"}).is_installed
    assert not Extra("x", {"a": "1", "b": None}).is_installed


def test_what_is_missing_or_too_old_is_named():
    lowest = {"pydantic": "2.10", "rich": "13"}
    installed = {"pydantic": "2.9.3", "rich": "13.0", "typer": None, "jinja2": "3.1"}
    assert Extra("run", installed, lowest).lacking() == ["pydantic>=2.10", "typer"]
