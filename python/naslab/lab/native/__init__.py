"""The backend that builds systems from this machine's own kernel: loop devices, namespaces, control groups."""
