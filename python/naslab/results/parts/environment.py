"""The part of the run document about the machines: facts about client and server at the start."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from naslab.results.describe import (
    MACHINES,
    BitsPerS,
    Bytes,
    BytesPerS,
    Count,
    Facts,
    HostName,
    InterfaceName,
    Ns,
    Number,
    OpenPart,
    Version,
    about,
)


class EnvironmentInterface(OpenPart):
    """Environment: interface."""

    name: Annotated[str | UnsetType | None, about("its name")] = UNSET
    mtu_bytes: Annotated[Bytes | UnsetType | None, about("largest packet")] = UNSET
    speed_bits_per_s: Annotated[BitsPerS | UnsetType | None, about("its speed; null: not reported")] = UNSET


class EnvironmentClient(OpenPart):
    """Environment: client."""

    host: Annotated[HostName | UnsetType | None, about("its name")] = UNSET
    system: Annotated[str | UnsetType | None, about("kernel and its release", keep="kernel")] = UNSET
    machine: Annotated[str | UnsetType | None, about("architecture", keep=MACHINES)] = UNSET
    cpu: Annotated[str | UnsetType | None, about("model of the processor", keep="cpu")] = UNSET
    cpus: Annotated[Count | UnsetType | None, about("processors")] = UNSET
    cpus_usable: Annotated[Count | UnsetType | None, about("those that naslab may use")] = UNSET
    cpu_quota_cores: Annotated[Number | UnsetType | None, about("what a control group leaves of them")] = UNSET
    cpu_limit_cores: Annotated[Number | UnsetType | None, about("processors that naslab may use, quotas included")] = (
        UNSET
    )
    memory_bytes: Annotated[Bytes | UnsetType | None, about("memory")] = UNSET
    memory_available_bytes: Annotated[Bytes | UnsetType | None, about("memory that was free or could be freed")] = UNSET
    load_1min: Annotated[Number | UnsetType | None, about("programs that ran or waited, mean of a minute")] = UNSET
    python: Annotated[Version | UnsetType | None, about("version of Python")] = UNSET
    interfaces: Annotated[list[EnvironmentInterface] | UnsetType | None, about("network interfaces that are up")] = (
        UNSET
    )


class EnvironmentSpace(OpenPart):
    """Environment: space."""

    free_bytes: Annotated[Bytes | UnsetType | None, about("free")] = UNSET
    total_bytes: Annotated[Bytes | UnsetType | None, about("in all")] = UNSET


class EnvironmentDuring(OpenPart):
    """Environment: meanwhile."""

    watched_ns: Annotated[Ns | UnsetType | None, about("how long it was watched")] = UNSET
    foreign_cpu_fraction: Annotated[
        Number | UnsetType | None, about("share of all processors that other programs used")
    ] = UNSET
    foreign_cpu_fraction_max: Annotated[Number | UnsetType | None, about("maximum within a second")] = UNSET
    stolen_cpu_fraction_max: Annotated[
        Number | UnsetType | None, about("maximum that a virtual machine's host took")
    ] = UNSET
    foreign_bytes_per_s_max: Annotated[BytesPerS | UnsetType | None, about("maximum that others sent and received")] = (
        UNSET
    )
    wall_clock_step_ns: Annotated[int | UnsetType | None, about("steps of the wall clock, added up", "ns")] = UNSET
    asleep_ns: Annotated[Ns | UnsetType | None, about("time the machine slept")] = UNSET
    clock_rate_off: Annotated[float | UnsetType | None, about("how far the clocks drift apart")] = UNSET


class EnvironmentRoute(OpenPart):
    """Environment: route."""

    interface: Annotated[InterfaceName | UnsetType | None, about("its name")] = UNSET
    interfaces: Annotated[
        list[InterfaceName] | UnsetType, about("of several addresses: all interfaces towards them")
    ] = UNSET
    speed_bits_per_s: Annotated[
        BitsPerS | UnsetType | None, about("its speed, of several their sum; null: not reported")
    ] = UNSET
    mtu_bytes: Annotated[Bytes | UnsetType | None, about("largest packet")] = UNSET


class EnvironmentOfClient(OpenPart):
    """Environment: one of many clients."""

    client: Annotated[Count, about("its number")]
    host: Annotated[HostName | UnsetType | None, about("its name")] = UNSET


class Environment(OpenPart):
    """Environment."""

    client: Annotated[EnvironmentClient | UnsetType | None, about("the machine that measured")] = UNSET
    target: Annotated[Facts | UnsetType | None, about("what the target reports about itself")] = UNSET
    space: Annotated[EnvironmentSpace | UnsetType | None, about("space on the target before the run")] = UNSET
    during: Annotated[EnvironmentDuring | UnsetType | None, about("what else this machine did during the run")] = UNSET
    load: Annotated[Facts | UnsetType | None, about("what the source reports about its load")] = UNSET
    route: Annotated[EnvironmentRoute | UnsetType | None, about("the network interface towards the server")] = UNSET
    clients: Annotated[list[EnvironmentOfClient] | UnsetType | None, about("each client of many")] = UNSET
