"""What a server does meanwhile, from the text of its /proc."""

from __future__ import annotations

import pytest

from naslab.errors import UsageError
from naslab.execution.monitor import Monitor, _between, parse

FIRST = """cpu  100 0 50 800 50 0 0 0 0 0
MemTotal:       1000 kB
MemAvailable:    600 kB
Cached:          300 kB
Dirty:            20 kB
Writeback:         4 kB
   8       0 sda 10 0 2000 5 20 0 4000 9 0 100 14 0 0 0 0
   8       1 sda1 10 0 2000 5 20 0 4000 9 0 100 14 0 0 0 0
   7       0 loop0 9 0 900 5 0 0 0 0 0 9 5 0 0 0 0
 259       0 nvme0n1 1 0 8 0 1 0 8 0 0 1 1 0 0 0 0
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0
  eth0: 1000 10 0 0 0 0 0 0 5000 50 0 0 0 0 0 0"""


def later() -> str:
    text = FIRST.replace("cpu  100 0 50 800 50", "cpu  160 0 90 900 50").replace("sda 10 0 2000", "sda 90 0 12000")
    return text.replace("9 0 100 14", "9 0 1100 14").replace("eth0: 1000", "eth0:2001000")


def test_rates_between_two_samples() -> None:
    begin = 5_000_000_000
    row = _between(parse(FIRST.splitlines(), begin), parse(later().splitlines(), begin + 2_000_000_000), begin)
    assert row["at_ns"] == 2_000_000_000
    assert row["cpu_fraction"] == pytest.approx(0.5)
    assert (row["memory_used_bytes"], row["cached_bytes"], row["dirty_bytes"]) == (409_600, 307_200, 24_576)
    assert set(row["disks"]) == {"sda", "nvme0n1"}, "neither partitions nor loop devices: they would count twice"
    assert row["disks"]["sda"]["read_bytes_per_s"] == pytest.approx(10_000 * 512 / 2)
    assert row["disks"]["sda"]["busy_fraction"] == pytest.approx(0.5)
    assert row["nets"] == {"eth0": {"received_bytes_per_s": 1_000_000.0, "sent_bytes_per_s": 0.0}}


@pytest.mark.parametrize(
    "url", ["host", "http://host", "ssh://", "ssh://host/path", "ssh://me:secret@host", "ssh://-oProxyCommand=x"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--monitor"):
        Monitor(url).command()


def test_the_command_has_user_and_port() -> None:
    words = Monitor("ssh://me@nas:2222").command()
    assert words[:1] == ["ssh"] and words[-4:-1] == ["-p", "2222", "me@nas"] and "BatchMode=yes" in words
