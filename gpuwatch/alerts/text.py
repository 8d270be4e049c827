"""Texts that all channels share: money a day, owner, time span, evidence, links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote, urlencode

from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, from_us, parse_rfc3339
from gpuwatch.core.words import first_and_more
from gpuwatch.ledger.month import MONTH_FROM_US

MAX_EVIDENCE = 6
"""Evidence items in a message; the link shows all."""
MAX_NODES = 3
BUDGET = "budget:"
"""Prefix of the keys of budget alerts, which are not findings."""
RECLAIM = "reclaim-"
"""Prefix of the keys of reclaim alerts; the key of the finding and a time follow."""

NO_COST = "no cost claimed"
"""For findings such as blind-spot, about unknown use rather than waste."""
NOT_A_DAY = "less than a day so far"
"""The cost a day of what has not lasted long enough to say."""

ENDED = "condition ended"
"""The usual reason, which says no more than `Resolved`."""
_NOT_SHOWN = {"thresholds", "window", "price", "tier", "shape", "preset", "currency"}
_OWNERS = {"__unallocated__": "no team assigned", "__platform__": "platform", "__shared__": "shared", "*": "the fleet"}
_KINDS = {"gpu": "GPU", "slice": "MIG slice"}
"""Display names of subject kinds that differ from the kind."""
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}

Json = Mapping[str, Any]


def finding_url(base_url: str | None, key: str) -> str | None:
    """The page of a finding, or of the budget that an alert is about; None where the service has no public address."""
    if not base_url:
        return None
    if key.startswith(RECLAIM):
        key = key.removeprefix(RECLAIM).rpartition("-")[0]
    page = "budgets" if key.startswith(BUDGET) else f"findings/{quote(key, safe='')}"
    return f"{base_url.rstrip('/')}/ui/{page}"


def action_url(base_url: str | None, key: str, action: str) -> str | None:
    """The page of a finding, ready for an owner's `action` (ack, snooze). Following the link changes nothing: the page
    asks first. None where there is no such page.
    """
    page = None if key.startswith(BUDGET) else finding_url(base_url, key)
    return f"{page}?{urlencode({'action': action})}" if page else None


def what(event: str, finding: Json, previous_severity: str | None, earlier: Sequence[str]) -> str:
    """`High`, `Worsened to critical (was high)`, `Resolved`."""
    severity = str(finding.get("severity"))
    if event == "resolved":
        return "Opened and resolved" if "opened" in earlier else "Resolved"
    if event == "opened":
        return severity.capitalize()
    return f"Worsened to {severity}" + (f" (was {previous_severity})" if previous_severity else "")


def findings_url(base_url: str | None, detector: str | None = None) -> str | None:
    """The page of all findings, or of one detector's."""
    query = f"?{urlencode({'detector': detector}, errors='replace')}" if detector else ""
    return f"{base_url.rstrip('/')}/ui/findings{query}" if base_url else None


def report_url(base_url: str | None, week: str, team: str | None, form: str) -> str | None:
    """The address of a weekly report; None where the service has no public address."""
    if not base_url:
        return None
    query = {"week": week, **({} if team is None else {"team": team}), "format": form}
    return f"{base_url.rstrip('/')}/api/v1/reports/weekly?{urlencode(query)}"


def cost_a_day(finding: Json) -> Decimal | None:
    """Money a day while it lasted, over at least a day as in the inbox; None where there is no price or no time."""
    cost, lasted_us = _decimal(finding.get("wasted_cost")), _lasted_us(finding)
    return None if cost is None or lasted_us is None else cost * DAY_US / max(lasted_us, DAY_US)


def _lasted_us(finding: Json) -> int | None:
    started_us, seen_us = _us(finding.get("started_at")), _us(finding.get("last_seen_at"))
    return None if started_us is None or seen_us is None else seen_us - started_us


def claims_waste(finding: Json) -> bool:
    """Whether a finding is about wasted money. A budget alert is not: its summary has the amount spent."""
    return not str(finding.get("key")).startswith(BUDGET)


def reason(finding: Json) -> str | None:
    """Why the finding was resolved, in words; None where its condition just ended."""
    resolved = finding.get("resolved_reason")
    return str(resolved).replace("_", " ") if resolved and resolved != ENDED else None


def money(amount: Decimal | None, currency: object) -> str:
    """`$4,310`, `$12.40`, `CHF 7.00`; `cost unknown` for none. Cents where they matter."""
    if amount is None:
        return "cost unknown"
    sign = _SIGNS.get(str(currency), f"{currency} " if currency else "")
    return f"{sign}{amount:,.0f}" if abs(amount) >= 100 else f"{sign}{amount:,.2f}"


def a_day(finding: Json) -> str:
    """`$412/day`, `cost unknown`, NO_COST, or NOT_A_DAY."""
    amount = cost_a_day(finding)
    if amount == 0:
        return NO_COST
    if amount is not None and (_lasted_us(finding) or 0) < MONTH_FROM_US:
        return NOT_A_DAY
    return money(amount, finding.get("currency")) + ("/day" if amount is not None else "")


def amount(finding: Json) -> str:
    """What an open finding costs a day, as a_day() has it, or `$17.20 so far` of one that has not lasted a day."""
    daily = a_day(finding)
    if daily != NOT_A_DAY:
        return daily
    return f"{money(_decimal(finding.get('wasted_cost')), finding.get('currency'))} so far"


