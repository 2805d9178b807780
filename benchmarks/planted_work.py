"""Training loops that do real work and have a planted bottleneck; `bench_planted` runs them.

python benchmarks/planted_work.py "slow decoding" --workers 2
"""

import argparse
import hashlib
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

_BLOCK: Final = bytes(1 << 14)
"""Input of one unit of work: about 10 µs of SHA-256, with the GIL held for less."""
_SCRIPT: Final = "planted_work.py"
OWN: Final = "own-profile"
"""Folder, below the temporary folder, of a profile that the script writes itself."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Training loop; work is in milliseconds of CPU time on one core."""

    fetch: float = 0.3
    """Work per batch in `__getitem__`."""
    uneven: float = 0.0
    """Additional work of every tenth batch, in its first sample."""
    augment: float = 0.0
    """PyTorch work per batch in `__getitem__`."""
    read_bytes: int = 0
    """Bytes per batch, read from a file outside the page cache."""
    collate: float = 0.2
    """Work per batch in `collate_fn`."""
    counting: float = 0.0
    """Additional work per batch in `collate_fn`: a loop in Python, which holds the GIL."""
    layers: int = 1
    """Layers of the model, for forward and backward."""
    frozen: int = 0
    """Layers before the model that run without gradients."""
    slow_optimizer: bool = False
    """Whether the optimizer loops over many small parameters in Python."""
    own_optimizer: float = 0.0
    """Work per step in an optimizer of the user."""
    own: float = 0.0
    """Work per step in the code of the loop."""
    synced_writes: int = 0
    """Writes per step that wait for the disk."""
    log_lines: int = 0
    """Log messages per step."""
    eval_every: int = 0
    """Steps between evaluations; 0: none."""
    save_every: int = 0
    """Steps between checkpoints; 0: none."""
    hog: bool = False
    """Whether another thread of the process runs Python all the time."""
    keeps: bool = False
    """Whether the loop keeps each loss with its graph."""
    pace_ms: float = 0.0
    """Time between batches of a source that is not a DataLoader; 0: a DataLoader."""
    trains: bool = True
    batches: int = 200
    batch_size: int = 8
    epochs: int = 1
    workers: int = 0
    prefetch: int = 2
    persistent: bool = False
    framework: str = "plain"
    """`plain`, `lightning`, `hf`, or `torchrun` with two ranks."""
    late_fetch: float = 0.0
    """Additional `fetch` of rank 1."""
    late_own: float = 0.0
    """Additional `own` of rank 1."""
    video: str = ""
    """Video for `headrace.FrameLoader`; empty: a DataLoader."""


@dataclass(frozen=True)
class Planted:
    """Loop and the right verdict on it."""

    loop: Loop
    bound_by: tuple[str, ...]
    """Right bottlenecks; one suffices."""
    cause: str = ""
    """Right cause of a slow step."""
    words: str = ""
    """Words that the text must contain."""


