"""The engine, compiled from crates/py."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

_T = TypeVar("_T")

__version__: str

def run(spec_json: str, owner_mark: str, on_event: Callable[[str, str, list[bytes]], object]) -> str:
    """Carry out a run of one stage. Events and the returned JSON are described in docs/notes/0001-seams.md.

    Raises UsageError, TargetError, SpaceError before anything ran; what `on_event` or a signal handler
    raised, after the run was ended and cleaned up.
    """

def open_run(spec_json: str, owner_mark: str, depth: int) -> Run:
    """Begin a run of several stages, with up to `depth` operations in flight per worker; its own cells are ignored.

    Nothing is touched yet. Raises UsageError, TargetError.
    """

def cpu_quota_cores(root: str) -> float | None:
    """Processors that control groups allow this process, the least of its group's and all above it; None: no quota.

    root: `/`, or a tree with proc/self/cgroup, proc/self/mountinfo and the mounts they name.
    """

class Run:
    """A run under way: folder, connected target (a simulated server too) and known files live over its stages.

    Dropping it cleans up as `finish` does.
    """

    def stage(self, cells_json: str, on_event: Callable[[str, str, list[bytes]], object]) -> str:
        """Carry out cells; how that ended, as JSON. The first stage makes the folder.

        Raises as `run` does; the folder stays until `finish`.
        """
    def interrupt(self) -> None:
        """End the stage under way, from any thread, as Ctrl-C would; what is measured comes as a partial cell."""
    def finish(self) -> str:
        """Remove what the run made; what is left of it, and why, as JSON. Later calls have nothing to do.

        Raises what a signal handler raised meanwhile.
        """

class Session:
    """One session of a target, for checks and tests. Calls block; errors are TargetError with `kind` and `status`.

    A session that broke, or whose answer a signal kept from coming, is closed: later calls raise TargetError of kind
    `disconnected`.
    """

    def __new__(cls, target_json: str, depth: int = 1) -> Session:
        """Connects, with room for `depth` operations in flight."""
    def another(self) -> Session:
        """One more session of the same target, as another worker has."""
    def open(self, path: str, options_json: str) -> int:
        """Open a file; options: read, write, create (never, if_missing, new), truncate, direct, sync (none, data,
        all), delete_on_close. Returns the file's number."""
    def close(self, file: int) -> None:
        """Close a file."""
    def read(self, file: int, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
    def write(self, file: int, offset: int, data: bytes) -> int:
        """Write `data`; returns the bytes written."""
    def run_ops(
        self, file: int, ops: list[tuple[str, int, int | bytes]], depth: int
    ) -> list[tuple[int, bytes | None, str | None, int]]:
        """Many operations (read, write, flush; offset; length or data), up to `depth` in flight.

        Outcomes in the order of `ops`: bytes moved, data read, class of the error or None, raw status.
        """
    def explain(self, kind: str, status: int) -> str:
        """What class and raw status of a failed operation mean, in words."""
    def flush(self, file: int) -> None:
        """Make acknowledged writes durable."""
    def set_len(self, file: int, len_bytes: int) -> None:
        """Set the file's length."""
    def stat(self, path: str) -> tuple[int, bool]:
        """Length in bytes and whether it is a folder."""
    def modified_ns(self, path: str) -> int | None:
        """When the contents last changed, in nanoseconds since 1970 (UTC); None where the target does not say."""
    def set_times(self, path: str, accessed_ns: int, modified_ns: int) -> None:
        """Set the times of a file or folder, in nanoseconds since 1970; kept as exactly as the target can."""
    def mkdir(self, path: str) -> None:
        """Make a folder."""
    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
    def readdir(self, path: str) -> list[tuple[str, bool]]:
        """Names and whether they are folders."""
    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder."""
    def remove(self, path: str) -> None:
        """Remove a file."""
    def discard(self, path: str) -> None:
        """Remove a file of naslab's own: emptied first where the server may keep it in a recycle bin."""
    def readdir_within(self, path: str) -> list[tuple[str, bool]]:
        """As `readdir`, of a folder whose entries are to be removed: links to folders count as files."""
    def space(self) -> tuple[int, int]:
        """Free and total bytes."""
    def ping(self) -> None:
        """A null operation there and back."""
    def server_copy(self, old: str, new: str) -> int:
        """Copy within the target; returns the bytes copied."""
    def events(self) -> dict[str, int]:
        """Protocol events since the session began."""
    def facts(self) -> dict[str, str]:
        """What was negotiated."""
    def wire(self) -> tuple[int, int] | None:
        """Bytes sent and received, where they are counted."""
    def caps(self) -> str:
        """Abilities of the target, as JSON."""
    def end(self) -> None:
        """End the session."""

def watched(ask: Callable[[], object], work: Callable[[], _T]) -> _T:
    """Call `work`; what `ask` raises ends the waits of its calls on a target, and is raised by them.

    ask: called every few milliseconds while such a call lasts. For threads, which hear no signals.
    """

def net_measure(options_json: str, on_event: Callable[[str, str], None]) -> str:
    """Raw TCP to `naslab net --listen`: {host, port, connections, duration_ns, timeout_ns} in, the result as JSON.

    on_event("phase", name): upload, download, both, round_trip begins. Raises UsageError, TargetError, and what
    `on_event` or a signal handler raised.
    """

def net_listen(options_json: str, on_event: Callable[[str, str], None]) -> int:
    """Serve such measurements: {address or null, port, once, idle_ns or null} in, how many were served out.

    on_event(kind, address): `listening`, `begun`, `ended`. Raises as `net_measure` does.
    """

def list_exports(target_json: str) -> str:
    """Shares or exports of a server: JSON list of {name, kind, comment}. Raises TargetError, UsageError."""

def offers_tls(target_json: str) -> bool:
    """Whether an NFS server offers TLS (RFC 9289): one call that harms nothing. Raises TargetError, UsageError."""

def probe(target_json: str, depth: int) -> str:
    """Protocol, facts, abilities and space of a target, as JSON. Raises UsageError, TargetError."""

def find_folders(target_json: str) -> str:
    """Run folders left under the target's root: JSON list of {folder, owner, unread, unmarked}. Raises TargetError."""

def clean(target_json: str, folder: str) -> list[str]:
    """Remove a run folder; returns paths in it that naslab did not make (then the folder stays)."""

def stat(target_json: str, path: str) -> tuple[int, bool] | None:
    """Length in bytes and whether it is a folder; None if missing. Raises TargetError."""

def allocated(target_json: str, path: str) -> int | None:
    """What a file takes up on the target, in bytes; None where it is missing or the target does not say.

    Raises TargetError.
    """

def memory_rates(buf_bytes: int, threads: int, each_ns: int) -> str:
    """Bandwidth of `threads` side by side, each on buf_bytes of its own, as JSON.

    {"read_bytes_per_s", "write_bytes_per_s", "copy_bytes_per_s"} of all together, each measured for each_ns.
    """

def memory_latency_ns(buf_bytes: int, each_ns: int) -> float:
    """Nanoseconds of one load that depends on the one before, over buf_bytes in random order."""

def cipher_speed(cipher: str, message_bytes: int, each_ns: int) -> tuple[float, float] | None:
    """Bytes per second that one thread encrypts and decrypts with a cipher of SMB (`aes-128-gcm`, ...).

    None for a cipher that SMB does not have.
    """

def set_len(target_json: str, path: str, size_bytes: int, create: bool) -> None:
    """Set a file's length; `create` makes it first. Raises UsageError if it exists, SpaceError, TargetError."""

def serve_demo(folder: str, port: int, on_ready: Callable[[int], None]) -> None:
    """Serve a folder with NFS 3 on a loopback port (0: a free one) until the process ends.

    Calls `on_ready` with the port first. Raises UsageError when the folder or the port cannot be had.
    """

def infer_version() -> int:
    """Fingerprint of the source of the model's arithmetic and of its sampler."""

def segment_edges(values: bytes, shortest: int, penalty: float) -> list[int]:
    """Edges of the least-squares segmentation with a penalty for each change, exactly.

    values: bytes of float64. shortest: of a segment, at least 1. No edges where values are not finite or too few.
    """

class InferModel:
    """Rows of a ladder with the table of the model's parameters; arrays go in and come out as bytes of float64."""

    def __new__(
        cls,
        names: Sequence[str],
        low: list[float],
        high: list[float],
        switches: list[tuple[str, float]],
        columns: dict[str, bytes],
        conditions: tuple[float, float, float, list[bool]],
        client: list[tuple[float, float]],
        server: list[tuple[float, float]],
    ) -> InferModel:
        """columns: those of `Rows`, flags as 0 and 1, with `order`, `charge`, `scale` (sigma with the model's error).

        conditions: the interface's bytes a second (0: unknown), processors, the quota (0: none), whether client and
        server may share one machine, were seen to, with all that the server does counted, and nothing was varied.
        client: counted seconds of an operation of so many bytes: (bytes, seconds).
        Raises ValueError where names differ from the engine's, or a column is missing.
        """  # fmt: skip
    def predict(self, theta: bytes) -> bytearray:
        """Log operations per second by particle and row."""
    def log_likelihood(self, theta: bytes) -> bytearray:
        """By particle."""
    def limited_by(self, theta: bytes, forbidden: Forbidden) -> bytearray:
        """By particle: 1 where what is forbidden is what limits, or nearly so; 0 elsewhere."""
    def sample(self, runs: Sequence[_Run], forbidden: Forbidden | None = None) -> list[tuple[bytearray, float]]:
        """(particles, log evidence) of each run of the sampler; they are made side by side, the GIL released.

        Raises ValueError for a run without particles.
        """

class Forbidden:
    """That a kind of I/O of one busy connection is limited by one part of a server without a token bucket."""

    def __new__(
        cls,
        kind: str,
        close: float,
        nats: float,
        read: bool,
        large: bool,
        record: float,
        charge: float,
        reach: float,
        granted: float,
        busy: float,
    ) -> Forbidden:
        """kind: as in `verdict.ceilings`. close: so many times the lowest ceiling counts as it. nats: what that costs.

        record: bytes. charge: slots that one operation takes. reach: size of the set that is read. granted: slots that
        the server granted, 0 where it said nothing. busy: depth of a busy connection.
        Raises ValueError for another kind.
        """  # fmt: skip

class InferGuess:
    """Where parameters may lie by what was measured: the prior, and bumps."""

    def __new__(cls, model: InferModel, bumps: list[tuple[int, list[float]]], broad: float, near: float) -> InferGuess:
        """bumps: places by parameter. broad: the prior's share. near: width of a bump.

        Raises ValueError where a bump is beyond the ends of its parameter.
        """
    def draw(self, count: int, seed: int) -> bytearray:
        """So many particles."""
    def log_density(self, theta: bytes) -> bytearray:
        """Log density against the log-uniform prior's, by particle and parameter."""

_Run = tuple[InferGuess, list[tuple[int, float]], bytes, int, int, Literal["sample", "lead_on", "gather", "follow"]]
"""(guess, places of parameters that keep a value, particles to begin with, how many are wanted, seed, way)."""
