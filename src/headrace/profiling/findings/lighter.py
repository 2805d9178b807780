"""Lighter work for a stage: what asks less of it, where no figure tells how much that brings."""

from typing import Final

from headrace.profiling.findings.finding import Change
from headrace.profiling.setup import Setup

LIGHTER_LEVEL: Final = {"complex": "medium", "medium": "simple"}
"""A level of preprocessing -> the next one that is less work."""


def smaller_video(size: tuple[int, int] | None, *, most: float | None) -> Change:
    """Return the change that leaves less to decode.

    Args:
        size: (height, width) of the video as it is; None where it is not known.
        most: See `Change`.
    """
    than = f" than {size[0]}×{size[1]}" if size else ""
    return Change(
        words=f"Re-encode the video at a smaller size{than}: half the height and width is a "
        "quarter of the pixels to decode",
        most=most,
    )


def lighter_preprocessing(setup: Setup, *, most: float | None) -> Change:
    """Return the change that leaves less to preprocess."""
    lighter = LIGHTER_LEVEL.get(setup.prep_level or "")
    if lighter is None:
        words = "Smaller videos: what is resized costs by the pixels it has before"
        return Change(words=words, most=most)
    return Change(
        words=f"--prep-level {lighter}: less work per frame, and other pictures",
        most=most,
        options={"prep_level": lighter},
    )


def larger_copies(setup: Setup, *, most: float | None, rests_on: str | None = None) -> Change:
    """Return the change that leaves fewer copies to a device."""
    return Change(
        words=f"--batch-size {2 * setup.batch_size}: fewer, larger copies",
        rests_on=rests_on,
        most=most,
        options={"batch_size": 2 * setup.batch_size},
    )


def smaller_model(setup: Setup, *, most: float | None, rests_on: str | None = None) -> Change:
    """Return the change that leaves less to compute."""
    if setup.smaller_model is None:
        words = f"A smaller model than {setup.model or 'this one'}"
        return Change(words=words, rests_on=rests_on, most=most)
    return Change(
        words=f"--model-name {setup.smaller_model}",
        rests_on=rests_on,
        most=most,
        options={"model_name": setup.smaller_model},
    )
