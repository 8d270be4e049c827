"""Applies rates and ownership rules to a cluster: the prices of its devices and the teams of its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gpuwatch.core import sqlfile
from gpuwatch.core.model import hash64
from gpuwatch.policy.inferred import VERSION as TEAM_VERSION
from gpuwatch.policy.inferred import resolve_many
from gpuwatch.policy.repository import load_ownership, namespace_teams, ownership_default
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate, describe
from gpuwatch.rates.coverage import Cover, FleetGpu, committed, cover
from gpuwatch.rates.csv_table import plain
from gpuwatch.rates.fx import Fx, exchanged
from gpuwatch.rates.matching import price_spans
from gpuwatch.rates.repository import RATES, load_rates
from gpuwatch.rules.rule import rules
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.day_sums import roll, sum_moved_days

FAR_PAST_US, FAR_FUTURE_US = -(2**62), 2**62
"""Ends of a price without limits."""

TEXT, I64 = pa.string(), pa.int64()
CLASS_SCHEMA = pa.schema({"cluster": TEXT, "device_id": I64, "profile": TEXT, "class_id": I64})
PRICE_SCHEMA = pa.schema(
    {
        "cluster": TEXT, "class_id": I64, "pool": TEXT, "model": TEXT, "profile": TEXT, "reporting": pa.bool_(),
        "covered": TEXT, "start_us": I64, "end_us": I64, "usd_per_gpu_hour": TEXT, "currency": TEXT, "pricing": TEXT,
        "sku": TEXT, "list_price": TEXT, "contracted_price": TEXT, "commitment_id": TEXT, "rate": TEXT, "card": TEXT,
        "card_version": I64, "base_price": TEXT, "base_currency": TEXT, "fx_rate": TEXT, "fx_from_us": I64,
    }
)  # fmt: skip
_WORDS = ("pool", "model", "profile", "reporting")
TEAM_COLUMNS = ["cluster", "run_id", "team", "team_why", "inferred", "other_team"]
_AMOUNTS = ("list_price", "contracted_price")


@dataclass(frozen=True)
class Prices:
    """Everything that prices devices: rates with the list they come from, exchange rates, and commitment coverage."""

    rates: tuple[Rate, ...]
    cards: dict[int, tuple[str, int]]
    """By id() of a rate: its versioned list and version."""
    fx: Fx
    covers: dict[tuple[str, str], Cover]
    spot_nodes: SpotNodes

    def covered(self, cluster: str, gpu: str) -> Cover:
        """The commitments that cover a GPU."""
        return self.covers.get((cluster, gpu), {})

    def spans(
        self, cluster: str, pool: str | None, model: str, profile: str | None, covered: Cover, spot: bool
    ) -> Iterator[_Row]:
        """The prices of one class of devices over all time, in the reporting currency where that is set."""
        for start_us, end_us, rate in price_spans(self.rates, cluster, pool, model, profile, covered, spot=spot):
            if rate is None:
                yield _span(start_us, end_us)
                continue
            card, version = self.cards[id(rate)]
            words = {
                "pricing": rate.pricing,
                "sku": rate.sku,
                "commitment_id": rate.commitment,
                "rate": describe(rate),
                "card": card,
                "card_version": version,
                "base_price": plain(rate.usd_per_gpu_hour),
                "base_currency": rate.currency,
            }
            prices = {"usd_per_gpu_hour": rate.usd_per_gpu_hour} | {
                name: rate.usd_per_gpu_hour if (amount := getattr(rate, name)) is None else amount for name in _AMOUNTS
            }
            for from_us, until_us, by in self.fx.pieces(rate.currency, start_us, end_us):
                row = _span(from_us, until_us) | words
                if by is None:
                    row |= {name: plain(price) for name, price in prices.items()} | {"currency": rate.currency}
                else:
                    row |= {name: plain(exchanged(price, by)) for name, price in prices.items()}
                    row |= {"currency": by.quote, "fx_rate": plain(by.rate), "fx_from_us": by.valid_from_us}
                yield row


_Row = dict[str, Any]
SpotNodes = frozenset[tuple[str, str]]
"""(cluster, node)."""


def read_prices(
    store: Store, state: State, proposed: Mapping[str, tuple[Rate, ...]] | None = None, fx: Fx | None = None
) -> Prices:
    """The current prices, with the rates of `proposed` in place of those of the lists that it names, and with other exchange
    rates if `fx` is given.
    """
    kept, known = in_force.by_card(state), in_force.versions(state)
    kept |= proposed or {}
    rates = tuple(rate for of_card in kept.values() for rate in of_card)
    cards = {id(rate): (card, known[card]) for card, of_card in kept.items() for rate in of_card}
    spot_nodes = spot_nodes_of(store, rates)
    gpus = []
    for row in store.rows("billing/fleet_gpu") if committed(rates) else ():
        spot = (row["cluster"], row.pop("node")) in spot_nodes
        gpus.append(FleetGpu(**row | {"model": row["model"] or "", "spot": spot}))
    return Prices(rates, cards, Fx.read(state) if fx is None else fx, cover(rates, gpus), spot_nodes)


def spot_nodes_of(store: Store, rates: Sequence[Rate]) -> SpotNodes:
    """The nodes known to be spot capacity; none where no rate depends on that."""
    if all(rate.prices(spot=False) for rate in rates):
        return frozenset()
    return frozenset((row["cluster"], row["node"]) for row in store.rows("billing/spot_node"))


def price(store: Store, state: State, cluster: str, *, force: bool = False, settled: bool = False) -> None:
    """Computes the price of every device and the team of every run of a cluster if anything changed, and sums the
    days that are not summed yet. `settled`: devices and hours are unchanged, only rates and rules may have changed.
    """
    _price(store, state, [cluster], force, settled)


def price_all(store: Store, state: State) -> None:
    """Prices every cluster whose rate cards, exchange rates, commitments or ownership rules have changed."""
    _price(store, state, [cluster for (cluster,) in store.sql("select distinct cluster from device order by 1")])


def is_priced(store: Store, state: State) -> bool:
    """Whether every cluster has the prices of the newest cards, wherever they were made."""
    known, teams = in_force.versions(state), state.card_version("teams")
    found = store.sql("select d.cluster, p.rate_version, p.team_version, p.basis from (select distinct cluster from device) d"
                      " left join priced p on p.cluster = d.cluster")  # fmt: skip
    return all(
        (rates, owners) == (known[RATES], teams) and known.items() <= json.loads(basis).items()
        for _, rates, owners, basis in found
    )


def _price(store: Store, state: State, clusters: Sequence[str], force: bool = False, settled: bool = False) -> None:
    known, default = in_force.versions(state), ownership_default(state)
    named = namespace_teams(store)
    prices: Prices | None = None
    if clusters and committed(load_rates(state)):
        prices = read_prices(store, state)  # coverage also depends on the GPUs of other clusters
    spot_nodes = spot_nodes_of(store, in_force.in_force(state)) if clusters else frozenset()
    for cluster in clusters:
        on_spot = sorted(node for where, node in spot_nodes if where == cluster)
        more: dict[str, Any] = {"spot": hash64(*on_spot)} if on_spot else {}
        teams = sorted((namespace, team) for (where, namespace), team in named.items() if where == cluster)
        more["ownership"] = [default, hash64(*(word for pair in teams for word in pair))] if teams else default
        more["decided_by"] = TEAM_VERSION
        basis = json.dumps(known | {"cover": _digest(prices, cluster)} | more, sort_keys=True)
        wanted = (known[RATES], state.card_version("teams"), basis)
        found = store.sql("select rate_version, team_version, basis from priced where cluster = $c", c=cluster)
        current = bool(found) and tuple(found[0]) == wanted
        if current and settled:
            continue
        if (
            force
            or not current
            or not store.run("billing/classed", cluster=cluster)
            or store.run("billing/ownerless", cluster=cluster)
        ):
            prices = prices or read_prices(store, state)
            with store.workspace() as work:
                _reprice(work, state, cluster, prices, wanted, everyone=not current)
            if not (force and current):
                _reprice_findings(store, cluster)
            if found and found[0][2] != basis:
                priced = {name: rule.mode for name, rule in rules().items() if rule.priced}
                whole = [name for name, mode in priced.items() if mode == "all"]
                store.run("billing/judge_again", cluster=cluster, detectors=list(priced), whole=whole)
        roll(store, cluster)


def _reprice_findings(store: Store, cluster: str) -> None:
    with store.workspace() as work, work.transaction():
        if work.run("billing/every_finding", cluster=cluster):
            price_findings(work, cluster)


def price_findings(store: Store, cluster: str) -> None:
    """Recomputes what the wasted hours of findings cost: of the findings in the temporary table `regranted_finding`."""
    store.run("views/finding_claim")
    store.run("billing/finding_amounts", cluster=cluster)


def _digest(prices: Prices | None, cluster: str) -> int | None:
    """A hash of the commitment coverage in a cluster; None without commitments."""
    if prices is None:
        return None
    of_cluster = sorted(
        (gpu, _coverage_text(spans)) for (where, gpu), spans in prices.covers.items() if where == cluster
    )
    return hash64(*(part for pair in of_cluster for part in pair))


def priced_devices(store: Store, cluster: str, prices: Prices) -> tuple[list[_Row], list[_Row]]:
    """The devices of a cluster with their classes, and the prices of these classes: rows of CLASS_SCHEMA and PRICE_SCHEMA."""
    devices = store.rows("billing/class", cluster=cluster)
    covers: dict[int, Cover] = {}
    for device in devices:
        found = prices.covered(cluster, device["gpu"])
        device["covered"] = _coverage_text(found) if found else None
        device["spot"] = (cluster, device["node"]) in prices.spot_nodes
        words = [json.dumps(device[word]) for word in _WORDS] + ([device["covered"]] if found else [])
        words += ["spot"] if device["spot"] else []
        device["class_id"] = hash64(cluster, *words)
        covers[device["class_id"]] = found
    classes = {device["class_id"]: device for device in devices}
    rows = [
        {"cluster": cluster, "class_id": class_id} | {word: one[word] for word in (*_WORDS, "covered")} | span
        for class_id, one in classes.items()
        for span in prices.spans(
            cluster, one["pool"], one["model"] or "", one["profile"], covers[class_id], one["spot"]
        )
    ]
    members = [{"cluster": cluster} | {name: device[name] for name in CLASS_SCHEMA.names[1:]} for device in devices]
    return members, rows


def _reprice(
    store: Store, state: State, cluster: str, prices: Prices, wanted: tuple[int, int, str], *, everyone: bool
) -> None:
    """Classes of devices, their prices, and the teams of runs that have none (of `everyone`), all in one transaction."""
    members, rows = priced_devices(store, cluster, prices)
    owners = store.table("billing/owner", cluster=cluster, everyone=everyone)
    resolved = resolve_many(load_ownership(store, state), owners).select(TEAM_COLUMNS)
    with (
        store.view("class_rows", pa.Table.from_pylist(members, schema=CLASS_SCHEMA)),
        store.view("price_rows", pa.Table.from_pylist(rows, schema=PRICE_SCHEMA)),
        store.view("team_rows", resolved),
        store.transaction(),
    ):
        store.run(
            "billing/replace_prices", cluster=cluster, rate_version=wanted[0], team_version=wanted[1], basis=wanted[2]
        )
        store.insert_as("device_price", sqlfile.load("billing/new_price")[0].text)
        if store.sql("select 1 from moved_day limit 1"):
            sum_moved_days(store, cluster)


def _span(start_us: int, end_us: int | None) -> _Row:
    return {"start_us": max(start_us, FAR_PAST_US), "end_us": FAR_FUTURE_US if end_us is None else end_us}


def _coverage_text(covered: Cover) -> str:
    """The coverage of a GPU in a canonical form."""
    return json.dumps(sorted([describe_scope(rate), *span] for rate, spans in covered.items() for span in spans))


def describe_scope(rate: Rate) -> list[str]:
    """The values that identify a commitment."""
    return [rate.commitment or "", rate.gpu_model, rate.cluster or "", rate.pool or "", str(rate.valid_from_us)]
