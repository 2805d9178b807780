"""A runner with a real, small model."""

import pytest

from headrace.decode.index_store import IndexStore
from headrace.runs.run import Runner
from runs.kit import SQUEEZENET, options


@pytest.fixture
def prepare(tmp_path):
    """Return a function: sources, options from a flat list -> a runner that is ready."""

    def make(sources: object, *, out: object = None, **given: object) -> Runner:
        ready = {name: given.pop(name) for name in ("command", "compiler") if name in given}
        chosen = options(
            sources, out or tmp_path / "run", **{**SQUEEZENET, "batch_size": 4} | given
        )
        return Runner.prepare(chosen, store=IndexStore(tmp_path / "store"), **ready)

    return make
