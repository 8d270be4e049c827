"""Where to run a job: pools and clouds by topology, wait, price, and where the data is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.inputs import converted, money
from gpuwatch.advisor.place_question import Cloud, Question
from gpuwatch.advisor.place_score import EXPOSED, Candidate, Row, ranked
from gpuwatch.capacity.demand import CLUSTER, LEAF, NVLINK
from gpuwatch.capacity.free_state import Gpu, clusters, instants
from gpuwatch.capacity.slots import Free
from gpuwatch.capacity.waits import NOT_FOR_GPUS
from gpuwatch.capacity.workloads import workloads
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.core.words import duration, size
from gpuwatch.hardware.fgd import NODE, Level, Task
from gpuwatch.hardware.links import board, domain_gb_per_s, link_gb_per_s, network_gb_per_s
from gpuwatch.rates import in_force
from gpuwatch.rates.fx import Fx
from gpuwatch.rates.matching import resolve
from gpuwatch.rates.models import model_tokens
from gpuwatch.rules.rule import count
from gpuwatch.state import State
from gpuwatch.store.database import Store

RUNS_MIN = 3
"""Runs of about this size that must have waited in a pool before their mean counts."""
DEFAULT_CURRENCY = "USD"
GB = 10**9
WORDS: dict[Level, str] = {
    NVLINK: "in one NVLink domain",
    NODE: "on one node",
    LEAF: "below one leaf switch",
    CLUSTER: "across several switches",
}
NOTES = (
    "score = run time / time until done x least cost / cost: time and cost weigh the same",
    f"{EXPOSED:.0%} of a step is assumed to wait for communication on the best links",
    "the expected wait is the mean of the recorded waits of runs of half to twice this size",
    "a pool where the job fits now and nothing waits has no wait",
    "quotas, reservations, free CPU and memory are not considered",
)


def place(store: Store, state: State, now_us: int, window: Window, question: Question) -> Row:
    """The candidates, best first. `window` is the queue history; the fleet is as the ledger last knows it."""
    fx = Fx.read(state)
    currency = fx.currency or DEFAULT_CURRENCY
    found = _pools(store, state, now_us, window, question, fx, currency)
    found += [_cloud(state, cloud, question, fx, currency, now_us) for cloud in question.clouds]
    for one in found:
        _move(one, question)
    return {
        "items": ranked(found, question, currency),
        "currency": currency,
        "notes": list(NOTES),
        "window": {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)},
    }


# Pools -------------------------------------------------------------------------------------------------------------


def _pools(
    store: Store, state: State, now_us: int, window: Window, question: Question, fx: Fx, currency: str
) -> list[Candidate]:
    ends, _ = instants(store, now_us, question.cluster)
    words = model_tokens(question.model) if question.model else frozenset()
    waits = {
        (row["cluster"], row["pool"], row["gpu_model"]): row
        for row in store.rows(
            "advisor/place_wait",
            start_us=window.start_us,
            end_us=window.end_us,
            gpus=question.gpus,
            reasons=list(NOT_FOR_GPUS),
        )
    }
    found = []
    for cluster in clusters(store, ends):
        queued = _waiting(store, state, cluster.name, cluster.as_of_us)
        pools: dict[tuple[str | None, str | None], list[Gpu]] = defaultdict(list)
        for gpu in cluster.whole:
            if words <= model_tokens(gpu.model or ""):
                pools[gpu.pool, gpu.model].append(gpu)
        for (pool, model), gpus in pools.items():
            one = Candidate("pool", question.site_of(cluster.name, pool), cluster.name, pool, model, len(gpus))
            _fit(one, gpus, question.gpus)
            _wait(one, waits.get((cluster.name, pool, model)), queued, question.gpus)
            _price(one, gpus, fx, currency, cluster.as_of_us)
            found.append(one)
    return found


def _waiting(store: Store, state: State, cluster: str, at_us: int) -> int:
    """Requests that wait in a cluster."""
    waiting = workloads(store, state, at_us, None, cluster=cluster, states=("pending", "evicted"))
    return sum(1 for row in waiting if row["gpus"])


def _fit(one: Candidate, gpus: Sequence[Gpu], wanted: int) -> None:
    """The nearest level at which the job fits now; otherwise, the nearest at which the whole pool would hold it."""
    if len(gpus) < wanted:
        one.refused = f"has {len(gpus)} GPUs, {wanted} are needed"
    free = Free(gpus)
    one.free_gpus = sum(1 for gpu in gpus if gpu.free_milli == 1000)
    task = Task(1, wanted)
    level = _level(free, task)
    now = level is not None
    if level is None:
        empty = Free([_emptied(gpu) for gpu in gpus])
        level = _level(empty, task)
    if level is None or wanted == 1:
        one.fits = "now" if now else None
        return
    one.fits = f"{WORDS[level]}{' now' if now else ' when the pool is empty'}"
    one.gb_per_s = _bandwidth(one.gpu_model, level, free)
    what = f"{wanted} GPUs fit {one.fits}"
    if one.gb_per_s is None:
        one.unknown.append(f"{what}; the bandwidth of the links is unknown: import nvidia-smi topo -m of its nodes")
    else:
        one.reasons.append(f"{what}, at {one.gb_per_s:.0f} GB/s per GPU")


def _emptied(gpu: Gpu) -> Gpu:
    return Gpu(gpu.name, gpu.pool, gpu.model, gpu.node, None, None, gpu.leaf, gpu.nvlink, gpu.domain, free_milli=1000)


def _level(free: Free, task: Task) -> Level | None:
    for level in (NVLINK, NODE, LEAF, CLUSTER):
        if free.count(task, level):
            return level
    return None


def _bandwidth(model: str | None, level: Level, free: Free) -> float | None:
    """GB/s of the slowest pair at a level; None unknown."""
    known = board(model)
    if level == NVLINK:
        whole = None if known.links is None or known.nvlink_gb_per_s is None else known.links * known.nvlink_gb_per_s
        return domain_gb_per_s(model) or whole
    if level == NODE:
        # On one node but not in one NVLink island: over PCIe and between the sockets, if the links of the node are known.
        return link_gb_per_s(model, "SYS") if NVLINK in free.known else None
    return network_gb_per_s(model)


def _wait(one: Candidate, history: Mapping[str, Any] | None, queued: int, wanted: int) -> None:
    if (one.free_gpus or 0) >= wanted and not queued:
        one.wait_seconds = 0.0
        one.reasons.append(f"{_free(one)} and nothing waits in this cluster")
        return
    crowd = f"{_free(one)}, {count(queued, 'request')} {'waits' if queued == 1 else 'wait'} in this cluster"
    if history is None or history["runs"] < RUNS_MIN:
        runs = 0 if history is None else history["runs"]
        one.unknown.append(
            f"{crowd}; the wait is unknown: only {count(runs, 'run')} of about {count(wanted, 'GPU')} started here"
        )
        return
    one.wait_seconds = round(history["mean_seconds"], 1)
    one.reasons.append(
        f"{crowd}; {history['runs']} runs of about {count(wanted, 'GPU')} waited {duration(history['mean_seconds'])} on average,"
        f" {duration(history['p90_seconds'])} at the 90th percentile"
    )


def _free(one: Candidate) -> str:
    gpus = one.free_gpus or 0
    return f"{count(gpus, 'GPU')} {'is' if gpus == 1 else 'are'} free"


def _price(one: Candidate, gpus: Sequence[Gpu], fx: Fx, currency: str, at_us: int) -> None:
    total = Fraction(0)
    for gpu in gpus:
        price = None if gpu.price is None else converted(fx, gpu.price, gpu.currency or currency, currency, at_us)
        if price is None:
            one.unknown.append(f"no price in {currency} for some of its GPUs: gpuwatch doctor names the rates to add")
            return
        total += price
    one.price = total / len(gpus)
    one.reasons.append(f"{money(one.price, 4)} {currency} per GPU-hour")


# Clouds and data ---------------------------------------------------------------------------------------------------


def _cloud(state: State, cloud: Cloud, question: Question, fx: Fx, currency: str, at_us: int) -> Candidate:
    one = Candidate("cloud", cloud.name, None, None, question.model)
    _cloud_links(one, cloud, question)
    if cloud.wait_hours is None:
        one.unknown.append("the wait for cloud GPUs is unknown: wait_hours of --cloud")
    else:
        one.wait_seconds = float(cloud.wait_hours) * 3600
        one.reasons.append(f"{duration(one.wait_seconds)} until its GPUs are there (given)")
    one.price, source = cloud.price, "given"
    if one.price is None:
        listed = [rate for rate in in_force.in_force(state) if rate.pricing == "on_demand"]
        rate = resolve(listed, cloud.name, None, question.model or "", None, at_us) if question.model else None
        if rate is not None:
            one.price = converted(fx, Fraction(rate.usd_per_gpu_hour), rate.currency, currency, at_us)
            source = "on-demand rate of the card"
    if one.price is None:
        one.unknown.append("its price is unknown: price of --cloud")
    else:
        one.reasons.append(f"{money(one.price, 4)} {currency} per GPU-hour ({source})")
    return one


def _cloud_links(one: Candidate, cloud: Cloud, question: Question) -> None:
    wanted = question.gpus
    if wanted == 1:
        return
    if cloud.gpus_a_node is None or question.model is None:
        one.unknown.append("its links are unknown: gpus_a_node of --cloud, and --model")
        return
    level = NVLINK if wanted <= cloud.gpus_a_node else CLUSTER
    one.gb_per_s = _bandwidth(question.model, level, Free([]))
    nodes = -(-wanted // cloud.gpus_a_node)
    one.fits = "on one node" if level == NVLINK else f"on {nodes} nodes"
    if one.gb_per_s is None:
        one.unknown.append(f"the links of {question.model} are unknown")
    else:
        design = "the reference design of the model, a guess for this cloud"
        one.reasons.append(f"{wanted} GPUs fit {one.fits}, at {one.gb_per_s:.0f} GB/s per GPU ({design})")


def _move(one: Candidate, question: Question) -> None:
    """How long the data takes to its site, from all sites at once, and what that costs."""
    seconds, cost = 0.0, Fraction(0)
    slow, unpriced = [], []
    for site, amount in question.data.items():
        if site == one.site or not amount:
            one.reasons += [f"{size(float(amount) * GB)} of data is here"] if amount else []
            continue
        link = question.links.get((site, one.site))
        if link is None or link.gb_per_s is None:
            slow.append(site)
        else:
            took = float(amount / link.gb_per_s)
            seconds = max(seconds, took)
            one.reasons.append(
                f"{size(float(amount) * GB)} from {site} take {duration(took)} at {float(link.gb_per_s):g} GB/s"
            )
        if link is None or link.price_per_gb is None:
            unpriced.append(site)
        else:
            cost += amount * link.price_per_gb
    if slow:
        one.unknown.append(f"the bandwidth from {', '.join(slow)} is unknown: gb_per_s of --link")
    if unpriced:
        one.unknown.append(f"the egress price from {', '.join(unpriced)} is unknown: price_per_gb of --link")
    one.transfer_seconds = None if slow else seconds
    one.egress = None if unpriced else cost
