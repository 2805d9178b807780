"""A Ray cluster of three nodes on this machine, in a process of its own: it is told what to do.

Its argument is a folder for Ray's files: a short one, as the path of a socket has at most 107
bytes. Its first line is the address. Each line it reads is a node to kill (1 or 2), or `add`; each
is answered by a line. It ends, and the cluster with it, when its input does.
"""

import os
import sys

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


def main() -> None:
    os.environ |= {"RAY_TMPDIR": sys.argv[1], "RAY_USAGE_STATS_ENABLED": "0"}
    import ray.cluster_utils

    cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args=NODE)
    try:
        nodes = [cluster.head_node, *(cluster.add_node(**NODE) for _ in range(2))]
        cluster.wait_for_nodes()
        print("address", cluster.address, flush=True)
        for line in sys.stdin:
            if line.strip() == "add":
                nodes.append(cluster.add_node(**NODE))
                cluster.wait_for_nodes()
            else:
                cluster.remove_node(nodes[int(line)], allow_graceful=False)
            print("done", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