_STEP: Final = ("step",)
_LOADING: Final = ("loading", "loader workers")
PLANTED: Final[dict[str, Planted]] = {
    "slow decoding": Planted(Loop(fetch=24), _LOADING),
    "slow augmentation": Planted(Loop(augment=20, layers=2), _LOADING),
    "slow collating": Planted(Loop(collate=20, workers=1), _LOADING),
    "slow Python collating": Planted(
        Loop(counting=9, workers=2), ("loader workers",), words="Half of the work in collate_fn"
    ),
    "slow disk": Planted(Loop(read_bytes=32 << 20, batches=120), _LOADING),
    "too few workers": Planted(Loop(fetch=30, own=8, workers=1), _LOADING),
    "too many workers": Planted(
        Loop(fetch=12, own=8, workers=8, batches=400), (*_LOADING, "step"), "own code"
    ),
    "tiny batches": Planted(
        Loop(
            fetch=0.05, collate=0.0, layers=0, trains=False, batch_size=1, workers=2, batches=3000
        ),
        ("queue transfer",),
    ),
    "restarted workers": Planted(Loop(fetch=2, batches=15, epochs=10, workers=2), ("start-up",)),
    "uneven samples": Planted(Loop(fetch=2, uneven=160, workers=1), _LOADING),
    "paced source": Planted(Loop(pace_ms=40, batches=100), ("source",)),
    "slow model": Planted(Loop(layers=24), _STEP, "model"),
    "frozen model": Planted(Loop(frozen=40), _STEP, "forward without gradients"),
    "inference": Planted(Loop(layers=40, trains=False), _STEP, "forward without gradients"),
    "slow optimizer": Planted(Loop(slow_optimizer=True), _STEP, "optimizer"),
    "slow optimizer of the user": Planted(
        Loop(own_optimizer=20), _STEP, "optimizer", f"Half of the work at {_SCRIPT}"
    ),
    "logging at every step": Planted(Loop(log_lines=400), _STEP, "logging"),
    "frequent evaluations": Planted(Loop(eval_every=10), _STEP, "evaluation"),
    "frequent checkpoints": Planted(Loop(save_every=5), _STEP, "checkpointing"),
    "GIL": Planted(
        Loop(fetch=0, collate=0, batch_size=1, own=0.1, hog=True, batches=40), _STEP, "GIL"
    ),
    "slow sink": Planted(Loop(synced_writes=6), _STEP, "own code", _SCRIPT),
    "slow window": Planted(Loop(own=20), _STEP, "own code", _SCRIPT),
    "growing memory": Planted(Loop(keeps=True, own=10), _STEP, "own code", "memory grows"),
    "Lightning, slow model": Planted(Loop(layers=24, framework="lightning"), _STEP, "model"),
    "Lightning, slow decoding": Planted(Loop(fetch=24, framework="lightning"), _LOADING),
    "Hugging Face, slow model": Planted(Loop(layers=24, framework="hf"), _STEP, "model"),
    "Hugging Face, slow decoding": Planted(Loop(fetch=24, framework="hf"), _LOADING),
    "torchrun, one rank with slow data": Planted(
        Loop(framework="torchrun", late_fetch=30), _STEP, "data"
    ),
    "torchrun, one rank with slow steps": Planted(
        Loop(framework="torchrun", late_own=30), _STEP, "rest"
    ),
    "video frames": Planted(Loop(video="given", batches=60), ("decode",)),
}
"""Name → loop."""
HALVES: Final = {
    "Half of the work in __getitem__": ("fetch", "uneven", "augment", "read_bytes", "late_fetch"),
    "Half of the work in collate_fn": ("collate", "counting"),
    "Half of the work at": ("own", "own_optimizer", "synced_writes", "late_own"),
    "Log half as often": ("log_lines",),
}
"""Start of an advice → fields that it halves."""
DOUBLES: Final = {"Evaluate half as often": "eval_every", "Save half as often": "save_every"}
"""Advice → field that it doubles."""


