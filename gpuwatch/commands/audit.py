"""The `gpuwatch audit` command: the scorecard of a bundle, a Prometheus server or a data directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.queries import NO
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    FormatOption,
    PaperOption,
    now_us,
    opened,
    print_stderr,
    show,
)
from gpuwatch.commands.store.backfill import (
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
from gpuwatch.commands.windows import window_of
from gpuwatch.core.clock import WINDOW_HELP
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.output.progress import Step, progress
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window
    from gpuwatch.settings import Settings
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

COLUMNS = (
    "layer", "grade", "points", "decisions_judged", "decisions", "findings", "open", "worst", "gpu_hours", "cost",
    "cost_a_month", "currency",
)  # fmt: skip
SHOWN = ("layer", "grade", "decisions_judged", "decisions", "findings", "open", "worst", "cost_a_month", "currency")
SINCE = "7d"


def audit(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for scorecard.html, .pdf and .json.")],
    bundle: Annotated[
        Path | None, typer.Option("--bundle", metavar="DIR", help="Audit a bundle; nothing is stored.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Audit a Prometheus server; nothing is stored.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="T", help="With --prometheus: start, as 7d or 12h ago or RFC 3339; default: 7d."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Audit a data directory; new data in it is analyzed first."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="W", help=f"{WINDOW_HELP} Default: the last 7 days with data."),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="info|low|medium|high|critical",
            help="Exit with 1 if an open finding has this severity or worse.",
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Cluster name for the input.")
    ] = None,
    match: MatchOption = "",
    bearer_token_file: TokenFileOption = None,
    username: UsernameOption = "",
    password_file: PasswordFileOption = None,
    tenant: TenantOption = "",
    ca_file: CaFileOption = None,
    insecure: InsecureOption = False,
    paper: PaperOption = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Write an audit scorecard of a fleet.

    It shows who decides on placement, partitioning, scheduling and network, what is left to defaults, and the cost.
    """
    from gpuwatch.commands.shared import settings_of
    from gpuwatch.findings.texts import SEVERITY_ORDER

    choose(form, True)
    if fail_on is not None and fail_on not in SEVERITY_ORDER:
        raise UsageError(f"--fail-on {fail_on}: use one of {', '.join(SEVERITY_ORDER)}")
    if paper not in (None, "a4", "letter"):
        raise UsageError(f"--paper {paper}: use a4 or letter")
    _one_source(bundle, url, data, since)
    writable(out)
    span = None if window is None else window_of(window, context)
    if bundle is not None:
        card, source = _of_bundle(context, bundle, cluster, span, config), f"the bundle {bundle.name or bundle}"
    elif url is not None:
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
        card = _of_prometheus(context, options, cluster, since or SINCE, span, config)
        source = "a Prometheus server"
    else:
        card, source = _of_data(context, data, span, config), ""
    _write_card(card, source, out, paper or settings_of(config).report_paper, form)
    _answer(card, fail_on)


def writable(out: Path) -> None:
    """Checks that the output can be written, before hours of work."""
    there = next(place for place in (out.absolute(), *out.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"--out {out}: {there} is a file; name a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--out {out}: {there} cannot be written; choose another directory")


def require_bundle(bundle: Path) -> None:
    """Raises UnreadableInput if --bundle is no directory."""
    if not bundle.is_dir():
        raise UnreadableInput(
            f"--bundle {bundle}: {'is a file' if bundle.exists() else 'no such directory'}; a bundle is a directory"
        )


def _one_source(bundle: Path | None, url: str | None, data: Path | None, since: str | None) -> None:
    given = [
        name for name, value in (("--bundle", bundle), ("--prometheus", url), ("--data", data)) if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)}: use only one of them")
    if since is not None and url is None:
        raise UsageError("--since: only with --prometheus; use --window")


def _of_bundle(
    context: typer.Context, bundle: Path, cluster: str | None, span: Window | None, config: Path | None
) -> dict[str, Any]:
    """Imports a bundle into a temporary directory and audits it."""
    from gpuwatch.imports import cluster_zones
    from gpuwatch.imports.files import import_paths

    require_bundle(bundle)
    zones, at_us = cluster_zones.of_file(config), now_us(context)
    with _aside(config) as (store, state, settings), progress("audit") as step:
        report = import_paths(
            store, state, "bundle", [bundle], cluster=cluster, now_us=at_us, zones=zones, progress=step
        )
        print_report(report)
        return _scorecard(context, store, state, settings, span, step)


