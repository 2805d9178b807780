"""Statistics of a loader, as a value."""

from dataclasses import dataclass

from headrace.decode.gpu.gpu_decoding import DeviceCounters


@dataclass(frozen=True, kw_only=True)
class DeliveryStatistics:
    """Counts of any loader since its creation, over all epochs; exact."""

    frames_delivered: int
    """Frames delivered to the training loop; a clip counts as its frames, a moment of several
    cameras as one frame of each. Empty slots are not counted."""
    frames_decoded: int
    """Frames that codecs returned."""
    seeks: int
    """Seeks inside a file."""
    opens: int
    """Files opened, reopened files included."""
    bytes_read: int
    """Bytes in the packets that were read."""
    starved_seconds: float
    """Seconds that the training loop waited for a batch. Near the time of the loop: decoding is the
    slower side; look further ahead (more memory), use more cores, or smaller GOPs."""
    blocked_seconds: float
    """Seconds that decoding waited for room, as batches were not taken. Near the time of the loop:
    the model is the slower side, and faster decoding gains nothing."""
    decoded_by: DeviceCounters | None = None
    """Counts of the CPU and the GPU, and the files that only the CPU decoded, with reasons; None
    unless decoding is `auto`."""

    @property
    def amplification(self) -> float:
        """Frames decoded ÷ frames delivered. Near 1 is as cheap as reading in order; below 1, some
        frames are delivered twice from one decoding; near half a GOP is naive random access."""
        return self.frames_decoded / self.frames_delivered if self.frames_delivered else 0.0


@dataclass(frozen=True, kw_only=True)
class LoaderStatistics(DeliveryStatistics):
    """Counts of a loader of frames or clips."""

    samples_substituted: int
    """Bad samples that were replaced by rule."""
    videos_skipped: int
    """Videos that cannot be read."""
    frames_quarantined: int
    """Known bad frames, those of bad videos included."""
    held_bytes: int
    """Bytes of decoded frames that wait for their batch, and of frames being decoded."""
    most_held_bytes: int
    """Maximum of `held_bytes`. Near the budget: more memory would save decoding."""
