"""Findings as the API returns them: detector rows with texts, owners and costs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import SECOND_US, Window, parse_rfc3339, rfc3339
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.headline import headline
from gpuwatch.findings.naming import Names, names_of
from gpuwatch.findings.presets import preset_in, thresholds_in
from gpuwatch.findings.prices import Price, main_bucket, prices_of
from gpuwatch.findings.priority import HOUR_S, Facts, Lost, cost_a_day, lost_work, number
from gpuwatch.findings.record import FIELDS, Finding
from gpuwatch.findings.repository import Action
from gpuwatch.findings.selection import Filters, ranked
from gpuwatch.findings.so_far import lasted_a_day
from gpuwatch.findings.texts import remedy, rule_of, severity, summary
from gpuwatch.store.database import Store

__all__ = ["FIELDS", "Finding", "Page", "daily", "facts_of", "lost_of", "page", "read", "read_one"]


@dataclass(frozen=True)
class Page:
    """A page of findings and the cursor of the next one, None at the end."""

    items: list[Finding]
    next: str | None


def read(
    store: Store,
    *,
    open_only: bool = False,
    detectors: Sequence[str] = (),
    team: str | None = None,
    teams: Collection[str] | None = None,
    window: Window | None = None,
    actions: Mapping[str, Action] | None = None,
    **filters: Any,
) -> list[Finding]:
    """All findings that match, most expensive first: `page` without a limit. `team` is short for `teams=[team]`.

    `open_only` leaves the resolved ones out and keeps those that their owners acknowledged, snoozed or exempted.
    """
    if team is not None:
        teams = [team] if teams is None or team in teams else []
    wanted = {"detectors": detectors, "teams": teams, "window": window, "actions": actions, **filters}
    return page(store, open_only=open_only, **wanted).items


def read_one(
    store: Store,
    key: str,
    teams: Collection[str] | None = None,
    actions: Mapping[str, Action] | None = None,
) -> Finding | None:
    """The finding with this key; None if it does not exist or belongs to another team."""
    return next(iter(page(store, keys=[key], teams=teams, actions=actions).items), None)


def page(
    store: Store,
    *,
    sort: str = "cost",
    limit: int | None = None,
    cursor: str | None = None,
    now_us: int | None = None,
    **filters: Any,
) -> Page:
    """Findings in the order of `sort`, at most `limit`, starting after `cursor`. `filters` are those of selection.Filters.

    Prices and teams are those of the last pricing. Raises UsageError for an unknown name or a broken cursor.
    """
    rows, following = ranked(store, Filters(**filters), sort=sort, limit=limit, cursor=cursor, now_us=now_us)
    return Page(_with_texts(store, rows), following)


def facts_of(finding: Finding) -> Facts:
    """The facts of a finding as the API returns it."""
    hours = (number(finding.wasted_gpu_seconds) or Fraction(0)) / HOUR_S
    cost = number(finding.wasted_cost)
    times = parse_rfc3339(finding.started_at), parse_rfc3339(finding.last_seen_at)
    evidence = finding.evidence if finding.bucket is None else {}
    severity, confidence, devices = finding.severity, finding.confidence, len(finding.devices)
    return Facts(severity, confidence, finding.bucket, hours, cost, finding.currency, *times, devices, evidence)


def lost_of(finding: Finding) -> Lost | None:
    """The work that a finding reports as lost; None for other findings."""
    return lost_work(finding.bucket, finding.evidence)


def daily(finding: Finding, now_us: int) -> dict[str, Any]:
    """What a finding costs a day, in its own currency, and whether that is money that could be saved instead of waste."""
    found = facts_of(finding)
    currency = found.currency or found.evidence.get("currency")
    rate, saves = cost_a_day(found, now_us, currency)
    return {
        "cost_a_day": None if rate.cost is None else format_quantity(rate.cost, CENT_PLACES),
        "currency_a_day": None if rate.cost is None else currency,
        "gpu_hours_a_day": format_quantity(rate.hours, 1),
        "day_rate": saves or lasted_a_day(found, now_us),
        "saves": saves,
    }


def _with_texts(store: Store, rows: Sequence[dict[str, Any]]) -> list[Finding]:
    """The findings of ranked rows, in the same order, with texts and exact costs."""
    if not rows:
        return []
    by_key = {row["key"]: row for row in store.rows("findings/finding", keys=[row["key"] for row in rows])}
    prices = prices_of(store, by_key)
    names = names_of(store, list(by_key.values()))
    return [
        _finding(by_key[row["key"]] | {"state": row["state"]}, prices[row["key"]], names)
        for row in rows
        if row["key"] in by_key
    ]


def _finding(row: dict[str, Any], price: Price, names: Names) -> Finding:
    rule = rule_of(row["detector"])
    stored = json.loads(row["evidence"] or "{}")
    named = names.evidence(row, stored)
    words = row["evidence"] if named == stored else json.dumps(named)
    seconds = Fraction(int(row["wasted_units"]), row["wasted_den"] * SECOND_US)
    cost = price.cost
    elapsed_us = row["last_seen_us"] - row["started_us"]
    evidence = {
        **stored,
        "thresholds": thresholds_in(row["rule_version"]),
        "preset": preset_in(row["rule_version"]),
        "window": {"start": rfc3339(row["started_us"]), "end": rfc3339(row["last_seen_us"])},
    }
    if price.claimed:
        evidence["claimed_gpu_seconds"] = {bucket: format_quantity(s) for bucket, s in sorted(price.claimed.items())}
    if price.missing:
        evidence["price"] = price.missing
    return Finding(
        key=row["key"],
        detector=row["detector"],
        title=row["detector"] if rule is None else rule.title,
        severity=row["severity"] or severity(row["detector"], row["evidence"], elapsed_us, cost),
        state=row["state"],
        confidence=row["confidence"],
        cluster=row["cluster"],
        subject={"kind": row["subject_kind"], "id": row["subject_id"], "name": row["name"]},
        team=row["team"],
        user=row["user_name"],
        started_at=rfc3339(row["started_us"]),
        ended_at=None if row["ended_us"] is None else rfc3339(row["ended_us"]),
        last_seen_at=rfc3339(row["last_seen_us"]),
        wasted_gpu_seconds=format_quantity(seconds),
        wasted_cost=None if cost is None else format_quantity(cost, CENT_PLACES),
        currency=price.currency,
        bucket=main_bucket(row["bucket"], price.claimed),
        summary=summary(row["detector"], words, row["rule_version"]),
        remedy=remedy(rule, evidence | named | {"job_ended": row["job_ended"], "is_serving": row["is_serving"]}),
        evidence=evidence,
        devices=list(row["devices"] or []),
        nodes=list(row["nodes"] or []),
        suppressed_by=None,
        resolved_reason=row["resolved_reason"],
        inferred=row["inferred"],
        gpu_index=row["gpu_index"],
        headline=headline(rule, named, row, names.met(row)),
    )
