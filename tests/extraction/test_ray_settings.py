"""What is asked of a cluster, and what its machines must be like; nothing here needs Ray."""

from dataclasses import asdict, replace

from headrace.extraction.ray.actor import ChunkRow, NodeRequirements, table_of, values_of
from headrace.extraction.ray.settings import ActorResources, RaySettings, call_size
from headrace.runtime.child_spec import CompletedChild
from headrace.testing.fake_clock import FakeClock


def test_an_address_is_auto_or_a_host_and_a_port():
    for address in ("auto", "head:6379", "10.0.0.1:6379", "[::1]:6379"):
        assert RaySettings(address=address).address == address


def test_a_worker_takes_a_core_or_a_gpu_with_its_share_of_the_cores():
    big, small, plain = {"CPU": 64.0, "GPU": 8.0}, {"CPU": 12.0, "GPU": 2.0}, {"CPU": 4.0}
    machines = [big, small, plain]
    on_cpu = ActorResources.of("cpu").with_cores_of(machines)
    assert [on_cpu.times_in(each) for each in machines] == [64, 12, 4]
    on_gpu = ActorResources.of("cuda").with_cores_of(machines)
    assert on_gpu == ActorResources(num_cpus=6.0, num_gpus=1.0)
    assert [on_gpu.times_in(each) for each in machines] == [8, 2, 0]


def test_as_many_actors_work_as_fit_and_have_something_to_do():
    assert [RaySettings().actors_for(8, calls) for calls in (100, 2, None)] == [8, 2, 8]
    assert RaySettings(most_actors=3).actors_for(8, 100) == 3


def test_an_actor_is_given_few_chunks_at_a_time_so_that_quick_ones_do_more():
    assert [call_size(chunks, 3) for chunks in (5, 240, 9000)] == [1, 10, 16]


def test_a_machine_with_other_versions_or_another_folder_may_not_work(tmp_path):
    terms = NodeRequirements.set_in(tmp_path, FakeClock())
    assert terms.unmet() is None
    other = replace(terms, versions={**terms.versions, "torch": "1.0"})
    assert "has torch 2." in other.unmet()
    assert "the run was started with 1.0; install the same version" in other.unmet()
    assert "lacks numpy2" in replace(terms, versions={"numpy2": "1"}).unmet()
    # Another run of the same folder, or a folder that only has the same name.
    (tmp_path / "seal.txt").write_text("another")
    assert f"does not see {tmp_path} of this run; give a folder with -o" in terms.unmet()
    assert "does not see" in replace(terms, folder=str(tmp_path / "gone")).unmet()


def test_rows_come_back_as_they_were():
    ending = CompletedChild(name="a", exit_code=-11, has_timed_out=False, seconds=1.0, tail="x")
    rows = [
        ChunkRow(chunk="c1", worker="a", messages=(["begun", "c1", None],), ending=ending),
        ChunkRow(chunk="c2", worker="a", unmet="no"),
        ChunkRow.lost("c3", "b"),
    ]
    assert [ChunkRow.of(plain) for plain in values_of(table_of(map(asdict, rows)))] == rows
    chunks = {"c1": [1, None], "c2": {"a": "b"}}
    assert dict(values_of(table_of(chunks.items()))) == chunks
