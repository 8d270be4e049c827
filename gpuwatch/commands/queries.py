"""The query commands: findings, ledger, chargeback, doctor."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import hints, remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    in_folder,
    names,
    now_us,
    opened,
    program,
    show,
    write,
)
from gpuwatch.commands.windows import DEFAULT_WINDOW, WindowOption, window_at, window_in, window_of
from gpuwatch.core.clock import WINDOW_HELP
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.output.listing import FORMATS, Listing, choose
from gpuwatch.store import lockfile
from gpuwatch.store.private_files import users_umask

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window

CHARGE_FORMATS = (*FORMATS, "parquet", "xlsx", "focus")
BINARY_FORMATS = ("parquet", "xlsx")
OPEN_STATES = "open,acked,snoozed,exempt"
NO = 1
"""Exit code for a negative result."""
FINDING_SHOWN = ("severity", "state", "what", "team", "wasted_cost", "lost_work", "started_at", "detector", "key")
NOT_CLAIMED = "-"
"""Shown in a table for findings such as blind-spot, which report missing data rather than waste."""
ExactOption = Annotated[
    bool, typer.Option("--exact", help="Show exact GPU-seconds and costs in the table. JSON and CSV always have them.")
]


def findings(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    open_: Annotated[bool, typer.Option("--open", help="Only open findings.")] = False,
    detector: Annotated[list[str] | None, typer.Option("--detector", metavar="ID", help="Only these rules.")] = None,
    team: Annotated[str | None, typer.Option("--team", metavar="T", help="Only this team.")] = None,
    window: Annotated[str | None, typer.Option("--window", metavar="W", help=WINDOW_HELP)] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """List findings, most expensive first. JSON always includes the keys."""
    from gpuwatch.findings.record import FIELDS

    choose(form, True)
    span = None if window is None else window_of(window, context)
    detectors = names(detector or ())
    if (note := lockfile.find(data)) is not None:
        parameters = {"detector": detectors, "team": team, "window": None if span is None else _exact(span)}
        items = remote.every(note, "/api/v1/findings", {**parameters, "state": OPEN_STATES if open_ else None})["items"]
        if team is not None and not items:
            hints.doubt_teams([team], hints.served_teams(note))
    else:
        from gpuwatch.billing.prices import price_all
        from gpuwatch.findings.read import read
        from gpuwatch.findings.repository import Actions
        from gpuwatch.policy.known_names import team_names

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            actions = Actions(state).current(now_us(context))
            found = read(store, open_only=open_, detectors=detectors, team=team, window=span, actions=actions)
            if team is not None and not found:
                hints.doubt_teams([team], team_names(store, state))
        items = [f.as_dict() for f in found]
    foot = [] if items else ["No findings."]
    if choose(form, sys.stdout.isatty()) == "table":
        items = [_for_people(item) for item in items]
        if any(item["lost_work"] for item in items):
            foot.append("Lost work is not added to waste, which may have the same time.")
    left_out = {"state" if open_ else "", "" if any(item.get("lost_work") for item in items) else "lost_work"}
    shown = [name for name in FINDING_SHOWN if name not in left_out]
    show(Listing(FIELDS, items, shown=shown, foot=foot, spare=["key", "detector"], sentence="what"), form)


def _for_people(item: Mapping[str, Any]) -> dict[str, Any]:
    """A finding as the table has it."""
    from gpuwatch.billing.people_table import OWNERS

    what = item.get("headline") or f"{item['subject']['id']}: {item['summary']}"
    team = OWNERS.get(item["team"], item["team"]) + (" (inferred)" if item["inferred"] else "")
    return {**item, "what": what, "wasted_cost": _wasted(item), "lost_work": _lost(item), "team": team}


def _lost(item: Mapping[str, Any]) -> str:
    """What a finding's lost work cost, or its GPU-hours without a price; empty for others."""
    hours = item["evidence"].get("lost_gpu_hours") if item["bucket"] is None else None
    return "" if hours is None else item["evidence"].get("lost_cost") or f"{hours:g} GPU-h"


