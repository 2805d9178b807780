"""A folder of a dataset: its tables, statistics, and where its files lie."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from headrace.errors import ConfigError
from headrace.loaders.lerobot.dataset_folder import DatasetFolder
from loaders.lerobot.drawn import CAMERAS, DRAWN, FPS, TASKS, VALUES, stats_of
from loaders.lerobot.faults import ROWS, edit_column, edit_info, edit_rows, edit_table, turn

VERSIONS = pytest.mark.parametrize("version", DRAWN)


@VERSIONS
def test_tables_and_files_are_found(folders, version):
    folder, drawn = DatasetFolder.open(folders[version]), DRAWN[version]
    assert (len(folder), folder.fps, folder.texts["task"]) == (27, FPS, dict(enumerate(TASKS)))
    assert folder.episodes.tolist() == [0, 1, 2, 3]
    assert folder.row_start.tolist() == [0, 7, 12, 21, 27]
    assert [camera.key for camera in folder.cameras] == [*CAMERAS]
    for camera in folder.cameras:
        for episode, file in enumerate(camera.files):
            assert file.is_file()
            assert file == folders[version] / drawn.video_file(camera.key, episode)[0]
            begin = drawn.begin(camera.key, episode) / FPS
            assert camera.start_seconds[episode] == begin


@VERSIONS
def test_statistics_are_those_of_all_rows(folders, version):
    """Of v2.1 they are joined from those of each episode."""
    found = DatasetFolder.open(folders[version], episodes=[1]).stats
    expected = stats_of(DRAWN[version], range(4))
    assert found.keys() == expected.keys()
    for feature, values in expected.items():
        assert found[feature].keys() == values.keys()
        for name, value in values.items():
            np.testing.assert_allclose(found[feature][name], np.atleast_1d(value), atol=1e-12)
    assert found[CAMERAS[0]]["mean"].shape == (3, 1, 1)


def test_the_oldest_version_has_statistics_of_all_or_none(copied):
    folder = copied("v2.1")
    edit_info(folder, codebase_version="v2.0")
    (folder / "meta/episodes_stats.jsonl").unlink()
    stats = stats_of(DRAWN["v2.1"], range(4))
    (folder / "meta/stats.json").write_text(json.dumps(stats))
    opened = DatasetFolder.open(folder)
    assert opened.stats["action"]["mean"].tolist() == stats["action"]["mean"]
    assert opened.columns["index"].tolist() == [*range(27)]
    (folder / "meta/stats.json").unlink()
    assert DatasetFolder.open(folder).stats == {}


def test_rows_may_lie_in_any_file_but_are_in_the_order_of_episodes(copied):
    """Episodes 0 and 1 change places in the metadata, with their files."""
    folder = copied()
    for file in (folder / "meta/episodes/chunk-000").iterdir():
        edit_table(file, turn)
    assert DatasetFolder.open(folder).episodes.tolist() == [0, 1, 2, 3]


def test_numbers_of_tasks_may_have_gaps_but_each_row_has_a_task(copied):
    folder = copied("v2.1")
    path, texts = folder / "meta" / "tasks.jsonl", {10**12: "rest", **dict(enumerate(TASKS))}

    def write():
        rows = [{"task_index": number, "task": text} for number, text in texts.items()]
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    write()
    assert DatasetFolder.open(folder).texts == {"task": texts}
    del texts[1]
    write()
    with pytest.raises(
        ConfigError, match=r"frame 4 .* has task_index 1, and the metadata has 3 tasks"
    ):
        DatasetFolder.open(folder)


def test_the_default_dtype_is_that_of_tensors(folder):
    torch.set_default_dtype(torch.float64)
    try:
        columns = DatasetFolder.open(folder).columns
    finally:
        torch.set_default_dtype(torch.float32)
    assert columns["action"].dtype == columns["observation.state"].dtype == torch.float64
    assert columns["action"][10].tolist() == [13 / 3, -13 / 3]


def test_types_may_differ_from_file_to_file(copied):
    """Numbers of one file are float64, of the other float32."""
    folder = copied()
    edit_column(folder / ROWS, "next.reward", lambda column: column.cast(pa.float64()))
    rewards = DatasetFolder.open(folder).columns["next.reward"]
    assert torch.equal(rewards, DatasetFolder.open(folder, range(4)).columns["next.reward"])
    assert rewards.dtype == torch.float32


@pytest.mark.parametrize(
    ("cache", "revision"),
    [("lerobot/mine/drawn", None), ("hub", "main"), ("lerobot/hub", "v3.0")],
)
def test_a_repository_of_a_local_cache_is_found(folder, tmp_path, monkeypatch, cache, revision):
    """As LeRobot 0.4, `hf download` and LeRobot 0.6 leave it."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    place = tmp_path / cache
    if revision is not None:
        repository = place / "datasets--mine--drawn"
        place = repository / "snapshots" / ("0" * 40)
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / revision).write_text("0" * 40)
    place.parent.mkdir(parents=True)
    place.symlink_to(folder)
    assert len(DatasetFolder.open("mine/drawn")) == 27


def test_every_episode_and_value_is_unique(copied):
    """A subset reads no rows of other episodes: theirs may be damaged."""
    folder = copied("v2.1")
    (folder / DRAWN["v2.1"].data_file(0)).write_text("no table")
    opened = DatasetFolder.open(folder, episodes=[3, 1])
    assert opened.episodes.tolist() == [1, 3]
    assert opened.numbers("index").tolist() == [*range(7, 12), *range(21, 27)]


def test_a_column_that_no_feature_names_is_passed_over(copied):
    folder = copied()
    table = pq.read_table(folder / ROWS)
    pq.write_table(table.append_column("own", pa.array([*range(len(table))])), folder / ROWS)
    assert [*DatasetFolder.open(folder).columns] == [*VALUES, "subtask_index"]


def test_rows_out_of_order_are_refused(copied, refused):
    folder = copied()
    edit_rows(folder / ROWS, turn)
    refused("lerobot_rows", folder=folder)
