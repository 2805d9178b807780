"""Properties that an old PyAV lacks are computed, assumed to be the harder case, or refused.

`Old` hides them in a new PyAV's objects, so these tests run with every PyAV.
"""

import io
import re
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import DecodeJob, DecoderConfig, FrameFormat, Source, StreamIndex
from headrace.decode import decode_session
from headrace.decode.converter import ArrayConverter
from headrace.decode.open_decoder import capabilities_of, open_decoder
from headrace.decode.yuv420 import Yuv420Unpacker, yuv_to_rgb
from headrace.errors import BackendError, DecodeError
from headrace.extraction.proxies.proxy_options import check_encoder
from headrace.testing.synth import PALETTE_LASTS, Look, SynthClip, read_number
from headrace.video import codec, packet_table, pyav_version, reference_codec, reference_decode
from headrace.video.container import open_container
from headrace.video.frame_format import Orientation
from headrace.video.nal import SequenceHeader, sequence_header

LACKS = {"reorder_depth", "field_order", "level", "has_sidedata", "get_sidedata", "set_sidedata"}


class Old:
    """A new PyAV's object without the attributes that PyAV 15 lacks."""

    def __init__(self, new: object) -> None:
        object.__setattr__(self, "new", new)

    def __getattr__(self, name: str) -> object:
        if name in LACKS:
            raise AttributeError(name)
        return getattr(object.__getattribute__(self, "new"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "new"), name, value)


@pytest.fixture
def old_pyav(monkeypatch):
    """Hide from indexing and decoding what PyAV 15 lacks."""

    def hide(name: str):
        function = getattr(pyav_version, name)
        return lambda first, *more, **options: function(Old(first), *more, **options)

    for module in (packet_table, codec, reference_codec, decode_session, reference_decode):
        for name in ("reorder_depth", "set_reorder_depth", "may_be_in_fields", "has_side_data"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, hide(name))
    monkeypatch.setattr(reference_decode, "copy_side_data", hide("copy_side_data"))
    monkeypatch.setattr(pyav_version, "Packet", object)


@pytest.mark.parametrize(
    ("kind", "depth", "is_in_fields"),
    [
        ("h264", 0, False),
        ("h264_b_frames", 1, False),
        ("h264_b_pyramid", 2, False),
        ("hevc", 2, False),
        ("ts", 1, False),
        ("mpeg4", 1, False),
        ("av1", 0, False),
        ("mpeg2_ts", 1, False),
        ("mpeg2_ts_interlaced", 1, True),
        ("h264_interlaced", 1, True),
        ("h264_interlaced_ts", 1, True),
        ("hevc_annex_b", 1, False),
        ("h264_nut", 1, False),
    ],
)
def test_depth_and_fields_equal_a_new_pyavs(written, kind, depth, is_in_fields):
    container, stream = open_container(Source(written(kind)))
    with container:
        for context in (stream.codec_context, Old(stream.codec_context)):
            assert pyav_version.reorder_depth(context) == depth
            assert pyav_version.may_be_in_fields(context) == is_in_fields


def test_a_codec_without_declared_depth_uses_the_default(written):
    container, stream = open_container(Source(written("h264_b_pyramid")))
    with container:
        extradata = stream.codec_context.extradata
    for declared, depth in ((extradata, "1"), (None, "15")):
        context = av.CodecContext.create("h264", "r")
        context.extradata = declared
        pyav_version.set_reorder_depth(Old(context), 0)
        assert not context.options
        pyav_version.set_reorder_depth(Old(context), 1)
        assert context.options == {"has_b_frames": depth}
    context.open()
    assert context.has_b_frames
    assert not context.options, "FFmpeg knows no such option"


