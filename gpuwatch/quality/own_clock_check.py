"""Doctor's check of the server's own clock, and of what a wrong one left in the store."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, ZONE_US_MAX, rfc3339
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality import clock_history
from gpuwatch.quality.check import FAIL, OK, WARN, Check, named
from gpuwatch.quality.own_clock import shift_text
from gpuwatch.settings import Settings
from gpuwatch.store.clock_damage import Damage, after, find
from gpuwatch.store.database import Store

ID = "server-clock"
SHOWN_US = 7 * DAY_US
"""How long a step is reported."""
READ_AGAIN = (
    "Read these files again in their own time zone: gpuwatch import ... --timezone Europe/Berlin, or timezone in bundle.toml; it replaces "
    "the first reading"
)
SET_CLOCK = "Let chrony or systemd-timesyncd set this machine's clock: chronyc tracking; timedatectl"


def server_clock(
    store: Store, settings: Settings, now_us: int, doubt: str | None = None, advice: Advice | None = None
) -> Check:
    """What a wrong clock left; else whether the clock is in doubt now, as a running service knows; else its latest steps."""
    damage = find(store, settings, after(now_us))
    left = _left(damage)
    if left:
        advice = advice or Advice()
        if zone := _local_zone(store, damage, now_us):
            what = f"{named(left, ', and ')}: times without an offset were read in the zone {zone}"
            return Check(
                ID, FAIL, what, f"{READ_AGAIN}\n{advice.command('imports')} lists them (docs/connect/history.md)"
            )
        fix = f"Set the clock, stop the server, make a backup, then: {advice.command('repair --dry-run')}\n(docs/operate/clocks.md)"
        return Check(ID, FAIL, f"a wrong clock left {named(left, ', and ')}", fix)
    if doubt is not None:
        return Check(ID, FAIL, doubt, SET_CLOCK)
    steps = [step for step in clock_history.steps(store) if step["at_us"] > now_us - SHOWN_US]
    if not steps:
        return Check(ID, OK, "the server's clock made no step in the last 7 days")
    shown = (
        f"{shift_text(step['shift_us'])} at {rfc3339(step['at_us'] // 1_000_000 * 1_000_000)} ({step['outcome']})"
        for step in steps
    )
    count = "a step" if len(steps) == 1 else f"{len(steps)} steps"
    return Check(ID, WARN, f"the server's clock made {count} in the last 7 days: {named(shown)}", SET_CLOCK)


def _local_zone(store: Store, damage: Damage, now_us: int) -> str | None:
    """The zone in which all records of the future were read, where they are local times that another zone would explain."""
    if damage.evident or not damage.future or {row["kind"] for row in damage.future} - {"claim", "pending"}:
        return None
    if max(row["last_us"] for row in damage.future) - now_us > ZONE_US_MAX:
        return None
    zones = store.sql(
        """select distinct naive_zone
        from (
            select naive_zone, greatest(start_us, end_us, evidence_us) as at_us from claim
            union all
            select naive_zone, greatest(submit_us, evidence_us) from pending
        )
        where at_us >= $from_us""",
        from_us=damage.span.from_us,
    )
    return zones[0][0] if len(zones) == 1 else None


def _left(damage: Damage) -> list[str]:
    """What a wrong clock certainly left."""
    found = []
    if damage.future:
        rows = sum(row["rows"] for row in damage.future)
        until_us = max(row["last_us"] for row in damage.future if row["last_us"] is not None)
        found.append(
            f"{rows} {'record' if rows == 1 else 'records'} of the future, up to {rfc3339(until_us // 1_000_000 * 1_000_000)}"
        )
    if damage.hours:
        found.append(f"{damage.gpu_hours:.1f} GPU-hours of capacity in the future")
    if damage.evident:
        days = len(damage.days)
        found.append(f"{'a recent day' if days == 1 else f'{days} recent days'} whose raw samples were deleted")
    return found
