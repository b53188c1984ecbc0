"""The client: what this machine can do at most, by which way it reaches a target, and what else it does meanwhile."""

from naslab.client.ceiling import measure
from naslab.client.kept import ceiling_for, keep, recent
from naslab.client.limit import cpu_limit_cores, processors
from naslab.client.route import nic_bytes_per_s, route_to

__all__ = ["ceiling_for", "cpu_limit_cores", "keep", "measure", "nic_bytes_per_s", "processors", "recent", "route_to"]
