"""Which of the boxes that a detector finds are kept."""

from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.models.class_names import ClassNames
from headrace.sizes import check_integers


@dataclass(frozen=True, kw_only=True)
class BoxChoice:
    """Which of the boxes that a detector finds are kept.

    A detector leaves out the least sure ones itself: torchvision's below 0.001 to 0.2, and all but
    the surest 100 to 300 of a picture.
    """

    threshold: float = 0.7
    """Boxes with a lower score are left out."""
    max_boxes: int | None = None
    """Of a picture, the surest; None: all."""
    classes: tuple[str, ...] = ()
    """Names of the classes that are kept, or their numbers where the weights have no names; none
    means all."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"threshold must lie in 0 to 1, got {self.threshold}")
        check_integers(1, max_boxes=self.max_boxes)

    def numbers(self, class_names: ClassNames) -> frozenset[int] | None:
        """Return the numbers of the classes that are kept; None: all.

        Raises:
            ConfigError: the model knows no such class.
        """
        return frozenset(map(class_names.number, self.classes)) if self.classes else None
