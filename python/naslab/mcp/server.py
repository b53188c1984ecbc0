"""The server itself: tools by the `mcp` package, over standard input and output."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from naslab import __version__
from naslab.errors import NaslabError
from naslab.mcp.measuring import Limits, Measuring
from naslab.mcp.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

ABOUT = (
    "naslab measures file servers (SMB, NFS, folders) and finds what limits them. Begin with list_runs, then "
    "explain_run. Rates are bytes per second; MB/s is 10^6. Tell the user a run's warnings beside its numbers."
)
READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
MEASURES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)


def server_of(reading: Reading, limits: Limits | None) -> MCPServer[Any]:
    """The server. limits: None where nothing may be measured: then no tool for that exists."""
    server: MCPServer[Any] = MCPServer("naslab", instructions=ABOUT, version=__version__, log_level="WARNING")
    for tool in reading.tools():
        server.add_tool(_failing_well(tool), description=inspect.getdoc(tool), annotations=READS)
    for tool in _measuring(Measuring(limits, reading)) if limits else ():
        server.add_tool(_failing_well(tool), description=inspect.getdoc(tool), annotations=MEASURES)
    return server


def _failing_well(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool; what naslab refuses is told in its own words."""

    @functools.wraps(tool)
    def plain(*args: Any, **named: Any) -> Any:
        try:
            return tool(*args, **named)
        except NaslabError as error:
            raise ToolError(str(error)) from None

    @functools.wraps(tool)
    async def waiting(*args: Any, **named: Any) -> Any:
        try:
            return await tool(*args, **named)
        except NaslabError as error:
            raise ToolError(str(error)) from None

    made: Any = waiting if inspect.iscoroutinefunction(tool) else plain
    # wraps() keeps annotations as texts, which are only understood where they were written.
    made.__signature__ = signature = inspect.signature(tool, eval_str=True)
    made.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    made.__annotations__["return"] = signature.return_annotation
    return cast("Callable[..., Any]", made)


def _measuring(measuring: Measuring) -> Sequence[Callable[..., Awaitable[dict[str, Any]]]]:
    """A tool for each measurement that may be asked for. The schema lists the targets."""

    async def measure_limits(
        context: Context[Any, Any], target: str, budget: str = "", max_bytes: str = "", note: str = ""
    ) -> dict[str, Any]:
        options = {"budget": budget, "max_bytes": max_bytes, "note": note}
        return await measuring.measure("run", target, options, _reporter(context))

    async def measure_sweep(
        context: Context[Any, Any], target: str, file_size: str = "1m,64m", record: str = "64k,1m",
        tests: str = "write,read", repeat: int = 1, budget: str = "", max_bytes: str = "", note: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        options = {"file_size": file_size, "record": record, "tests": tests, "repeat": repeat, "budget": budget,
                   "max_bytes": max_bytes, "note": note}  # fmt: skip
        return await measuring.measure("sweep", target, options, _reporter(context))

    async def measure_curve(
        context: Context[Any, Any], target: str, size: str = "1g", block: str = "4k", write_percent: float = 0.0,
        random: bool = True, budget: str = "", max_bytes: str = "", note: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        options = {"size": size, "block": block, "write": write_percent, "random": random, "budget": budget,
                   "max_bytes": max_bytes, "note": note}  # fmt: skip
        return await measuring.measure("curve", target, options, _reporter(context))

    limits = measuring.limits
    common = (
        f" It takes minutes, reads and writes files of its own on the target and removes them. budget: at most "
        f"{limits.budget}, e.g. 2m. max_bytes: to move, at most {limits.max_bytes}. note: stored with the run. Gives "
        "the verdict as explain_run does."
    )
    tools: dict[Callable[..., Awaitable[dict[str, Any]]], str] = {
        measure_limits: "Measure what limits a target, with loads chosen to separate the limits (`naslab run`).",
        measure_sweep: "Measure rates by file size and record size (`naslab sweep`): lists such as 1m,64m or 64k..64m; "
        "tests such as write,read,random_read,random_write.",
        measure_curve: "Measure latency against offered load: the knee and the capacity (`naslab curve`).",
    }
    for tool, about in tools.items():
        tool.__doc__ = about + common
        tool.__annotations__["target"] = Literal[limits.targets]
    return list(tools)


def _reporter(context: Context[Any, Any]) -> Callable[[float, str], Awaitable[None]]:
    async def report(cells: float, words: str) -> None:
        await context.report_progress(cells, None, words)

    return report
