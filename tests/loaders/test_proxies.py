"""Proxies in place of originals: the same samples, labels and states; the proxy's pictures."""

import json
import shutil

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from decode.proxied import made_proxies
from headrace import Bursts, DecodeError, DecodeJob, Manifest, Proxies, RandomClips, open_decoder
from headrace.decode.proxy_index import ProxyIndex
from headrace.sampling.frame_samplers import ShuffledFrames, UniformFrames
from headrace.testing.damage import damage_packets
from loaders.videos import CLIPS, SIZE, PlainFrames, contents, epochs, resumed, write_videos

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

SAMPLINGS = [
    ("frames", {"sampling": UniformFrames(), "batch_size": 12}),
    ("frames", {"sampling": Bursts(frames_per_burst=3, lanes=12), "batch_size": 12}),
    ("clips", {"clips": RandomClips(num_frames=5, fps=8)}),
]
BY_SAMPLING = pytest.mark.parametrize(("door", "options"), SAMPLINGS, ids=repr)
SHUFFLED = {"sampling": ShuffledFrames()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Four unlike videos and their proxies."""
    folder = tmp_path_factory.mktemp("proxied")
    videos = write_videos(folder)
    return videos, made_proxies(videos, folder / "proxies", folder / "index", size="32", gop=4)


@pytest.fixture
def videos(made):
    return made[0]


@pytest.fixture
def proxies(made):
    return made[1]


def samples(batches):
    """Return all entries of batches except frames."""
    return [
        {name: value.tolist() for name, value in batch.items() if name != "frames"}
        for batch in batches
    ]


@pytest.fixture(scope="module")
def plain(made):
    """The frames of the proxies."""
    return PlainFrames([source.proxy for source in made[1].videos])


@BY_SAMPLING
def test_samples_are_those_of_the_originals_and_pictures_those_of_the_proxies(
    plain, videos, proxies, loader, door, options
):
    ours = epochs(loader(door, proxies.all(videos), hold="rgb", **options))
    assert samples(ours) == samples(epochs(loader(door, videos, **options)))
    assert {*map(tuple, ours[0].original_size.tolist())} != {SIZE}
    assert all(torch.equal(batch.frames, plain.of(batch)) for batch in ours)


def test_batches_are_the_same_with_any_look_ahead_workers_and_hold(videos, proxies, loader):
    sources = proxies.all(videos)
    first = epochs(loader(files=sources))
    for options in ({"num_threads": 1, "lookahead": 1}, {"lookahead": 500}):
        assert contents(epochs(loader(files=sources, **options))) == contents(first)


@BY_SAMPLING
def test_a_state_moves_between_originals_and_proxies(videos, proxies, loader, door, options):
    whole = samples(epochs(loader(door, videos, **options)))
    sets = videos, proxies.all(videos)
    for files in (sets, sets[::-1]):
        begun, after = (loader(door, each, **options) for each in files)
        assert samples(resumed(begun, after, 3, 2)) == whole


def test_rows_of_a_manifest_are_read_from_proxies(videos, proxies, loader):
    rows = [
        {"path": video, "label": str(n % 2), "start_seconds": start, "end_seconds": start + 0.5}
        for n, video in enumerate(videos)
        for start in (0, 0.2)
    ]
    manifest = Manifest.of_rows(rows)
    options = {"clips": RandomClips(num_frames=3), "batch_size": 4}
    proxied = manifest.with_proxies(proxies)
    ours = epochs(loader("clips", proxied, **options))
    assert samples(ours) == samples(epochs(loader("clips", manifest, **options)))
    parts, plain = ([part.video.tolist() for part in m.split(0.5)] for m in (proxied, manifest))
    assert parts == plain


def test_each_gop_of_a_proxy_is_decoded_once_where_all_fits(videos, proxies, loader):
    cost = loader(files=proxies.all(videos), **SHUFFLED)
    list(cost)
    # More than once only at the window's start, and where a thread meets another's GOP.
    assert cost.statistics.frames_decoded <= 1.8 * cost.statistics.frames_delivered
    assert cost.statistics.opens > 0


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_take_proxies(videos, proxies, plain, loader, workers):
    frames, originals = (loader("frame items", each) for each in (proxies.all(videos), videos))
    assert len(frames) == len(originals)
    picked = [3, 50, 70, 112]
    found = list(DataLoader(frames, sampler=picked, batch_size=2, num_workers=workers))
    pixels = torch.cat([each["frames"] for each in found]).movedim(-3, -1)
    assert np.array_equal(pixels.numpy(), np.concatenate(plain.frames)[picked])
    clips = [loader("clip items", each, stride=1) for each in (proxies.all(videos), videos)]
    assert len({*map(len, clips)}) == 1


@pytest.fixture(scope="module")
def damaged(written, tmp_path_factory):
    """A good video, one that is damaged, and their proxies."""
    folder, good = tmp_path_factory.mktemp("damaged"), written(CLIPS[0])
    videos = [good, damage_packets(good, folder / "bad.mp4", ordinals=[16, 17, 18])]
    return videos, made_proxies(videos, folder / "out", folder / "index", on_error="conceal")


@pytest.mark.parametrize("on_error", ["skip", "conceal"])
def test_damage_of_an_original_is_bad_in_its_proxy_too(damaged, loader, on_error):
    videos, proxies = damaged
    with pytest.raises(DecodeError, match="the file was damaged there when its proxy was made"):
        list(open_decoder(proxies.of(videos[1])).run(DecodeJob(tuple(range(40)))))
    found = []
    for files in (videos, proxies.all(videos)):
        each = loader(files=files, batch_size=8, on_error=on_error, **SHUFFLED)
        found.append(samples(epochs(each)))
        bad_frames = [lost.index for lost in each.quarantined]
        found.append([bad_frames, each.statistics.samples_substituted])
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


@pytest.fixture
def skipping(tmp_path):
    return {"on_error": "skip", "quarantine": tmp_path / "bad.jsonl", **SHUFFLED}


def test_a_damaged_proxy_is_in_quarantine_and_its_original_is_not(
    videos, proxies, loader, tmp_path, skipping
):
    sources = copied(proxies, tmp_path / "copy").all(videos)
    damage(sources[0], 5)
    first = loader(files=sources, **skipping)
    batches = samples(epochs(first))
    assert (first.quarantined[0].source, first.quarantined[0].index) == (str(videos[0]), 5)
    assert set(sources_in(skipping["quarantine"])) == {str(sources[0].proxy)}
    again = loader(files=sources, **skipping)
    assert samples(epochs(again)) == batches
    assert again.quarantined == first.quarantined
    originals = loader(files=videos, **skipping)
    assert samples(epochs(originals)) == samples(epochs(loader(files=videos, **SHUFFLED)))
    assert originals.quarantined == ()
    shutil.copyfile(proxies.of(videos[0]).proxy, sources[0].proxy)
    assert loader(files=sources, **skipping).quarantined == ()


def test_a_proxy_that_cannot_be_opened_is_listed_and_its_original_is_not(
    videos, proxies, loader, tmp_path, skipping
):
    sources = copied(proxies, tmp_path / "copy").all(videos)
    sources[1].entry.write_bytes(b"PK")
    skipped = loader(files=sources, **skipping).skipped_videos
    assert [error.source for error in skipped] == [str(videos[1])]
    assert sources_in(skipping["quarantine"]) == [str(sources[1].proxy)]


def test_damage_of_an_original_is_in_quarantine_for_both(damaged, loader, skipping):
    videos, proxies = damaged
    first = loader(files=proxies, **skipping)
    list(first)
    assert set(sources_in(skipping["quarantine"])) == {str(videos[1])}
    bad, of_originals = (
        [each.index for each in opened.quarantined]
        for opened in (first, loader(files=videos, **skipping))
    )
    assert bad == of_originals
    assert len(bad) > 0


def test_an_aspect_ratio_that_a_proxy_has_lost_is_not_kept_unawares(
    videos, proxies, loader, tmp_path, refused
):
    lost = made_proxies(videos[:1], tmp_path / "out", tmp_path / "index", size="32x32")
    for fit in ("cover", "contain"):
        next(iter(loader(files=proxies, fit=fit)))
    refused("proxies", lost=lost)


def test_a_window_over_rows_of_proxies_is_as_wide_as_over_their_videos(videos, proxies, loader):
    manifest = Manifest.of_rows([{"path": video} for video in videos]).with_proxies(proxies)
    options = {"memory_budget": 600_000, "batch_size": 4}
    by_row, by_video = (loader(files=each, **options) for each in (manifest, proxies))
    assert by_row.lookahead == by_video.lookahead
