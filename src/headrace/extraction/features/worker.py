"""What a worker of an extraction of features runs; PyTorch is loaded there, not in its parent."""

from collections.abc import Callable

from headrace.runtime.child import Json


def extract_features(argument: Json, send: Callable[[Json], None]) -> Json:
    """Do chunks of features until none is left: a `ChildFunction`.

    What ends the whole run (no room on the disk, a model that cannot run, a bad frame where those
    are errors) is said, and ends this worker.
    """
    from headrace.extraction.features.working import do_features

    assert isinstance(argument, dict)
    do_features(argument, send)
    return None
