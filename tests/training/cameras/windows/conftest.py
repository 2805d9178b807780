"""Loaders of windows of the layout of five clips."""

import pytest

from headrace.training.cameras.windows.loader import CameraWindowLoader
from training.cameras.clips import SIZE


@pytest.fixture
def loader(opens, store, layout):
    def open_loader(layout=layout, **options):
        size = {} if "view" in options else {"size": SIZE}
        asked = {"batch_size": 4, "store": store, "workers": 2, **size, **options}
        return opens(CameraWindowLoader, layout, **asked)

    return open_loader
