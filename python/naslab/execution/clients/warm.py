"""Imported by the fork server: what every client would find out for itself, once for all."""

import socket

from distributed.versions import get_versions
from tornado.iostream import SSLIOStream

get_versions()
"""Dask keeps the versions of packages, which each worker tells its scheduler."""
SSLIOStream(socket.socket()).close()
"""Tornado keeps the system's certificates, which nothing here trusts."""
