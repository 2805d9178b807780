"""Settings of a cluster, and requirements of its machines; nothing here needs Ray."""

from dataclasses import asdict, replace

from headrace.extraction.ray.actor import ChunkRow, NodeRequirements, table_of, values_of
from headrace.extraction.ray.settings import ActorResources, RaySettings, call_size
from headrace.runtime.child_process import CompletedChild
from headrace.testing.fake_clock import FakeClock


def test_an_address_is_auto_or_a_host_and_a_port():
    for address in ("auto", "head:6379", "10.0.0.1:6379", "[::1]:6379"):
        assert RaySettings(address=address).address == address


def test_a_worker_has_one_core_or_one_gpu_with_its_share_of_the_cores():
    big, small, cpu_only = {"CPU": 64.0, "GPU": 8.0}, {"CPU": 12.0, "GPU": 2.0}, {"CPU": 4.0}
    machines = [big, small, cpu_only]
    on_cpu = ActorResources.of("cpu").with_cores_of(machines)
    assert [on_cpu.times_in(machine) for machine in machines] == [64, 12, 4]
    on_gpu = ActorResources.of("cuda").with_cores_of(machines)
    assert on_gpu == ActorResources(num_cpus=6.0, num_gpus=1.0)
    assert [on_gpu.times_in(machine) for machine in machines] == [8, 2, 0]


def test_the_number_of_actors_is_limited_by_machines_calls_and_options():
    assert [RaySettings().actors_for(8, calls) for calls in (100, 2, None)] == [8, 2, 8]
    assert RaySettings(most_actors=3).actors_for(8, 100) == 3


def test_calls_are_small_so_that_faster_actors_run_more_of_them():
    assert [call_size(chunks, 3) for chunks in (5, 240, 9000)] == [1, 10, 16]


def test_a_machine_with_other_versions_or_another_folder_is_rejected(tmp_path):
    requirements = NodeRequirements.set_in(tmp_path, FakeClock())
    assert requirements.unmet() is None
    other = replace(requirements, versions={**requirements.versions, "torch": "1.0"})
    assert "has torch 2." in other.unmet()
    assert "the run was started with 1.0; install the same version" in other.unmet()
    assert "lacks numpy2" in replace(requirements, versions={"numpy2": "1"}).unmet()
    # Another run in the same folder, or another folder of the same name.
    (tmp_path / "seal.txt").write_text("another")
    assert f"does not see {tmp_path} of this run; give a folder with -o" in requirements.unmet()
    assert "does not see" in replace(requirements, folder=str(tmp_path / "gone")).unmet()


def test_rows_survive_a_table():
    ending = CompletedChild(name="a", exit_code=-11, has_timed_out=False, seconds=1.0, tail="x")
    rows = [
        ChunkRow(chunk="c1", worker="a", messages=(["begun", "c1", None],), ending=ending),
        ChunkRow(chunk="c2", worker="a", unmet="no"),
        ChunkRow.lost("c3", "b"),
    ]
    assert [ChunkRow.of(plain) for plain in values_of(table_of(map(asdict, rows)))] == rows
    chunks = {"c1": [1, None], "c2": {"a": "b"}}
    assert dict(values_of(table_of(chunks.items()))) == chunks
