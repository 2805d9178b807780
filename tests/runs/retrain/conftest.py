"""The toy set, written once."""

import pytest

from runs.retrain.toy import write_labels, write_toys


@pytest.fixture(scope="session")
def toys(tmp_path_factory):
    """Return the folder of the toys and their labels."""
    folder = write_toys(tmp_path_factory.mktemp("toys"))
    write_labels(folder / "labels.csv")
    return folder
