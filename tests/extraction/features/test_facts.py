"""Signatures of models: measured once, cached, and invalid after any change."""

import os
import sys
from types import SimpleNamespace

import pytest

from cli.kit import python
from extraction.features.running import CPU, listed, own, sampling
from headrace.cache.content_digests import ContentDigests
from headrace.errors import BackendError, ConfigError
from headrace.extraction.features import model_signature
from headrace.extraction.features.load_feature_model import load_feature_model, measure_signature
from headrace.extraction.features.model_signature import FILE, KnownFacts, feature_facts, request_of
from headrace.extraction.features.model_spec import Numerics, SampleSpec, TorchvisionModelSpec
from headrace.testing.fake_clock import FakeClock
from weights import mobilenet

FRAMES = SampleSpec()


@pytest.fixture(scope="module")
def facts():
    return measure_signature(listed(), FRAMES, CPU)[0]


@pytest.fixture
def known(tmp_path):
    with KnownFacts(tmp_path) as known:
        yield known


def test_a_signature_has_the_shape_and_all_inputs_of_a_result(facts):
    assert (facts.shape, facts.layer) == ((512,), "input of classifier.1")
    assert facts.model["weights"].startswith("sha256:")
    assert facts.uncached is None
    again, files = measure_signature(listed(), FRAMES, CPU)
    assert (again, files) == (facts, [])
    for spec, numerics in (
        (listed(layer="features.12"), CPU),
        (listed(prep_level="simple"), CPU),
        (listed(), Numerics(precision="bfloat16")),
        (listed(), Numerics(dtype="float16")),
    ):
        assert measure_signature(spec, FRAMES, numerics)[0] != facts


def test_a_signature_is_measured_in_a_child_without_pytorch_in_the_parent(tmp_path, facts):
    script = (
        "import sys; from pathlib import Path\n"
        "from headrace.extraction.features.model_signature import feature_facts\n"
        "from headrace.extraction.features.model_signature import KnownFacts\n"
        "from headrace.extraction.features.model_spec import SampleSpec\n"
        "from headrace.extraction.features.model_spec import TorchvisionModelSpec, Numerics\n"
        "spec = TorchvisionModelSpec(name='squeezenet1_1', weights='none')\n"
        "with KnownFacts(Path(sys.argv[1])) as known:\n"
        "    feature_facts(spec, SampleSpec(), Numerics(), known)\n"
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
from headrace.extraction.features.load_feature_model import measure_signature
from headrace.extraction.features.model_spec import Numerics, OwnModel, SampleSpec

facts, _ = measure_signature(OwnModel(build="means:Mean"), SampleSpec(), Numerics())
print(*facts.shape, "torchvision" in sys.modules)
"""


def test_a_worker_and_a_signature_of_a_custom_model_do_not_import_torchvision(tmp_path):
    """Its import takes longer than all others of a worker, except PyTorch."""
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


def test_a_cached_signature_is_not_measured_again(tmp_path, facts, monkeypatch):
    monkeypatch.setattr(model_signature, "run_children", None)
    with KnownFacts(tmp_path) as known:
        known.keep(request_of(listed(), FRAMES, CPU), facts, [])
    with KnownFacts(tmp_path) as known:
        assert feature_facts(listed(), FRAMES, CPU, known) == facts
        assert [known.find(request_of(*other)) for other in OTHERS] == [None] * len(OTHERS)
        # Other versions of packages have other signatures.
        version = "headrace.extraction.features.model_signature.version"
        monkeypatch.setattr(version, lambda name: "99.0")
        assert known.find(request_of(listed(), FRAMES, CPU)) is None


def test_a_changed_weight_file_invalidates_a_signature(tmp_path, facts):
    file = tmp_path / "w.pth"
    file.write_bytes(b"first")
    spec = TorchvisionModelSpec(name="squeezenet1_1", weights=str(file))
    clock = FakeClock(wall_seconds=file.stat().st_mtime + 100)
    with KnownFacts(tmp_path, ContentDigests(tmp_path, clock=clock)) as known:
        known.keep(request_of(spec, FRAMES, CPU), facts, [file])
        assert known.find(request_of(spec, FRAMES, CPU)) == facts
        file.write_bytes(b"second")
        assert known.find(request_of(spec, FRAMES, CPU)) is None
        file.unlink()
        assert known.find(request_of(spec, FRAMES, CPU)) is None


def test_a_damaged_table_holds_no_signature(tmp_path):
    (tmp_path / FILE).write_bytes(b"no table" * 1000)
    with KnownFacts(tmp_path) as known:
        assert known.find(request_of(listed(), FRAMES, CPU)) is None


def test_signatures_of_custom_models_and_gpus_are_not_cached(known, facts):
    for spec, numerics in ((own("Corners"), CPU), (listed(), Numerics(device="cuda"))):
        assert request_of(spec, FRAMES, numerics) is None
    known.keep(None, facts, [])
    assert known.find(None) is None


def test_a_signature_of_a_checkpoint_depends_on_its_file():
    spec = TorchvisionModelSpec(name="mobilenet_v2", weights=str(mobilenet()))
    facts, files = measure_signature(spec, FRAMES, CPU)
    assert files == [mobilenet()]
    assert facts.shape == (1280,)


def test_a_custom_model_is_identified_by_code_attributes_and_weights():
    module, function, versioned = (
        measure_signature(own(name), FRAMES, CPU)[0] for name in ("Corners", "plain", "Versioned")
    )
    assert module.model["weights"].startswith("sha256:")
    assert (module.shape, module.uncached, module.is_training) == ((3,), None, True)
    assert (versioned.model["version"], versioned.uncached) == ("2", None)
    assert "no attribute version" in function.uncached
    assert not function.is_training


def test_weights_must_be_equal_in_all_processes(facts):
    assert load_feature_model(listed(), FRAMES, CPU, facts).layer == facts.layer
    spec = own("other_each_time")
    first = measure_signature(spec, FRAMES, CPU)[0]
    with pytest.raises(ConfigError, match="differ between processes"):
        load_feature_model(spec, FRAMES, CPU, first)


def test_an_error_of_the_child_is_raised_in_the_parent(known, monkeypatch):
    def run_in_process(children):
        [call] = children
        result = call.function(call.argument, lambda message: None)
        return [SimpleNamespace(has_succeeded=True, result=result)]

    monkeypatch.setattr(model_signature, "run_children", run_in_process)
    with pytest.raises(ConfigError, match="no layer 'layer9'"):
        feature_facts(listed(layer="layer9"), FRAMES, CPU, known)
    with pytest.raises(BackendError, match="device cuda:7 needs a GPU"):
        feature_facts(listed(), FRAMES, Numerics(device="cuda:7"), known)
