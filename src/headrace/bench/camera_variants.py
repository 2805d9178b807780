"""The ways to read camera streams that are compared."""

from typing import Literal

CameraWay = Literal["decode", "loader", "dataset", "wandering"]
"""`decode`: a bare PyAV loop over every file, in threads, and nothing else: what can be reached.
`loader`: a `CameraLoader`. `dataset`: a DataLoader with a `CameraStreamSampler`. `wandering`: a
DataLoader with the schedule of the example that this replaces: the moments of all clips, one after
the other, are cut into as many equal parts as a batch has slots, whatever clips that cuts, and
batches are dealt to ranks, and by the DataLoader to workers, in turn."""
