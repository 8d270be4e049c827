"""The `gpuwatch scan` command: where the money of a Prometheus server's or a bundle's fleet went, as a page to forward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands.audit import require_bundle, writable
from gpuwatch.commands.registry import command
from gpuwatch.commands.scan_source import described, one_of, scan_part
from gpuwatch.commands.serve import HOST, PORT, HostOption, PortOption, bind, run
from gpuwatch.commands.shared import (
    ConfigOption,
    FormatOption,
    actor,
    file_content,
    now_us,
    opened,
    print_stderr,
    settings_of,
    show,
    write,
)
from gpuwatch.commands.store.backfill import (
    DEFAULT_CLUSTER,
    CaFileOption,
    InsecureOption,
    MatchOption,
    PasswordFileOption,
    TenantOption,
    TokenFileOption,
    UsernameOption,
    server_options,
)
from gpuwatch.commands.store.data import analyze_new, print_report
from gpuwatch.core.clock import day_floor, zone
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.output.progress import Step, progress

if TYPE_CHECKING:
    from socket import socket

    from gpuwatch.imports.files import ImportReport
    from gpuwatch.scan.facts import Source
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

OUT = Path("gpuwatch-scan")
COLUMNS = (
    "rank", "action", "ask", "worth", "cost", "cost_a_month", "lost_cost", "currency", "gpu_hours", "lost_gpu_hours", "findings", "remedy",
)  # fmt: skip
SHOWN = ("rank", "action", "ask", "worth")
THIN_ABOVE = 40_000_000
"""Samples above which one a minute is read of each metric, unless --all-samples is given."""
DAYS_MAX = 3660


def scan(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH|URL]", help="A directory of dumps and metrics, or the URL of a Prometheus server."
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="A server that scrapes dcgm-exporter.")
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", metavar="DIR", help="A directory of metrics and scheduler dumps.")
    ] = None,
    days: Annotated[
        float, typer.Option("--days", metavar="D", help="Days of history; of a bundle, with the whole first day.")
    ] = 14,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory of the page, the PDF and the data.")
    ] = OUT,
    rates: Annotated[
        Path | None, typer.Option("--rates", metavar="FILE", help="Your rates.csv; default: list prices.")
    ] = None,
    max_load: Annotated[
        int, typer.Option("--max-load", metavar="N", min=1, max=16, help="Queries at a time on the Prometheus server.")
    ] = 2,
    all_samples: Annotated[
        bool, typer.Option("--all-samples", help="Read every sample; default: one a minute where there are many.")
    ] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the dashboard on the result.")] = False,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Cluster name for the data.")] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone", metavar="TZ", help="Time zone of local times of the bundle. Default: its own, or UTC."
        ),
    ] = None,
    match: MatchOption = "",
    bearer_token_file: TokenFileOption = None,
    username: UsernameOption = "",
    password_file: PasswordFileOption = None,
    tenant: TenantOption = "",
    ca_file: CaFileOption = None,
    insecure: InsecureOption = False,
    host: HostOption = HOST,
    port: PortOption = PORT,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Find the waste of a fleet in one command. Writes a page and a PDF to forward; nothing needs to be configured.

    Example: gpuwatch scan http://prometheus:9090, or gpuwatch scan dumps/
    """
    from gpuwatch.imports.cluster_zones import of_file

    choose(form, True)
    url, bundle = one_of(source, url, bundle)
    if not 0 < days <= DAYS_MAX:
        raise UsageError(f"--days {days:g}: use more than 0 and at most {DAYS_MAX}")
    if bundle is not None:
        require_bundle(bundle)
    if timezone is not None:
        if bundle is None:
            raise UsageError("scan: --timezone is for a --bundle; the times of a Prometheus server have a zone")
        zone(timezone)
    writable(out)
    bound = bind(host, port) if serve else None
    options = server_options(
        url=url,
        match=match,
        username=username,
        tenant=tenant,
        insecure_skip_verify=insecure,
        bearer_token_file=bearer_token_file,
        password_file=password_file,
        ca_file=ca_file,
    )
    since_us = now_us(context) - int(days * 86_400) * 1_000_000
    data = out / "data"
    with (
        opened(data, config, create=True, embedded=True) as (store, state, settings),
        progress("scan", scan_part()) as step,
    ):
        if bundle is not None:
            given = {"cluster": cluster, "timezone": timezone, "zones": of_file(config)}
            report = _bundle(context, store, state, bundle, given, step)
        else:
            _priced(context, state, rates)
            early = partial(_early, context, store, state, settings, days)
            report = _prometheus(context, store, options, cluster, since_us, max_load, all_samples, step, early)
        prices = _priced(context, state, rates)
        card = _analyzed(context, store, state, settings, days, bundle is not None, step)
        named = cluster or DEFAULT_CLUSTER
        about = described(store, bundle, url, named, getattr(report, "step_s", 0), prices, data, card["window"])
    report.notes = [text for text in report.notes if "has no rates.csv" not in text]  # a scan has prices
    print_report(report)
    _write(card, about, out, settings_of(config).report_paper, form, rates)
    if bound is not None:
        _serve(context, data, config, host, port, bound)


