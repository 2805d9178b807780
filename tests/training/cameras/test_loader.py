"""Camera streams: every frame right, in order, decoded once, and what is bad named or marked."""

import errno
import json
import signal
import subprocess
import sys
from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode.open import open_decoder
from headrace.errors import BackendError, ConfigError, DecodeError, MediaError, OpenError
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras import picture_memory
from headrace.training.cameras.alignment import Alignment, CameraClock
from headrace.training.cameras.loader import CameraLoader
from training.cameras.clips import (
    CAMERAS,
    LENGTHS,
    SIZE,
    PlainCameras,
    cells,
    copy_layout,
    layout_of,
)
from training.videos import contents

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

OTHERS = [
    *({"group_num": 3}, {"seed": 1}, {"seq_split": 2}),
    {"group_num": 1, "rank": 0, "num_replicas": 2},
]
ALL = {(clip, k) for clip, length in enumerate(LENGTHS.values()) for k in range(length)}


@pytest.fixture
def loader(opens, store, layout):
    asked = {"group_num": 2, "size": SIZE, "store": store, "workers": 2}
    return lambda layout=layout, **more: opens(CameraLoader, layout, **{**asked, **more})


def ranks(loader, count, **options):
    return [loader(rank=rank, num_replicas=count, **options) for rank in range(count)]


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("group_num", [1, 2, 3])
def test_every_frame_comes_once_in_order_decoded_once(loader, plain, num_ranks, workers, group_num):
    loaders = ranks(loader, num_ranks, workers=workers, group_num=group_num)
    batches = [list(each) for each in loaders]
    assert len({len(each) for each in batches}) == 1
    shown = [cell for rank in batches for cell in cells(rank)]
    assert sorted((clip, index) for _, clip, index in shown) == sorted(ALL)
    slots: dict[int, list[tuple[int, int]]] = {}
    for slot, clip, index in shown:
        slots.setdefault(slot, []).append((clip, index))
    for mine in slots.values():
        for (before, k), (after, next_k) in pairwise(mine):
            assert (after, next_k) == (before, k + 1) or (after != before and next_k == 0)
    for batch in (batch for rank in batches for batch in rank):
        assert batch.frames.shape == (group_num, len(CAMERAS), 3, *SIZE)
        assert batch.first_frame.tolist() == [index == 0 for index in batch.index.tolist()]
        assert (batch.valid == (batch.clip >= 0)[:, None]).all()
        for row, (clip, index) in enumerate(
            zip(batch.clip.tolist(), batch.index.tolist(), strict=True)
        ):
            for camera in range(len(CAMERAS)):
                found = batch.frames[row, camera].numpy()
                if clip < 0:
                    assert not found.any()
                else:
                    assert np.array_equal(found, plain.of(clip, camera, index))
    decoded = sum(each.statistics.frames_decoded for each in loaders)
    delivered = sum(each.statistics.frames_delivered for each in loaders)
    assert delivered == len(ALL) * len(CAMERAS)
    assert decoded == delivered
    assert {each.statistics.amplification for each in loaders} == {1.0}
    assert sum(each.statistics.opens for each in loaders) == len(LENGTHS) * len(CAMERAS)


def test_batches_are_the_same_whatever_the_memory_and_the_workers(loader):
    def two_epochs(**options):
        each = loader(shuffle=True, **options)
        return contents(list(each) + list(each))

    one = two_epochs(workers=1, lookahead=1)
    batch_bytes = 2 * 3 * SIZE[0] * SIZE[1] * 3
    for options in [{"workers": 3}, {"lookahead": 7}, {"memory_budget": 3 * batch_bytes}]:
        assert two_epochs(**options) == one, options


def test_epochs_are_shuffled_and_a_seed_names_them(loader):
    first, second = (lambda each: (cells(each), cells(each)))(loader(shuffle=True))
    assert first != second
    again = loader(shuffle=True)
    again.set_epoch(1)
    assert cells(again) == second
    assert cells(loader(shuffle=True, seed=1)) != first


