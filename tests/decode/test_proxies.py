"""Proxies are found by their originals, and only where it is certain that they are theirs."""

import json
import os
import shutil

import numpy as np
import pytest

import headrace
from decode.proxied import made_proxies, write_originals
from headrace import ConfigError, OpenError, Proxies, Source
from headrace.decode.proxy_rows import LIST
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxied")
    videos = write_originals(folder / "originals")
    twin = (folder / "others").mkdir() or folder / "others" / "a.mp4"
    write_clip(twin, SynthClip(num_frames=12))
    return made_proxies([*videos, twin], folder / "proxies", folder / "store")


@pytest.fixture
def originals(made):
    return [source.path for source in made.videos]


def test_videos_keep_their_own_paths_and_order(made, originals):
    found = made.all(reversed(originals))
    assert [source.path for source in found] == [*reversed(originals)]
    assert len(made) == len(originals) == 4
    assert [source.proxy.parent.name for source in found] == ["videos"] * 4


def test_a_relative_path_is_kept_as_it_was_given(made, originals, monkeypatch):
    monkeypatch.chdir(originals[0].parent)
    source = made.of("a.mp4")
    assert str(source) == "a.mp4"
    assert source.proxy == made.videos[0].proxy


@pytest.mark.parametrize(
    ("path", "number"),
    [("/x/b.mp4", 1), ("/x/originals/a.mp4", 0), ("/x/others/a.mp4", 3), ("/x/a.mp4", None)],
)
def test_where_originals_are_not_as_much_of_the_path_as_tells_them_apart(made, path, number):
    if number is None:
        with pytest.raises(ConfigError, match=r"1 of 1 videos have no proxy .*: /x/a.mp4; make"):
            made.of(path)
    else:
        assert made.of(path).proxy == made.videos[number].proxy


def test_videos_without_a_proxy_are_counted_and_named(made, originals):
    asked = [originals[0], *(f"/x/{number}.mp4" for number in range(5))]
    said = r"^5 of 6 videos have no proxy in .*, which has those of 4: /x/0.mp4, /x/1.mp4, /x/2.mp4"
    with pytest.raises(
        ConfigError, match=rf"{said}, ...; make them in another folder: headrace proxy "
    ):
        made.all(asked)
    with pytest.raises(ConfigError, match="1 of 1 videos have no proxy"):
        made.of(Source(originals[0], 7))
    with pytest.raises(ConfigError, match="must be a list of paths, got"):
        made.all(originals[0])


def test_an_original_that_was_touched_is_the_same_one_that_was_changed_is_refused(
    made, originals, tmp_path
):
    copy = tmp_path / "b.mp4"
    shutil.copyfile(originals[1], copy)
    assert made.of(copy).proxy == made.videos[1].proxy
    os.truncate(copy, copy.stat().st_size - 1)
    with pytest.raises(
        OpenError, match=r"b.mp4 is not the video that its proxy .*make its proxy in another f"
    ):
        made.of(copy)


@pytest.mark.parametrize(
    "text", [None, "{", "[]\n", '{"path": 1}\n', "\x00", b"\xff\xfe", "[" * 10_000]
)
def test_a_folder_without_a_list_of_proxies_is_refused(tmp_path, text):
    if isinstance(text, bytes):
        (tmp_path / LIST).write_bytes(text)
    elif text is not None:
        (tmp_path / LIST).write_text(text)
    with pytest.raises(ConfigError, match="headrace proxy -o"):
        Proxies(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [{"proxy": "../a.mp4"}, {"proxy": "/etc/passwd"}, {"bytes": "x"}, {"fingerprint": {}}],
)
def test_a_list_that_leads_elsewhere_is_refused(made, tmp_path, wrong):
    first = json.loads((made.folder / LIST).read_text().splitlines()[0])
    (tmp_path / LIST).write_text(json.dumps({**first, **wrong}) + "\n")
    with pytest.raises(ConfigError, match="says what cannot be"):
        Proxies(tmp_path)


def test_a_video_in_the_hand_is_read_from_its_proxy(made, originals):
    with headrace.open(made.of(originals[0])) as proxy, headrace.open(originals[0]) as original:
        assert len(proxy) == len(original)
        assert proxy[5].shape == (64, 86, 3)
        assert abs(proxy[5].mean() - original[5].mean()) < 3
        np.testing.assert_array_equal(proxy.at(0.5).pts, original.at(0.5).pts)
        assert proxy.metadata.size == (64, 86)
        assert proxy.metadata.num_frames == original.metadata.num_frames


def test_clips_and_whole_videos_are_read_from_proxies(made, originals):
    sources = made.all(originals[:2])
    clip = headrace.load_clip(sources[0], start=3, num_frames=4, stride=1)
    original = headrace.load_clip(originals[0], start=3, num_frames=4, stride=1)
    np.testing.assert_array_equal(clip.pts, original.pts)
    batches = list(headrace.read_frames(sources, workers=2))
    assert sum(len(batch) for batch in batches) == 40 + 29
    with headrace.open(sources[0]) as proxy:
        np.testing.assert_array_equal(clip.frames, proxy[3:7])
        np.testing.assert_array_equal(batches[0].frames[:4], proxy[:4])


@pytest.mark.parametrize("wrong", [None, 5, b"a"])
def test_what_is_no_path_is_refused(made, wrong):
    for ask in (made.of, Proxies, lambda video: made.all([video])):
        with pytest.raises(ConfigError, match="got"):
            ask(wrong)


def test_all_of_them_are_taken_where_a_list_of_videos_is(made, originals):
    assert [source.path for source in made] == originals
    assert [*made] == made.videos == made.all(made)


@pytest.mark.parametrize("wrong", [None, 3, b"a", ["proxies"]])
def test_what_names_no_folder_and_no_videos_is_refused(made, wrong):
    with pytest.raises(ConfigError, match="a folder of proxies is named by its path"):
        Proxies(wrong)
    with pytest.raises(ConfigError, match=r"got (one path|NoneType|int)|have no proxy"):
        made.all(wrong)


@pytest.mark.parametrize("wrong", [{"proxy": 3}, {"fingerprint": []}, {"name": None}, {"path": 1}])
def test_a_line_of_something_else_is_named(made, tmp_path, wrong):
    lines = (made.folder / LIST).read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **wrong})
    (tmp_path / LIST).write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=r"^line 2 of .* is none that headrace proxy -o writes"):
        Proxies(tmp_path)


def test_a_folder_whose_proxies_are_not_all_made_says_how_to_go_on(tmp_path):
    (tmp_path / ".extraction").mkdir()
    with pytest.raises(ConfigError, match=r"no such file.*; its proxies are not all made: give"):
        Proxies(tmp_path)


@pytest.mark.parametrize("content", [b"", b"something else", "cut"])
def test_a_table_that_is_none_is_said_to_be_cut_off_or_something_else(made, tmp_path, content):
    folder = shutil.copytree(made.folder, tmp_path / "copy")
    table = folder / "videos" / "b.npz"
    table.write_bytes(table.read_bytes()[:-9] if content == "cut" else content)
    said = r"b.npz cannot be read: it is cut off, or something else; copy it again, or delete it"
    with pytest.raises(OpenError, match=said):
        headrace.open(Proxies(folder).of("/x/b.mp4"))