def _wasted(item: Mapping[str, Any]) -> str | None:
    """The cost of a finding in a table; NOT_CLAIMED if it has no wasted time and no cost."""
    claimed = any(Decimal(item[name] or 0) for name in ("wasted_cost", "wasted_gpu_seconds"))
    return item["wasted_cost"] if claimed else NOT_CLAIMED


def ledger(
    context: typer.Context,
    window: WindowOption = DEFAULT_WINDOW,
    data: DataOption = DEFAULT_DATA,
    by: Annotated[list[str] | None, typer.Option("--by", metavar="D,...", help="Dimensions; default: bucket.")] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
    exact: ExactOption = False,
) -> None:
    """Show GPU time by bucket and other dimensions."""
    from gpuwatch.billing.listings import ledger_answer, ledger_listing
    from gpuwatch.billing.people_table import for_people

    choose(form, True)
    dimensions = names(by or ["bucket"])
    doubts: list[str] = []
    if (note := lockfile.find(data)) is not None:
        span = window_at(window, context, note)
        parameters = {"window": _exact(span), "by": dimensions}
        listing = ledger_answer(remote.every(note, "/api/v1/ledger", parameters), dimensions)
        hint = hints.empty_served(note, listing.extra["capacity_gpu_seconds"])
    else:
        from gpuwatch.billing import chargeback as billing
        from gpuwatch.billing.prices import price_all

        with opened(data, config) as (store, state, _):
            span = window_in(window, context, store)
            price_all(store, state)
            listing = ledger_listing(billing.ledger(store, state, span, dimensions))
            listing = replace(listing, foot=[*hints.partial(store, span), *listing.foot])
            doubts = hints.absent_labels(store, dimensions, listing.items)
            hint = hints.empty_stored(store, listing.extra["capacity_gpu_seconds"])
    show(listing if exact else for_people(listing, dimensions), form)
    hints.print_hint(hint)
    for doubt in doubts:
        hints.print_hint(doubt)


def chargeback(
    context: typer.Context,
    window: WindowOption = DEFAULT_WINDOW,
    data: DataOption = DEFAULT_DATA,
    by: Annotated[list[str] | None, typer.Option("--by", metavar="D,...", help="Dimensions; default: team.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to this file instead of stdout.")
    ] = None,
    config: ConfigOption = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="table|json|csv|parquet|xlsx|focus",
            help="Default: table on a terminal, json when piped. focus: FOCUS export, see docs/charge-back/focus.md.",
        ),
    ] = None,
    focus_version: Annotated[
        str | None, typer.Option("--focus-version", metavar="1.2|1.4", help="With --format focus; default: 1.2.")
    ] = None,
    focus_format: Annotated[
        str | None,
        typer.Option(
            "--focus-format",
            metavar="csv|parquet",
            help="With --format focus; default: by the extension of FILE, or csv.",
        ),
    ] = None,
    exact: ExactOption = False,
) -> None:
    """Show charges by team or other dimensions."""
    from gpuwatch.billing.listings import chargeback_answer, chargeback_listing
    from gpuwatch.billing.people_table import for_people

    if form is not None:
        from gpuwatch.output.render import check_format

        check_format(form, CHARGE_FORMATS)
    if form in BINARY_FORMATS and out is None and sys.stdout.isatty():
        raise UsageError(f"--format {form}: cannot print a binary file to a terminal; add --out FILE")
    if form == "focus":
        from gpuwatch.commands.billing.focus import export

        if by:
            raise UsageError("--by: --format focus has fixed rows (per day, device and job); remove --by")
        return export(window_of(window, context), data, config, out, focus_version, focus_format)
    if focus_version is not None or focus_format is not None:
        raise UsageError("--focus-version and --focus-format: only with --format focus")
    dimensions = names(by or ["team"])
    doubts: list[str] = []
    if "bucket" in dimensions:
        raise UsageError("--by bucket: charges have no bucket; use gpuwatch ledger --by bucket")
    if (note := lockfile.find(data)) is not None:
        span = window_at(window, context, note)
        parameters = {"window": _exact(span), "by": dimensions}
        listing = chargeback_answer(remote.every(note, "/api/v1/chargeback", parameters), dimensions)
        hint = hints.empty_served(note, listing.extra["total"]["gpu_seconds"])
    else:
        from gpuwatch.billing.chargeback import chargeback as charge
        from gpuwatch.billing.prices import price_all

        with opened(data, config) as (store, state, _):
            span = window_in(window, context, store)
            price_all(store, state)
            listing = chargeback_listing(charge(store, state, span, dimensions))
            listing = replace(listing, foot=[*hints.partial(store, span), *listing.foot])
            doubts = hints.absent_labels(store, dimensions, listing.items)
            hint = hints.empty_stored(store, listing.extra["total"]["gpu_seconds"])
    if form in (*BINARY_FORMATS, "csv"):
        _write_bytes(listing, form, out)
    else:
        show(listing if exact else for_people(listing, dimensions), form, out)
    hints.print_hint(hint)
    for doubt in doubts:
        hints.print_hint(doubt)


