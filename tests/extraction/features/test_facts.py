"""What is known of a model: found out once, remembered, and void when anything has changed."""

import os
import sys
from types import SimpleNamespace

import pytest

from cli.kit import python
from extraction.features.running import CPU, listed, own, sampling
from headrace.cache.content_digests import ContentDigests
from headrace.errors import BackendError, ConfigError
from headrace.extraction.features import signature_cache
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.extraction.features.model_spec import Numerics, Sampling, TorchvisionModelSpec
from headrace.extraction.features.signature_cache import (
    FILE,
    KnownFacts,
    feature_facts,
    request_of,
)
from headrace.extraction.features.signature_probe import measure_signature
from headrace.testing.fake_clock import FakeClock
from weights import mobilenet

FRAMES = Sampling()


@pytest.fixture(scope="module")
def facts():
    return measure_signature(listed(), FRAMES, CPU)[0]


@pytest.fixture
def known(tmp_path):
    with KnownFacts(tmp_path) as known:
        yield known


def test_facts_tell_the_shape_and_what_decides_a_result(facts):
    assert (facts.shape, facts.layer) == ((512,), "input of classifier.1")
    assert facts.model["weights"].startswith("sha256:")
    assert facts.uncached is None
    same, files = measure_signature(listed(), FRAMES, CPU)
    assert (same, files) == (facts, [])
    for spec, numerics in (
        (listed(layer="features.12"), CPU),
        (listed(prep_level="simple"), CPU),
        (listed(), Numerics(precision="bfloat16")),
        (listed(), Numerics(dtype="float16")),
    ):
        assert measure_signature(spec, FRAMES, numerics)[0] != facts


def test_a_child_finds_out_once_and_nobody_loads_pytorch(tmp_path, facts):
    script = (
        "import sys; from pathlib import Path\n"
        "from headrace.extraction.features.signature_cache import feature_facts\n"
        "from headrace.extraction.features.signature_cache import KnownFacts\n"
        "from headrace.extraction.features.model_spec import Sampling\n"
        "from headrace.extraction.features.model_spec import TorchvisionModelSpec, Numerics\n"
        "spec = TorchvisionModelSpec(name='squeezenet1_1', weights='none')\n"
        "with KnownFacts(Path(sys.argv[1])) as known:\n"
        "    found = feature_facts(spec, Sampling(), Numerics(), known)\n"
        "assert not {'torch', 'torchvision'} & set(sys.modules)\n"
    )
    assert python(script, tmp_path).returncode == 0
    with KnownFacts(tmp_path) as known:
        assert known.find(request_of(listed(), FRAMES, CPU)) == facts


MODEL = """
class Mean:
    size = (8, 8)

    def __call__(self, batch):
        return batch.float().mean((2, 3))
"""
WORKER = """
import sys

import headrace.extraction.features.feature_worker
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.extraction.features.model_spec import Numerics, OwnModel, Sampling

model = load_feature_model(OwnModel(build="means:Mean"), Sampling(), Numerics())
print(*model.probe(None), "torchvision" in sys.modules)
"""


def test_a_worker_with_a_users_own_model_imports_no_torchvision(tmp_path):
    """It takes longer than all else that a worker imports, PyTorch left out."""
    (tmp_path / "means.py").write_text(MODEL)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = python(WORKER, env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.split() == ["3", "False"], done.stderr


OTHERS = [
    *((spec, FRAMES, CPU) for spec in (listed(layer="features"), listed(prep_level="simple"))),
    (listed("alexnet"), FRAMES, CPU),
    (listed(), sampling("every 1", 4), CPU),
    (listed(), FRAMES, Numerics(precision="bfloat16")),
]


def test_what_is_known_is_not_found_out_again(tmp_path, facts, monkeypatch):
    monkeypatch.setattr(signature_cache, "run_children", None)
    with KnownFacts(tmp_path) as known:
        known.keep(request_of(listed(), FRAMES, CPU), facts, [])
    with KnownFacts(tmp_path) as known:
        assert feature_facts(listed(), FRAMES, CPU, known) == facts
        assert [known.find(request_of(*other)) for other in OTHERS] == [None] * len(OTHERS)
        # Nor by other versions of packages.
        known_facts = "headrace.extraction.features.signature_cache.version"
        monkeypatch.setattr(known_facts, lambda name: "99.0")
        assert known.find(request_of(listed(), FRAMES, CPU)) is None


def test_other_weights_in_the_file_make_it_unknown(tmp_path, facts):
    file = tmp_path / "w.pth"
    file.write_bytes(b"these")
    spec = TorchvisionModelSpec(name="squeezenet1_1", weights=str(file))
    clock = FakeClock(wall_seconds=file.stat().st_mtime + 100)
    with KnownFacts(tmp_path, ContentDigests(tmp_path, clock=clock)) as known:
        known.keep(request_of(spec, FRAMES, CPU), facts, [file])
        assert known.find(request_of(spec, FRAMES, CPU)) == facts
        file.write_bytes(b"those!")
        assert known.find(request_of(spec, FRAMES, CPU)) is None
        file.unlink()
        assert known.find(request_of(spec, FRAMES, CPU)) is None


def test_what_is_damaged_is_unknown(tmp_path):
    (tmp_path / FILE).write_bytes(b"no table" * 1000)
    with KnownFacts(tmp_path) as known:
        assert known.find(request_of(listed(), FRAMES, CPU)) is None


def test_models_of_ones_own_and_gpus_are_not_remembered(known, facts):
    for spec, numerics in ((own("Corners"), CPU), (listed(), Numerics(device="cuda"))):
        assert request_of(spec, FRAMES, numerics) is None
    known.keep(None, facts, [])
    assert known.find(None) is None


def test_a_checkpoint_is_known_by_its_file():
    spec = TorchvisionModelSpec(name="mobilenet_v2", weights=str(mobilenet()))
    facts, files = measure_signature(spec, FRAMES, CPU)
    assert files == [mobilenet()]
    assert facts.shape == (1280,)


def test_a_model_of_ones_own_is_told_by_code_structure_and_weights():
    corners, plain, versioned = (
        measure_signature(own(name), FRAMES, CPU)[0] for name in ("Corners", "plain", "Versioned")
    )
    assert corners.model["weights"].startswith("sha256:")
    assert (corners.shape, corners.uncached, corners.is_training) == ((3,), None, True)
    assert (versioned.model["version"], versioned.uncached) == ("2", None)
    assert "no attribute version" in plain.uncached
    assert not plain.is_training


def test_weights_must_be_the_same_in_each_process(facts):
    assert load_feature_model(listed(), FRAMES, CPU, facts).layer == facts.layer
    spec = own("other_each_time")
    first = measure_signature(spec, FRAMES, CPU)[0]
    with pytest.raises(ConfigError, match="has other weights in this process"):
        load_feature_model(spec, FRAMES, CPU, first)


def test_a_child_tells_what_is_wrong_in_its_own_words(known, monkeypatch):
    def told(children):
        [call] = children
        result = call.function(call.argument, lambda message: None)
        return [SimpleNamespace(has_succeeded=True, result=result)]

    monkeypatch.setattr(signature_cache, "run_children", told)
    with pytest.raises(ConfigError, match="no layer 'layer9'"):
        feature_facts(listed(layer="layer9"), FRAMES, CPU, known)
    with pytest.raises(BackendError, match="device cuda:7 was asked for"):
        feature_facts(listed(), FRAMES, Numerics(device="cuda:7"), known)