def without_usability_information(path: Path, out: Path) -> Path:
    """Write an MP4 of H.264 whose parameter set declares no reorder depth, and return `out`."""
    data = bytearray(path.read_bytes())
    at = data.index(b"avcC") + 10
    start, stop = at + 2, at + 2 + int.from_bytes(data[at : at + 2], "big")
    payload = bytes(data[start + 1 : stop]).replace(b"\0\0\3", b"\0\0")
    kept = "".join(f"{byte:08b}" for byte in payload)
    for length in range(8, len(kept)):
        # Shorten it to the flag before that information, set to 0; then the end.
        head = kept[:length] + "01"
        head += "0" * (-len(head) % 8)
        short = int(head, 2).to_bytes(len(head) // 8, "big")
        avcc = b"\1" + payload[:3] + b"\xff\xe1" + (len(short) + 1).to_bytes(2, "big") + b"\x67"
        found = sequence_header("h264", avcc + short)
        if found == SequenceHeader(is_progressive=True) and kept[length] == "1":
            break
    escaped = re.sub(rb"\0\0(?=[\0-\3])", b"\0\0\3", short)
    data[start + 1 : stop] = escaped.ljust(stop - start - 1, b"\0")
    out.write_bytes(data)
    return out


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("kind", ["h264_b_frames", "h264_b_pyramid", "h264_open_pyramid_mp4"])
def test_each_frame_is_right_without_a_declared_depth(written, tmp_path, request, kind, is_old):
    path = without_usability_information(written(kind), tmp_path / "none.mp4")
    if is_old:
        request.getfixturevalue("old_pyav")
    container, stream = open_container(Source(path))
    with container:
        header = sequence_header("h264", stream.codec_context.extradata)
    assert header == SequenceHeader(is_progressive=True, reorder_depth=None)
    decoder = open_decoder(StreamIndex.scan(path))
    numbers = np.random.default_rng(0).permutation(48).tolist()
    assert [read_number(_frame(decoder, number)) for number in numbers] == numbers
    decoder.close()


TURNS = Look(pixel_format="pal8", palette_turns=True)
PALETTES = SynthClip(codec="msrle", container="avi", look=TURNS, num_frames=3 * PALETTE_LASTS)


@pytest.mark.parametrize(
    "what",
    [
        *("h264", "h264_b_pyramid", "h264_open_gop", "hevc_open_gop", "mpeg4", "av1", "vp9"),
        *("h264_interlaced_ts", "mpeg2_ts", "mpeg2_ts_interlaced", "h264_flv", "h264_nut"),
        *("h264_two_descriptions_mp4", "hevc_two_descriptions_and_sizes_mp4"),
        *("h264_two_sizes_flv", "h264_flipped_mp4", "h264_lost_packets_ts", "mpeg2_fields_ts"),
        PALETTES,
    ],
)
def test_frames_of_an_old_pyav_equal_a_new_ones(written, what, request):
    path = written(what)
    expected = StreamIndex.scan(path)
    request.getfixturevalue("old_pyav")
    found = StreamIndex.scan(path)
    assert found.info == expected.info
    assert found.packet_index.tolist() == expected.packet_index.tolist()
    assert found.pts.tolist() == expected.pts.tolist()
    wanted = [index for index in (0, 7, 30, 31, 12, 44) if index < len(found)]
    frames = []
    for index in (expected, found):
        decoder = open_decoder(index)
        frames.append([_frame(decoder, number) for number in wanted])
        decoder.close()
    for ours, theirs in zip(*frames, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _frame(decoder, number):
    [(_, frame)] = decoder.run(DecodeJob((number,), conceals=True))
    return frame


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        *(("h264", False), ("h264_fragmented", False), ("vfr_mkv", False), ("h264_flv", True)),
        *(("h264_two_descriptions_mp4", True), ("hevc_two_descriptions_and_sizes_mp4", True)),
    ],
)
def test_extradata_may_change_in_some_containers(written, old_pyav, what, expected):
    found = StreamIndex.scan(written(what))
    assert found.needs_one_codec == expected
    assert found.num_gops > 1 or what not in ("h264", "h264_flv")


@pytest.mark.parametrize(
    ("boxes", "descriptions"),
    [
        (b"", 0),
        (b"\0\0\0\0moov\0\0\0\x10stsd\0\0\0\0\0\0\0\2", 2),
        (b"\0\0\0\1moov\0\0\0\0\0\0\0\x20\0\0\0\x10stsd\0\0\0\0\0\0\0\3", 3),
        (b"\0\0\0\1mdat\0\0\0\0\0\0\0\x14abcd\0\0\0\x10stsd\0\0\0\0\0\0\0\1", 1),
        (b"\0\0\0\0mdat\0\0\0\x10stsd\0\0\0\0\0\0\0\2", 0),
        (b"\0\0\0\1mdat\0\0\0\0\0\0\0\0\0\0\0\0", 0),
        (b"\0\0\0\3free\0\0\0\x10stsd\0\0\0\0\0\0\0\4", 4),
    ],
)
def test_sample_descriptions_are_counted(boxes, descriptions):
    assert pyav_version._max_descriptions(io.BytesIO(boxes)) == descriptions


def test_one_thread_converts_with_every_pyav():
    is_known = int(av.__version__.partition(".")[0]) >= 17
    assert bool(pyav_version.ONE_THREAD) == is_known


Y, U, V = 90, 60, 200


def plain_frame(form: str, matrix: int, span: int) -> av.VideoFrame:
    """Return a frame of one colour."""
    frame = av.VideoFrame(64, 48, form)
    for plane, value in zip(frame.planes, (Y, U, V), strict=False):
        plane.update(bytes([value]) * plane.buffer_size)
    frame.colorspace, frame.color_range = matrix, span
    return frame


