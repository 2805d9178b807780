"""A Ray cluster of three machines on this one, in a process of its own: it is told what to do.

Each line that it reads is the number of a machine to kill, or `add`. It answers `is ADDRESS`
when the cluster stands, and so after each line. The cluster ends when its input does.
"""

import sys

from ray.cluster_utils import Cluster

MACHINE = {
    "num_cpus": 1,
    "object_store_memory": 80 << 20,
    # Processes that no test needs.
    "include_dashboard": False,
    "include_log_monitor": False,
    "no_monitor": True,
}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args=MACHINE)
    try:
        machines = [cluster.head_node, *(cluster.add_node(**MACHINE) for _ in range(2))]
        cluster.wait_for_nodes()
        _answer(cluster)
        for line in sys.stdin:
            if line.strip() == "add":
                machines.append(cluster.add_node(**MACHINE))
                cluster.wait_for_nodes()
            else:
                cluster.remove_node(machines[int(line)], allow_graceful=False)
            _answer(cluster)
    finally:
        cluster.shutdown()


def _answer(cluster: Cluster) -> None:
    sys.stdout.write(f"is {cluster.address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
