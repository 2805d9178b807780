"""The properties of a loader name the library with which its dataset opens videos."""

from functools import partial

import av
import pytest
from torch.utils.data import DataLoader, Dataset, Subset, default_convert

import headrace
from headrace.instrumentation.dataloader_hook import describe_loader
from instrumentation.loaders import Numbers, Stream


def read_frame(path):
    from torchcodec.decoders import VideoDecoder  # noqa: PLC0415  # never run

    return VideoDecoder(path)[0]


class Frames(Dataset):
    def __getitem__(self, index):
        with av.open("a.mp4") as container:
            return next(container.decode(video=0))


class FramesOfHelper(Dataset):
    def __getitem__(self, index):
        return read_frame("a.mp4")


class FramesOfBase(FramesOfHelper):
    pass


class FramesOfLambda(Dataset):
    def __init__(self):
        import cv2  # noqa: PLC0415  # never run

        self.open = lambda path: cv2.VideoCapture(path)


class Images(Dataset):
    def __getitem__(self, index):
        import cv2  # noqa: PLC0415  # never run

        return cv2.imread("a.png")


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Frames, "PyAV"),
        (FramesOfHelper, "torchcodec"),
        (FramesOfBase, "torchcodec"),
        (FramesOfLambda, "OpenCV"),
        (Images, None),
        (Numbers, None),
        (headrace.FrameDataset, None),
    ],
)
def test_the_decoder_is_the_one_in_the_code_of_the_dataset(dataset, expected) -> None:
    """The code is read, not run; datasets of headrace do not count."""
    dataset = dataset.__new__(dataset)
    assert describe_loader(DataLoader(dataset)).decoder == expected
    assert describe_loader(DataLoader(Subset(dataset, [0]))).decoder == expected


def collate(samples, scale=1):
    return samples


class Collate:
    def __call__(self, samples):
        return samples


LINE = collate.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (None, "default"),
        (default_convert, "default"),
        (collate, f"test_dataloader_hook.py:{LINE}"),
        (partial(collate, scale=2), f"test_dataloader_hook.py:{LINE}"),
        (Collate(), f"test_dataloader_hook.py:{LINE + 5}"),
        (list, None),
    ],
)
def test_a_collate_function_is_recorded_by_its_line(function, expected) -> None:
    assert describe_loader(DataLoader([1], collate_fn=function)).collate == expected


def test_an_iterable_dataset_is_recorded_as_such() -> None:
    assert dict(describe_loader(DataLoader(Stream())).configuration)["is_iterable"] is True
    assert "is_iterable" not in dict(describe_loader(DataLoader([1, 2])).configuration)
