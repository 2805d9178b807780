"""Links to pictures that lie scattered, as one folder for each camera."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.errors import ConfigError, file_errors


def link_pictures(pictures: Sequence[Path], folder: Path) -> None:
    """Make `folder` hold links to `pictures`, numbered in their order: all of them, or none.

    A folder that does so already is left as it is.

    Raises:
        ConfigError: a picture is missing, the folder holds something else, or cannot be written.
    """
    targets = {
        f"{number:05d}{picture.suffix}": picture.absolute()
        for number, picture in enumerate(pictures)
    }
    missing = [path for path in targets.values() if not path.is_file()]
    if missing:
        raise ConfigError(
            f"{len(missing)} of {len(targets)} pictures are not there, the first is {missing[0]}; "
            "unpack the rest of the set, or choose scenes= that are complete"
        )
    with file_errors(
        f"cannot link pictures in {folder}",
        "give another folder, on a file system that has symbolic links",
    ):
        if folder.exists():
            _check_same(folder, targets)
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as begun:
            links = Path(begun) / folder.name
            links.mkdir()
            for name, target in targets.items():
                (links / name).symlink_to(target)
            _rename(links, folder)
        _check_same(folder, targets)


def _rename(links: Path, folder: Path) -> None:
    """Move links where they belong, unless another process was quicker, such as another rank."""
    try:
        links.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _check_same(folder: Path, targets: dict[str, Path]) -> None:
    found = {each.name: each.readlink() for each in folder.iterdir() if each.is_symlink()}
    if found != targets or len(found) != len(list(folder.iterdir())):
        raise ConfigError(
            f"{folder} holds other files than links to these pictures; give an empty folder"
        )
