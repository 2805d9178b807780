"""MTCNN, a face detector: a cascade of three networks; each refines the boxes of the previous one.

Its weights come from the package facenet-pytorch, which is not imported.
"""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch.nn.functional import interpolate

PACKAGE: Final = "facenet-pytorch"
"""Package with the weights."""
_FILES: Final = ("pnet.pt", "rnet.pt", "onet.pt")


def face_weights() -> tuple[Path, ...] | None:
    """Return the weight files, in the order of the networks; None: not installed."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        return None
    paths = {file.name: Path(str(file.locate())) for file in files if file.name in _FILES}
    return tuple(paths[name] for name in _FILES) if len(paths) == len(_FILES) else None


_MIN_FACE_SIZE: Final = 20
"""Min height and width of a face, in pixels."""
_WINDOW, _STRIDE = 12, 2
"""Side and stride of the first network's window, in pixels."""
_FACTOR: Final = 0.709
"""Scale between levels of the image pyramid: half the area."""
_MIN_SCORES: Final = (0.6, 0.7, 0.7)
"""Min score of a box to pass each network."""
_BATCH_SIZE: Final = 512
"""Boxes per run of a network."""


class FaceCascade(nn.Module):
    """Face detector with the interface of torchvision's detectors."""

    def __init__(self) -> None:
        """Build the networks with uninitialized weights."""
        super().__init__()
        # Their windows are 12x12, 24x24 and 48x48 pixels.
        self.pnet = Network(((10, 3, 2), (16, 3, 0), (32, 3, 0)))
        self.rnet = Network(((28, 3, 3), (48, 3, 3), (64, 2, 0)), (576, 128))
        self.onet = Network(
            ((32, 3, 3), (64, 3, 3), (64, 3, 2), (128, 2, 0)), (1152, 256), (2, 4, 10)
        )

    def forward(self, images: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        """Return `boxes` [n, 4], `labels` (all 1) and `scores` of each image, by descending score.

        Args:
            images: float32 [N, 3, H, W] in [0, 1], RGB.
        """
        # The networks were trained on (grey level - 127.5) / 128.
        return [self._find_faces(image[None]) for image in images * (255 / 128) - 255 / 256]

    def _find_faces(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        height, width = image.shape[2:]
        boxes = self._propose(image)
        boxes, shift, scores = _refine(self.rnet, image, _square(boxes), 24, _MIN_SCORES[1])
        indices = _nms(boxes, scores, 0.7)
        boxes = _correct(boxes[indices], shift[indices])
        boxes, shift, scores = _refine(self.onet, image, _square(boxes), 48, _MIN_SCORES[2])
        boxes = _correct(boxes, shift)
        unnested = _unnested(boxes, scores)
        boxes = boxes[unnested]
        limits = torch.tensor([width, height] * 2, device=boxes.device)
        return {
            "boxes": torch.minimum(boxes.clamp(min=0), limits),
            "labels": torch.ones(len(boxes), dtype=torch.int64, device=boxes.device),
            "scores": scores[unnested],
        }

    def _propose(self, image: torch.Tensor) -> torch.Tensor:
        """Return candidate boxes at all positions and scales of an image."""
        height, width = image.shape[2:]
        proposals = [(image.new_zeros(0, 8), image.new_zeros(0))]
        scale = _WINDOW / _MIN_FACE_SIZE
        while min(height, width) * scale >= _WINDOW:
            size = (int(height * scale + 1), int(width * scale + 1))
            shift, score = self.pnet(interpolate(image, size=size, mode="area"))
            proposals.append(_boxes_at_scale(shift[0].float(), score[0].float(), scale))
            scale *= _FACTOR
        cells, scores = (torch.cat(parts) for parts in zip(*proposals, strict=True))
        indices = _nms(cells[:, :4], scores, 0.7)
        cells = cells[indices]
        sides = (cells[:, 2:4] - cells[:, :2]).repeat(1, 2)
        return cells[:, :4] + cells[:, 4:] * sides


def _boxes_at_scale(
    shift: torch.Tensor, score: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the likely boxes of one scale, [n, 8]: box and correction; and the scores, [n]."""
    rows, columns = (score >= _MIN_SCORES[0]).nonzero(as_tuple=True)
    corner = torch.stack([columns, rows], dim=1) * _STRIDE
    boxes = torch.cat([(corner + 1) / scale, (corner + _WINDOW) / scale], dim=1).floor()
    scores = score[rows, columns]
    indices = _nms(boxes, scores, 0.5)
    return torch.cat([boxes, shift[:, rows, columns].T], dim=1)[indices], scores[indices]


def _refine(
    network: nn.Module, image: torch.Tensor, boxes: torch.Tensor, side: int, min_score: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the boxes that pass a network, their corrections and scores."""
    inside, patches = _patches(image, boxes, side)
    boxes = boxes[inside]
    parts = [network(part) for part in torch.split(patches, _BATCH_SIZE)]
    shift, score = (torch.cat(outputs).float() for outputs in zip(*parts, strict=True))
    likely = score > min_score
    return boxes[likely], shift[likely], score[likely]


def _correct(boxes: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return boxes + shift * (boxes[:, 2:] - boxes[:, :2] + 1).repeat(1, 2)


def _patches(image: torch.Tensor, boxes: torch.Tensor, side: int) -> tuple[list[int], torch.Tensor]:
    """Return the indices of boxes that overlap the image, and their resized content."""
    indices, patches = [], [image.new_zeros(0, 3, side, side)]
    for index, (left, top, right, bottom) in enumerate(boxes.trunc().long().tolist()):
        if min(bottom, right) < 1:
            continue
        rows, columns = slice(max(top, 1) - 1, bottom), slice(max(left, 1) - 1, right)
        inside = image[..., rows, columns]
        if inside.numel():
            indices.append(index)
            patches.append(interpolate(inside, size=(side, side), mode="area"))
    return indices, torch.cat(patches)


def _square(boxes: torch.Tensor) -> torch.Tensor:
    """Return square boxes with the same centres and the longer side."""
    size = boxes[:, 2:] - boxes[:, :2]
    corner = (boxes[:, :2] + boxes[:, 2:] - size.amax(dim=1, keepdim=True)) / 2
    return torch.cat([corner, corner + size.amax(dim=1, keepdim=True)], dim=1)


def _nms(boxes: torch.Tensor, scores: torch.Tensor, max_overlap: float) -> torch.Tensor:
    from torchvision.ops import batched_nms

    classes = scores.new_zeros(len(scores), dtype=torch.int64)
    return batched_nms(boxes, scores, classes, max_overlap)


def _unnested(boxes: torch.Tensor, scores: torch.Tensor) -> list[int]:
    """Return the indices of boxes without a large overlap with a box of higher score."""
    indices: list[int] = []
    area = (boxes[:, 2:] - boxes[:, :2] + 1).prod(dim=1)
    for index in scores.argsort(descending=True, stable=True).tolist():
        others = boxes[indices]
        corner = torch.maximum(others[:, :2], boxes[index, :2])
        end = torch.minimum(others[:, 2:], boxes[index, 2:])
        common = (end - corner + 1).clamp(min=0).prod(dim=1)
        if not (common / torch.minimum(area[indices], area[index]) > 0.7).any():
            indices.append(index)
    return indices


class Network(nn.Module):
    """One network of the cascade: convolutions, optional dense layers, and heads.

    Layers are named as in the weight files: `conv1`, `prelu1`, `pool1`, ..., `dense5`, `dense6_1`.
    """

    def __init__(
        self,
        convolutions: Sequence[tuple[int, int, int]],
        dense: tuple[int, int] | None = None,
        heads: Sequence[int] = (2, 4),
    ) -> None:
        """Build the network with uninitialized weights.

        Args:
            convolutions: Channels, kernel and max-pool size of each; 0: no pooling.
            dense: Inputs and outputs of the dense layer; None: the heads are convolutions, and
                images have any size.
            heads: Outputs of each head: face score, corrections, landmarks (unused).
        """
        super().__init__()
        inputs, number = 3, 0
        body: list[str] = []
        for number, (channels, kernel, pool) in enumerate(convolutions, 1):
            parts = {"conv": nn.Conv2d(inputs, channels, kernel), "prelu": nn.PReLU(channels)}
            if pool:
                parts["pool"] = nn.MaxPool2d(pool, 2, ceil_mode=True)
            for name, part in parts.items():
                self.add_module(f"{name}{number}", part)
            body += [f"{name}{number}" for name in parts]
            inputs = channels
        if dense:
            number += 1
            self.add_module(f"dense{number}", nn.Linear(*dense))
            self.add_module(f"prelu{number}", nn.PReLU(dense[1]))
        self._body, self._dense = body, number if dense else None
        self._head = f"{'dense' if dense else 'conv'}{number + 1}"
        for head, outputs in enumerate(heads, 1):
            layer = nn.Linear(dense[1], outputs) if dense else nn.Conv2d(inputs, outputs, 1)
            self.add_module(f"{self._head}_{head}", layer)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return corrections [N, 4] and scores [N] of images [N, 3, H, W].

        Without a dense layer, the shapes are [N, 4, h, w] and [N, h, w].
        """
        x = images
        for name in self._body:
            x = self.get_submodule(name)(x)
        if self._dense:
            # The weights come from a framework with column-major order.
            x = x.permute(0, 3, 2, 1).flatten(1)
            x = self.get_submodule(f"prelu{self._dense}")(
                self.get_submodule(f"dense{self._dense}")(x)
            )
        faces, corrections = (self.get_submodule(f"{self._head}_{n}")(x) for n in (1, 2))
        return corrections, faces.softmax(dim=1)[:, 1]
