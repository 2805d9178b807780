"""OpenCV with its default scaler: quicker, but it skips pixels when it shrinks."""

from functools import partial

import cv2

from benchmarks.libs import opencv

PACKAGES = opencv.PACKAGES
every_frame = partial(opencv.every_frame, scaler=cv2.INTER_LINEAR)
