"""File servers that announce themselves on the local network, by DNS-SD (as Bonjour and Avahi do) and WS-Discovery."""

from naslab.commands.discover.found import Found, discover

__all__ = ["Found", "discover"]