def _bundle(
    context: typer.Context,
    store: Store,
    state: State,
    bundle: Path,
    given: Mapping[str, Any],
    step: Step,
) -> ImportReport:
    """Imports the bundle with the cluster and the time zones that are given. Files that cannot be read are named."""
    from gpuwatch.imports.files import import_paths

    report = import_paths(store, state, "bundle", [bundle], now_us=now_us(context), progress=step, **given)
    if report.failed and report.records + report.repeated == 0:
        print_report(report)
        raise UnreadableInput(f"--bundle {bundle}: no valid row was found; the reasons are above")
    return report


def _prometheus(
    context: typer.Context,
    store: Store,
    options: Mapping[str, Any],
    cluster: str | None,
    since_us: int,
    max_load: int,
    all_samples: bool,
    step: Step,
    early: Callable[[], None],
) -> ImportReport:
    from gpuwatch.imports.backfill import backfill, plan_backfill
    from gpuwatch.imports.history import open_history

    at_us, named = now_us(context), cluster or DEFAULT_CLUSTER
    history = open_history(options, named)
    try:
        plan = plan_backfill(history, since_us, at_us, at_us)
        thin_above = None if all_samples else THIN_ABOVE
        return backfill(
            store, history, plan, cluster=named, jobs=max_load, thin_above=thin_above, progress=step, first=early
        )
    finally:
        history.close()


def _early(context: typer.Context, store: Store, state: State, settings: Any, days: float) -> None:
    """Prints the headline of the first day while the others are read."""
    from gpuwatch.report.text import GAP
    from gpuwatch.scan.document import headline

    card = _analyzed(context, store, state, settings, days, False, lambda done, total, what: None)
    if card["window"] is not None:  # a server may be younger than the days asked for
        print_stderr(f"Partial, the first of {days:g} days: {headline(card).replace(GAP, ' ')} The scan goes on.")


def _priced(context: typer.Context, state: State, rates: Path | None) -> bool:
    """Sets the prices; whether they are list prices."""
    from gpuwatch.scan.prices import RATES_BYTES_MAX, set_prices

    given = file_content(rates, RATES_BYTES_MAX) if rates else None
    listed, notes = set_prices(state, given, str(rates or ""), actor(), now_us(context))
    for note in notes:
        print_stderr(note)
    return listed


def _analyzed(
    context: typer.Context, store: Store, state: State, settings: Any, days: float, whole_days: bool, step: Step
) -> dict[str, Any]:
    """Analyzes what is new and returns the scan of the last `days` known; with `whole_days`, of a bundle, from a midnight in UTC on."""
    from gpuwatch.audit.facts import last_of
    from gpuwatch.scan.facts import read_scan

    at_us = analyze_new(context, store, state, settings, step)
    span = last_of(store, int(days * 86_400) * 1_000_000)
    if span and whole_days:
        span = replace(span, start_us=day_floor(span.start_us))
    return read_scan(store, state, span, at_us, of_files=whole_days)


def _write(
    card: Mapping[str, Any], source: Source, out: Path, paper: str, form: str | None, rates: Path | None
) -> None:
    """Writes the files and prints the headline and the actions."""
    from gpuwatch.quality.dumps import MISSING
    from gpuwatch.report import text as report_text
    from gpuwatch.report.files import write as write_files
    from gpuwatch.report.scorecard.plan import worth
    from gpuwatch.report.sections.certainty import SMALL_LOSSES, legend
    from gpuwatch.scan.document import headline, what
    from gpuwatch.scan.facts import top_actions
    from gpuwatch.scan.files import files
    from gpuwatch.scan.lines import about, action_lines, prices_line, unknown_lines, with_data
    from gpuwatch.scan.teams import team_lines

    written = [str(path) for path in write_files(files(card, source, paper), out)]
    rows = [
        {"action": what(one).replace(report_text.GAP, " "), "worth": worth(one).replace(report_text.GAP, " ")}
        | {name: one.get(name) for name in COLUMNS if name not in ("action", "worth")}
        for one in top_actions(card)
    ]
    head = headline(card).replace(report_text.GAP, " ")
    lost = SMALL_LOSSES if any(one["kind"] == "lost" for one in card["actions"]) else ""
    notes = f"{legend([head, *(str(row['worth']) for row in rows)])} {lost}".strip()
    foot = [
        *with_data(action_lines(rows), source.data),
        *([notes] if notes else []),
        "By team:",
        *(line.replace(report_text.GAP, " ") for line in team_lines(card)),
        f"Source: {source.name}; jobs that ran then are counted to that minute.",
        prices_line(source.prices, rates),
        *([MISSING] if card["only_dumps"] else []),
        *unknown_lines(card["unknown"]),
        f"Written: {', '.join(written)}",
    ]
    foot += [f"{purpose}: {line}" for purpose, line in source.commands]
    extra = about(card, head, source.name, prices_line(source.prices, rates), source.commands) | {"files": written}
    show(Listing(COLUMNS, rows, extra, SHOWN, foot, head=[head, ""]), form)


def _serve(context: typer.Context, data: Path, config: Path | None, host: str, port: int, bound: socket | None) -> None:
    """Serves the result until Ctrl-C."""
    import os

    from gpuwatch.service.config import load
    from gpuwatch.service.service import Service
    from gpuwatch.service.uptime import machine_uptime
    from gpuwatch.settings import in_directory

    plan = load(config, os.environ)
    service = Service.open(
        data, in_directory(plan.settings), plan, now_us=context.find_root().obj, uptime=machine_uptime()
    )
    run(service, host, port, lambda url: write(f"\nOpen {url}  (Ctrl-C to stop)\n"), bound)


command("scan", scan, place=15)
