"""Small parts of the run document that are objects of fixed fields: target, facts about the client, proofs, shares of
time."""

from __future__ import annotations

from naslab.results.fields import field as _f

ADDRESS_USES = ("multichannel", "session_trunking", "shared_client", "separate_sessions", "separate_mounts")
"""How connections to several addresses of a server belong together."""
TARGET = (
    _f("url", "string", "the target without secrets"),
    _f("protocol", "string", "smb, nfs, local, sim or null"),
    _f("dialect", "string?", "protocol version, e.g. 3.1.1 or 4.1"),
    _f("signing", "string?", "signing algorithm in use, e.g. aes-gmac; null: unsigned"),
    _f("encryption", "string?", "cipher in use; null: not encrypted"),
    _f("sec", "string?", "of NFS: krb5, krb5i (signed) or krb5p (encrypted); null: sys", required=False),
    _f(
        "auth",
        "string",
        "the kind of login: ntlmv2, kerberos, guest or anonymous; of NFS with sec=sys the numbers of user and group",
        required=False,
    ),
    _f("addresses", "string[]", "addresses of the server that were used together (--address)", required=False),
    _f(
        "address_use",
        "string",
        "how: multichannel: one SMB session over all; session_trunking: one NFS session; "
        "shared_client: one NFS 4.0 client; separate_sessions; separate_mounts",
        enum=ADDRESS_USES,
        required=False,
    ),
    _f("planted", "planted[]", "of a system of the lab: its limits", required=False),
    _f("calibrated_at", "string?", "when they were measured; null: never on a system of these parts", required=False),
)

ENVIRONMENT = (
    _f("client", "environment_client?", "the machine that measured", required=False),
    _f("target", "object?", "what the target reports about itself", required=False),
    _f("space", "environment_space?", "space on the target before the run", required=False),
    _f("during", "environment_during?", "what else this machine did during the run", required=False),
    _f("load", "object?", "what the source reports about its load", required=False),
    _f("route", "environment_route?", "the network interface towards the server", required=False),
    _f("clients", "environment_of_client[]?", "each client of many", required=False),
)

ENVIRONMENT_CLIENT = (
    _f("host", "string?", "its name", required=False),
    _f("system", "string?", "kernel and its release", required=False),
    _f("machine", "string?", "architecture", required=False),
    _f("cpu", "string?", "model of the processor", required=False),
    _f("cpus", "integer?", "processors", required=False),
    _f("cpus_usable", "integer?", "those that naslab may use", required=False),
    _f("cpu_quota_cores", "number?", "what a control group leaves of them", required=False),
    _f("cpu_limit_cores", "number?", "processors that naslab may use, quotas included", required=False),
    _f("memory_bytes", "integer?", "memory", "bytes", required=False),
    _f("memory_available_bytes", "integer?", "memory that was free or could be freed", "bytes", required=False),
    _f("load_1min", "number?", "programs that ran or waited, mean of a minute", required=False),
    _f("python", "string?", "version of Python", required=False),
    _f("interfaces", "environment_interface[]?", "network interfaces that are up", required=False),
)

ENVIRONMENT_INTERFACE = (
    _f("name", "string?", "its name", required=False),
    _f("mtu_bytes", "integer?", "largest packet", "bytes", required=False),
    _f("speed_bits_per_s", "integer?", "its speed; null: not reported", "bit/s", required=False),
)

ENVIRONMENT_SPACE = (
    _f("free_bytes", "integer?", "free", "bytes", required=False),
    _f("total_bytes", "integer?", "in all", "bytes", required=False),
)

ENVIRONMENT_DURING = (
    _f("watched_ns", "integer?", "how long it was watched", "ns", required=False),
    _f("foreign_cpu_fraction", "number?", "share of all processors that other programs used", required=False),
    _f("foreign_cpu_fraction_max", "number?", "maximum within a second", required=False),
    _f("stolen_cpu_fraction_max", "number?", "maximum that a virtual machine's host took", required=False),
    _f("foreign_bytes_per_s_max", "number?", "maximum that others sent and received", "bytes/s", required=False),
    _f("wall_clock_step_ns", "integer?", "steps of the wall clock, added up", "ns", required=False, least=None),
    _f("asleep_ns", "integer?", "time the machine slept", "ns", required=False),
    _f("clock_rate_off", "number?", "how far the clocks drift apart", required=False, least=None),
)

