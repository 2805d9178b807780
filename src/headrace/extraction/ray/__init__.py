"""Workers on the machines of a Ray cluster; nothing is imported from here unless Ray was asked for."""
