"""What a command refuses: in one line, by its exit code, and nothing is written."""

import shlex
import sys
from pathlib import Path

import pytest

from cache.made import arrays, key
from cli.kit import FAST, reason, write_pictures
from decode.backends import needs_torchcodec
from decode.gpus import needs_no_gpu
from extraction.features.feature_rows import facts, row
from headrace.cache.open import FILE, open_cache
from headrace.extraction.features.table import write_tables
from headrace.testing.synth import SynthClip, write_clip
from profiling.comparison.simulated import session
from report.recorded import SOURCE
from training.cameras.clips import write_layout

RUN = f"run clip.mp4 {' '.join(FAST)} --out out"
RETRAIN = "run clip.mp4 --mode retrain --model-name squeezenet1_1 --weights none --out out"
FRAMES = "extract frames clip.mp4 -o out --workers 1"
FEATURES = "extract features clip.mp4 -o out --workers 1 --every 1"
ANNOTATE = "annotate frames/00000.jpg --out out"
CAMERAS = "bench cameras --index-file index.json --size 32 48 --out out"
INDEX = "index --layout cameras"
SAMPLING = "bench sampling clip.mp4 --batch-size 4 --size 16 16 --memory 256KiB --out out --json"
ADDRESS = "https://bob:pass@example.com/a.mp4"

