"""Where a model runs and how."""

import pytest
import torch

from headrace.errors import ConfigError
from headrace.models.compute import Compute


def test_a_model_runs_on_the_cpu_in_full_precision_unless_asked_otherwise():
    compute = Compute()
    assert (compute.device, compute.dtype, compute.compile) == ("cpu", torch.float32, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "tpu"}, "device must be one of cpu, cuda, got 'tpu'"),
        ({"precision": "int8"}, "precision must be one of float32, float16, bfloat16, got 'int8'"),
        ({"warmup_batches": 0}, "warmup_batches must be an integer >= 1, got 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        Compute(**options)
