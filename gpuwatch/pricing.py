"""Prices of devices and teams of runs: what the rate card and the ownership rules say of a cluster's books."""

from __future__ import annotations

import json

import pyarrow as pa

from gpuwatch.model import hash64
from gpuwatch.rates import price_spans
from gpuwatch.rollup import roll
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import resolve_many

FAR_PAST_US, FAR_FUTURE_US = -(2**62), 2**62
"""Ends of a price that holds for ever."""

_CLASS = pa.schema(
    [("cluster", pa.string()), ("device_id", pa.int64()), ("profile", pa.string()), ("class_id", pa.int64())]
)
_PRICE = pa.schema(
    [
        ("cluster", pa.string()),
        ("class_id", pa.int64()),
        ("pool", pa.string()),
        ("model", pa.string()),
        ("profile", pa.string()),
        ("reporting", pa.bool_()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("usd_per_gpu_hour", pa.string()),
        ("currency", pa.string()),
        ("pricing", pa.string()),
    ]
)


def price(store: Store, state: State, cluster: str, *, force: bool = False) -> None:
    """Computes the prices of every device and the team of every run of a cluster, when anything changed; rolls the days
    that are not rolled.
    """
    versions = (state.card_version("rates"), state.card_version("teams"))
    known = store.sql("select rate_version, team_version from priced where cluster = $c", c=cluster)
    if force or not known or tuple(known[0]) != versions or not store.run("cost/classed", cluster=cluster):
        _reprice(store, state, cluster, versions)
    roll(store, cluster)


def _reprice(store: Store, state: State, cluster: str, versions: tuple[int, int]) -> None:
    """Classes of devices, their prices, and the teams of runs, all in one transaction."""
    rates, rules = state.rates(), state.team_rules()
    words = ("pool", "model", "profile", "reporting")
    devices = store.rows("cost/class", cluster=cluster)
    for device in devices:
        device["class_id"] = hash64(cluster, *(json.dumps(device[word]) for word in words))
    classes = {device["class_id"]: device for device in devices}
    rows: list[dict[str, object]] = []
    for class_id, one in classes.items():
        rows += [
            {
                "cluster": cluster,
                "class_id": class_id,
                **{word: one[word] for word in words},
                "start_us": max(start_us, FAR_PAST_US),
                "end_us": FAR_FUTURE_US if end_us is None else end_us,
                "usd_per_gpu_hour": None if rate is None else f"{rate.usd_per_gpu_hour:f}",
                "currency": None if rate is None else rate.currency,
                "pricing": None if rate is None else rate.pricing,
            }
            for start_us, end_us, rate in price_spans(rates, cluster, one["pool"], one["model"] or "", one["profile"])
        ]
    owners = store.table("cost/owner", cluster=cluster)
    resolved = resolve_many(rules, owners).select(["cluster", "run_id", "team", "team_why"])
    members = [{"cluster": cluster} | {name: device[name] for name in _CLASS.names[1:]} for device in devices]
    with (
        store.view("class_rows", pa.Table.from_pylist(members, schema=_CLASS)),
        store.view("price_rows", pa.Table.from_pylist(rows, schema=_PRICE)),
        store.view("team_rows", resolved),
        store.transaction(),
    ):
        store.run("cost/replace_prices", cluster=cluster, rate_version=versions[0], team_version=versions[1])


def price_all(store: Store, state: State) -> None:
    """Prices every cluster whose rate card or ownership rules have changed."""
    for (cluster,) in store.sql("select distinct cluster from device order by 1"):
        price(store, state, cluster)
