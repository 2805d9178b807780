"""Training steps: trained weights, times, compilation and errors."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from headrace.errors import BackendError
from headrace.models.compute import Compute
from headrace.models.feature_extractor import replace_head
from headrace.models.model import Model
from headrace.models.outputs import ToLabels
from headrace.models.results import ClassNames
from headrace.preprocess.spec import InputSpec
from headrace.runs.model_setup import StartupTimer
from headrace.runs.retrain.learner import Learner, load_learner
from headrace.runs.retrain.retrain_options import TrainOptions
from headrace.runs.run_options import ComputeOptions, ExecutionOptions
from headrace.testing.fake_clock import FakeClock

IMAGES = InputSpec(resize=4, crop=4, mean=(0,) * 3, std=(1,) * 3, interpolation="bilinear")
DARK_AND_LIGHT = torch.tensor([0, 255, 0, 255], dtype=torch.uint8).reshape(4, 1, 1, 1)
FRAMES = DARK_AND_LIGHT.expand(4, 4, 4, 3)
CLASSES = torch.tensor([0, 1, 0, 1])


class TwoLayers(nn.Module):
    """The mean of each channel, then a frozen layer and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.fc = nn.Linear(3, 5)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(batch.mean(dim=(2, 3))))


def tiny_learner(module: nn.Module, **compute: object) -> tuple[Learner, FakeClock]:
    """Return a learner, and its fake clock; each preprocessing takes 5 ms."""
    clock = FakeClock()
    torch.nn.init.eye_(module.body.weight)
    module.body.requires_grad_(requires_grad=False)
    replace_head(module, 2)
    model = Model(
        name="two layers",
        module=module.eval(),
        input=IMAGES,
        output=ToLabels(class_names=ClassNames(names=("dark", "light"))),
        origin="tests",
        compute=Compute(**compute),
    )

    def preprocess(frames: torch.Tensor) -> torch.Tensor:
        clock.advance(0.005)
        return frames.permute(0, 3, 1, 2) / 255

    return Learner(model, preprocess, forward=module, learning_rate=0.1, clock=clock), clock


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_loss_falls_and_frozen_weights_do_not_change(precision):
    module = TwoLayers()
    learner, _ = tiny_learner(module, precision=precision)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    losses = [learner.step(FRAMES, CLASSES)[0] for _ in range(20)]
    assert losses[-1] < 0.3 * losses[0]
    changed = {n for n, value in module.state_dict().items() if not torch.equal(value, before[n])}
    assert changed == {"fc.weight", "fc.bias"}


def test_a_step_times_its_parts():
    learner, _ = tiny_learner(TwoLayers())
    _, work_ms = learner.step(FRAMES, CLASSES)
    assert list(work_ms) == ["preprocess", "forward", "backward", "optimizer"]
    assert (work_ms["preprocess"], work_ms["forward"]) == (5, 0)


def test_the_warm_up_changes_no_weight():
    module = TwoLayers()
    learner, _ = tiny_learner(module)
    before = module.fc.weight.clone()
    learner.warm_up((4, 3, 4, 4))
    assert torch.equal(module.fc.weight, before)
    assert module.fc.weight.grad is None


def test_a_failed_device_is_an_error_with_advice():
    module = TwoLayers()
    learner, _ = tiny_learner(module)
    module.fc.register_forward_hook(_out_of_memory)
    for use in (lambda: learner.step(FRAMES, CLASSES), lambda: learner.warm_up((4, 3, 4, 4))):
        with pytest.raises(BackendError, match=r"batches of 4: out of memory; use a smaller") as e:
            use()
        assert len(str(e.value).splitlines()) == 1


def _out_of_memory(*args: object) -> None:
    raise RuntimeError("out of memory\nwith a long story")


def compiled_learner(compiler: Callable[[nn.Module], nn.Module], timer: StartupTimer) -> Learner:
    return load_learner(
        ComputeOptions(
            model_name="squeezenet1_1",
            weights="none",
            threads=1,
            execution=ExecutionOptions(compile=True, amp=True),
        ),
        TrainOptions(),
        ("a", "b"),
        batch_size=2,
        timer=timer,
        compiler=compiler,
    )


def test_the_compiled_module_is_the_trained_one():
    compiled = []

    def compiler(module: nn.Module) -> nn.Module:
        compiled.append(module)
        return module

    timer = StartupTimer(FakeClock())
    learner = compiled_learner(compiler, timer)
    assert compiled == [learner.model.module]
    assert [part.name for part in timer.parts] == ["model", "compile"]
    assert learner.num_trained == 2 * 512 + 2
    assert learner.model.compute.precision == "bfloat16"


class Uncompilable(nn.Module):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("No working C++ compiler found\nwith a long story")


def test_a_failed_compiler_is_an_error_with_its_requirements():
    message = r"squeezenet1_1 cannot be compiled on cpu for batches of 2: No working .*"
    with pytest.raises(BackendError, match=message + "install the requirements of") as caught:
        compiled_learner(lambda module: Uncompilable(), StartupTimer(FakeClock()))
    assert len(str(caught.value).splitlines()) == 1
