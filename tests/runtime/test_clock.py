from headrace.runtime.clock import SYSTEM_CLOCK, SystemClock


def test_system_clock_never_goes_back():
    readings = [SYSTEM_CLOCK.now_ns() for _ in range(1000)]
    assert readings == sorted(readings)


def test_wall_clock_counts_from_1970():
    year_2025, year_2100 = 1_735_689_600, 4_102_444_800
    assert year_2025 < SystemClock().wall_seconds() < year_2100
