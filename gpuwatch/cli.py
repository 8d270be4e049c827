"""The command line: wiring, no logic. Heavy imports wait for the command that needs them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.errors import GpuwatchError, StoreError, UsageError

if TYPE_CHECKING:
    from gpuwatch.cost import Chargeback
    from gpuwatch.settings import Settings
    from gpuwatch.state import State
    from gpuwatch.store import Store

app = typer.Typer(
    name="gpuwatch",
    help="Where the GPU-seconds and dollars of a fleet went, whose they were, and what to change.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

REJECTS_SHOWN = 20
NOTES_SHOWN = 20

Data = Annotated[
    Path, typer.Option("--data", envvar="GPUWATCH_DATA", help="Data directory.", show_default="./gpuwatch-data")
]
Format = Annotated[
    str | None, typer.Option("--format", help="table, json or csv; default: table on a terminal, json when piped.")
]
Config = Annotated[Path | None, typer.Option("--config", help="gpuwatch.toml with settings.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Only this cluster; on import: its name.")]
DATA = Path("gpuwatch-data")


def main() -> None:
    """Runs a command; errors are one line on stderr and the exit codes of contract.md section 2."""
    try:
        app()
    except GpuwatchError as error:
        sys.stderr.write(f"gpuwatch: {error}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        sys.stderr.write(f"gpuwatch: {error.filename or ''}: {error.strerror or error}\n")
        sys.exit(StoreError.exit_code)


@app.command("import")
def import_(
    kind: Annotated[str, typer.Argument(help="bundle, openmetrics, sacct, scontrol, k8s-json, topo, ...")],
    paths: Annotated[list[Path], typer.Argument(help="Files, or directories of them.")],
    data: Data = DATA,
    cluster: Cluster = None,
    timezone: Annotated[str, typer.Option(help="Zone of times without one (bundle.toml says its own).")] = "UTC",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 2 when any row is rejected.")] = False,
    config: Config = None,
) -> None:
    """History from files; repeating it changes nothing."""
    from gpuwatch import ingest
    from gpuwatch.clock import zone

    zone(timezone)
    with _opened(data, config) as (store, state, _), _progress() as show:
        report = ingest.import_paths(
            store,
            state,
            kind,
            paths,
            cluster=cluster,
            now_us=_now_us(),
            timezone=timezone,
            progress=lambda done, total, name: show(name, done, total),
        )
    _say_rejects(report)
    typer.echo(
        f"imported {report.files} files, {report.records} records; {report.repeated} files were known; "
        f"{report.rejected} pieces rejected",
        err=True,
    )
    if strict and (report.rejected or report.unreadable):
        raise UsageError(f"--strict: {report.rejected} pieces of input were rejected")


@app.command()
def analyze(
    data: Data = DATA,
    since: Annotated[str | None, typer.Option(help="Recompute from here, RFC 3339.")] = None,
    until: Annotated[str | None, typer.Option(help="Recompute up to here.")] = None,
    detector: Annotated[list[str] | None, typer.Option(help="Only these rules.")] = None,
    config: Config = None,
) -> None:
    """Ledger and findings over all that is new or changed; idempotent."""
    from gpuwatch.analyze import analyze as run

    with _opened(data, config, create=False) as (store, state, settings), _progress() as show:
        report = run(
            store,
            state,
            settings,
            now_us=_now_us(),
            since_us=_instant("--since", since),
            until_us=_instant("--until", until),
            detectors=detector or [],
            progress=show,
        )
    for failed in report.failed_rules:
        typer.echo(f"gpuwatch: rule failed: {failed}", err=True)
    typer.echo(
        f"analyzed {report.hours} hours of {len(report.clusters)} clusters: the books close; "
        f"{report.findings} findings",
        err=True,
    )


@app.command()
def findings(
    data: Data = DATA,
    only_open: Annotated[bool, typer.Option("--open", help="Only what is open.")] = False,
    detector: Annotated[str | None, typer.Option(help="Only this rule.")] = None,
    team: Annotated[str | None, typer.Option(help="Only this team.")] = None,
    window: Annotated[str | None, typer.Option(help="Only what touches this window.")] = None,
    format_name: Format = None,
    config: Config = None,
) -> None:
    """Who wastes what, why, and what to do: open and resolved."""
    from gpuwatch import output
    from gpuwatch.findings import findings as read

    chosen = output.choose(format_name)
    with _opened(data, config, create=False) as (store, state, _):
        items = read(
            store, state, only_open=only_open, detector=detector, team=team, window=_window(window) if window else None
        )
    if chosen == "json":
        output.write_json({"items": items}, sys.stdout)
    elif chosen == "csv":
        names = list(items[0]) if items else ["key", "detector", "title", "severity", "state"]
        output.write_csv(items, names, sys.stdout)
    else:
        rows = [{**f, "job": f["subject"]["id"], "since": f["started_at"], "USD": f["wasted_cost"]} for f in items]
        sides = {"severity": "<", "state": "<", "title": "<", "job": "<", "team": "<", "since": "<", "USD": ">"}
        output.write_table(f"{len(items)} findings", rows, {**sides, "summary": "<", "remedy": "<"}, sys.stdout)


@app.command()
def ledger(
    window: Annotated[str, typer.Option(help="today, lastweek, 7d, 2026-W47, 2026-11 or START,END.")],
    data: Data = DATA,
    by: Annotated[str, typer.Option(help="bucket and any of team,user,queue,namespace,account,job,...")] = "bucket",
    cluster: Cluster = None,
    format_name: Format = None,
    config: Config = None,
) -> None:
    """GPU-seconds by bucket: every one of them is in exactly one."""
    from gpuwatch import cost, output

    chosen = output.choose(format_name)
    names = [name for name in _names(by) if name != "bucket"]
    with _opened(data, config, create=False) as (store, state, _):
        books = cost.ledger(store, state, _window(window), names, cluster)
    rows = [{**r.group, "bucket": r.bucket, "gpu_seconds": f"{r.gpu_seconds:f}"} for r in books.items]
    columns = [*names, "bucket", "gpu_seconds"]
    if chosen == "json":
        document = {
            "items": rows,
            "capacity_gpu_seconds": f"{books.capacity_gpu_seconds:f}",
            "window": _window_json(books.window),
        }
        output.write_json(document, sys.stdout)
    elif chosen == "csv":
        output.write_csv(rows, columns, sys.stdout)
    else:
        sides = {name: ">" if name == "gpu_seconds" else "<" for name in columns}
        output.write_table(f"Capacity {books.capacity_gpu_seconds:f} GPU-seconds", rows, sides, sys.stdout)


@app.command()
def chargeback(
    window: Annotated[str, typer.Option(help="today, lastweek, 7d, 2026-W47, 2026-11 or START,END.")],
    data: Data = DATA,
    by: Annotated[str, typer.Option(help="Any of team,user,queue,namespace,account,job,gpu_model,...")] = "team",
    cluster: Cluster = None,
    format_name: Annotated[str | None, typer.Option("--format", help="table, json, csv or parquet.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; parquet needs one.")] = None,
    config: Config = None,
) -> None:
    """Who pays what: team rows and platform rows add up to the bill."""
    from gpuwatch import cost, output

    if format_name in ("xlsx", "focus"):
        raise UsageError(f"--format {format_name} is not in this version; use json, csv or parquet")
    chosen = format_name if format_name == "parquet" else output.choose(format_name)
    if chosen == "parquet" and out is None:
        raise UsageError("--format parquet needs --out FILE")
    names = _names(by)
    with _opened(data, config, create=False) as (store, state, _):
        bill = cost.chargeback(store, state, _window(window), names, cluster)
    rows = _charge_rows(bill)
    columns = [*names, "gpu_seconds", "cost", "cost_exact", "currency", "kind", "error"]
    if chosen == "parquet" and out is not None:
        output.write_parquet(rows, columns, out)
        return
    stream = sys.stdout if out is None else out.open("w", encoding="utf-8", newline="")
    try:
        if chosen == "json":
            output.write_json(_charge_json(bill, rows), stream)
        elif chosen == "csv":
            output.write_csv(rows, columns, stream)
        else:
            sides = {name: ">" if name in ("gpu_seconds", "cost") else "<" for name in columns if name != "cost_exact"}
            total = "several currencies" if bill.cost is None else f"{bill.cost:f} {bill.currency or ''}"
            output.write_table(f"Total {total}, {bill.gpu_seconds:f} GPU-seconds", rows, sides, stream)
    finally:
        if stream is not sys.stdout:
            stream.close()
    for error in sorted({row["error"] for row in rows if row["error"]}):
        typer.echo(f"gpuwatch: {error}", err=True)


@app.command()
def simulate(
    out: Annotated[Path, typer.Option(help="Directory to write the bundle to.")],
    gpus: Annotated[int, typer.Option(min=8, max=4096)] = 64,
    days: Annotated[float, typer.Option(min=0.1, max=366)] = 7,
    seed: Annotated[int, typer.Option()] = 1,
    step_s: Annotated[int, typer.Option("--step-s", min=1, max=600, help="Seconds between samples.")] = 30,
) -> None:
    """A simulated fleet as a bundle of real formats, and truth.json with what was planted."""
    from gpuwatch.simulate import simulate as write

    with _progress() as show:
        write(out, gpus=gpus, days=days, seed=seed, step_s=step_s, progress=_simulation(show))
    typer.echo(f"wrote {out}", err=True)


@app.command()
def doctor(data: Data = DATA, format_name: Format = None, config: Config = None) -> None:
    """What is missing or wrong in the inputs, with the exact fix; exit 1 when something is."""
    from gpuwatch import output
    from gpuwatch.doctor import examine

    chosen = output.choose(format_name)
    with _opened(data, config, create=False) as (store, state, _):
        checks = examine(store, state)
    rows = [check.__dict__ for check in checks]
    if chosen == "json":
        output.write_json({"items": rows}, sys.stdout)
    elif chosen == "csv":
        output.write_csv(rows, ["id", "status", "what", "fix"], sys.stdout)
    else:
        output.write_table("Doctor", rows, {"status": "<", "id": "<", "what": "<", "fix": "<"}, sys.stdout)
    if any(check.status != "ok" for check in checks):
        raise typer.Exit(1)


@app.command()
def demo(
    gpus: Annotated[int, typer.Option(min=8, max=4096)] = 64,
    days: Annotated[float, typer.Option(min=0.1, max=366)] = 7,
    seed: Annotated[int, typer.Option()] = 1,
    port: Annotated[int, typer.Option(help="Kept for the service, which this version does not have.")] = 8765,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Only print; this version never serves.")] = False,
    data: Annotated[Path, typer.Option("--data", help="Where the demo keeps its files.")] = Path("gpuwatch-demo"),
) -> None:
    """A simulated fleet end to end: simulate, import, analyze, and what came of it."""
    from gpuwatch import demo as story
    from gpuwatch import ingest
    from gpuwatch.analyze import analyze as run
    from gpuwatch.simulate import simulate as write

    started = time.monotonic()
    home = data / f"{gpus}-gpus-{days:g}-days-seed-{seed}"
    with _progress() as show:
        write(home / "bundle", gpus=gpus, days=days, seed=seed, progress=_simulation(show))
    with _opened(home, None) as (store, state, settings):
        with _progress() as show:
            ingest.import_paths(
                store,
                state,
                "bundle",
                [home / "bundle"],
                cluster=None,
                now_us=_now_us(),
                progress=lambda done, total, name: show(name, done, total),
            )
            run(store, state, settings, now_us=_now_us(), progress=show)
        story.show(store, state, sys.stdout)
    typer.echo(f"{gpus} GPUs, {days:g} days, in {time.monotonic() - started:.0f} s. Next:")
    for command in ("findings", "doctor", "chargeback --window 2026-W46 --by team,gpu_model"):
        typer.echo(f"  gpuwatch {command} --data {home}")


def _charge_rows(bill: Chargeback) -> list[dict[str, Any]]:
    return [
        {
            **c.group,
            "gpu_seconds": f"{c.gpu_seconds:f}",
            "cost": None if c.cost is None else f"{c.cost:f}",
            "cost_exact": None if c.cost_exact is None else f"{c.cost_exact:f}",
            "currency": c.currency,
            "kind": c.kind,
            "error": c.error,
        }
        for c in bill.items
    ]


def _charge_json(bill: Chargeback, rows: list[dict[str, Any]]) -> dict[str, Any]:
    items = [{k: v for k, v in row.items() if k != "error" or v is not None} for row in rows]
    total: dict[str, Any] = {
        "gpu_seconds": f"{bill.gpu_seconds:f}",
        "cost": None if bill.cost is None else f"{bill.cost:f}",
        "currency": bill.currency,
    }
    if bill.unpriced_gpu_seconds:
        total["unpriced_gpu_seconds"] = f"{bill.unpriced_gpu_seconds:f}"
    return {"items": items, "window": _window_json(bill.window), "total": total}


def _say_rejects(report: Any) -> None:
    from gpuwatch.output import visible

    for note in report.notes[:NOTES_SHOWN]:
        typer.echo(f"gpuwatch: {visible(note)}", err=True)
    for text in report.unreadable[:NOTES_SHOWN]:
        typer.echo(f"gpuwatch: {visible(text)}", err=True)
    counts: dict[str, int] = {}
    first: dict[str, tuple[str, int, str]] = {}
    for rejects in report.rejects:
        for reason, count in rejects.counts.items():
            counts[reason] = counts.get(reason, 0) + count
            first.setdefault(reason, rejects.first[reason])
    for reason, count in list(counts.items())[:REJECTS_SHOWN]:
        file, line, example = first[reason]
        typer.echo(f"{visible(file)}:{line}: {visible(reason)} ({count} times): {visible(example)}", err=True)


@contextmanager
def _opened(data: Path, config: Path | None, create: bool = True) -> Iterator[tuple[Store, State, Settings]]:
    from gpuwatch.settings import load_settings
    from gpuwatch.state import State
    from gpuwatch.store import Store

    settings = load_settings(config, dict(os.environ))
    with (
        Store.open(data, memory_limit=settings.memory_limit, threads=settings.threads, create=create) as store,
        State.open(data) as state,
    ):
        yield store, state, settings


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar on a terminal, nothing when piped: call it with (what, done, total)."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what[:60], completed=done, total=max(total, 1))

        yield show


def _simulation(show: Any) -> Any:
    return lambda done, total: show("simulating", done, total)


def _names(by: str) -> list[str]:
    names = [name.strip() for name in by.split(",") if name.strip()]
    if len(set(names)) != len(names):
        raise UsageError(f"--by {by}: a dimension is named twice")
    return names


def _now_us() -> int:
    return time.time_ns() // 1000


def _window(text: str) -> Any:
    from gpuwatch.clock import parse_window

    return parse_window(text, _now_us())


def _instant(option: str, text: str | None) -> int | None:
    from gpuwatch.clock import parse_rfc3339

    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: not an RFC 3339 time such as 2026-11-21T00:00:00Z") from error


def _window_json(window: Any) -> dict[str, str]:
    from gpuwatch.clock import rfc3339

    return {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)}