def cost_so_far(finding: Json) -> str:
    """`$1,234 (310.5 GPU-h)`, or NO_COST."""
    seconds = _decimal(finding.get("wasted_gpu_seconds"))
    if not seconds and cost_a_day(finding) == 0:
        return NO_COST
    hours = "" if seconds is None else f" ({seconds / 3600:,.1f} GPU-h)"
    return money(_decimal(finding.get("wasted_cost")), finding.get("currency")) + hours


def owner(finding: Json) -> str:
    """`team red, alice`."""
    team = str(finding.get("team") or "__unallocated__")
    user = finding.get("user")
    return f"team {team}" * (team not in _OWNERS) + _OWNERS.get(team, "") + (f", {user}" if user else "")


def subject(finding: Json) -> str:
    """`job 4711 (train-llm)`, `GPU 7`, `node n1`, `pool a100`; never a UUID: `where` has the node of a GPU."""
    about = finding.get("subject")
    if not isinstance(about, Mapping):
        return "unknown subject"
    name, identity = about.get("name"), str(about.get("id"))
    kind = str(about.get("kind"))
    if kind in _KINDS:
        index = finding.get("gpu_index")
        return f"GPU {index}" if kind == "gpu" and isinstance(index, int) else _KINDS[kind]
    if kind == "team" and identity in _OWNERS:
        return _OWNERS[identity]
    repeated = not name or identity == name or identity.endswith(f"/{name}")
    return f"{kind} {identity}" + ("" if repeated else f" ({name})")


def short(finding: Json) -> str:
    """`lattice-qcd`, `GPU 7 on n1`, `pool a100`: the subject's name in a list."""
    about = finding.get("subject")
    if isinstance(about, Mapping) and about.get("kind") == "job":
        return str(about.get("name") or about.get("id"))
    return " ".join(part for part in (subject(finding), where(finding)) if part)


def where(finding: Json) -> str:
    """`on gpu-node-0042`, `on n1 and 3 more nodes`; empty for a node or a pool, which is a place itself."""
    nodes = [str(node) for node in finding.get("nodes") or []]
    about = finding.get("subject")
    kind = about.get("kind") if isinstance(about, Mapping) else None
    if not nodes or kind not in ("job", *_KINDS):
        return ""
    return f"on {first_and_more(nodes, 'node')}"


def signs(finding: Json) -> str:
    """`(XID 79 (fallen off the bus))`: how a broken GPU shows; empty for other findings."""
    items = finding.get("evidence")
    found = items.get("signs") if isinstance(items, Mapping) else None
    return f"({found})" if isinstance(found, str) and found else ""


def common(finding: Json, by: Sequence[str]) -> list[str]:
    """What the findings of one message have in common (channel.GROUPS), in words."""
    whole = ("user" in by and owner(finding)) or ("team" in by and owner({"team": finding.get("team")}))
    parts = [
        finding.get("title") if "rule" in by else None,
        whole,
        finding.get("severity") if "severity" in by else None,
    ]
    return [str(part) for part in parts if part]


def since(finding: Json) -> str:
    """`2026-11-20 06:10 UTC, 26.0 h`, with the end if there is one."""
    started_us, ended_us, seen_us = (_us(finding.get(n)) for n in ("started_at", "ended_at", "last_seen_at"))
    if started_us is None:
        return "unknown"
    until_us = ended_us or seen_us or started_us
    end = f" to {_minute(ended_us)}" if ended_us else ""
    return f"{_minute(started_us)}{end} UTC, {_span(until_us - started_us)}"


def place(finding: Json) -> str:
    """`cluster c1, nodes n1, n2 and 3 more`."""
    nodes = [str(node) for node in finding.get("nodes") or []]
    more = f" and {len(nodes) - MAX_NODES} more" if len(nodes) > MAX_NODES else ""
    where = f", node{'s' * (len(nodes) > 1)} {', '.join(nodes[:MAX_NODES])}{more}" if nodes else ""
    return f"cluster {finding.get('cluster')}{where}"


def evidence(finding: Json) -> list[str]:
    """`idle devices 3`, `sm active 17 %`: the first plain numbers and words of the evidence."""
    items = finding.get("evidence")
    plain = [
        _shown(str(name), value)
        for name, value in (items.items() if isinstance(items, Mapping) else ())
        if name not in _NOT_SHOWN and isinstance(value, bool | int | float | str) and value != ""
    ]
    return plain[:MAX_EVIDENCE]


def _shown(name: str, value: bool | float | str) -> str:
    words = name.replace("_", " ")
    if name.endswith("_ratio") and isinstance(value, int | float):
        return f"{words.removesuffix(' ratio')} {value:.0%}".replace("%", " %")
    return f"{words} {_value(value)}"


def _value(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _decimal(value: object) -> Decimal | None:
    try:
        amount = None if value is None else Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount is None or amount.is_finite() else None


def _us(value: object) -> int | None:
    try:
        return None if value is None else parse_rfc3339(str(value))
    except ValueError:
        return None


def _minute(us: int) -> str:
    return from_us(us).strftime("%Y-%m-%d %H:%M")


def _span(us: int) -> str:
    minutes = us // (60 * SECOND_US)
    if us < HOUR_US:
        return f"{minutes} min"
    return f"{us / HOUR_US:.1f} h" if us < 2 * DAY_US else f"{us / DAY_US:.1f} days"
