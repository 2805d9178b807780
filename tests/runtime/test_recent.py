"""The latest numbers: in order, and no more than are kept."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.recent import Recent


@given(st.lists(st.integers(-(2**53), 2**53)), st.integers(1, 9))
def test_the_last_numbers_come_back_exactly_and_in_order(numbers, most):
    kept = Recent(most)
    for number in numbers:
        kept.append(number)
    assert kept.values().tolist() == numbers[-most:]
    assert len(kept) == min(len(numbers), most)
