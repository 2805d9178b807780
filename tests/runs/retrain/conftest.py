"""The toy set, written once."""

import pytest

from runs.retrain.toy import write_toys


@pytest.fixture(scope="session")
def toys(tmp_path_factory):
    """Return the folder of the toys and their labels."""
    return write_toys(tmp_path_factory.mktemp("toys"))
