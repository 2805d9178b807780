"""Text of numbers and names."""

from headrace.profiling import number_format as numbers
from headrace.profiling.number_format import short_names

CASES = {
    "three_digits": (0, 0.0469, 44.0, 53.87, 999.4, 999.6, 1149.9),
    "decimal": (0, 0.0469, 0.9999, 3.294, 9.996, 69.55, 99.96, 1234.4, -12.34),
    "seconds": (0, 0.024, 4.93, 119.94, 119.96, 309, 3599.6, 3725),
    "milliseconds": (229.8, None),
    "percent": (0, 0.0001, 0.003, 0.974, 0.997, 0.9999, 1),
    "megabytes": (23_413_500,),
    "gibibytes": (32 << 30,),
    "ratio": ((2.912, 1.0, 9.655),),
}
PATHS = (
    *("a.mp4", "videos/train/a.mp4", "/data/videos/train/a.mp4"),
    "a_name_that_is_longer_than_all_of_it.mp4",
)
SOURCES = (
    ("/data/a/door.mp4", "yard.mp4"),
    ("/data/a/cam.mp4", "/data/b/cam.mp4"),
    ("/dev/video0", "test://?seed=1"),
    ("rtsp://***@192.168.100.200:554/Streaming/Channels/101",),
)


def test_numbers_and_names_have_this_text(holds):
    lines = [
        f"{name} {number}: {getattr(numbers, name)(number)}"
        for name, values in CASES.items()
        for number in values
    ]
    lines += [f"counted {count}: {numbers.counted(count, 'step')}" for count in (1, 4500)]
    lines += [f"shortened {path}: {numbers.shortened(path, 22)}" for path in PATHS]
    lines += [f"short {' '.join(names)}: {' '.join(short_names(names))}" for names in SOURCES]
    holds("numbers.txt", "\n".join(lines) + "\n")