@pytest.mark.parametrize("tail", ["drop", "refill"])
def test_no_slot_is_empty_where_the_tail_is_dropped_or_refilled(loader, tail):
    each = loader(tail=tail)
    batches = list(each)
    assert len(batches) == len(loader(tail=tail)) == len(each)
    assert all((batch.clip >= 0).all() for batch in batches)
    shown = [cell[1:] for cell in cells(batches)]
    assert (set(shown) == ALL) == (tail == "refill")
    assert len(set(shown)) == len(shown) or tail == "refill"


@pytest.mark.parametrize("tail", ["pad", "drop", "refill"])
def test_what_a_tail_does_is_counted(loader, tail):
    each = loader(tail=tail)
    for _ in range(2):
        for _ in each:
            pass
    beyond = 2 * (2 * len(each) - sum(LENGTHS.values()))
    stats = each.statistics
    counted = {
        "pad": (beyond, 0, 0),
        "drop": (0, 0, -beyond),
        "refill": (0, beyond, 0),
    }
    assert (stats.moments_empty, stats.moments_repeated, stats.moments_cut) == counted[tail]
    assert beyond != 0


def test_clips_are_cut_into_sequences(loader):
    batches = list(loader(seq_split=2))
    assert sorted(cell[1:] for cell in cells(batches)) == sorted(ALL)
    firsts = {
        (clip, index)
        for batch in batches
        for clip, index, first in zip(
            batch.clip.tolist(), batch.index.tolist(), batch.first_frame.tolist(), strict=True
        )
        if first
    }
    halves = {(clip, length // 2) for clip, length in enumerate(LENGTHS.values())}
    assert firsts == {(clip, 0) for clip, _ in halves} | halves


@pytest.mark.parametrize(("num_of_file", "most"), [(1, 3), (4, 4), (6, 6)])
def test_fewer_open_files_than_cameras_bring_the_same_frames(
    loader, num_of_file, most, monkeypatch
):
    opened, most_open = set(), []

    def counted(*each, **options):
        decoder = open_decoder(*each, **options)
        opened.add(id(decoder))
        most_open.append(len(opened))
        close = decoder.close
        decoder.close = lambda: (opened.discard(id(decoder)), close())
        return decoder

    expected = contents(loader())
    monkeypatch.setattr(picture_memory, "open_decoder", counted)
    bounded = loader(num_of_file=num_of_file, lookahead=8)
    assert contents(bounded) == expected
    assert max(most_open) <= most
    assert not opened
    is_bounded = num_of_file < 2 * len(CAMERAS)
    assert (bounded.statistics.opens > len(LENGTHS) * len(CAMERAS)) == is_bounded


def test_more_open_files_than_the_system_allows_are_refused(loader):
    with pytest.raises(ConfigError, match=r"num_of_file=2000000 .*ulimit -n"):
        loader(num_of_file=2_000_000)


def test_too_many_open_files_are_no_bad_media(loader, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    each = loader(on_error="mask")
    monkeypatch.setattr("headrace.video.container.av.open", refuse)
    with pytest.raises(ConfigError, match="as many files are open as the system allows"):
        list(each)


@pytest.mark.parametrize("step", [1, 5, 20])
def test_the_rest_equals_that_of_an_uninterrupted_run(loader, step):
    whole = loader(shuffle=True)
    uninterrupted = contents([batch for _ in range(2) for batch in whole])
    begun = loader(shuffle=True)
    seen = contents(islice(begun, step))
    state = json.loads(json.dumps(begun.state_dict()))
    resumed = loader(shuffle=True, workers=1, lookahead=2)
    resumed.load_state_dict(state)
    assert seen + contents([b for _ in range(2) for b in resumed]) == uninterrupted


def test_a_state_after_the_last_batch_is_the_next_epoch(loader):
    each = loader()
    list(each)
    assert (each.state_dict()["epoch"], each.state_dict()["step"]) == (1, 0)


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_a_state_of_something_else_is_refused(loader, other):
    state = loader().state_dict()
    with pytest.raises(ConfigError, match="does not belong to this loader"):
        loader(**other).load_state_dict(state)


SCRIPT = """
import json, os, signal, sys
from headrace.decode.index_store import IndexStore
from headrace.training.cameras.loader import CameraLoader
from training.cameras.clips import layout_of
from training.videos import contents
from pathlib import Path
from hashlib import blake2b

folder, store, rank, log, stop = sys.argv[1:]
log = Path(log)
with CameraLoader(layout_of(Path(folder)), group_num=2, size=(32, 48), shuffle=True, workers=2,
                  rank=int(rank), num_replicas=2, store=IndexStore(Path(store))) as loader:
    lines = log.read_text().splitlines() if log.exists() else []
    if lines:
        loader.load_state_dict(json.loads(lines[-1])["state"])
    with log.open("a") as out:
        while loader.epoch < 2:
            for batch in loader:
                line = {"seen": blake2b(repr(contents([batch])).encode()).hexdigest(),
                        "state": loader.state_dict()}
                print(json.dumps(line), file=out, flush=True)
                lines.append(line)
                if len(lines) == int(stop):
                    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_two_ranks_that_were_killed_go_on_as_if_they_had_not(folder, tmp_path):
    def run(log, stop):
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    SCRIPT,
                    folder,
                    tmp_path / "index",
                    str(rank),
                    log(rank),
                    str(stop),
                ],
                cwd="tests",
            )
            for rank in (0, 1)
        ]
        return [each.wait(120) for each in processes]

    assert run(lambda rank: tmp_path / f"whole-{rank}", 0) == [0, 0]
    killed = -signal.SIGKILL
    assert run(lambda rank: tmp_path / f"cut-{rank}", 9) == [killed, killed]
    assert run(lambda rank: tmp_path / f"cut-{rank}", 0) == [0, 0]
    for rank in (0, 1):
        whole, cut = (tmp_path / f"{name}-{rank}" for name in ("whole", "cut"))
        assert cut.read_text() == whole.read_text()
        assert len(whole.read_text().splitlines()) > 20


def test_a_damaged_frame_is_named_or_marked(loader, layout, folder, tmp_path, plain):
    copied = copy_layout(folder, tmp_path / "damaged")
    victim = copied.clips[2].file("front")
    damage_packets(layout.clips[2].file("front"), victim, ordinals=[13])
    with pytest.raises(DecodeError, match=r"c/front\.mp4"):
        list(loader(copied))
    each = loader(copied, on_error="mask", lookahead=1)
    lost = 0
    for batch in each:  # none is kept, so that memory is used again
        for row, camera in np.argwhere(~batch.valid.numpy() & (batch.clip >= 0).numpy()[:, None]):
            assert (batch.clip[row], CAMERAS[camera]) == (2, "front")
            assert not batch.frames[row, camera].any()
            assert batch.pts_seconds[row, camera].isnan()
            lost += 1
        del batch
    assert len(each) == len(loader())
    assert each.statistics.frames_lost == lost > 0


def test_a_clip_that_cannot_be_opened_is_named_or_left_out(loader, folder, tmp_path):
    copied = copy_layout(folder, tmp_path / "gone")
    copied.clips[1].file("left").unlink()
    copied.clips[3].file("back").write_text("no video")
    with pytest.raises(OpenError, match=r"b/left\.mp4"):
        loader(copied)
    each = loader(copied, on_error="mask")
    assert [str(copied.clips[1].file("left")), str(copied.clips[3].file("back"))] == [
        error.source for error in each.left_out
    ]
    assert each.statistics.clips_left_out == 2
    assert {clip for _, clip, _ in cells(each)} == {0, 2, 4}


def test_an_index_that_disagrees_with_the_files_is_refused(loader, layout, folder, tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({str(folder): {"a": 21}}))
    with pytest.raises(ConfigError, match=r"says 21 frames, .*a/back\.mp4 has 20; write it anew"):
        loader(tmp_path / "index.json")


@pytest.fixture
def early(folder, tmp_path):
    """A layout whose camera `left` of clip a ends early."""
    copied = copy_layout(folder, tmp_path / "early")
    path = copied.clips[0].file("left")
    path.unlink()
    write_clip(path.with_suffix(""), SynthClip(num_frames=12, size=(64, 96), gop=5))
    return copied


def test_a_camera_that_ends_early_is_an_error_or_handled_as_asked(loader, early):
    with pytest.raises(DecodeError, match=r"a/left\.mp4 has no frame for \d+ of 20 moments"):
        loader(early)

    def of_clip_a(on_missing):
        each = loader(early, alignment=Alignment(on_missing=on_missing), lookahead=1)
        rows = [
            (index, valid, picture.clone())  # so that memory of batches is used again
            for batch in each
            for clip, index, valid, picture in zip(
                batch.clip.tolist(),
                batch.index.tolist(),
                batch.valid.tolist(),
                batch.frames[:, 2],
                strict=True,
            )
            if clip == 0
        ]
        return rows, each.statistics.frames_missing

    masked, missing = of_clip_a("mask")
    assert [index for index, _, _ in masked] == list(range(20))
    assert [valid[:2] for _, valid, _ in masked] == [[True, True]] * 20
    length = sum(valid[2] for _, valid, _ in masked)
    assert 0 < length < 20
    assert missing == 20 - length
    assert not any(picture.any() for _, valid, picture in masked if not valid[2])
    repeated, missing = of_clip_a("repeat")
    assert missing == 20 - length
    assert all(torch.equal(picture, repeated[length - 1][2]) for _, _, picture in repeated[length:])
    dropped, missing = of_clip_a("drop")
    assert ([index for index, _, _ in dropped], missing) == (list(range(length)), 0)


def test_a_file_that_vanishes_is_named_and_nothing_hangs(loader, folder, tmp_path):
    copied = copy_layout(folder, tmp_path / "vanishing")
    each = loader(copied)
    copied.clips[4].file("front").unlink()
    with pytest.raises(MediaError, match=r"e/front\.mp4"):
        list(each)


def test_cameras_of_different_sizes(loader, folder, tmp_path, plain):
    copied = copy_layout(folder, tmp_path / "ragged")
    clip = SynthClip(num_frames=20, size=(96, 64), gop=6)
    copied.clips[0].file("left").unlink()
    write_clip(copied.clips[0].file("left").with_suffix(""), clip)
    with pytest.raises(ConfigError, match=r"cameras have 64x96, 96x64 .* or ragged='pad' or"):
        loader(copied, size=None)
    own = PlainCameras(copied, size=None)
    for padded, listed in zip(
        loader(copied, size=None, ragged="pad"),
        loader(copied, size=None, ragged="list"),
        strict=True,
    ):
        assert padded.frames.shape == (2, 3, 3, 96, 96)
        assert torch.equal(padded.sizes, listed.sizes)
        for row, clip in enumerate(padded.clip.tolist()):
            for camera, (height, width) in enumerate(padded.sizes[row].tolist()):
                picture = listed.frames[row][camera]
                assert picture.shape == (3, height, width)
                assert torch.equal(padded.frames[row, camera, :, :height, :width], picture)
                assert not padded.frames[row, camera, :, height:].any()
                assert not padded.frames[row, camera, :, :, width:].any()
                if clip >= 0:
                    index = int(padded.index[row])
                    assert np.array_equal(picture.numpy(), own.of(clip, camera, index))


def test_a_transform_is_not_given_what_is_not_there(loader, folder, tmp_path):
    def shrunk(picture):
        assert picture.numel()
        return picture[..., ::2, ::2]

    copied = copy_layout(folder, tmp_path / "listed")
    copied.clips[0].file("left").unlink()
    write_clip(copied.clips[0].file("left").with_suffix(""), SynthClip(num_frames=20))
    batches = list(loader(copied, size=None, ragged="list", transform=shrunk))
    assert (batches[-1].clip < 0).any()


def test_a_first_camera_that_ends_early_is_named_or_counted(loader, layout, folder, tmp_path):
    copied = copy_layout(folder, tmp_path / "first")
    path = copied.clips[4].file("back")
    path.unlink()
    write_clip(path.with_suffix(""), SynthClip(num_frames=12, size=(64, 96)))
    copied = layout_of(tmp_path / "first")
    with pytest.raises(DecodeError, match=r"back\.mp4 ends after 12 frames, .*front\.mp4 has 17"):
        loader(copied)
    named = loader(copied, alignment=Alignment(on_missing="mask", reference="back"))
    assert named.statistics.frames_surplus == 2 * 5
    each = loader(copied, alignment=Alignment(on_missing="mask"))
    assert sum(int((batch.clip == 4).sum()) for batch in each) == 17
    assert (each.statistics.frames_surplus, each.statistics.frames_missing) == (0, 5)


def test_a_state_of_clips_in_another_order_is_refused(loader, layout):
    state = loader().state_dict()
    turned = type(layout)(clips=layout.clips[::-1], cameras=layout.cameras)
    with pytest.raises(ConfigError, match="does not belong to this loader"):
        loader(turned).load_state_dict(state)


def test_a_gpu_that_is_not_here_is_refused_when_the_loader_is_made(loader):
    with pytest.raises(BackendError, match=r"decoding on GPU 99 .* leave gpu out"):
        loader(gpu=99)


@needs_no_gpu
@pytest.mark.parametrize("on_error", ["raise", "mask"])
def test_a_gpu_that_does_not_start_is_no_bad_media(loader, monkeypatch, on_error):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(BackendError, match="CUDA cannot start there"):
        next(iter(loader(gpu=0, on_error=on_error)))


@needs_gpu
def test_frames_from_the_gpu_are_those_from_the_cpu(loader):
    for expected, found in zip(loader(), loader(gpu=0), strict=True):
        assert torch.equal(expected.frames, found.frames)


@pytest.mark.parametrize("step", [None, -1, 1.5])
def test_a_state_that_does_not_say_where_is_refused(loader, step):
    each = loader()
    state = {name: value for name, value in each.state_dict().items() if name != "step"}
    if step is not None:
        state["step"] = step
    with pytest.raises(ConfigError, match="step must be an integer >= 0, got"):
        each.load_state_dict(state)


def test_leaving_early_and_closing_end_the_threads(loader):
    each = loader()
    first = next(iter(each))
    again = next(iter(each))
    assert contents([first]) == contents([again])
    iteration = iter(each)
    next(iteration)
    each.close()
    with pytest.raises(ConfigError, match="closed, or iterated anew"):
        next(iteration)


def test_a_transform_is_given_the_pictures(loader):
    each = loader(transform=lambda frames: frames.float().mean((-1, -2)))
    assert next(iter(each)).frames.shape == (2, 3, 3)
    shapes = []
    each = loader(batch_transform=lambda frames: shapes.append(frames.shape) or frames)
    assert next(iter(each)).frames.shape == shapes[0] == (2, 3, 3, *SIZE)


def test_all_moments_of_a_clip_are_transformed_by_one_chance(loader):
    """Whatever the workers, and where it stands in the epoch; by another one in the next epoch."""

    def drawn(**options):
        found: dict[tuple[int, int], set[float]] = {}
        each = loader(transform=lambda _: torch.rand(1), **options)
        for epoch in (0, 1):
            for batch in each:
                for clip, chance in zip(batch.clip.tolist(), batch.frames[:, 0], strict=True):
                    found.setdefault((epoch, clip), set()).add(float(chance))
        return found

    found = drawn()
    of_clips = {place: chance for place, chance in found.items() if place[1] >= 0}
    assert {len(each) for each in of_clips.values()} == {1}
    assert len(set.union(*of_clips.values())) == len(of_clips) == 2 * len(LENGTHS)
    assert drawn(workers=1, group_num=2) == found


def test_streams_that_are_shuffled_go_on_where_they_were_left(loader):
    whole = contents(loader(shuffle=True))
    each = loader(shuffle=True)
    seen = contents(islice(each, 3))
    assert seen + contents(each) == whole
    assert each.statistics.amplification < 1.2


def test_endless_slots_show_every_frame_about_equally_often(loader):
    """Two epochs and a half: every frame two or three times, none of an epoch before the last."""
    each = loader(tail="endless", shuffle=True)
    with pytest.raises(TypeError, match="a CameraLoader with tail='endless' has no length"):
        len(each)
    steps = 5 * len(ALL) // 2 // 2
    seen = [cell for _, *cell in cells(islice(each, steps))]
    times = Counter(map(tuple, seen))
    assert set(times) == ALL
    assert set(times.values()) <= {2, 3}
    assert each.statistics.moments_empty == each.statistics.moments_repeated == 0
    assert each.epoch == 0
    each.close()


def test_endless_streams_go_on_from_their_state_on_every_rank(loader):
    options = {"tail": "endless", "shuffle": True, "num_replicas": 2}
    for rank in (0, 1):
        whole = contents(islice(loader(rank=rank, **options), 120))
        begun = loader(rank=rank, **options)
        seen = contents(islice(begun, 70))
        resumed = loader(rank=rank, workers=1, **options)
        resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
        assert seen + contents(islice(resumed, 50)) == whole


def test_a_clip_that_comes_again_without_end_is_transformed_by_another_chance(loader):
    each = loader(tail="endless", transform=lambda _: torch.rand(1))
    chances = {
        (clip, round(float(chance), 6))
        for batch in islice(each, 2 * len(ALL))
        for clip, chance in zip(batch.clip.tolist(), batch.frames[:, 0], strict=True)
    }
    assert all(n >= 3 for n in Counter(clip for clip, _ in chances).values())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group_num": 0}, "group_num must be an integer >= 1, got 0"),
        ({"group_num": 2.0}, "group_num must be an integer >= 1, got 2.0"),
        ({"workers": 0}, "workers must be an integer >= 1"),
        ({"num_of_file": 0}, "num_of_file must be an integer >= 1"),
        ({"lookahead": 0}, "lookahead must be an integer >= 1"),
        ({"seed": 1.5}, "seed must be an integer >= 0, got 1.5"),
        ({"size": 32}, r"size is \(height, width\), both integers >= 1, got 32"),
        ({"size": (32.0, 48.0)}, r"both integers >= 1, got \(32.0, 48.0\)"),
        ({"alignment": "nearest"}, r"such as Alignment\(sync='nearest'\), got 'nearest'"),
        ({"cameras": ["left"]}, "a CameraLayout was given, which has its own"),
        ({"on_error": "skip"}, "on_error must be one of raise, mask"),
        ({"on_error": None}, "on_error must be one of raise, mask, got None"),
        ({"gpu": "0"}, "gpu must be an integer >= 0, got '0'"),
        ({"gpu": -1}, "gpu must be an integer >= 0, got -1"),
        ({"ragged": "crop"}, "ragged must be one of pad, list"),
        ({"tail": "drop", "group_num": 6}, "5 clips do not fill 6 slots"),
        ({"memory_budget": 1000}, r"does not hold 3 batches .* are needed; raise it"),
        ({"seq_split": 0}, "seq_split must be an integer >= 1"),
        ({"rank": 1}, "rank and num_replicas go together"),
        ({"alignment": lambda: Alignment(sync="next")}, "sync must be one of index"),
        ({"alignment": lambda: Alignment(on_missing="skip")}, "on_missing must be one of raise"),
        ({"alignment": lambda: Alignment(tolerance_ms=-1)}, "tolerance_ms must be a number >= 0"),
        (
            {"alignment": lambda: Alignment(clocks={"top": CameraClock()})},
            "no camera top to set a clock",
        ),
    ],
)
def test_impossible_requests_say_what_is_possible(loader, options, said):
    with pytest.raises(ConfigError, match=said):
        loader(**{name: value() if callable(value) else value for name, value in options.items()})
