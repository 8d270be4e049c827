"""Commands that answer from the books: findings, ledger, chargeback, doctor."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import empty_window, remote, unknown_names
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    WINDOW_HELP,
    ConfigOption,
    DataOption,
    FormatOption,
    WindowOption,
    in_folder,
    names,
    now_us,
    opened,
    program,
    show,
    window_of,
    write,
)
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.output.listing import FORMATS, Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window

CHARGE_FORMATS = (*FORMATS, "parquet", "xlsx", "focus")
BINARY_FORMATS = ("parquet", "xlsx")
OPEN_STATES = "open,acked,snoozed,exempt"
NO = 1
"""Exit code of an answer that is "no"."""
FINDING_SHOWN = ("severity", "state", "detector", "subject", "team", "started_at", "wasted_cost", "key", "summary")
NOT_CLAIMED = "-"
"""Of a finding such as blind-spot in a table: it says what is not known, not what is wasted."""


def findings(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    open_: Annotated[bool, typer.Option("--open", help="Without the resolved ones.")] = False,
    detector: Annotated[list[str] | None, typer.Option("--detector", metavar="ID", help="Only these rules.")] = None,
    team: Annotated[str | None, typer.Option("--team", metavar="T", help="Only this team's.")] = None,
    window: Annotated[str | None, typer.Option("--window", metavar="W", help=WINDOW_HELP)] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Findings, open and resolved, highest cost first. A table shows keys where there is room; --format json always has them."""
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.findings.read import FIELDS, read
    from gpuwatch.findings.repository import Actions
    from gpuwatch.policy.known_names import team_names

    choose(form, True)
    span = None if window is None else window_of(window, context)
    detectors = names(detector or ())
    if (note := lockfile.find(data)) is not None:
        asked = {"detector": detectors, "team": team, "window": None if span is None else _exact(span)}
        items = remote.every(note, "/api/v1/findings", {**asked, "state": OPEN_STATES if open_ else None})["items"]
        if team is not None and not items:
            unknown_names.doubt_teams([team], unknown_names.served_teams(note))
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            actions = Actions(state).current(now_us(context))
            found = read(store, open_only=open_, detectors=detectors, team=team, window=span, actions=actions)
            if team is not None and not found:
                unknown_names.doubt_teams([team], team_names(store, state))
        items = [f.as_dict() for f in found]
    if choose(form, sys.stdout.isatty()) == "table":
        items = [item | {"subject": item["subject"]["id"], "wasted_cost": _wasted(item)} for item in items]
    foot = [] if items else ["No findings."]
    show(Listing(FIELDS, items, shown=FINDING_SHOWN, foot=foot, spare=["key"]), form)


def _wasted(item: Mapping[str, Any]) -> str | None:
    """The money of a finding as a table shows it; NOT_CLAIMED where it claims no time and no money."""
    claimed = any(Decimal(item[name] or 0) for name in ("wasted_cost", "wasted_gpu_seconds"))
    return item["wasted_cost"] if claimed else NOT_CLAIMED