USAGE = {
    "bogus": "No such command 'bogus'",
    "run": "'SOURCE': give a video, a folder",
    "run a --max-seconds x": "'--max-seconds': must be a number, got 'x'",
    "run a --pace x": "'x' is not one of 'auto', 'offline', 'realtime'",
    "run clip.mp4 --model-name resnet5O": "did you mean resnet50",
    "run frames/00000.jpg --model-name mtcnn": "it is a detection model, for headrace annotate",
    "run 0 --web-port 0": "give --view web or metrics",
    f"{RUN} --out clip.mp4/x": "cannot write to the output folder",
    f"{RUN} --pace realtime --try": "--try runs twice and compares, which needs one video file at",
    f"{RUN} --overload freshest": "give --pace realtime",
    f"{RUN} --max-staleness 200ms": "give --pace realtime",
    f"{RUN} --max-seconds inf": "max_seconds must be > 0, got inf; leave it out for no limit",
    f"{RUN} --clip-stride 2": "clip_stride and clip_hop are for clips",
    f"{RUN} --clip-hop 8 --pace realtime": "clip_stride and clip_hop are for clips",
    f"{RUN} --batch-size auto --pace realtime": "--batch-size auto is for single",
    f"{RUN} --split-point features.3 --view web": "--split-point is for single",
    f"{RUN} --prep-on-gpu --clip-len 4 --model-name r3d_18": "--prep-on-gpu is for",
    f"{RUN} --enable-compile --split-point features.3": "is not compiled as one; leave",
    f"{RUN} --top-k 0": "--top-k",
    f"{RUN} --checkpoint-gradients": "--checkpoint-gradients is for --mode retrain",
    f"{RUN} --train-from features.3": "--train-from is for --mode retrain",
    f"{RUN} --labels labels.csv": "--labels is for --mode retrain",
    f"{RUN} --decode pynvvideocodec": "'--decode': pynvvideocodec decodes on NVIDIA GPUs only",
    f"{RUN} --decode cuda:x": "'--decode': device must be cpu or cuda:N",
    f"{RUN} --decode cuda --pace realtime": "--decode cuda is for single frames of files",
    f"{RUN} --decode torchcodec --clip-len 4": "--decode torchcodec is for single frames",
    f"{RUN} --decode torchcodec --on-error conceal": "needs to be told which frames are damaged",
    f"run test:// {' '.join(FAST)} --decode cuda": "for single frames of files at full speed; leav",
    **{
        f"run {source} {' '.join(FAST)} --rate 10": "--rate is for pictures in order"
        for source in ("0", "/dev/video0", "rtsp://user:secret@host/live", "test://")
    },
    f"{RETRAIN} --clip-len 8": "--clip-len is for --mode inference; leave it out of --mode retrain",
    f"{RETRAIN} --no-video": "--no-video is for --mode inference",
    f"{RETRAIN} --view web": "--view is for --mode inference",
    f"{RETRAIN} --batch-size auto": "--batch-size auto is for --mode inference",
    f"{RETRAIN} --split-point features.3": "--split-point is for --mode inference",
    f"{RETRAIN} --prep-on-gpu": "--prep-on-gpu is for --mode inference",
    f"{RETRAIN} --decode cuda": "--decode is for --mode inference",
    f"{RETRAIN} --size 0x5": "size is a height and a width of 1 to 8192 pixels each, got (0, 5)",
    f"{RETRAIN} --checkpoint-gradients": "name the first layer to train with --train-from",
    f"{RETRAIN} --learning-rate -1": "learning_rate must be above 0, got -1",
    f"{ANNOTATE} --model-name fasterrcn": "no detection model 'fasterrcn'; did you mean fasterrcnn",
    f"{ANNOTATE} --model-name resnet50": "no detection model 'resnet50' (it is a classification",
    f"{ANNOTATE} --classes a,,b": "give names of classes with commas between them, got 'a,,b'",
    "models resnet5O": "did you mean resnet50",
    "report .": "cannot read session.json",
    "launch": "give a file, or --example to see one",
    "launch none.yaml": "launch --example",
    "clip a --what": "No such option: --what",
    "clip clip.mp4 --start 47": "the video has 48: 1 are possible",
    "clip clip.mp4 --show no/x.png": "cannot write the picture",
    "clip frames": "frames is a folder; give a video file, or, if it holds pictures",
    "clip frames/%05d.jpg": "if it is a pattern of pictures, say with --rate",
    "clip frames --rate 0": "rate must be above 0",
    "clip frames --rate fast": "rate must be a finite number",
    "clip frames --rate 5 --stream 1": "pictures have no streams",
    "clip frames/%d%d.jpg --rate 5": "a pattern of pictures has one number",
    "doctor --parity": "give both, or neither",
    "doctor --rate 5": "--stream and --rate are for --parity",
    "doctor --stream 1": "--stream and --rate are for --parity",
    "index clip.mp4 clip.mp4 --export-mappings x": "frame mappings are of one file",
    "index frames": "pictures in order need a rate",
    "index videos --out index.json": "--out: only with --layout cameras",
    "index videos --sync nearest --tolerance-ms 5": "--sync, --tolerance-ms: only with",
    "index videos --reference left --cameras left": "--cameras, --reference: only with",
    f"{INDEX} videos --verify": "--verify: only with --layout videos",
    f"{INDEX} frames": "folders of pictures are read with a rate",
    f"{INDEX} --stream 1 frames": "--stream: only with",
    f"{INDEX} --rate x frames": "rate must be a finite number",
    f"{INDEX} videos --out i.json --cameras front,top": "no clip has a camera top; there is back,",
    f"{INDEX} videos --out i.json --cameras front --reference back": "the reference must be one of",
    f"{CAMERAS} --ranks 0": "ranks must be numbers from 1 up, got 0",
    f"{CAMERAS} --workers two": "Invalid value for --workers: numbers with commas",
    f"{CAMERAS} --cameras top": "no clip has a camera top; there is back, front, left",
    f"{CAMERAS} --reference top": "the reference must be one of the cameras that are read",
    f"{CAMERAS} --rate 5": "no camera was found: there are no <camera> folders of pictures",
    f"{CAMERAS} --rate fast": "rate must be a finite number",
    f"{CAMERAS} --ways fast": "ways must be among decode, loader, dataset, wandering; got fast",
    "bench cameras --index-file pictures.json --size 32 48 --out out": "folders of pictures are re",
    "bench worker": "Did you mean 'workers'?",
    "bench workers clip.mp4 --clip-len 99": "the video has 48: 24 are possible",
    "bench workers clip.mp4 --workers -1": "workers must be numbers from 0 up",
    "bench workers clip.mp4 --out clip.mp4/in": "cannot write into clip.mp4/in: ",
    "bench all clip.mp4 --only wrokers": "names no experiment: got 'wrokers'; did you mean worker",
    "bench all clip.mp4 --skip nothing": "names no experiment: got 'nothing'; there are affinity,",
    "bench all clip.mp4 --model-name resnt18": "no classification model 'resnt18'; did you mean",
    "bench all clip.mp4 --only live --skip live": "--only and --skip leave no experiment",
    "bench all clip.mp4 --only ,,": "names with commas between them, got ',,'",
    "bench all clip.mp4 --out clip.mp4": "clip.mp4",
    "bench stability clip.mp4 --batch-sizes 99 --json": "has 48 frames; give smaller --batch-",
    "bench stability clip.mp4 --model-name resnet --json": "resnet",
    "bench memory --model-name resnet --json": "resnet",
    "bench memory --weights gone.pth --json": "gone.pth",
    "bench memory --sizes 8K": "sizes must be among 360p, 720p, 1080p, 4K; got 8K",
    "bench memory --max-memory much": "a size must read like",
    "bench live clip.mp4 --p95-ms 0": "p95_ms must be > 0, got 0.0",
    "bench overlap clip.mp4 --model-name resnet --json": "resnet",
    "bench overlap clip.mp4 --weights gone.pth --json": "gone.pth",
    "bench modes clip.mp4 --model-name r3d_18 --json": "r3d_18",
    f"{SAMPLING} --batch-size 49": "larger than the set: the videos have 48 frames",
    f"{SAMPLING} --memory 2KiB": "does not hold three batches",
    f"{SAMPLING} --strategies naive,fast": "got fast",
    f"{SAMPLING} --seconds 0": "seconds must be > 0",
    f"{SAMPLING} --out clip.mp4/in": "cannot write into clip.mp4/in: ",
    "bench stages clip.mp4 --model-name resnet --json": "resnet",
    "bench stages clip.mp4 --seconds 0": "seconds must be > 0, got 0.0",
    "bench stages clip.mp4 --tensorboard clip.mp4 --json": "give another folder with --tensorb",
    "bench prefetch clip.mp4 --prefetch-factor 0": "must be numbers from 1 up, got 0",
    "bench prefetch clip.mp4 --clip-len 99 --boundary error --json": "24 are possible",
    "bench amp clip.mp4 --model-name resnet19 --json": "did you mean resnet18",
    "bench amp clip.mp4 --seconds 0": "seconds must be > 0",
    "bench compile clip.mp4 --device tpu": "'tpu' is not one of",
    "bench split clip.mp4 --split-point layer9 --json": "did you mean",
    "bench split clip.mp4 --split-point '' --json": "names no layer",
    "bench affinity clip.mp4 --threads 1": "No such option",
    "bench preprocess clip.mp4 --batch-size 0": "batch",
    "bench decode clip.mp4 --access sideways": "'sideways' is not one of",
    "bench decode clip.mp4 --gpu -1": "'--gpu': must be >= 0",
    "bench decode clip.mp4 --repeats 0": "'--repeats': must be >= 1",
    "bench transfer clip.mp4 --batch-size 0": "batch",
    "bench transfer clip.mp4 --seconds 0": "seconds must be > 0",
    "bench transfer clip.mp4 --size 0 64": "size",
    "bench transfer clip.mp4 --device cuda": "No such option",
    **{
        f"bench {name} clip.mp4 other.mp4": f"bench {name} takes one video, got 2"
        for name in (
            *("preprocess", "transfer", "compile", "amp", "split", "affinity"),
            *("stability", "modes", "live", "stages"),
        )
    },
    "plan empty": "the folder empty holds no file that is named like a video",
    "plan gone.mp4": "got 1 that cannot be read; the first: cannot open",
    "plan clip.mp4 --memory 5MiB --batch-size 48": "does not hold three batches of 48",
    "plan clip.mp4 --batch-size 128": "a batch of 128 is larger than the set",
    "plan a.mp4 --size 256": "Option '--size' requires 2 arguments",
    "plan a.mp4 --size 0 256": "0",
    "plan a.mp4 --batch-size 0": "'--batch-size'",
    "plan a.mp4 --rho 1.5": "rho",
    "plan a.mp4 --target-fps 0": "target",
    "plan a.mp4 --burst 1": "'--burst'",
    "plan": "Missing argument 'videos'",
    FRAMES: "say which frames by one of --fps, --every, --keyframes, --at (--every 1: all)",
    f"{FRAMES} --fps 1 --every 2": "got 2 of them",
    f"{FRAMES} --fps 1/0": "--fps takes a number",
    f"{FRAMES} --fps 0": "a rate must be > 0",
    f"{FRAMES} --at 1,,2": "--at takes numbers with commas between them, got ''",
    f"{FRAMES} --at 0.5,9": "shows nothing at 9 s: it runs from 0.000 s to 1.600 s",
    f"{FRAMES} --every 2 --quality 90": "png loses nothing",
    f"{FRAMES} --every 2 --size 0x9": "size is (height, width)",
    f"{FRAMES} --every 2 --prefix a/b": "a prefix is the beginning of a file name",
    f"{FRAMES} --every 2 rtsp://camera/1": "extracted from files: rtsp://camera is an address",
    FEATURES: "say which model by one of --model-name and --model; got none",
    f"{FEATURES} --model-name x --model a:b": "got both",
    "extract features clip.mp4 -o out --model-name resnet18": "say which frames by one of --fps",
    f"{FEATURES} --model a.b": 'must read like "package.module:function"',
    f"{FEATURES} --model a:b --layer x": "--layer belongs to --model-name",
    f"{FEATURES} --hop 4 --model a:b": "--hop is of clips",
    f"{FEATURES} --clip-len 4 --hop 4 --model a:b": "give one",
    "extract features clip.mp4 -o out --clip-len 60 --model own_model:build": "has 48 frames, and",
    f"{FEATURES} --model a:b --device tpu": "device must be cpu, cuda",
    f"{FEATURES} --model a:b --batch-size x": "a number >= 1, or auto",
    f"{FEATURES} --model a:b --batch-size x --ray 127.0.0.1:1": "a number >= 1, or auto",
    f"{FEATURES} --model a:b --batch-size 0": "batch_size must be an integer >= 1",
    f"{FEATURES} --model a:b --cache redis://:se/cret@h:x": "cannot be understood",
    f"{FEATURES} --model a:b rtsp://camera/1": "features are extracted from files: rtsp://camera i",
    f"{FEATURES} --model own_model:build --decode nvdec": "no way to decode 'nvdec'",
    f"{FEATURES} --model own_model:build --decode torchcodec --rate 10": "is for videos",
    f"{FEATURES} --model own_model:build --decode torchcodec --on-error conceal": "needs to be tol",
    "extract aggregate empty -o o": "holds no table of features",
    "extract aggregate features -o taken.parquet": "is there already",
    "extract export features --format npy -o features": "holds something",
    "extract export no --format npy -o o": "no such file",
    "proxy clip.mp4 -o out --size 256p": "such as 256, or height and width, such as 256x456; got '",
    "proxy clip.mp4 -o out --size 255": "sides of proxies are even, from 2 to 8192 pixels",
    "proxy clip.mp4 -o out --size 0x4": "sides of proxies are even, from 2 to 8192 pixels",
    "proxy clip.mp4 -o out --gop 601": "gop must be at most 600, got 601",
    "proxy clip.mp4 -o out --gop 8 --codec mjpeg": "every frame of mjpeg is a keyframe, so gop mus",
    "proxy clip.mp4 -o out --codec vp9": "'vp9' is not one of 'h264', 'hevc', 'av1', 'mjpeg'",
    "proxy clip.mp4 -o .": "all videos that were given lie in ., where",
    "compare a b": "a and b read different inputs",
    "compare a": "needs two runs or more, got 1",
    "compare a a": "a run is given twice",
    "compare a gone": "give the session.json of a run folder",
    "compare a b --any-input --out empty": "give a file such as",
    "compare a bench": "bench holds what headrace bench workers found, and no run",
    "compare a bench/workers.json": "holds what headrace bench workers found",
    "compare b runs": "runs is no run, but holds 1; give those: runs/a",
    "cache info --cache none": "no cache is named",
    "cache info --cache typo": "there is no cache typo yet",
    "cache info --cache redis://:se/cret@host": "%2F",
    "cache prune": "give one of --to SIZE, --older-than TIME and --all",
    "cache prune --all --to 1GiB": "give one of",
    "cache prune --to lots": "a size must read like",
    "cache prune --older-than 5": "a span of time must read like",
    "cache explain zz": "6 to 64 hexadecimal digits",
    f"cache explain {'x' * 300}": "6 to 64 hexadecimal digits",
    "cache explain abcdef": "no key in",
    "cache explain a b c": "give one key, or two",
    "watch -- bash train.sh": "cannot watch 'bash': it is no Python; give `headrace watch --",
    "watch -- python0.1 train.py": "there is no such program",
    f"watch -- {sys.executable}": "it runs no script",
    f"watch -- {sys.executable} -c pass": "cannot watch '-c': no script and no module",
    f"watch -- {sys.executable} -m": "cannot watch '-m': no script and no module",
    f"watch -- {sys.executable} -u -X dev no.py": "cannot watch 'no.py': there is no such",
    f"watch --out clip.mp4 -- {sys.executable} train.py": "cannot write to the output folder",
    f"watch --json empty -- {sys.executable} train.py": "give a file in a folder",
    f"watch --json clip.mp4/x.json -- {sys.executable} train.py": "give a file in",
    **{
        f"{command} {ADDRESS}": "https://... is an address, and addresses are not read here; copy "
        for command in (
            *("index", "doctor --parity", "plan", "clip --num-frames 3", "bench sampling"),
            "proxy -o out",
        )
    },
}
"""Command line -> what is said of it, exit code 2."""

