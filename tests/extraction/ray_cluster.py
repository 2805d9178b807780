"""Program that runs a Ray cluster of three nodes on this machine, controlled by stdin.

Each input line is the number of a node to kill, or `add`. The program prints `is ADDRESS` when the
cluster has started, and after each line. The cluster ends with its input.
"""

import sys

from ray.cluster_utils import Cluster

MACHINE = {
    "num_cpus": 1,
    "object_store_memory": 80 << 20,
    # Without processes that no test needs.
    "include_dashboard": False,
    "include_log_monitor": False,
    "no_monitor": True,
}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args=MACHINE)
    try:
        machines = [cluster.head_node, *(cluster.add_node(**MACHINE) for _ in range(2))]
        cluster.wait_for_nodes()
        _print_address(cluster)
        for line in sys.stdin:
            if line.strip() == "add":
                machines.append(cluster.add_node(**MACHINE))
                cluster.wait_for_nodes()
            else:
                cluster.remove_node(machines[int(line)], allow_graceful=False)
            _print_address(cluster)
    finally:
        cluster.shutdown()


def _print_address(cluster: Cluster) -> None:
    sys.stdout.write(f"is {cluster.address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