def ledger(
    context: typer.Context,
    window: WindowOption,
    data: DataOption = DEFAULT_DATA,
    by: Annotated[list[str] | None, typer.Option("--by", metavar="D,...", help="Dimensions; default: bucket.")] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """GPU-seconds by bucket, and by any chargeback dimension beside it."""
    from gpuwatch.billing.chargeback import ledger as books
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.billing.listings import ledger_answer, ledger_listing

    choose(form, True)
    span, dimensions = window_of(window, context), names(by or ["bucket"])
    if (note := lockfile.find(data)) is not None:
        asked = {"window": _exact(span), "by": dimensions}
        listing = ledger_answer(remote.every(note, "/api/v1/ledger", asked), dimensions)
        hint = empty_window.served(note, listing.extra["capacity_gpu_seconds"])
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            listing = ledger_listing(books(store, state, span, dimensions))
            hint = empty_window.stored(store, listing.extra["capacity_gpu_seconds"])
    show(listing, form)
    empty_window.tell(hint)


def chargeback(
    context: typer.Context,
    window: WindowOption,
    data: DataOption = DEFAULT_DATA,
    by: Annotated[list[str] | None, typer.Option("--by", metavar="D,...", help="Dimensions; default: team.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to a file.")] = None,
    config: ConfigOption = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="table|json|csv|parquet|xlsx|focus",
            help="Default: table on a terminal, json when piped. focus: FOCUS rows, see docs/charge-back/focus.md.",
        ),
    ] = None,
    focus_version: Annotated[
        str | None, typer.Option("--focus-version", metavar="1.2|1.4", help="With --format focus; default: 1.2.")
    ] = None,
    focus_format: Annotated[
        str | None,
        typer.Option("--focus-format", metavar="csv|parquet", help="With --format focus; default: as FILE ends, csv."),
    ] = None,
) -> None:
    """Who pays what."""
    from gpuwatch.billing.chargeback import chargeback as charge
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.billing.listings import chargeback_answer, chargeback_listing
    from gpuwatch.output.render import check_format

    if form is not None:
        check_format(form, CHARGE_FORMATS)
    if form in BINARY_FORMATS and out is None and sys.stdout.isatty():
        raise UsageError(f"--format {form}: bytes are not for a terminal; add --out FILE")
    if form == "focus":
        from gpuwatch.commands.focus import export

        if by:
            raise UsageError("--by: --format focus has rows of its own (a day, a device and a job); leave --by out")
        return export(window_of(window, context), data, config, out, focus_version, focus_format)
    if focus_version is not None or focus_format is not None:
        raise UsageError("--focus-version and --focus-format: only with --format focus")
    span, dimensions = window_of(window, context), names(by or ["team"])
    if "bucket" in dimensions:
        raise UsageError("--by bucket: charges have no bucket; gpuwatch ledger --by bucket lists GPU-seconds and cost")
    if (note := lockfile.find(data)) is not None:
        asked = {"window": _exact(span), "by": dimensions}
        listing = chargeback_answer(remote.every(note, "/api/v1/chargeback", asked), dimensions)
        hint = empty_window.served(note, listing.extra["total"]["gpu_seconds"])
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            listing = chargeback_listing(charge(store, state, span, dimensions))
            hint = empty_window.stored(store, listing.extra["total"]["gpu_seconds"])
    if form in (*BINARY_FORMATS, "csv"):
        _write_bytes(listing, form, out)
    else:
        show(listing, form, out)
    empty_window.tell(hint)


def _write_bytes(listing: Listing, form: str, out: Path | None) -> None:
    from gpuwatch.output.render import render

    content, _ = render(listing, form)
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        in_folder(out)
        out.write_bytes(content)
    except OSError as error:
        raise UnreadableInput(f"--out {out}: {error.strerror or error}") from error


def doctor(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """What is missing or wrong in the inputs, with the exact fix; exit code 1 when something is."""
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.output.fix_hints import Advice
    from gpuwatch.output.listing import visible
    from gpuwatch.quality.doctor import COLUMNS, FAIL, Check, examine, wrong

    chosen = choose(form, sys.stdout.isatty())
    if (note := lockfile.find(data)) is not None:
        told = json.loads(remote.get(note, "/api/v1/quality", {}))["checks"]
        checks = [Check(**check) for check in told]
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            checks = examine(store, advice=Advice(program(), str(data)), state=state)
    if chosen == "table":
        # Fixes are pasted as they stand: below the line, never folded into a cell.
        marks = {"ok": "ok  ", "warn": "WARN", FAIL: "FAIL"}
        lines = []
        for check in checks:
            lines.append(f"{marks[check.status]} {check.id}: {visible(check.what)}")
            lines += [f"       {visible(line)}" for line in check.fix.splitlines()]
        write("\n".join(lines) + "\n")
    else:
        show(Listing(COLUMNS, [check.as_dict() for check in checks]), chosen)
    if wrong(checks):
        raise typer.Exit(NO)


def _exact(span: Window) -> str:
    """The window as it is asked of a server, whose clock may differ."""
    from gpuwatch.core.clock import rfc3339

    return f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"


command("findings", findings, place=70)
command("chargeback", chargeback, place=80)
command("ledger", ledger, place=90)
command("doctor", doctor, place=120)