LATE = {
    f"{RUN} --out late --clip-len 8": "takes single frames; leave out --clip-len",
    f"{ANNOTATE} --model-name mtcnn --classes fcae": "no class 'fcae'; did you mean face?",
    f"{ANNOTATE} --model-name mtcnn --weights none": "leave out --weights",
    "run clip.mp4 --weights clip.mp4 --out late": "no checkpoint that can be read safely",
}
"""Command line -> what is said of it once the model is loaded, exit code 2."""

FAILURES = {
    **{
        f"bench {name} gone.mp4 --json": "gone.mp4"
        for name in (
            *("all", "live", "memory", "overlap", "prefetch", "sampling", "stability", "stages"),
            "workers",
        )
    },
    **{f"bench {name} zero.mp4 --json": "zero.mp4" for name in ("overlap", "modes", "live")},
    f"{SAMPLING} cut.mp4": "cut.mp4",
    "clip frames/0*.jpg --rate 5": "give a folder of pictures, or a pattern",
    "clip frames/%05d.png --rate 5": "frames/%05d.png",
    "clip gone --rate 5": "no such file or directory",
    **{
        f"{command} {more}": said
        for command in (RUN.replace("clip.mp4", ""), FRAMES.replace("clip.mp4", "") + " --every 4")
        for more, said in {
            "frames/%05d.png --rate 10": "no file is named like that",
            "gone --rate 10": "no such file or directory",
            "clip.mp4 --rate 10": "a video has a rate of its own, so give none",
        }.items()
    },
}
"""Command line -> what is said of it, exit code 1."""