ENVIRONMENT_ROUTE = (
    _f("interface", "string?", "its name", required=False),
    _f("interfaces", "string[]", "of several addresses: all interfaces towards them", required=False),
    _f("speed_bits_per_s", "integer?", "its speed, of several their sum; null: not reported", "bit/s", required=False),
    _f("mtu_bytes", "integer?", "largest packet", "bytes", required=False),
)

ENVIRONMENT_OF_CLIENT = (
    _f("client", "integer", "its number"),
    _f("host", "string?", "its name", required=False),
)

ADDRESS_BYTES = (
    _f("address", "string", "address of the server"),
    _f("sent_bytes", "integer", "bytes sent to it on the wire", "bytes"),
    _f("received_bytes", "integer", "bytes received from it on the wire", "bytes"),
)

VERIFIED = (
    _f("blocks", "integer", "blocks checked"),
    _f("bad", "integer", "those with different contents"),
    _f("first_bad", "string?", "the first of them", required=False),
)

DIRECT_PROOF = (
    _f("o_direct", "boolean?", "whether files were opened with it", required=False),
    _f("cached_fraction", "number?", "share of the file in the client's memory afterwards", required=False),
    _f("proven", "boolean?", "whether the client's cache cannot have answered", required=False),
)

INTERLEAVED = (
    _f("id", "string", "shared by the runs that were measured alternately"),
    _f("position", "integer", "this run's place in a round, from 0"),
    _f("level", "number", "significance level of each look"),
    _f("ended", "string?", "why the rounds ended", required=False),
)

WORKER_KIND = (
    _f("ops", "integer", "operations"),
    _f("bytes", "integer", "bytes moved", "bytes"),
    _f("latency_mean_ns", "number?", "mean latency", "ns", required=False),
    _f("latency_stddev_ns", "number?", "its standard deviation", "ns", required=False),
    _f("iops_stddev", "number?", "standard deviation of the rate by second", "1/s", required=False),
)

JOB_SHARES = (
    _f("source", "number", "reading the source"),
    _f("target", "number", "at the target"),
    _f("local", "number", "at local files"),
    _f("cpu", "number", "the rest: computing"),
)

JOB_STREAM = (
    _f("files", "integer", "files it worked on"),
    _f("busy_ns", "integer", "from its first request to its last", "ns"),
    _f("cpu_ns", "integer", "processor time", "ns"),
    _f("source_bytes", "integer", "bytes read from the source", "bytes"),
    _f("source_ns", "integer", "time at the source", "ns"),
    _f("target_ns", "integer", "time at the target", "ns"),
    _f("local_ns", "integer", "time at local files", "ns"),
)

DISK_RATES = (
    _f("read_bytes_per_s", "number", "read", "bytes/s"),
    _f("write_bytes_per_s", "number", "written", "bytes/s"),
    _f("busy_fraction", "number", "share of the time in which it had something to do"),
)

NET_RATES = (
    _f("received_bytes_per_s", "number", "received", "bytes/s"),
    _f("sent_bytes_per_s", "number", "sent", "bytes/s"),
)

TABLES = {
    "environment": ("Environment", ENVIRONMENT),
    "environment_client": ("Environment: client", ENVIRONMENT_CLIENT),
    "environment_interface": ("Environment: interface", ENVIRONMENT_INTERFACE),
    "environment_space": ("Environment: space", ENVIRONMENT_SPACE),
    "environment_during": ("Environment: meanwhile", ENVIRONMENT_DURING),
    "environment_route": ("Environment: route", ENVIRONMENT_ROUTE),
    "environment_of_client": ("Environment: one of many clients", ENVIRONMENT_OF_CLIENT),
    "address_bytes": ("Bytes by address", ADDRESS_BYTES),
    "verified": ("Checked data", VERIFIED),
    "direct_proof": ("Proof of direct access", DIRECT_PROOF),
    "interleaved": ("Measured alternately", INTERLEAVED),
    "worker_kind": ("Operations of a worker", WORKER_KIND),
    "job_shares": ("Shares of a step's time", JOB_SHARES),
    "job_stream": ("Stream of a job", JOB_STREAM),
    "disk_rates": ("Rates of a disk", DISK_RATES),
    "net_rates": ("Rates of an interface", NET_RATES),
}
OPEN = tuple(name for name in TABLES if name.startswith("environment"))
"""Systems have facts that nobody described."""
