"""Loading of a feature model in a worker."""

import os
import subprocess
import sys

_MODEL = """
class Mean:
    size = (8, 8)

    def __call__(self, batch):
        return batch.float().mean((2, 3))
"""
_WORKER = """
import sys

import headrace.extraction.features.feature_worker
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.extraction.features.model_spec import Numerics, OwnModel, Sampling
from headrace.sampling.selection import selection_of

samples = Sampling(selection=selection_of("every 1"), clip=None)
model = load_feature_model(OwnModel(build="means:Mean"), samples, Numerics())
print(*model.probe(None), "torchvision" in sys.modules)
"""


def test_a_worker_with_a_users_own_model_imports_no_torchvision(tmp_path):
    """It takes longer than all else that a worker imports, PyTorch left out."""
    (tmp_path / "means.py").write_text(_MODEL)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", _WORKER],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["3", "False"]
