"""GPUs that have a fault, or had one in the last days: a free one of these is no good place for a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.shell.query import Query, finding_link

RULES = ("degraded-gpu", "memory-leak", "straggler")
LEAK = "memory-leak"
"""A fault of the GPU only while nobody has freed the memory."""
WINDOW = "7d"
MAX_FINDINGS = 500
MAX_LINES = 8
WORDS = {
    "degraded-gpu": ("reports faults", "reported faults"),
    LEAK: ("has leaked memory", "had leaked memory"),
    "straggler": ("is slower than the others of its job", "was slower than the others of its job"),
}
"""What a rule found: now, and in the past."""

Faults = Mapping[tuple[str, str], Row]
"""The finding of each GPU, by cluster and GPU: an open one, else the latest."""


async def load(api: Api, cluster: str) -> Faults:
    """The findings about GPUs of the last seven days; none if they cannot be read."""
    words = {"detector": ",".join(RULES), "window": WINDOW, "sort": "started", "cluster": cluster}
    return by_gpu(((await ledger_math.optional(api.findings(MAX_FINDINGS, **words))) or {}).get("items") or [])


def by_gpu(findings: Iterable[Row]) -> Faults:
    """One finding for each GPU."""
    found: dict[tuple[str, str], Row] = {}
    for one in sorted(findings, key=lambda one: (is_open(one), str(one.get("started_at")))):
        if one.get("detector") == LEAK and not is_open(one):
            continue
        for device in one.get("devices") or []:
            found[str(one.get("cluster")), str(device).partition("/")[0]] = one
    return found


def is_open(finding: Row) -> bool:
    """Whether the fault is there now, whatever somebody did with the finding."""
    return not finding.get("ended_at")


def of(faults: Faults, cluster: object, gpus: Iterable[object]) -> list[Row]:
    """The findings of some GPUs, each once, open ones first."""
    found = {str(one["key"]): one for gpu in gpus if (one := faults.get((str(cluster), str(gpu)))) is not None}
    return sorted(found.values(), key=lambda one: (not is_open(one), str(one["key"])))


def line(finding: Row, query: Query) -> Component:
    """`GPU 5 on gpu-node-0104 was slower than the others of its job until 27 Nov 07:25`, linked to the finding."""
    now, before = WORDS.get(str(finding.get("detector")), ("has a fault", "had a fault"))
    index, nodes = finding.get("gpu_index"), finding.get("nodes") or []
    gpu = f"GPU {index}" if index is not None else formats.device(str((finding.get("devices") or ["a GPU"])[0]))
    where = f" on {formats.clip(nodes[0], 40)}" if nodes else ""
    words = now if is_open(finding) else f"{before} until {formats.when(finding.get('ended_at'))}"
    return html.Div(
        [parts.severity(finding.get("severity")), f" {gpu}{where} {words}: ", parts.link("finding", finding_link(query, str(finding["key"])), "title")],
        className="small",
    )  # fmt: skip


def warning(findings: list[Row], query: Query) -> Component | None:
    """The faults of GPUs that a request would get."""
    if not findings:
        return None
    lines = [line(one, query) for one in findings[:MAX_LINES]]
    more = len(findings) - MAX_LINES
    if more > 0:
        lines.append(html.Div(f"and {more} more", className="soft small"))
    return html.Div([html.P(html.B("Check the node before you use it")), *lines], role="note")


def free_with_fault(fleet: Row | None, item: Row, faults: Faults) -> int:
    """How many free GPUs of a pool have a fault now."""
    same = ("cluster", "pool", "gpu_model")
    return sum(
        state in ("free", "stranded") and (one := faults.get((node["cluster"], gpu))) is not None and is_open(one)
        for node in (fleet or {}).get("nodes") or []
        if all(node.get(name) == item.get(name) for name in same)
        for gpu, state in zip(node["gpus"], node["state"], strict=True)
    )
