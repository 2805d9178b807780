"""A Ray cluster of three machines on this one, in a process of its own: it is told what to do.

Its argument is a folder for Ray's files: a short one, as the path of a socket has at most 107
bytes. Each line that it reads is the number of a machine to kill, or `add`. It answers `is ADDRESS`
when the cluster stands, and so after each line. The cluster ends when its input does.
"""

import os
import sys

MACHINE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


def main() -> None:
    os.environ |= {"RAY_TMPDIR": sys.argv[1], "RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster  # reads the environment

    cluster = Cluster(initialize_head=True, head_node_args=MACHINE)
    try:
        machines = [cluster.head_node, *(cluster.add_node(**MACHINE) for _ in range(2))]
        cluster.wait_for_nodes()
        print("is", cluster.address, flush=True)
        for line in sys.stdin:
            if line.strip() == "add":
                machines.append(cluster.add_node(**MACHINE))
                cluster.wait_for_nodes()
            else:
                cluster.remove_node(machines[int(line)], allow_graceful=False)
            print("is", cluster.address, flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
