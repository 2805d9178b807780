"""What workers are told of chunks."""

from headrace.runtime.speaker import claimed


def test_a_chunk_is_claimed_once(tmp_path):
    assert [claimed(tmp_path, name) for name in ("a", "b", "a")] == [True, True, False]
