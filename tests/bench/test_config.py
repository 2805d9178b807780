"""The options that benchmarks share are those of a run."""

from typing import get_args

import pytest

from headrace.bench.overlap import OverlapConfig
from headrace.errors import ConfigError
from headrace.models import compute
from headrace.models import compute as precision
from headrace.preprocess import operations, spec


def test_devices_and_levels_are_named_as_everywhere():
    assert get_args(precision.Device) == get_args(compute.Device)
    assert get_args(spec.PrepLevel) == get_args(operations.PrepLevel)


def test_a_configuration_is_what_a_run_takes():
    chosen = OverlapConfig(videos=("a.mp4",), model_name="resnet18", prep_level="simple", threads=2)
    found = chosen.compute_options(batch_size=4)
    assert (found.model_name, found.prep_level, found.threads) == ("resnet18", "simple", 2)
    assert (found.batch_size, found.weights, found.device) == (4, "none", "cpu")


def test_an_unknown_device_is_refused():
    with pytest.raises(ConfigError, match="device must be one of cpu, cuda, got 'tpu'"):
        OverlapConfig(videos=("a.mp4",), device="tpu")