def middle_of(frame: av.VideoFrame, layout: str) -> np.ndarray:
    """Return the RGB in the middle of a frame, converted by way of `layout`."""
    shape = FrameFormat(size=(24, 32), layout=layout)
    image = ArrayConverter(shape, Orientation(), "a.mp4").convert(frame, None)
    if layout == "yuv420":
        packed, image = image, np.empty((24, 32, 3), np.uint8)
        Yuv420Unpacker().unpack(packed, image)
    return image[12, 16].astype(int)


@pytest.fixture(params=["new", "old"])
def each_pyav(request, monkeypatch):
    """A PyAV that can convert in one thread, and one without this option."""
    if request.param == "old":
        monkeypatch.setattr(pyav_version, "ONE_THREAD", {})
    return request.param


layouts = pytest.mark.parametrize("layout", ["rgb", "yuv420"])


@layouts
@pytest.mark.parametrize("form", ["yuv420p", "yuvj420p", "yuv444p"])
@pytest.mark.parametrize("span", [0, 1, 2])
def test_colors_follow_the_tags_with_every_pyav(each_pyav, form, span, layout):
    is_full = span == 2 or form == "yuvj420p"
    for matrix in (0, 1, 2, 4, 5, 6, 7, 9):
        formula = yuv_to_rgb(matrix if matrix not in (0, 2) else 5, 2 if is_full else 1, 8)
        assert formula is not None
        luma, blue, red = formula.luma * (Y - formula.black), U - formula.grey, V - formula.grey
        expected = [
            luma + formula.red_by_v * red,
            luma + formula.green_by_u * blue + formula.green_by_v * red,
            luma + formula.blue_by_u * blue,
        ]
        found = middle_of(plain_frame(form, matrix, span), layout)
        assert np.abs(found - np.clip(expected, 0, 255)).max() <= 5, matrix


@layouts
def test_gray_frames_are_full_range_with_any_matrix(each_pyav, layout):
    for span in (0, 1, 2):
        assert np.abs(middle_of(plain_frame("gray", 1, span), layout) - Y).max() <= 2


@layouts
@pytest.mark.parametrize("span", [0, 1, 2])
def test_a_matrix_that_swscale_lacks_is_refused_with_every_pyav(each_pyav, span, layout):
    for matrix in (3, 8, 10, 11, 12, 13, 14):
        frame = plain_frame("yuv420p", matrix, span)
        message = rf"of a\.mp4 cannot .* from yuv420p, color matrix {matrix}:"
        with pytest.raises(DecodeError, match=message):
            middle_of(frame, layout)


@pytest.fixture
def too_old(monkeypatch):
    monkeypatch.setattr(pyav_version, "VideoCodecContext", object)
    monkeypatch.setattr("av.__version__", "15.1.0")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (DecoderConfig.on_gpu(0), "decoding by pyav:cuda:0 needs PyAV 18.1 or newer, found 15.1.0"),
        (DecoderConfig(device="auto"), "or leave gpu out"),
        (DecoderConfig(backend="pynvvideocodec", device="cuda:0"), "or leave backend out"),
        (DecoderConfig(keeps_on_device=True), "or leave keeps_on_device out"),
        ("h264", "making proxies needs PyAV"),
    ],
)
def test_features_missing_in_an_old_pyav_are_refused(too_old, given, message):
    with pytest.raises(BackendError, match="needs PyAV") as refusal:
        check_encoder(given) if given == "h264" else capabilities_of(given)
    assert message in str(refusal.value)
    assert capabilities_of(DecoderConfig()) is not None


def test_missing_or_truncated_headers_declare_nothing(written):
    nothing = SequenceHeader(is_progressive=False, reorder_depth=None)
    assert sequence_header("vp9", b"abc") == nothing
    for name in ("h264", "hevc"):
        assert sequence_header(name, None) == nothing
        container, stream = open_container(Source(Path(written(name))))
        with container:
            extradata = stream.codec_context.extradata
        assert extradata is not None
        assert sequence_header(name, extradata).reorder_depth is not None
        assert sequence_header(name, extradata[:16]) == nothing


@given(
    st.sampled_from(["h264", "hevc", "mpeg2video"]),
    st.sampled_from([b"", b"\1", b"\0\0\1\x67", b"\0\0\1\x42\1", b"\0\0\1\xb5\x10"]),
    st.binary(max_size=60),
)
def test_a_header_of_any_bytes_is_read_without_an_error(codec, start, data):
    found = sequence_header(codec, start + data)
    assert found.reorder_depth is None or found.reorder_depth >= 0
