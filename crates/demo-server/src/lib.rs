//! A small NFSv3 server for the demo: no root, no portmapper, a free port.