def change_of(loop: Loop, words: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the changed fields of a loop that takes an advice; None: it cannot take it."""
    names = {"num_workers": "workers", "prefetch_factor": "prefetch"}
    names |= {"persistent_workers": "persistent"}
    if options and loop.framework != "hf":
        return {names[option]: value for option, value in options.items()}
    for start, fields in HALVES.items():
        if words.startswith(start):
            values = {name: getattr(loop, name) for name in fields}
            return {name: type(value)(value / 2) for name, value in values.items() if value}
    if words in DOUBLES:
        return {DOUBLES[words]: 2 * getattr(loop, DOUBLES[words])}
    if words.startswith("Move the Python work of the other threads"):
        return {"hog": False}
    return None


def work(milliseconds: float) -> None:
    """Compute for this CPU time of the thread."""
    end = time.thread_time() + milliseconds / 1e3
    while time.thread_time() < end:
        hashlib.sha256(_BLOCK).digest()


class Samples(Dataset[torch.Tensor]):
    """Samples with the work of a loop."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        """Write a file into `folder` if the loop reads bytes."""
        self._loop, self._file = loop, folder / "samples.bin"
        if loop.read_bytes:
            with self._file.open("wb") as file:
                for _ in range(64):
                    file.write(os.urandom(4 << 20))
                os.fsync(file.fileno())

    def __len__(self) -> int:
        return self._loop.batches * self._loop.batch_size

    def __getitem__(self, index: int) -> torch.Tensor:
        loop = self._loop
        work(loop.fetch / loop.batch_size)
        if loop.uneven and index % (10 * loop.batch_size) == 0:
            work(loop.uneven)
        if loop.augment:
            self._augment(loop.augment / loop.batch_size)
        if loop.read_bytes:
            self._read(index, loop.read_bytes // loop.batch_size)
        return torch.full((3, 16, 16), index % 7 / 7)

    def _augment(self, milliseconds: float) -> None:
        picture, end = torch.rand(3, 96, 96), time.thread_time() + milliseconds / 1e3
        while time.thread_time() < end:
            picture = torch.nn.functional.avg_pool2d(picture.flip(-1), 3, 1, 1)

    def _read(self, index: int, count: int) -> None:
        file = os.open(self._file, os.O_RDONLY)
        try:
            offset = index * count % (192 << 20)
            os.posix_fadvise(file, offset, count, os.POSIX_FADV_DONTNEED)
            os.pread(file, count, offset)
        finally:
            os.close(file)


class Model(torch.nn.Module):
    """Convolutions; with `slow_optimizer`, also parameters that only the optimizer uses."""

    def __init__(self, loop: Loop) -> None:
        """Create the layers of a loop."""
        super().__init__()
        self.body = torch.nn.Sequential(*_layers(loop.layers))
        self.head = torch.nn.Linear(3, 7)
        count = 1500 if loop.slow_optimizer else 0
        self.many = torch.nn.ParameterList(torch.zeros(8) for _ in range(count))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return logits, [N, 7]."""
        extra = sum(part.sum() for part in self.many[:1])
        logits: torch.Tensor = self.head(self.body(pictures).mean((-1, -2))) + extra
        return logits


class OwnOptimizer(torch.optim.SGD):
    """Optimizer with work of its own."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], milliseconds: float) -> None:
        """Work `milliseconds` at each step."""
        super().__init__(parameters, lr=1e-3)
        self._milliseconds = milliseconds

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Work, then change the parameters."""
        work(self._milliseconds)
        super().step(closure)


def _layers(count: int) -> list[torch.nn.Module]:
    return [torch.nn.Conv2d(3, 3, 7, padding=3) for _ in range(count)]


def _loss(logits: torch.Tensor) -> torch.Tensor:
    labels = torch.zeros(len(logits), dtype=torch.long)
    return torch.nn.functional.cross_entropy(logits, labels)


class Trainer:
    """Training loop around a model, as a user writes it."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        """Create the model and the optimizer; the log is in `folder`."""
        self._loop, self._folder = loop, folder
        self.model: torch.nn.Module = Model(loop)
        self._frozen = torch.nn.Sequential(*_layers(loop.frozen))
        self.optimizer: torch.optim.Optimizer = torch.optim.AdamW(
            self.model.parameters(), foreach=False
        )
        if loop.own_optimizer:
            self.optimizer = OwnOptimizer(self.model.parameters(), loop.own_optimizer)
        for part in self.model.get_submodule("many").parameters():
            part.grad = torch.ones_like(part)
        self._log = logging.getLogger("planted")
        self._log.addHandler(logging.FileHandler(folder / "train.log"))
        self._log.setLevel(logging.INFO)
        self._log.propagate = False
        self._kept: list[torch.Tensor] = []
        self._heavy = {f"weight {index}": torch.zeros(1 << 20) for index in range(6)}

    def run(self, batches: Iterable[torch.Tensor]) -> None:
        """Take a step for each batch."""
        for index, pictures in enumerate(batches):
            self.step(index, pictures)

    def step(self, index: int, pictures: torch.Tensor) -> None:
        """Train on a batch, then do the other work of a step."""
        loop = self._loop
        if not loop.trains:
            with torch.no_grad():
                self.model(pictures) if loop.layers else pictures.sum()
            return
        with torch.no_grad():
            pictures = self._frozen(pictures)
        loss = _loss(self.model(pictures))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.besides(index, loss)

    def besides(self, index: int, loss: torch.Tensor) -> None:
        """Do the work of a step besides training: log, compute, write, save, evaluate."""
        loop = self._loop
        for line in range(loop.log_lines):
            self._log.info("step %d, line %d: loss %.4f", index, line, loss.item())
        if loop.own:
            self.slide(loop.own)
        if loop.synced_writes:
            self.write(loop.synced_writes)
        if loop.save_every and index % loop.save_every == 0:
            torch.save(self._heavy, self._folder / "model.pt")
        if loop.eval_every and index % loop.eval_every == 0:
            self.evaluate()
        if loop.keeps:
            self._kept.append(loss + torch.zeros(1 << 17))

    def slide(self, milliseconds: float) -> None:
        """Compute in Python, like a window over past results."""
        work(milliseconds)

    def write(self, count: int) -> None:
        """Write `count` blocks, each synced to the disk."""
        with (self._folder / "sink.bin").open("wb") as file:
            for _ in range(count):
                file.write(_BLOCK)
                file.flush()
                os.fsync(file.fileno())

    def evaluate(self) -> None:
        """Run the model on other data."""
        self.model.eval()
        data = DataLoader(Samples(Loop(fetch=4, batches=12), self._folder), batch_size=8)
        with torch.no_grad():
            for pictures in data:
                self.model(pictures)
        self.model.train()


def run(loop: Loop, folder: Path) -> None:
    """Run a loop."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    is_over = threading.Event()
    hog = threading.Thread(target=_hog, args=(is_over,))
    if loop.hog:
        hog.start()
    try:
        _RUNS[loop.framework](loop, folder)
    finally:
        is_over.set()
        if loop.hog:
            hog.join()


def _hog(is_over: threading.Event) -> None:
    number = 0
    while not is_over.is_set():
        number = sum(range(1000)) + number % 7


def _collate(loop: Loop, samples: Sequence[torch.Tensor]) -> torch.Tensor:
    work(loop.collate)
    end = time.thread_time() + loop.counting / 1e3
    while time.thread_time() < end:
        sum(number * number for number in range(100))
    return torch.stack(list(samples))


def _loader(loop: Loop, folder: Path) -> DataLoader[torch.Tensor]:
    return DataLoader(
        Samples(loop, folder),
        batch_size=loop.batch_size,
        num_workers=loop.workers,
        prefetch_factor=loop.prefetch if loop.workers else None,
        persistent_workers=loop.persistent and bool(loop.workers),
        collate_fn=partial(_collate, loop),
    )


def _paced(loop: Loop) -> Iterator[torch.Tensor]:
    due = time.perf_counter()
    for _ in range(loop.batches):
        due += loop.pace_ms / 1e3
        time.sleep(max(0.0, due - time.perf_counter()))
        yield torch.zeros(loop.batch_size, 3, 16, 16)


def _run_plain(loop: Loop, folder: Path) -> None:
    """Train on a DataLoader, a FrameLoader, or a paced source that the script profiles itself."""
    trainer, batches = Trainer(loop, folder), _loader(loop, folder)
    if loop.video:
        from headrace import FrameLoader

        frames = FrameLoader([loop.video], batch_size=16, size=(96, 96))
        trainer.run(batch.frames.float() for batch in islice(frames, loop.batches))
    elif loop.pace_ms:
        from headrace import profile_loader

        with profile_loader(_paced(loop), out=Path(tempfile.gettempdir()) / OWN) as profiled:
            trainer.run(profiled)
    else:
        for _ in range(loop.epochs):
            trainer.run(batches)


def _run_lightning(loop: Loop, folder: Path) -> None:
    import lightning

    planted = Trainer(loop, folder)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = planted.model

        def training_step(self, pictures: torch.Tensor, index: int) -> torch.Tensor:
            loss = _loss(self.model(pictures))
            planted.besides(index, loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return planted.optimizer

    options: dict[str, Any] = {"logger": False, "enable_checkpointing": False}
    options |= {"enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=loop.epochs, accelerator="cpu", **options)
    trainer.fit(Module(), _loader(loop, folder))


def _run_hf(loop: Loop, folder: Path) -> None:
    from transformers import Trainer as HfTrainer
    from transformers import TrainingArguments

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model(loop)

        def forward(self, pictures: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = self.model(pictures)
            return {"loss": _loss(logits), "logits": logits}

    def collate(samples: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        labels = torch.zeros(len(samples), dtype=torch.long)
        return {"pictures": torch.stack(list(samples)), "labels": labels}

    options: dict[str, Any] = {"dataloader_num_workers": loop.workers, "use_cpu": True}
    options |= {"per_device_train_batch_size": loop.batch_size, "num_train_epochs": loop.epochs}
    options |= {"save_strategy": "no", "report_to": [], "disable_tqdm": True}
    arguments = TrainingArguments(str(folder), remove_unused_columns=False, **options)
    HfTrainer(
        model=Wrapped(), args=arguments, train_dataset=Samples(loop, folder), data_collator=collate
    ).train()


def _run_ranks(loop: Loop, folder: Path) -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        loop = replace(loop, fetch=loop.fetch + loop.late_fetch, own=loop.own + loop.late_own)
    trainer = Trainer(loop, folder)
    trainer.model = DistributedDataParallel(trainer.model)
    trainer.run(_loader(loop, folder))
    dist.destroy_process_group()


_RUNS: Final = {
    "plain": _run_plain,
    "lightning": _run_lightning,
    "hf": _run_hf,
    "torchrun": _run_ranks,
}


def main(words: Sequence[str]) -> None:
    """Run a loop of `PLANTED`; a JSON object replaces its fields."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PLANTED, help="loop to run")
    parser.add_argument("--fields", type=json.loads, default={}, help="replace fields; JSON")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        run(replace(PLANTED[arguments.name].loop, **arguments.fields), Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
