"""Commands that answer from the books: findings, ledger, chargeback, doctor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    WINDOW_HELP,
    ConfigOption,
    DataOption,
    FormatOption,
    WindowOption,
    names,
    opened,
    show,
    window_of,
    write,
)
from gpuwatch.errors import UnreadableInput, UsageError
from gpuwatch.output import FORMATS, Listing, choose

if TYPE_CHECKING:
    from gpuwatch.clock import Window
    from gpuwatch.cost import Chargeback, Ledger

CHARGE_FORMATS = (*FORMATS, "parquet")
LATER_FORMATS = ("xlsx", "focus")
NO = 1
"""Exit code of an answer that is "no"."""
FINDING_SHOWN = ("severity", "state", "detector", "subject", "team", "started_at", "wasted_cost", "summary")


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
    """Findings, open and resolved, the dearest first."""
    from gpuwatch.cost import price_all
    from gpuwatch.findings import FIELDS, read

    choose(form, True)
    span = None if window is None else window_of(window, context)
    with opened(data, config) as (store, state, _):
        price_all(store, state)
        found = read(store, open_only=open_, detectors=names(detector or ()), team=team, window=span)
    items = [f.as_dict() for f in found]
    if choose(form, sys.stdout.isatty()) == "table":
        items = [item | {"subject": item["subject"]["id"]} for item in items]
    foot = [] if items else ["No findings."]
    show(Listing(FIELDS, items, shown=FINDING_SHOWN, foot=foot), form)


def ledger(
    context: typer.Context,
    window: WindowOption,
    data: DataOption = DEFAULT_DATA,
    by: Annotated[list[str] | None, typer.Option("--by", metavar="D,...", help="Dimensions; default: bucket.")] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """GPU-seconds by bucket, and by any chargeback dimension beside it."""
    from gpuwatch.cost import ledger as books

    choose(form, True)
    span, dimensions = window_of(window, context), names(by or ["bucket"])
    with opened(data, config) as (store, state, _):
        answer = books(store, state, span, dimensions)
    show(ledger_listing(answer, [name for name in dimensions if name != "bucket"]), form)


def ledger_listing(answer: Ledger, dimensions: list[str]) -> Listing:
    """The `ledger` answer of contract.md section 2."""
    items = [{**row.group, "bucket": row.bucket, "gpu_seconds": f"{row.gpu_seconds:f}"} for row in answer.items]
    capacity = f"{answer.capacity_gpu_seconds:f}"
    return Listing(
        [*dimensions, "bucket", "gpu_seconds"],
        items,
        {"capacity_gpu_seconds": capacity, "window": _window(answer.window)},
        foot=[f"Capacity: {capacity} GPU-seconds", _window_line(answer.window)],
    )


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
            "--format", metavar="table|json|csv|parquet", help="Default: table on a terminal, json when piped."
        ),
    ] = None,
) -> None:
    """Who pays what."""
    from gpuwatch.cost import chargeback as charge

    if form in LATER_FORMATS:
        raise UsageError(f"--format {form}: not in this version; use {', '.join(CHARGE_FORMATS)}")
    choose(form, True, CHARGE_FORMATS)
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise UsageError("--format parquet: bytes are not for a terminal; add --out FILE")
    span, dimensions = window_of(window, context), names(by or ["team"])
    if "bucket" in dimensions:
        raise UsageError("--by bucket: money has no bucket; gpuwatch ledger --by bucket lists GPU-seconds")
    with opened(data, config) as (store, state, _):
        answer = charge(store, state, span, dimensions)
    listing = chargeback_listing(answer, dimensions)
    if form == "parquet":
        _parquet(listing, out)
    else:
        show(listing, form, out)


def chargeback_listing(answer: Chargeback, dimensions: list[str]) -> Listing:
    """The `chargeback` answer of contract.md section 2."""
    items: list[dict[str, Any]] = []
    for charge in answer.items:
        item: dict[str, Any] = {
            **charge.group,
            "gpu_seconds": f"{charge.gpu_seconds:f}",
            "cost": None if charge.cost is None else f"{charge.cost:f}",
            "cost_exact": None if charge.cost_exact is None else f"{charge.cost_exact:f}",
            "currency": charge.currency,
            "kind": charge.kind,
        }
        if charge.error is not None:
            item["error"] = charge.error
        items.append(item)
    total: dict[str, Any] = {
        "gpu_seconds": f"{answer.gpu_seconds:f}",
        "cost": None if answer.cost is None else f"{answer.cost:.2f}",
    }
    if answer.currency is not None:
        total["currency"] = answer.currency
    foot = [f"Total: {total['gpu_seconds']} GPU-seconds, {total['cost'] or 'several currencies'}"]
    foot[0] += f" {answer.currency}" if answer.currency else ""
    if answer.unpriced_gpu_seconds:
        total["unpriced_gpu_seconds"] = f"{answer.unpriced_gpu_seconds:f}"
        foot.append(f"Without a rate: {answer.unpriced_gpu_seconds:f} GPU-seconds; gpuwatch doctor names the rates")
    names_ = [*dimensions, "gpu_seconds", "cost", "cost_exact", "currency", "kind"]
    return Listing(
        [*names_, "error"],
        items,
        {"window": _window(answer.window), "total": total},
        shown=[*names_, *(["error"] if answer.unpriced_gpu_seconds else [])],
        foot=[*foot, _window_line(answer.window)],
    )


def _parquet(listing: Listing, out: Path | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in listing.columns])
    rows = [{name: item.get(name) for name in listing.columns} for item in listing.items]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    content = sink.getvalue().to_pybytes()
    if out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(content)
    except OSError as error:
        raise UnreadableInput(f"--out {out}: {error.strerror or error}") from error


def doctor(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """What is missing or wrong in the inputs, with the exact fix; exit code 1 when something is."""
    from gpuwatch.cost import price_all
    from gpuwatch.doctor import COLUMNS, FAIL, examine, wrong
    from gpuwatch.output import visible

    chosen = choose(form, sys.stdout.isatty())
    with opened(data, config) as (store, state, _):
        price_all(store, state)
        checks = examine(store)
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


def _window(span: Window) -> dict[str, str]:
    from gpuwatch.clock import rfc3339

    return {"start": rfc3339(span.start_us), "end": rfc3339(span.end_us)}


def _window_line(span: Window) -> str:
    ends = _window(span)
    return f"Window: {ends['start']} to {ends['end']}, UTC"