def _of_prometheus(
    context: typer.Context,
    options: Mapping[str, Any],
    cluster: str | None,
    since: str,
    span: Window | None,
    config: Path | None,
) -> dict[str, Any]:
    """Imports a Prometheus server's history into a temporary directory and audits it."""
    from gpuwatch.commands.store.backfill import DEFAULT_CLUSTER, moment
    from gpuwatch.imports.backfill import backfill, plan_backfill
    from gpuwatch.imports.history import open_history

    at_us = now_us(context)
    name = cluster or DEFAULT_CLUSTER
    since_us = moment(since, "--since", at_us)
    history = open_history(options, name)
    try:
        plan = plan_backfill(history, since_us, at_us, at_us)
        with _aside(config) as (store, state, settings), progress("audit") as step:
            print_report(backfill(store, history, plan, cluster=name, progress=step))
            return _scorecard(context, store, state, settings, span, step)
    finally:
        history.close()


def _of_data(context: typer.Context, data: Path | None, span: Window | None, config: Path | None) -> dict[str, Any]:
    """Audits a data directory, through its server if one is running."""
    from gpuwatch.core.clock import rfc3339

    place = data or Path(os.environ.get("GPUWATCH_DATA") or DEFAULT_DATA)
    if (note := lockfile.find(place)) is not None:
        requested = None if span is None else f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"
        card: dict[str, Any] = json.loads(remote.get(note, "/api/v1/audit-card", {"window": requested}))
        return card
    with opened(place, config) as (store, state, settings), progress("audit") as step:
        return _scorecard(context, store, state, settings, span, step)


@contextmanager
def _aside(config: Path | None) -> Iterator[tuple[Store, State, Settings]]:
    """A temporary data directory, always removed at the end."""
    with (
        TemporaryDirectory(prefix="gpuwatch-audit-", ignore_cleanup_errors=True) as place,
        opened(Path(place), config, create=True, embedded=True) as found,
    ):
        yield found


def _scorecard(
    context: typer.Context, store: Store, state: State, settings: Settings, span: Window | None, step: Step
) -> dict[str, Any]:
    """Analyzes new data and builds the scorecard."""
    from gpuwatch.audit.facts import read_facts
    from gpuwatch.audit.scorecard import scorecard

    at_us = analyze_new(context, store, state, settings, step)
    return scorecard(read_facts(store, state, span, at_us))


def _write_card(card: Mapping[str, Any], source: str, out: Path, paper: str, form: str | None) -> None:
    """Writes the files and prints a summary."""
    from gpuwatch.report import text as report_text
    from gpuwatch.report.files import write
    from gpuwatch.report.scorecard.document import lead
    from gpuwatch.report.scorecard.files import files
    from gpuwatch.report.scorecard.plan import left_out_sentence, worth

    written = [str(path) for path in write(files(card, source, paper), out)]
    rows = [_row(card, layer) for layer in card["layers"]]
    first = card["actions"][:3]
    foot = [lead(card)]
    if card["window"] is None:
        foot += [f"{one['what']} {one['fix']}" for one in card["unknown"]]
    foot += [f"{action['rank']}. {action['title']}: {worth(action)}. {action['remedy']}" for action in first]
    foot += [sentence] if (sentence := left_out_sentence(card)) else []
    foot += [f"Written: {', '.join(written)}"]
    waste = {name: value for name, value in card["waste"].items() if name != "buckets"}
    extra = {
        "window": card["window"],
        "waste": waste,
        "costliest": card["costliest"],
        "actions": first,
        "files": written,
    }
    show(Listing(COLUMNS, rows, extra, SHOWN, [line.replace(report_text.GAP, " ") for line in foot]), form)


def _row(card: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    arise = [one for one in layer["decisions"] if one["state"] != "does not arise"]
    row = {"layer": layer["id"], "grade": layer["grade_words"], "decisions": len(arise)}
    row |= {"findings": layer["findings_count"], "open": layer["open_count"], "currency": card["currency"]}
    names = ("points", "decisions_judged", "worst", "gpu_hours", "cost", "cost_a_month")
    return row | {name: layer[name] for name in names}


def _answer(card: Mapping[str, Any], fail_on: str | None) -> None:
    """Exits with 1 if an open finding is at least as severe as --fail-on."""
    from gpuwatch.audit.scorecard import worst
    from gpuwatch.findings.texts import SEVERITY_ORDER

    found = worst(card)
    if fail_on is not None and found is not None and SEVERITY_ORDER.index(found) >= SEVERITY_ORDER.index(fail_on):
        print_stderr(f"gpuwatch: audit: there is an open {found} finding (--fail-on {fail_on})")
        raise typer.Exit(NO)


command("audit", audit, place=160)
