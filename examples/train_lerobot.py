"""Train lerobot's ACT policy on a LeRobot dataset, with the loader of headrace or of lerobot.

python examples/train_lerobot.py DATASET --steps 20
python examples/train_lerobot.py DATASET --steps 20 --loader lerobot    # equal items and losses

Needs the package lerobot. The policy is small and untrained: the example shows the one line that
differs, and that both loaders give equal losses.
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from lerobot.configs.types import FeatureType
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from torch.utils.data import DataLoader

from headrace import LeRobotLoader

try:
    from lerobot.utils.feature_utils import dataset_to_policy_features
except ImportError:  # before lerobot 0.6
    from lerobot.datasets.utils import dataset_to_policy_features


def main() -> None:
    """Parse the command line, train, and print each loss and the items of its batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path, help="folder of the dataset")
    parser.add_argument("--loader", choices=("headrace", "lerobot"), default="headrace")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=8)
    options = parser.parse_args()
    dataset = LeRobotDataset("local/dataset", root=options.dataset)
    policy, prepare = make_policy(dataset)
    deltas = {"action": [k / dataset.fps for k in policy.config.action_delta_indices]}
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    torch.manual_seed(0)
    policy.train()
    start = perf_counter()
    batches = headrace_batches if options.loader == "headrace" else lerobot_batches
    for step, batch in enumerate(
        islice(batches(options.dataset, deltas, options.batch_size), options.steps)
    ):
        torch.manual_seed(step)  # a DataLoader draws random numbers, which changes later dropout
        loss, _ = policy.forward(prepare(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: items {batch['index'].tolist()}, loss {loss.item():.6f}")
    print(f"{options.steps} steps in {perf_counter() - start:.1f} s")


def make_policy(dataset: LeRobotDataset) -> tuple[ACTPolicy, Any]:
    """Return a small policy for a dataset, and the function that normalizes a batch."""
    torch.manual_seed(0)
    features = dataset_to_policy_features(dataset.meta.features)
    actions = {
        key: feature for key, feature in features.items() if feature.type is FeatureType.ACTION
    }
    config = ACTConfig(
        input_features={key: value for key, value in features.items() if key not in actions},
        output_features=actions,
        chunk_size=16,
        n_action_steps=16,
        dim_model=64,
        n_heads=4,
        dim_feedforward=128,
        n_encoder_layers=1,
        pretrained_backbone_weights=None,
        device="cpu",
    )
    prepare, _ = make_pre_post_processors(config, dataset_stats=dataset.meta.stats)
    return ACTPolicy(config), prepare


def headrace_batches(
    folder: Path, deltas: dict[str, list[float]], batch_size: int
) -> Iterator[dict[str, Any]]:
    """Yield batches of headrace in random order, endlessly."""
    with LeRobotLoader(folder, delta_timestamps=deltas, batch_size=batch_size) as loader:
        while True:
            yield from loader


def lerobot_batches(
    folder: Path, deltas: dict[str, list[float]], batch_size: int
) -> Iterator[dict[str, Any]]:
    """Yield batches of lerobot with the same items."""
    dataset = LeRobotDataset("local/dataset", root=folder, delta_timestamps=deltas)
    dataset.video_backend = "pyav"
    with LeRobotLoader(folder, batch_size=batch_size) as loader:
        while True:
            order = (batch["index"].tolist() for batch in loader)
            yield from DataLoader(dataset, batch_sampler=order)


if __name__ == "__main__":
    main()
