"""MTCNN, a detector of faces: three small networks, each with fewer and surer places to look at.

Zhang et al., Joint Face Detection and Alignment using Multi-task Cascaded Convolutional Networks,
IEEE Signal Processing Letters 2016, https://arxiv.org/abs/1604.02878
"""

from typing import Final

import torch
from torch import nn
from torch.nn.functional import interpolate
from torchvision.ops import batched_nms

from headrace.models.face_networks import ONet, PNet, RNet

SMALLEST: Final = 20
"""Height and width of the smallest face that is looked for, pixels."""
_CELL, _STRIDE = 12, 2
"""Side of what the first network looks at, and from one place to the next, pixels."""
_FACTOR: Final = 0.709
"""From one size of the picture to the next: half the area."""
_SURE: Final = (0.6, 0.7, 0.7)
"""Score from which a place goes on to the next network."""
_AT_ONCE: Final = 512
"""Places that go through a network together."""


class FaceCascade(nn.Module):
    """Finds faces in pictures: called like torchvision's detectors, it answers like them."""

    def __init__(self) -> None:
        """Make the networks, with no weights of use."""
        super().__init__()
        self.pnet, self.rnet, self.onet = PNet(), RNet(), ONet()

    def forward(self, pictures: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        """Return `boxes` [n, 4], `labels` (all 1) and `scores` of each picture, the surest first.

        Args:
            pictures: float32 [N, 3, H, W] in 0 to 1, RGB.
        """
        # The networks were trained on (grey level - 127.5) / 128.
        return [self._faces(picture[None]) for picture in pictures * (255 / 128) - 255 / 256]

    def _faces(self, picture: torch.Tensor) -> dict[str, torch.Tensor]:
        height, width = picture.shape[2:]
        boxes = self._proposed(picture)
        boxes, shift, scores = _looked_at(self.rnet, picture, _square(boxes), 24, _SURE[1])
        kept = _nms(boxes, scores, 0.7)
        boxes = _corrected(boxes[kept], shift[kept])
        boxes, shift, scores = _looked_at(self.onet, picture, _square(boxes), 48, _SURE[2])
        boxes = _corrected(boxes, shift)
        surest = _without_nested(boxes, scores)
        boxes = boxes[surest]
        limits = torch.tensor([width, height] * 2, device=boxes.device)
        return {
            "boxes": torch.minimum(boxes.clamp(min=0), limits),
            "labels": torch.ones(len(boxes), dtype=torch.int64, device=boxes.device),
            "scores": scores[surest],
        }

    def _proposed(self, picture: torch.Tensor) -> torch.Tensor:
        """Look at every place in the picture, at every size of it."""
        height, width = picture.shape[2:]
        found = [(picture.new_zeros(0, 8), picture.new_zeros(0))]
        scale = _CELL / SMALLEST
        while min(height, width) * scale >= _CELL:
            size = (int(height * scale + 1), int(width * scale + 1))
            shift, score = self.pnet(interpolate(picture, size=size, mode="area"))
            found.append(_places(shift[0].float(), score[0].float(), scale))
            scale *= _FACTOR
        cells, scores = (torch.cat(parts) for parts in zip(*found, strict=True))
        kept = _nms(cells[:, :4], scores, 0.7)
        cells = cells[kept]
        sides = (cells[:, 2:4] - cells[:, :2]).repeat(1, 2)
        return cells[:, :4] + cells[:, 4:] * sides


def _places(
    shift: torch.Tensor, score: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the likely places of one size, [n, 8]: box and its correction; and their scores."""
    rows, columns = (score >= _SURE[0]).nonzero(as_tuple=True)
    corner = torch.stack([columns, rows], dim=1) * _STRIDE
    boxes = torch.cat([(corner + 1) / scale, (corner + _CELL) / scale], dim=1).floor()
    scores = score[rows, columns]
    kept = _nms(boxes, scores, 0.5)
    return torch.cat([boxes, shift[:, rows, columns].T], dim=1)[kept], scores[kept]


def _looked_at(
    network: nn.Module, picture: torch.Tensor, boxes: torch.Tensor, side: int, least: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Look at places closer: return those that are still likely, corrections, and scores."""
    cut, patches = _patches(picture, boxes, side)
    boxes = boxes[cut]
    parts = [network(some) for some in torch.split(patches, _AT_ONCE)]
    shift, score = (torch.cat(each).float() for each in zip(*parts, strict=True))
    likely = score > least
    return boxes[likely], shift[likely], score[likely]


def _corrected(boxes: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return boxes + shift * (boxes[:, 2:] - boxes[:, :2] + 1).repeat(1, 2)


def _patches(
    picture: torch.Tensor, boxes: torch.Tensor, side: int
) -> tuple[list[int], torch.Tensor]:
    """Return the numbers of the boxes that lie in the picture, and what they hold, resized."""
    numbers, found = [], [picture.new_zeros(0, 3, side, side)]
    for number, (left, top, right, bottom) in enumerate(boxes.trunc().long().tolist()):
        if min(bottom, right) < 1:
            continue
        rows, columns = slice(max(top, 1) - 1, bottom), slice(max(left, 1) - 1, right)
        inside = picture[..., rows, columns]
        if inside.numel():
            numbers.append(number)
            found.append(interpolate(inside, size=(side, side), mode="area"))
    return numbers, torch.cat(found)


def _square(boxes: torch.Tensor) -> torch.Tensor:
    """Return boxes with the same centres, as wide and high as their longer side."""
    size = boxes[:, 2:] - boxes[:, :2]
    corner = (boxes[:, :2] + boxes[:, 2:] - size.amax(dim=1, keepdim=True)) / 2
    return torch.cat([corner, corner + size.amax(dim=1, keepdim=True)], dim=1)


def _nms(boxes: torch.Tensor, scores: torch.Tensor, overlap: float) -> torch.Tensor:
    return batched_nms(boxes, scores, scores.new_zeros(len(scores), dtype=torch.int64), overlap)


def _without_nested(boxes: torch.Tensor, scores: torch.Tensor) -> list[int]:
    """Return the numbers of the boxes that lie not mostly inside, or around, a surer one."""
    kept: list[int] = []
    area = (boxes[:, 2:] - boxes[:, :2] + 1).prod(dim=1)
    for number in scores.argsort(descending=True, stable=True).tolist():
        others = boxes[kept]
        corner = torch.maximum(others[:, :2], boxes[number, :2])
        end = torch.minimum(others[:, 2:], boxes[number, 2:])
        common = (end - corner + 1).clamp(min=0).prod(dim=1)
        if not (common / torch.minimum(area[kept], area[number]) > 0.7).any():
            kept.append(number)
    return kept
