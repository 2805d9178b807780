"""Proxies in place of originals: the same samples, labels and states; the proxy's pictures."""

import json
import shutil
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import headrace
from decode.linear import linear_frames
from decode.proxied import made_proxies
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.decode.proxies import Proxies
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import ConfigError, DecodeError
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Permutation, Uniform
from headrace.testing.damage import damage_packets
from headrace.testing.synth import write_clip
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.loader import FrameLoader
from headrace.training.manifest.manifest import Manifest
from headrace.video.shape import FrameShape
from training.videos import CLIPS, SIZE, write_videos

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

SAMPLINGS = [Uniform(), Bursts(frames_per_burst=3, lanes=12)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Four unlike videos and their proxies."""
    folder = tmp_path_factory.mktemp("proxied")
    videos = write_videos(folder)
    return videos, made_proxies(videos, folder / "proxies", folder / "index", size="32", gop=4)


@pytest.fixture
def loader(opens, store):
    asked = {"batch_size": 12, "size": SIZE, "store": store, "workers": 2}
    return lambda videos, kind=FrameLoader, **more: opens(kind, videos, **{**asked, **more})


def samples(batches):
    """Return all but the pictures of batches."""
    return [
        {name: value.tolist() for name, value in batch.items() if name != "frames"}
        for batch in batches
    ]


def epochs(loader, count):
    return [batch for _ in range(count) for batch in loader]


def pictures(made, batch):
    """Return what a plain decode of the proxies shows for a batch."""
    shape = FrameShape(size=SIZE, layout="rgb")
    plain = [linear_frames(each.proxy, shape) for each in made[1].videos]
    found = [
        plain[video][index]
        for video, row in zip(batch.video.tolist(), batch.index.tolist(), strict=True)
        for index in (row if isinstance(row, list) else [row])
    ]
    return torch.from_numpy(np.stack(found)).movedim(-1, -3).reshape(batch.frames.shape)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_samples_are_those_of_the_originals_and_pictures_those_of_the_proxies(
    made, loader, sampling
):
    videos, proxies = made
    ours = epochs(loader(proxies.all(videos), sampling=sampling, hold="rgb"), 1)
    assert samples(ours) == samples(epochs(loader(videos, sampling=sampling), 1))
    assert ours[0].original_size.tolist() != [[*SIZE]] * 12
    for batch in ours:
        assert torch.equal(batch.frames, pictures(made, batch))


def test_batches_are_the_same_with_any_look_ahead_workers_and_hold(made, loader):
    videos, proxies = made
    sources = proxies.all(videos)
    first = epochs(loader(sources), 2)
    for options in ({"workers": 1, "lookahead": 1}, {"lookahead": 500}):
        again = epochs(loader(sources, **options), 2)
        assert samples(again) == samples(first)
        for one, other in zip(first, again, strict=True):
            assert torch.equal(one.frames, other.frames)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
@pytest.mark.parametrize("step", [4])
def test_a_state_moves_between_originals_and_proxies(made, loader, sampling, step):
    videos, proxies = made
    whole = samples(epochs(loader(videos, sampling=sampling), 2))
    sets = videos, proxies.all(videos)
    for before, after in (sets, sets[::-1]):
        begun = loader(before, sampling=sampling)
        seen = list(islice((batch for _ in range(2) for batch in begun), step))
        resumed = loader(after, sampling=sampling)
        resumed.load_state_dict(begun.state_dict())
        left = epochs(resumed, 2 - resumed.epoch)
        assert samples([*seen, *left]) == whole


def test_clips_are_those_of_the_originals(made, loader):
    videos, proxies = made
    clips = RandomClips(num_frames=5, fps=8)
    options = {"kind": ClipLoader, "clips": clips, "batch_size": 2, "hold": "rgb"}
    ours = epochs(loader(proxies.all(videos), **options), 2)
    assert samples(ours) == samples(epochs(loader(videos, **options), 2))
    assert torch.equal(ours[0].frames, pictures(made, ours[0]))


def test_rows_of_a_manifest_are_read_from_proxies(made, loader):
    videos, proxies = made
    rows = [
        {
            **{"path": video, "label": str(number % 2)},
            **{"start_seconds": start, "end_seconds": start + 0.5},
        }
        for number, video in enumerate(videos)
        for start in (0, 0.2)
    ]
    manifest = Manifest.of_rows(rows)
    options = {"kind": ClipLoader, "clips": RandomClips(num_frames=3), "batch_size": 4}
    ours = epochs(loader(manifest.with_proxies(proxies), **options), 2)
    assert samples(ours) == samples(epochs(loader(manifest, **options), 2))
    parts = manifest.with_proxies(proxies).split(0.5)
    for part, plain in zip(parts, manifest.split(0.5), strict=True):
        assert part.video.tolist() == plain.video.tolist()


def test_each_gop_of_a_proxy_is_decoded_once_where_all_fits(made, loader):
    videos, proxies = made
    ours = loader(proxies.all(videos), sampling=Permutation(), drop_last=False)
    epochs(ours, 1)
    # More than once only where the window begins, and where a thread finds another's GOP begun.
    assert ours.statistics.frames_decoded <= 1.8 * ours.statistics.frames_delivered
    assert ours.statistics.opens > 0


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_take_proxies(made, store, workers):
    videos, proxies = made
    options = {"size": SIZE, "store": store}
    frames = FrameDataset(proxies.all(videos), **options)
    originals = FrameDataset(videos, **options)
    assert len(frames) == len(originals)
    picked = [3, 50, 70, 112]
    found = list(DataLoader(frames, sampler=picked, batch_size=2, num_workers=workers))
    plain = FrameShape(size=SIZE)
    shown = [each for source in proxies.videos for each in linear_frames(source.proxy, plain)]
    pixels = torch.cat([each if torch.is_tensor(each) else each["frame"] for each in found])
    assert torch.equal(pixels.movedim(-3, -1), torch.from_numpy(np.stack(shown)[picked]))
    clips = VideoDataset(proxies.all(videos), clip_len=4, stride=1, **options)
    assert len(clips) == len(VideoDataset(videos, clip_len=4, stride=1, **options))


@pytest.mark.parametrize("on_error", ["skip", "conceal"])
def test_what_is_damaged_in_an_original_is_bad_in_its_proxy_too(tmp_path, store, on_error):
    good = write_clip(tmp_path / "good", CLIPS[0])
    bad = tmp_path / "bad.mp4"
    damage_packets(good, bad, ordinals=[16, 17, 18])
    videos = [good, bad]
    proxies = made_proxies(videos, tmp_path / "out", tmp_path / "index", on_error="conceal")
    with pytest.raises(DecodeError, match="the file was damaged there when its proxy was made"):
        list(open_decoder(proxies.of(bad)).run(DecodeJob(tuple(range(40)))))
    options = {"batch_size": 8, "size": SIZE, "store": store, "on_error": on_error}
    found = []
    for sources in (videos, proxies.all(videos)):
        with FrameLoader(sources, sampling=Permutation(), **options) as opened:
            found.append(samples(epochs(opened, 2)))
            bad_frames = [each.index for each in opened.quarantined]
            found.append([bad_frames, opened.statistics.samples_substituted])
    assert found[:2] == found[2:]
    assert any(any(batch["is_concealed"]) for batch in found[0]) == (on_error == "conceal")
    assert bool(found[1][0]) == (on_error == "skip")


def copied(proxies, folder):
    """Return a copy of a folder of proxies, to damage."""
    return Proxies(shutil.copytree(proxies.folder, folder))


def damage(source, frame):
    """Change a byte of the packet of a frame, as a bad disk does."""
    where = int(ProxyIndex.of(source).table.offsets[frame]) + 9
    data = bytearray(source.proxy.read_bytes())
    data[where] ^= 0xFF
    source.proxy.write_bytes(bytes(data))


def sources_in(path):
    return [json.loads(line)["source"] for line in path.read_text().splitlines()]


def test_a_damaged_proxy_is_in_quarantine_and_its_original_is_not(made, loader, tmp_path):
    videos, proxies = made
    proxies, path = copied(proxies, tmp_path / "copy"), tmp_path / "bad.jsonl"
    sources = proxies.all(videos)
    damage(sources[0], 5)
    options = {"on_error": "skip", "quarantine": path, "sampling": Permutation()}
    first = loader(sources, **options)
    batches = samples(epochs(first, 2))
    assert (first.quarantined[0].source, first.quarantined[0].index) == (str(videos[0]), 5)
    assert set(sources_in(path)) == {str(sources[0].proxy)}
    again = loader(sources, **options)
    assert samples(epochs(again, 2)) == batches
    assert again.quarantined == first.quarantined
    originals = loader(videos, **options)
    assert samples(epochs(originals, 2)) == samples(
        epochs(loader(videos, sampling=Permutation()), 2)
    )
    assert originals.quarantined == ()
    shutil.copyfile(made[1].of(videos[0]).proxy, sources[0].proxy)
    assert loader(sources, **options).quarantined == ()


def test_a_proxy_that_cannot_be_opened_is_listed_and_its_original_is_not(made, loader, tmp_path):
    videos, proxies = made
    sources = copied(proxies, tmp_path / "copy").all(videos)
    sources[1].entry.write_bytes(b"PK")
    options = {"on_error": "skip", "quarantine": tmp_path / "bad.jsonl"}
    assert [error.source for error in loader(sources, **options).left_out] == [str(videos[1])]
    assert sources_in(tmp_path / "bad.jsonl") == [str(sources[1].proxy)]


def test_what_was_damaged_in_an_original_is_in_quarantine_for_both(tmp_path, loader):
    good = write_clip(tmp_path / "good", CLIPS[0])
    bad = tmp_path / "bad.mp4"
    damage_packets(good, bad, ordinals=[16, 17, 18])
    proxies = made_proxies([good, bad], tmp_path / "out", tmp_path / "index", on_error="conceal")
    options = {"on_error": "skip", "quarantine": tmp_path / "bad.jsonl", "sampling": Permutation()}
    first = loader(proxies, **options)
    epochs(first, 1)
    assert set(sources_in(tmp_path / "bad.jsonl")) == {str(bad)}
    originals = loader([good, bad], **options)
    assert [each.index for each in originals.quarantined] == [
        each.index for each in first.quarantined
    ]
    assert len(first.quarantined) > 0


@pytest.mark.parametrize("fit", ["cover", "contain"])
def test_an_aspect_ratio_that_a_proxy_has_lost_is_not_kept_unawares(made, store, tmp_path, fit):
    videos, kept = made
    stretched = made_proxies(videos[:1], tmp_path / "out", tmp_path / "index", size="32x32")
    asked = {"size": SIZE, "fit": fit, "store": store}
    said = rf"fit='{fit}' keeps the aspect ratio, which the proxy of .*video-0.mp4 has lost"
    for kind in (FrameLoader, FrameDataset):
        with pytest.raises(ConfigError, match=said):
            kind(stretched, **asked)
    with pytest.raises(ConfigError, match=f"{said}: it is 32x32, of 64x96 .*--size 32$"):
        headrace.open(stretched.videos[0], size=SIZE, fit=fit).at(0)
    with FrameLoader(kept, batch_size=4, **asked) as opened:
        next(iter(opened))


def test_a_window_over_rows_of_proxies_is_as_wide_as_over_their_videos(made, loader):
    videos, proxies = made
    manifest = Manifest.of_rows([{"path": video} for video in videos]).with_proxies(proxies)
    options = {"memory_budget": 600_000, "batch_size": 4}
    assert loader(manifest, **options).lookahead == loader(proxies, **options).lookahead
