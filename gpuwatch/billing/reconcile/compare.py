"""Compares cloud bills with the ledger day by day, and explains the differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.billing.reconcile.differences import PLACES, Parts, Side, compare, only
from gpuwatch.billing.reconcile.names import Node, Units
from gpuwatch.billing.reconcile.pairs import Pairs
from gpuwatch.billing.reconcile.records import GROUPS, Prices, Reconciliation, Row, Suggestion, Unit
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, day_floor, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.ledger.totals import Scale, scale_of
from gpuwatch.rates.fx import Fx, exchanged
from gpuwatch.state import State
from gpuwatch.store.database import Store

COSTS = ("effective", "billed")
"""The cost of the bill that is compared: effective spreads purchases over what they cover, billed is the invoice."""
PROVIDERS = ("aws", "azure", "gcp", "oci")
"""Providers with a bill importer; FOCUS files may name others."""
FINAL_AFTER_US = 36 * HOUR_US
"""Clouds change the bill of a day for about this long after its end."""
NAMED_MAX = 5
"""Nodes that a note names."""
PRICE_APART = Fraction(1, 200)
"""A rate this close to the billed price counts as right."""
UNIT_PRICE_PLACES = 6
PRICINGS = {"Standard": "on_demand", "Committed": "reserved", "Dynamic": "spot"}
REASONS = {"tax": "taxes", "discount": "discounts", "commitment": "commitments", "not_gpu": "not_gpu"}
_BILL_UNITS = 10**PLACES


def reconcile(
    store: Store,
    state: State,
    window: Window,
    *,
    now_us: int,
    by: str = "day",
    provider: str | None = None,
    cost: str = "effective",
) -> Reconciliation:
    """Bills and ledger of the whole UTC days that the window touches; the parts of a difference add up to it exactly.

    The ledger side is rates x capacity at the prices of the last pricing (price_all), without policies. `provider` filters
    rows. With a reporting currency, bills are converted at the rate of each day; amounts without a rate keep their currency.
    Raises UsageError for an unknown `by`, `cost` or `provider`.
    """
    if by not in GROUPS:
        raise UsageError(f"--by {by}: use {', '.join(GROUPS)}")
    if cost not in COSTS:
        raise UsageError(f"--cost {cost}: use {', '.join(COSTS)}")
    if provider is not None:
        provider = _known(store, provider)
    days = Window(day_floor(window.start_us), -day_floor(-window.end_us))
    scale = scale_of(store, days)
    span = {"start_us": days.start_us, "end_us": days.end_us}
    billed = store.rows("billing/reconcile/bill", effective=cost == "effective", **span)
    owned = store.rows("billing/reconcile/owned", scale=scale.shares, places=scale.places, **span)
    units = Units(store.rows("billing/reconcile/name"))
    fx = Fx.read(state)
    work = _Work(units, fx, scale, by, days, now_us)
    if owned and not work.join(billed):
        work.pairs = Pairs(billed, owned, store.rows("billing/reconcile/region"))
    work.bills(billed)
    work.ledger(owned)
    work.compare()
    rows = [row for row in work.compared_rows() if provider is None or work.providers[id(row)] == provider]
    totals: dict[str, Parts] = {}
    for row in rows:
        totals.setdefault(row.group["currency"] or "", Parts()).add(row.sums)
    return Reconciliation(
        tuple(rows),
        dict(sorted(totals.items())),
        tuple(s for s in work.suggestions() if provider in (None, s.provider)),
        tuple(work.notes(provider)),
        days,
        by,
        cost,
        fraction_to_decimal(work.unpriced, UNIT_PRICE_PLACES),
    )


class _Work:
    """A comparison in progress: sums by unit and day of both sides."""

    def __init__(self, units: Units, fx: Fx, scale: Scale, by: str, days: Window, now_us: int) -> None:
        self._units, self._fx, self._scale, self._by, self._days, self._now_us = units, fx, scale, by, days, now_us
        self._bill: dict[tuple[int, str], dict[str, Side]] = {}
        self._ledger: dict[tuple[int, str], dict[str | None, Side]] = {}
        self._sorts: dict[tuple[int, str], set[tuple[str, str]]] = {}
        self._models: dict[tuple[int, str], set[str]] = {}
        self._known: dict[str, Unit] = {}
        self._groups: dict[tuple[str | None, ...], tuple[Parts, str | None, int]] = {}
        self._prices: dict[tuple[str, str, str, str], Prices] = {}
        self._matched = self._gpu_lines = 0
        self._unconverted: set[str] = set()
        self.unpriced = Fraction(0)
        self.pairs: Pairs | None = None
        """Set where no line of the bill names a node: both sides are compared by model, region and day."""
        self.providers: dict[int, str | None] = {}

    def join(self, rows: Iterable[Mapping[str, Any]]) -> bool:
        """Joins the GPU lines of the bill with nodes by name; whether any of them names a node, or there are none."""
        for row in rows:
            if row["class"] == "gpu":
                self._gpu_lines += 1
                self._matched += self._units.join(row)
        return bool(self._matched or not self._gpu_lines)

    def bills(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Adds the bill: GPU lines by unit, other lines directly to their reason."""
        for row, money, currency in [(row, *self._converted(row)) for row in rows]:
            account = (row["provider"], row["account"], row["sub_account"])
            if row["class"] != "gpu":
                sums = only(REASONS[row["class"]], bill=money)
                self._add(row["day_us"], None, None, account, None, currency, sums)
                continue
            name = self._units.of_resource(row) if self.pairs is None else self.pairs.of_line(row)
            unit = self._known.setdefault(name, Unit())
            unit.accounts.add(account)
            unit.resources.setdefault((row["provider"], None), set()).add(row["resource"] or row["resource_name"] or "")
            key = row["day_us"], name
            side = self._bill.setdefault(key, {}).setdefault(currency, Side())
            side.money += money
            side.hours = None if side.hours is None or not row["timed"] else side.hours + _units(row["gpu_hours"])
            if row["gpu_hours"] not in (None, "0"):
                self._sorts.setdefault(key, set()).add((row["provider"], row["pricing"] or "Standard"))

    def ledger(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Adds the ledger by unit."""
        for row in rows:
            node = row["cluster"], row["node"] or ""
            name = self._units.of_node(node) if self.pairs is None else self.pairs.of_ledger(row)
            self._known.setdefault(name, Unit()).nodes.add(node)
            key = row["day_us"], name
            hours = Fraction(int(row["units"]), self._scale.shares * HOUR_US)
            lacks = row["amount"] is None
            side = self._ledger.setdefault(key, {}).setdefault(None if lacks else row["currency"], Side())
            side.hours = (side.hours or Fraction(0)) + hours
            self._models.setdefault(key, set()).add(row["model"] or "")
            if lacks:
                self.unpriced += hours
            else:
                side.money += Fraction(int(row["amount"]), self._scale.hour)

    def compare(self) -> None:
        """Compares both sides of each unit and day."""
        for key in sorted(self._bill.keys() | self._ledger.keys()):
            day_us, name = key
            unit, bill, ledger = self._known[name], self._bill.get(key, {}), self._ledger.get(key, {})
            account = min(unit.accounts, key=str) if unit.accounts else (None, None, None)
            node = min(unit.nodes) if unit.nodes else None
            for currency, sums in compare(bill, ledger).items():
                self._add(day_us, node, unit, account, self._resource(unit), currency, sums)
            self._compare_prices(key, bill, ledger)

    def _compare_prices(self, key: tuple[int, str], bill: dict[str, Side], ledger: dict[str | None, Side]) -> None:
        """Adds up unit prices where a unit has one model, one pricing and one currency on the bill."""
        models, sorts = self._models.get(key, set()), self._sorts.get(key, set())
        if len(models) != 1 or len(sorts) != 1 or len(bill) != 1:
            return
        ((currency, side),), ((provider, pricing),) = bill.items(), sorts
        if not side.hours:
            return
        own = ledger.get(currency)
        found = self._prices.setdefault((min(models), PRICINGS.get(pricing, "on_demand"), provider, currency), Prices())
        found.billed += side.money
        found.billed_hours += side.hours
        if own is not None and own.hours:
            found.ledger += own.money
            found.ledger_hours += own.hours

    def compared_rows(self) -> list[Row]:
        """The groups in order."""
        rows = []
        for words, (sums, provider, until_us) in sorted(self._groups.items(), key=lambda item: _order(item[0])):
            row = Row(dict(zip(GROUPS[self._by], words, strict=True)), sums, until_us <= self._now_us - FINAL_AFTER_US)
            self.providers[id(row)] = provider
            rows.append(row)
        return rows

    def suggestions(self) -> list[Suggestion]:
        """Prices of the bill that differ from the rate card."""
        found = []
        for (model, pricing, provider, currency), sums in sorted(self._prices.items()):
            billed = sums.billed / sums.billed_hours
            card = sums.ledger / sums.ledger_hours if sums.ledger_hours else None
            if billed <= 0 or (card is not None and abs(billed - card) <= PRICE_APART * billed):
                continue
            price = fraction_to_decimal(billed, UNIT_PRICE_PLACES)
            found.append(
                Suggestion(
                    model,
                    pricing,
                    provider,
                    fraction_to_decimal(sums.billed_hours, UNIT_PRICE_PLACES),
                    price,
                    None if card is None else fraction_to_decimal(card, UNIT_PRICE_PLACES),
                    currency,
                    f"{model},{pricing},{price:f},{rfc3339(self._days.start_us)},,{currency}",
                )
            )
        return found

    def notes(self, provider: str | None) -> list[str]:
        """Notes on the limits of the numbers."""
        notes = []
        if not self._groups:
            notes.append("neither a bill nor a priced GPU in this window; import one: gpuwatch import bill-focus FILE")
        if self._days.end_us > self._now_us - FINAL_AFTER_US:
            notes.append("days of the last 36 hours are not final: clouds still change them")
        if self._gpu_lines and not self._matched and self._ledger:
            by = "model, region and day" if self.pairs is not None and self.pairs.by_region else "model and day"
            notes.append(
                f"no node is on the bill under its name, so bill and ledger were paired by {by}: label nodes with gpuwatch.io/instance-id, or tag instances with "
                "gpuwatch.io/node"
            )
        if self._units.ambiguous:
            alike = sorted(self._units.ambiguous)
            more = f" and {len(alike) - NAMED_MAX} more" if len(alike) > NAMED_MAX else ""
            notes.append(
                f"nodes of several clusters have one name ({', '.join(alike[:NAMED_MAX])}{more}) and are compared together: "
                "label them with gpuwatch.io/instance-id"
            )
        if self._unconverted:
            listed = ", ".join(sorted(self._unconverted))
            notes.append(f"no exchange rate for {listed}: these bills stay in their currency")
        if self.unpriced:
            notes.append("some GPUs have no rate; gpuwatch doctor names the lines to add")
        if provider is not None and any(p is None for _, p, _ in self._groups.values()):
            notes.append("nodes that are on no bill belong to no provider and are left out")
        return notes

    def _converted(self, row: Mapping[str, Any]) -> tuple[Fraction, str]:
        """Money of a bill row in the reporting currency, or as it is."""
        money, currency = _units(row["cost"]), row["currency"]
        found = self._fx.convert(Decimal(0), currency, row["day_us"])
        if found is None:
            self._unconverted.add(currency)
            return money, currency
        if found.by is None:
            return money, currency
        return Fraction(exchanged(fraction_to_decimal(money, PLACES), found.by)), found.currency

    def _resource(self, unit: Unit) -> str | None:
        names = sorted(name for found in unit.resources.values() for name in found if name)
        return None if not names else names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"

    def _add(
        self,
        day_us: int,
        node: Node | None,
        unit: Unit | None,
        account: tuple[str | None, str | None, str | None],
        resource: str | None,
        currency: str,
        sums: Parts,
    ) -> None:
        more = len(unit.nodes) - 1 if unit is not None else 0
        words: dict[str, str | None] = {
            "day": rfc3339(day_us)[:10],
            "provider": account[0],
            "account": account[1],
            "sub_account": account[2],
            "cluster": None if node is None else node[0],
            "node": None if node is None else f"{node[1]} and {more} more" if more > 0 else node[1],
            "resource": resource,
            "currency": currency,
        }
        key = tuple(words[name] for name in GROUPS[self._by])
        known, _, until_us = self._groups.setdefault(key, (Parts(), account[0], 0))
        known.add(sums)
        self._groups[key] = known, account[0], max(until_us, day_us + DAY_US)


def _known(store: Store, provider: str) -> str:
    """The provider in lower case. Raises UsageError for one without bills."""
    billed = {name for (name,) in store.sql("select distinct provider from bill where provider is not null")}
    if provider.lower() not in billed.union(PROVIDERS):
        bills = f"bills are of {', '.join(sorted(billed)[:NAMED_MAX])}" if billed else "no bill was imported"
        raise UsageError(f"--provider {provider}: unknown; known: {', '.join(PROVIDERS)}; {bills}")
    return provider.lower()


def _units(text: str | None) -> Fraction:
    return Fraction(int(text or 0), _BILL_UNITS)


def _order(words: tuple[str | None, ...]) -> tuple[tuple[bool, str], ...]:
    return tuple((word is None, word or "") for word in words)
