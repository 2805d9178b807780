"""Workers on the machines of a Ray cluster, in place of processes on this one."""
