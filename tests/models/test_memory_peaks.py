"""What known peaks predict of other batch sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.models.memory_peaks import predicted_peak


@given(
    held=st.integers(0, 10**9),
    frame=st.integers(0, 10**7),
    known=st.sets(st.integers(1, 64), min_size=2),
    asked=st.integers(1, 512),
)
def test_where_peaks_grow_evenly_the_prediction_is_exact_or_not_below_what_is_known(
    held, frame, known, asked
):
    found = predicted_peak({size: held + frame * size for size in known}, asked)
    assert found == pytest.approx(held + frame * asked, abs=1)


@pytest.mark.parametrize(
    ("peaks", "asked", "predicted"),
    [
        ({4: 100}, 8, 200),
        ({4: 100}, 5, 125),
        ({4: 100}, 1, 25),
        ({1: 100, 2: 90}, 4, 100),  # never less than a smaller batch took
        ({1: 10, 2: 20, 4: 80}, 8, 200),  # by the last two
        ({1: 10, 2: 20, 4: 80}, 3, 50),  # by those beside it
        ({1: 10, 2: 20, 4: 80}, 2, 20),
    ],
)
def test_the_line_goes_through_the_two_next_to_it(peaks, asked, predicted):
    assert predicted_peak(peaks, asked) == predicted
