"""A system drawn with lines of text: from its clients down to its disks, each part with its limits."""

from __future__ import annotations

from itertools import groupby

from naslab.lab.definition import Burst, Clients, Definition, Disk, Link, Server
from naslab.lab.link import PAYLOAD_SHARE
from naslab.units import amount_text, duration_text, rate_text, size_label

WIDTH = 78
_MOST_BOXES = 4
_SERVERS = {"samba": "Samba", "ganesha": "NFS-Ganesha", "knfsd": "the kernel's NFS server", "demo": "embedded NFS 3"}
_LEVELS = {
    "single": "", "span": "one disk after the other (span)", "jbod": "each disk a share of its own (JBOD)",
    "raid0": "RAID 0", "raid1": "RAID 1", "raid5": "RAID 5", "pool": "pool: each file on one of the disks",
    "duplicated": "pool: each file on two disks",
}  # fmt: skip
_SYNC = {"always": "every write durable before its answer", "never": "flushes are not awaited"}


def draw(definition: Definition) -> str:
    """The system as lines of at most WIDTH characters."""
    lines: list[str] = []
    centre = 20
    parts = [_clients(definition.clients, definition.server.kind), _server(definition.server)]
    sides = [_link(definition.link), []]
    if definition.disks:
        parts.append(_volume(definition))
        sides.append([])
    rows = _disk_row(definition.disks) if definition.disks else []
    if rows:
        centre = max(centre, sum(map(_row_width, rows)) // 2 + len(rows) - 1)
    centre = max(centre, *(_row_width(part) // 2 for part in parts))
    for at, part in enumerate(parts):
        below = at < len(parts) - 1 or bool(rows)
        lines += _box(part, centre, above=at > 0, below=below)
        if at < len(parts) - 1:
            lines += [" " * centre + f"│ {side}".rstrip() for side in sides[at] or [""]]
    return "\n".join(line.rstrip() for line in [*lines, *_tree(rows, centre)])


def _row_width(texts: list[str]) -> int:
    return max(map(len, texts)) + 4


def _box(texts: list[str], centre: int, above: bool, below: bool) -> list[str]:
    inner = max(map(len, texts)) + 2
    left = centre - (inner + 2) // 2
    stem = centre - left - 1
    top, bottom = "─" * inner, "─" * inner
    if above:
        top = top[:stem] + "┴" + top[stem + 1 :]
    if below:
        bottom = bottom[:stem] + "┬" + bottom[stem + 1 :]
    pad = " " * left
    return [f"{pad}┌{top}┐", *(f"{pad}│ {text.ljust(inner - 2)} │" for text in texts), f"{pad}└{bottom}┘"]


def _tree(rows: list[list[str]], centre: int) -> list[str]:
    """The boxes of the disks side by side, with lines from each to what is above."""
    if not rows:
        return []
    if len(rows) == 1:
        return [" " * centre + "│", *_box(rows[0], centre, above=True, below=False)]
    widths = [_row_width(row) for row in rows]
    left = max(centre - (sum(widths) + 2 * (len(rows) - 1)) // 2, 0)
    starts = [left + sum(widths[:at]) + 2 * at for at in range(len(rows))]
    middles = [start + width // 2 for start, width in zip(starts, widths, strict=True)]
    line = [" "] * (max(*middles, centre) + 1)
    for at in range(middles[0], middles[-1] + 1):
        line[at] = "─"
    for at in middles:
        line[at] = "┬"
    line[middles[0]], line[middles[-1]] = "┌", "┐"
    line[centre] = "┼" if centre in middles[1:-1] else "┴"
    height = max(map(len, rows))
    boxes = [
        _box([*row, *[""] * (height - len(row))], middle, above=True, below=False)
        for row, middle in zip(rows, middles, strict=True)
    ]
    drawn = []
    for parts in zip(*boxes, strict=True):
        text = ""
        for part in parts:
            text = text.ljust(len(part) - len(part.lstrip())) + part.lstrip()
        drawn.append(text)
    return ["".join(line), *drawn]


def _clients(clients: Clients, kind: str) -> list[str]:
    protocol = "SMB" if kind == "samba" else "NFS"
    how = f"naslab's own {protocol} client" if clients.access == "direct" else f"kernel mount, {_mount(clients.access)}"
    found = [f"{clients.count} clients: {how}" if clients.count > 1 else f"client: {how}"]
    if clients.rate_bits_per_s is not None:
        found.append(f"{bits_text(clients.rate_bits_per_s)} each")
    for rate in dict.fromkeys(clients.rates_bits_per_s):
        found.append(f"{clients.rates_bits_per_s.count(rate)} of them {bits_text(rate)}")
    if clients.ram_bytes is not None:
        found.append(f"{size_label(clients.ram_bytes)} of memory")
    return found


def _mount(access: str) -> str:
    return access.replace("nfs", "NFS ").replace("cifs", "SMB ")


def _link(link: Link | None) -> list[str]:
    if link is None:
        return ["this machine's loopback, no limit"]
    found = []
    if link.rate_bits_per_s is not None:
        data = link.rate_bits_per_s / 8 * PAYLOAD_SHARE
        more = f" (about {rate_text(data)} of data)" if link.mtu is None else ""
        found.append(f"{bits_text(link.rate_bits_per_s)} each way{more}")
    if link.burst is not None:
        found.append(_burst(link.burst) + " each way")
    if link.mtu is not None:
        found.append(f"packets of {link.mtu} bytes")
    if link.latency_ns:
        found.append(f"{duration_text(link.latency_ns)} each way")
    if link.queue_ns is not None:
        found.append(f"a queue of {duration_text(link.queue_ns)}")
    return found or ["a link without a limit"]


def _server(server: Server) -> list[str]:
    found = [_SERVERS[server.kind]]
    spoken = [f"up to SMB {server.dialect}"] if server.dialect else []
    spoken += [f"NFS {', '.join(server.versions)}"] if server.versions else []
    spoken += [f"signing {server.signing}"] if server.signing else []
    spoken += [f"encryption {server.encryption}"] if server.encryption else []
    if spoken:
        found.append(", ".join(spoken))
    if server.sync in _SYNC:
        found.append(_SYNC[server.sync])
    if server.ram_bytes is not None:
        found.append(f"{size_label(server.ram_bytes)} of memory")
    if server.write_cache_bytes is not None:
        found.append(f"{size_label(server.write_cache_bytes)} may wait to be written")
    if server.cpu is not None:
        found.append(f"{server.cpu:.0%} of a CPU")
    return found


def _volume(definition: Definition) -> list[str]:
    level = _LEVELS[definition.volume.level]
    mode = definition.volume.mode
    found = [definition.filesystem.type + (f" on {level}" if definition.volume.level.startswith("raid") else "")]
    if level and not definition.volume.level.startswith("raid"):
        found.append(level + (f", {'at once' if mode == 'synchronous' else 'in the background'}" if mode else ""))
    found.append(size_label(definition.capacity_bytes))
    return found


def _disk_row(disks: tuple[Disk, ...]) -> list[list[str]]:
    """Texts of the boxes: one for each disk, or one for each run of equal ones where they are many."""
    each = [_disk(disk) for disk in disks]
    if len(each) <= _MOST_BOXES and sum(map(_row_width, each)) + 2 * len(each) <= WIDTH:
        return each
    runs = [(texts, len(list(same))) for texts, same in groupby(each)]
    return [[f"{count} disks, each:" if count > 1 else "a disk", *texts[1:]] for texts, count in runs]


def _disk(disk: Disk) -> list[str]:
    found = ["disk", size_label(disk.size_bytes)]
    if disk.rate_bytes_per_s is not None:
        found.append(f"{rate_text(disk.rate_bytes_per_s)} in all")
    if disk.read_bytes_per_s is not None and disk.read_bytes_per_s == disk.write_bytes_per_s:
        found.append(rate_text(disk.read_bytes_per_s))
    else:
        found += [f"read {rate_text(disk.read_bytes_per_s)}"] if disk.read_bytes_per_s else []
        found += [f"write {rate_text(disk.write_bytes_per_s)}"] if disk.write_bytes_per_s else []
    if disk.iops is not None:
        found.append(f"{disk.iops:,} IOPS")
    if disk.latency_ns:
        found.append(f"+ {duration_text(disk.latency_ns)}")
    if disk.seek_ns:
        found.append(f"seek {duration_text(disk.seek_ns)}")
    if disk.burst is not None:
        found.append(_burst(disk.burst))
    if disk.error_rate:
        found.append(f"{disk.error_rate:.2%} fail")
    return found if len(found) > 2 else [*found, "no limit"]


def _burst(burst: Burst) -> str:
    return (
        f"{rate_text(burst.rate_bytes_per_s)} for {amount_text(burst.size_bytes)}, "
        f"then {rate_text(burst.base_bytes_per_s)}"
    )


def bits_text(bits_per_s: float) -> str:
    """The rate of a link: `1 Gbit/s`."""
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6)):
        if bits_per_s >= factor:
            return f"{bits_per_s / factor:g} {unit}"
    return f"{bits_per_s:g} bit/s"
