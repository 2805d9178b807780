"""Invalid options of benchmarks are refused in one sentence.

tests/test_config_fields.py tests the messages on bounds of single numbers.
"""

from pathlib import Path

import pytest

from headrace.bench.cameras import CamerasConfig
from headrace.bench.live_capacity import LiveConfig
from headrace.bench.memory import MemoryConfig
from headrace.bench.overlap import OverlapConfig
from headrace.bench.prefetch import PrefetchConfig
from headrace.bench.sampling import SamplingConfig
from headrace.bench.scenarios import ScenariosConfig
from headrace.bench.stability import StabilityConfig
from headrace.bench.stages import StagesConfig
from headrace.bench.workers import WorkersConfig
from headrace.errors import ConfigError

NUMBERS = "must be numbers from 1 up, got"
REFUSED = [
    (CamerasConfig, {"ranks": ()}, f"ranks {NUMBERS} none"),
    (CamerasConfig, {"workers": (0,)}, f"workers {NUMBERS} 0"),
    (CamerasConfig, {"sync": "time"}, "sync must be one of index, nearest, previous, got 'time'"),
    (
        CamerasConfig,
        {"ways": ("fast",)},
        "ways must be among decode, loader, dataset, wandering; got fast",
    ),
    (LiveConfig, {"p95_ms": 0.0}, "p95_ms must be > 0, got 0.0"),
    (LiveConfig, {"p95_ms": float("inf")}, "p95_ms must be in [0, 600000], got inf"),
    (LiveConfig, {"videos": ("a", "b")}, "bench live takes one video, got 2: a, b"),
    (LiveConfig, {"search": "height"}, "search must be one of rate, streams, got 'height'"),
    (MemoryConfig, {"sizes": ("8K",)}, "sizes must be among 360p, 720p, 1080p, 4K; got 8K"),
    (MemoryConfig, {"sizes": ()}, "sizes and precisions need at least one value each, got none"),
    (
        MemoryConfig,
        {"precisions": ("int8",)},
        "precisions must be among auto, float32, float16, bfloat16; got int8",
    ),
    (MemoryConfig, {"batch_sizes": (0, 2)}, f"batch_sizes {NUMBERS} 0, 2"),
    (MemoryConfig, {"max_memory": "lots"}, "a size must read like"),
    (
        ScenariosConfig,
        {"videos": tuple("abc")},
        "bench scenarios takes one video, got 3: a, b, ...",
    ),
    (PrefetchConfig, {"prefetch_factor": ()}, f"prefetch_factor {NUMBERS} none"),
    (PrefetchConfig, {"prefetch_factor": (2, 0)}, f"prefetch_factor {NUMBERS} 2, 0"),
    (PrefetchConfig, {"seconds": 0.0}, "seconds must be > 0, got 0.0"),
    (SamplingConfig, {"seconds": 0}, "seconds must be > 0, got 0"),
    (SamplingConfig, {"seconds": float("nan")}, "seconds must be > 0, got nan"),
    (SamplingConfig, {"memory_budget": "much"}, "a size must read like"),
    (
        SamplingConfig,
        {"strategies": ("naive", "fast")},
        "strategies must be among baseline, dataset, naive, look-ahead, quarter, permutation, "
        "bursts; got fast",
    ),
    (StabilityConfig, {"videos": ("a", "b")}, "bench stability takes one video, got 2: a, b"),
    (StabilityConfig, {"videos": ()}, "at least one video is needed, got none"),
    (StabilityConfig, {"target": 0.0}, "target must be > 0, got 0.0"),
    (StabilityConfig, {"batch_sizes": (0,)}, f"batch_sizes {NUMBERS} 0"),
    (StabilityConfig, {"queue_depths": ()}, f"queue_depths {NUMBERS} none"),
    (StabilityConfig, {"max_seconds": 0.0}, "max_seconds must be > 0, got 0.0"),
    (StagesConfig, {"videos": ("a", "b")}, "bench stages takes one video, got 2: a, b"),
    (StagesConfig, {"videos": ()}, "at least one video is needed, got none"),
    (StagesConfig, {"seconds": 0.0}, "seconds must be > 0, got 0.0"),
    (
        StagesConfig,
        {"prep_level": "hard"},
        "prep_level must be one of simple, medium, complex, got 'hard'",
    ),
    (WorkersConfig, {"workers": ()}, "workers must be numbers from 0 up, got none"),
    (WorkersConfig, {"workers": (1, -1)}, "workers must be numbers from 0 up, got 1, -1"),
    (WorkersConfig, {"videos": ()}, "at least one video is needed, got none"),
]


def test_a_configuration_becomes_the_options_of_a_run():
    chosen = OverlapConfig(videos=("a.mp4",), model_name="resnet18", prep_level="simple", threads=2)
    options = chosen.compute_options(batch_size=4)
    assert (options.model_name, options.prep_level, options.threads) == ("resnet18", "simple", 2)
    assert (options.batch_size, options.weights, options.device) == (4, "none", "cpu")


@pytest.mark.parametrize(("config", "options", "message"), REFUSED)
def test_an_invalid_option_is_refused(config, options, message):
    usual = {"index_file": Path("i.json")} if config is CamerasConfig else {"videos": ("a.mp4",)}
    with pytest.raises(ConfigError) as error:
        config(**{**usual, **options})
    text = str(error.value)
    assert text.startswith(message) if message == "a size must read like" else text == message
