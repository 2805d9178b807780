"""Locks between processes."""

from headrace.runtime.lock import file_lock


def test_one_holds_a_lock_at_a_time(tmp_path):
    path = tmp_path / "lock"
    with file_lock(path) as first, file_lock(path) as second:
        assert (first, second) == (True, False)
    with file_lock(path) as again:
        assert again


def test_those_that_share_a_lock_keep_out_those_that_do_not(tmp_path):
    path = tmp_path / "lock"
    with file_lock(path, is_shared=True) as first, file_lock(path, is_shared=True) as second:
        assert (first, second) == (True, True)
        with file_lock(path) as alone:
            assert not alone
    with file_lock(path, waits=True) as alone:
        assert alone
