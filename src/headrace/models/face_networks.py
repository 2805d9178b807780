"""The three networks of MTCNN, with the names that their weights have in facenet-pytorch."""

import torch
from torch import nn


class PNet(nn.Module):
    """Looks at every 12x12 pixels of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.pool1 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return corrections [N, 4, h, w] and scores [N, h, w] of pictures [N, 3, H, W]."""
        x = self.pool1(self.prelu1(self.conv1(pictures)))
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.conv4_1(x).softmax(dim=1)[:, 1]


class RNet(nn.Module):
    """Looks at a place, 24x24 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return corrections [N, 4] and scores [N] of places [N, 3, 24, 24]."""
        x = self.pool1(self.prelu1(self.conv1(places)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x))
        x = self.prelu4(self.dense4(_flat(x)))
        return self.dense5_2(x), self.dense5_1(x).softmax(dim=1)[:, 1]


class ONet(nn.Module):
    """Looks at a place, 48x48 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.pool3 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2 = nn.Linear(256, 2), nn.Linear(256, 4)
        self.dense6_3 = nn.Linear(256, 10)
        """Eyes, nose and mouth: in the weights, and not asked for."""

    def forward(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return corrections [N, 4] and scores [N] of places [N, 3, 48, 48]."""
        x = self.pool1(self.prelu1(self.conv1(places)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.pool3(self.prelu3(self.conv3(x)))
        x = self.prelu4(self.conv4(x))
        x = self.prelu5(self.dense5(_flat(x)))
        return self.dense6_2(x), self.dense6_1(x).softmax(dim=1)[:, 1]


def _flat(x: torch.Tensor) -> torch.Tensor:
    # The weights are from a framework that counts columns first.
    return x.permute(0, 3, 2, 1).flatten(1)