def _write_bytes(listing: Listing, form: str, out: Path | None) -> None:
    from gpuwatch.output.render import render

    content, _ = render(listing, form)
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        in_folder(out)
        with users_umask():
            out.write_bytes(content)
    except OSError as error:
        raise UnreadableInput(f"--out {out}: {error.strerror or error}") from error


def doctor(
    context: typer.Context, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None
) -> None:
    """Check the input data and print fixes. Exits with 1 if a check found a problem or could not be made."""
    from gpuwatch.output.fix_hints import Advice
    from gpuwatch.output.listing import visible
    from gpuwatch.quality.check import COLUMNS, FAIL, NOT_JUDGED, Check, wrong

    chosen = choose(form, sys.stdout.isatty())
    if (note := lockfile.find(data)) is not None:
        given = [Check(**check) for check in json.loads(remote.get(note, "/api/v1/quality", {}))["checks"]]
        checks = [replace(check, fix=Advice(program(), str(data)).as_commands(check.fix)) for check in given]
    else:
        from gpuwatch.billing.prices import price_all
        from gpuwatch.quality.doctor import examine
        from gpuwatch.quality.own_clock_check import server_clock

        with opened(data, config) as (store, state, settings):
            price_all(store, state)
            advice = Advice(program(), str(data))
            checks = examine(store, advice=advice, state=state)
            checks.append(server_clock(store, settings, now_us(context), advice=advice))
    if chosen == "table":
        # Fixes are for pasting, so they are printed below the line, never wrapped in a table cell.
        marks = {"ok": "ok  ", "warn": "WARN", FAIL: "FAIL", NOT_JUDGED: "?   "}
        lines, first = [], dict[str, str]()
        for check in checks:
            lines.append(f"{marks[check.status]} {check.id}: {visible(check.what)}")
            again = check.fix in first and not check.fix.endswith("above.")
            fix = f"The same fix as {first[check.fix]}, above." if check.fix and again else check.fix
            first.setdefault(check.fix, check.id)
            lines += [f"       {visible(line)}" for line in fix.splitlines()]
        write("\n".join(lines) + "\n")
    else:
        show(Listing(COLUMNS, [check.as_dict() for check in checks]), chosen)
    if wrong(checks):
        raise typer.Exit(NO)


def _exact(span: Window) -> str:
    """The window as exact times for a server, whose clock may differ."""
    from gpuwatch.core.clock import rfc3339

    return f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}{f'@{span.zone}' if span.zone else ''}"


command("findings", findings, place=70)
command("chargeback", chargeback, place=80)
command("ledger", ledger, place=90)
command("doctor", doctor, place=120)
