"""ResumableLoader: what every loader does around its batches."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Generic, Literal, NoReturn, Self, TypeVar, get_args

from headrace.errors import CallError, ConfigError
from headrace.loaders.loader_statistics import DecodeTotals, Running, Step
from headrace.loaders.state import Position, check_identity
from headrace.runtime.clock import Clock
from headrace.units import check_integers

BatchOf = TypeVar("BatchOf")

OnEarlyExit = Literal["continue", "restart"]
"""What an iteration does after one that was left before its epoch came to its end: yield the rest
of that epoch, so that no sample is passed over, or begin the epoch again."""


def check_on_early_exit(on_early_exit: str | None) -> None:
    """Raise ConfigError if `on_early_exit` is no choice."""
    if on_early_exit not in (*get_args(OnEarlyExit), None):
        raise ConfigError(
            f"on_early_exit must be one of {', '.join(get_args(OnEarlyExit))}, or None, got "
            f"{on_early_exit!r}"
        )


class ResumableLoader(ABC, Generic[Step, BatchOf]):
    """Batches of one epoch after the other, which go on from wherever training stood.

    Threads start with the first batch of an iteration and end with `close`, with the `with` block,
    or with the loader. One thread may use a loader at a time. It does not go to another process,
    but a process that is forked may begin anew with the loader it finds.
    """

    _PLACE: ClassVar[str]
    """What a state calls the place in an epoch."""
    _NEEDED: ClassVar[str]
    """What must be the same to resume, in words."""
    _DATASETS: ClassVar[str] = "FrameDataset or VideoDataset"
    """What a stock DataLoader takes in place of this loader."""

    def __init__(
        self, *, clock: Clock, prefetch_next_epoch: bool, on_early_exit: OnEarlyExit | None
    ) -> None:
        """Start nothing yet; `prefetch_next_epoch` engines go on into the next epoch."""
        self._clock = clock
        self._on_early_exit = on_early_exit
        self._prefetch_next_epoch = prefetch_next_epoch
        self._pid = os.getpid()
        self._running: Running[Step] | None = None
        self._spent_before = DecodeTotals()
        self._starved_ns = 0
        self._iterations = 0
        self._start = self._at = self._next = Position()

    @abstractmethod
    def _begin(self, start: Position) -> Running[Step]:
        """Start an engine."""

    @abstractmethod
    def _after(self, step: Step) -> Position:
        """Return where training stands when a step was delivered."""

    @abstractmethod
    def _batch(self, step: Step) -> BatchOf:
        """Make and count the batch of a step."""

    @abstractmethod
    def _steps_left(self, at: Position) -> int:
        """Return how many steps an epoch has from a place on; 0 or less: none."""

    @abstractmethod
    def _identity(self) -> dict[str, int]:
        """Return what a state belongs to."""

    @property
    @abstractmethod
    def _is_random(self) -> bool:
        """Whether another epoch has another order."""

    @property
    def _begins_again(self) -> bool:
        """Whether an epoch that was left early is iterated from its beginning."""
        return (
            not self._is_random if self._on_early_exit is None else self._on_early_exit == "restart"
        )

    def __getitem__(self, number: object) -> NoReturn:
        """Refuse what asks for items by number, as a DataLoader over this loader does.

        Raises:
            CallError: always; says what to do.
        """
        name = type(self).__name__
        raise CallError(
            f"{name} gives batches one after the other, and item {number!r:.40} was asked of it: "
            f"iterate it itself, `for batch in loader`, without a DataLoader around it; a "
            f"DataLoader takes {self._DATASETS}"
        )

    def __len__(self) -> int:
        """How many batches the next epoch has; the same for every rank."""
        return self._steps_left(Position(epoch=self._start.epoch))

    def __iter__(self) -> Iterator[BatchOf]:
        """Yield the batches of one epoch: of the one after that which was last iterated to its end.

        After `load_state_dict` it yields what is left of that epoch. One that was left early goes
        on next time, or begins again, as `on_early_exit` says.

        Raises:
            MediaError: a frame is bad, and bad ones are not to be skipped. Names file and pts.
            StageError: a worker hangs; names it and its file.
            ConfigError: the loader was closed, or iterated anew, while this iteration went on.
        """
        start = self._at = self._start
        begins_again = self._begins_again
        if begins_again:
            self._start = Position(epoch=start.epoch)
        running = self._run_from(start)
        self._iterations += 1
        iteration, is_last = self._iterations, False
        while not is_last:
            step = self._wait_for(running, iteration)
            self._next = after = self._after(step)
            batch = self._batch(step)
            self._at = after
            is_last = after.epoch != start.epoch
            if is_last or not begins_again:
                self._start = after
            if is_last and not self._prefetch_next_epoch:
                self.close()
            yield batch

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration yields, or what is left of it."""
        return self._start.epoch

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the one that is iterated next; a place in it that was loaded is kept."""
        check_integers(0, epoch=epoch)
        if epoch != self._start.epoch:
            self._start = self._at = Position(epoch=epoch)

    def state_dict(self) -> dict[str, int]:
        """Return where training stands after the last batch that was yielded: a few integers.

        It may be loaded with another number of workers, another budget and look-ahead.
        """
        return {**self._identity(), "epoch": self._at.epoch, self._PLACE: self._at.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after the batch that `state` was taken at.

        Raises:
            ConfigError: the state is of something else: names what differs, and what must not.
        """
        check_identity(state, self._identity(), self._NEEDED)
        at = Position.of(state, self._PLACE)
        is_over = self._steps_left(at) <= 0  # less than a batch is left, and dropped
        self._start = self._at = Position(epoch=at.epoch + 1) if is_over else at

    def close(self) -> None:
        """End all threads and close all files. The loader may be iterated again."""
        self._leave_inherited()
        running, self._running = self._running, None
        if running is not None:
            running.steps.close()
            self._spent_before = self._spent_before.with_engine(running.engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "a loader has threads and open files, which cannot be copied or sent to another "
            "process; make one there, and send it state_dict() to go on"
        )

    @property
    def _spent(self) -> DecodeTotals:
        running = self._running
        return (
            self._spent_before
            if running is None
            else self._spent_before.with_engine(running.engine)
        )

    @property
    def _starved_seconds(self) -> float:
        return self._starved_ns / 1e9

    def _run_from(self, start: Position) -> Running[Step]:
        """Return what runs from `start` on: the engine there is, if it stands there."""
        self._leave_inherited()
        if self._running is None or self._next != start:
            self.close()
            self._next = start
            self._running = self._begin(start)
        return self._running

    def _leave_inherited(self) -> None:
        """Begin anew in a process that was forked from the loader's: its threads are not here."""
        if self._pid != os.getpid():
            # Kept: freeing it would wait for those threads, and move in the parent's files.
            self._inherited = self._running
            self._running = None
            self._pid = os.getpid()

    def _wait_for(self, running: Running[Step], iteration: int) -> Step:
        self._leave_inherited()
        started_ns = self._clock.now_ns()
        step: Step | None = None
        try:
            if self._running is running and iteration == self._iterations:
                step = next(running.steps, None)
        except BaseException:
            self.close()
            raise
        finally:
            self._starved_ns += self._clock.now_ns() - started_ns
        if step is None:
            raise ConfigError(
                "the loader was closed, or iterated anew, while this iteration went on; "
                "use one loader for each iteration"
            )
        return step
