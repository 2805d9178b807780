"""Loaders of windows of the layout of five clips."""

import pytest

from headrace.training.cameras.windows.loader import CameraWindowLoader
from training.cameras.clips import SIZE


@pytest.fixture
def loader(store, layout):
    opened = []

    def open_loader(layout=layout, **options):
        size = {} if "view" in options else {"size": SIZE}
        options = {"batch_size": 4, "store": store, "workers": 2, **size, **options}
        opened.append(CameraWindowLoader(layout, **options))
        return opened[-1]

    yield open_loader
    for each in opened:
        each.close()