RATES = {
    "frames": "pictures in order need a rate (ImageSequence; --rate of a",
    "frames/%05d.jpg": "if it is a pattern of pictures, say how many are shown a second",
    "frames --rate 0": "rate must be above 0",
    "frames --rate -5": "rate must be above 0",
    **{
        f"frames --rate {rate}": "rate must be a finite number"
        for rate in ("abc", "nan", "inf", "1/0", "''")
    },
}
USAGE |= {
    f"{command} {more}": said
    for command in (RUN.replace("clip.mp4", ""), FRAMES.replace("clip.mp4", "") + " --every 4")
    for more, said in RATES.items()
}
MISSING = {
    f"{RUN} --nvtx": "pip install 'headrace[nvtx]'",
    f"{RUN} --tensorboard logs": "pip install 'headrace[tensorboard]'",
    f"{RUN} --decode torchcodec": "the backend torchcodec needs torchcodec, not installed here",
    f"{FEATURES} --model own_model:build --decode torchcodec": "torchcodec, not installed here",
}
"""Command line -> what is said of it where a package is not installed."""

NO_GPU = "decoding on GPU 0 was asked for, torch "
WITHOUT_GPU = {
    **{
        f"{RUN} --decode {way}": NO_GPU
        for way in ("cuda", "torchcodec:cuda:0", "pynvvideocodec:cuda")
    },
    **{
        f"{command} --decode cuda {dry}": NO_GPU
        for command in (f"{FRAMES} --keyframes", f"{FEATURES} --model own_model:build")
        for dry in ("", "--dry-run")
    },
    **{
        f"{RUN.replace('--no-video', '')} {flag} {other}": "PyTorch sees no CUDA device"
        for flag in ("--prep-on-gpu", "--infer-on-gpu")
        for other in (
            *("", "--batch-size auto", "--prep-level simple", "--core-bind all"),
            *("--enable-compile", "--use-amp", "--max-steps 2", "--mode inference"),
            "--split-point squeezenet1_1:features.8",
        )
    },
}
"""Command line -> what is said of it where there is no GPU."""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with something of each kind that a command reads."""
    folder = tmp_path_factory.mktemp("here")
    clip = write_clip(folder / "clip", SynthClip(b_frames=2, size=(64, 96)))
    (folder / "cut.mp4").write_bytes(clip.read_bytes()[:200])
    write_pictures(folder / "frames", 12)
    write_layout(folder / "videos", {"a": 5})
    (folder / "index.json").write_text('{"videos": {"a": 5}}')
    write_pictures(folder / "set" / "a" / "front", 6)
    (folder / "pictures.json").write_text('{"set": {"a": 6}}')
    for name in ("empty", "a", "b", "bench", "runs/a", "features"):
        (folder / name).mkdir(parents=True)
    for number, name in enumerate(("a", "b", "runs/a")):
        video = SOURCE.model_copy(update={"content": f"sha256:{number}"})
        session(number + 1, inputs=(video,)).save(folder / name / "session.json")
    (folder / "bench" / "workers.json").write_text("{}")
    list(write_tables(folder / "features", [row("park", 0, 8, lost=())], facts()))
    for name in ("taken.parquet", "labels.csv", "train.py", "zero.mp4"):
        (folder / name).touch()
    (folder / "own_model.py").write_text("from torch.nn import Identity as build")
    with open_cache(str(folder / "mine" / FILE)) as cache:
        cache.put({key(): arrays()})
    return folder


def files_below(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc")


@pytest.fixture
def refusal(call, here, monkeypatch):
    """Return a function: command line, its exit code -> the one line that is said of it."""
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("HEADRACE_CACHE", str(here / "mine" / FILE))
    before = files_below(here)

    def refused(line: str, code: int, *, leaves_nothing: bool = True) -> str:
        found, out, err = call(*shlex.split(line))
        assert (found, out) == (code, ""), err
        assert not [part for part in ("bob:", "secret", "cret@") if part in err]
        assert files_below(here) == before or not leaves_nothing
        return reason(err)

    return refused


@pytest.mark.parametrize(("line", "words"), USAGE.items())
def test_what_cannot_be_is_an_error_of_usage_in_one_line(refusal, line, words):
    assert words in refusal(line, 2)


@pytest.mark.parametrize(("line", "words"), LATE.items())
def test_what_the_model_cannot_do_is_an_error_of_usage_in_one_line(refusal, line, words):
    assert words in refusal(line, 2, leaves_nothing=False)


@pytest.mark.parametrize(("line", "words"), FAILURES.items())
def test_what_is_not_there_is_a_failure_in_one_line(refusal, line, words):
    assert words in refusal(line, 1)


@pytest.mark.parametrize(("line", "words"), MISSING.items())
def test_a_package_that_is_missing_is_named(refusal, monkeypatch, line, words):
    for package in ("nvtx", "tensorboard", "torchcodec"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    assert words in refusal(line, 1)


@needs_no_gpu
@pytest.mark.parametrize(("line", "words"), WITHOUT_GPU.items())
def test_what_needs_a_gpu_is_refused_where_there_is_none(refusal, line, words):
    said = refusal(line, 1)
    assert words in said
    if words == NO_GPU:
        assert "finds no CUDA device" in said
        assert said.endswith("leave --decode out to decode on the CPU")


@needs_torchcodec
def test_pictures_are_not_for_another_decoder(refusal):
    said = refusal(f"{ANNOTATE} --model-name mtcnn --decode torchcodec", 2)
    assert "--decode torchcodec is for videos, and frames/00000.jpg is a picture" in said


def test_debug_shows_the_traceback_wherever_it_stands(call, here, monkeypatch):
    monkeypatch.chdir(here)
    code, _, err = call("clip", "clip.mp4", "--start", "47", "--debug")
    assert code == 2
    assert err.startswith("Traceback (most recent call last)")
    assert "headrace.errors.ConfigError: " in err
