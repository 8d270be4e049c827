"""The `gpuwatch backfill` command: imports history from Prometheus, VictoriaMetrics, Thanos or Mimir."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    moment_us,
    now_us,
    opened,
    program,
    show,
)
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.output.progress import progress

DEFAULT_CLUSTER = "default"
_AGO = re.compile(r"([1-9]\d{0,5})([mhdw])")
MatchOption = Annotated[
    str, typer.Option("--match", metavar="SELECTOR", help="Only series with these labels: '{cluster=\"c1\"}'.")
]
TokenFileOption = Annotated[Path | None, typer.Option("--bearer-token-file", metavar="F")]
UsernameOption = Annotated[str, typer.Option("--username", metavar="U")]
PasswordFileOption = Annotated[Path | None, typer.Option("--password-file", metavar="F")]
TenantOption = Annotated[str, typer.Option("--tenant", metavar="ID", help="Tenant (X-Scope-OrgID) for Mimir.")]
CaFileOption = Annotated[Path | None, typer.Option("--ca-file", metavar="F")]
InsecureOption = Annotated[bool, typer.Option("--insecure-skip-verify", help="Do not verify TLS certificates.")]
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def backfill(
    context: typer.Context,
    url: Annotated[str, typer.Option("--prometheus", metavar="URL", help="Server URL, e.g. http://prometheus:9090.")],
    since: Annotated[str, typer.Option("--since", metavar="T", help="Start: 30d or 12h ago, or RFC 3339.")] = "30d",
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="End, in the same formats; default: now.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="Cluster name for the metrics.")
    ] = DEFAULT_CLUSTER,
    match: MatchOption = "",
    bearer_token_file: TokenFileOption = None,
    username: UsernameOption = "",
    password_file: PasswordFileOption = None,
    tenant: TenantOption = "",
    ca_file: CaFileOption = None,
    cert_file: Annotated[Path | None, typer.Option("--cert-file", metavar="F", help="Client certificate file.")] = None,
    key_file: Annotated[Path | None, typer.Option("--key-file", metavar="F", help="Client key file.")] = None,
    insecure: InsecureOption = False,
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="S", help="Seconds to wait for a response.")] = 120,
    max_samples: Annotated[
        int, typer.Option("--max-samples", metavar="N", help="Maximum samples per query.")
    ] = 250_000,
    chunk: Annotated[
        str | None,
        typer.Option("--chunk", metavar="SPAN", help="Time span per query, e.g. 10m; default: chosen by sample count."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, max=16, help="Parallel queries.")] = 4,
    again: Annotated[bool, typer.Option("--again", help="Query completed spans again.")] = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Import history from Prometheus. Works with Thanos, Mimir and VictoriaMetrics too; resumes if interrupted."""
    from gpuwatch.commands.store.data import print_report
    from gpuwatch.imports.backfill import backfill as run
    from gpuwatch.imports.backfill import plan_backfill
    from gpuwatch.imports.history import open_history

    choose(form, True)
    at_us = now_us(context)
    since_us = moment(since, "--since", at_us)
    until_us = at_us if until is None else moment(until, "--until", at_us)
    chunk_us = None if chunk is None else _span_us(chunk)
    options = server_options(
        url=url,
        match=match,
        username=username,
        tenant=tenant,
        insecure_skip_verify=insecure,
        timeout_s=timeout_s,
        max_samples=max_samples,
        bearer_token_file=bearer_token_file,
        password_file=password_file,
        ca_file=ca_file,
        cert_file=cert_file,
        key_file=key_file,
    )
    history = open_history(options, cluster)
    try:
        plan = plan_backfill(history, since_us, until_us, at_us)
        with opened(data, config, create=True) as (store, _, _), progress("backfill") as step:
            report = run(
                store,
                history,
                plan,
                cluster=cluster,
                jobs=jobs,
                chunk_us=chunk_us,
                again=again,
                progress=step,
            )
    finally:
        history.close()
    print_report(report)
    row = {
        "spans": report.files,
        "repeated": report.repeated,
        "incomplete": report.incomplete,
        "samples": report.samples,
        "records": report.records - report.samples,
        "rejected": report.rejected,
    }
    show(Listing(tuple(row), [row], foot=[f"Next: {program()} analyze --data {quote(str(data))}"]), form)


def server_options(**given: Any) -> dict[str, Any]:
    """The options of `open_history`: paths as text, without those that are not given."""
    texts = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    return {name: value for name, value in texts.items() if value is not None}


def moment(text: str, option: str, at_us: int) -> int:
    """Microseconds of a time such as `30d` (ago) or RFC 3339. Raises UsageError."""
    if found := _AGO.fullmatch(text):
        return at_us - int(found[1]) * _UNIT_S[found[2]] * 1_000_000
    exact_us = moment_us(text, option)
    assert exact_us is not None
    return exact_us


def _span_us(text: str) -> int:
    """Microseconds of a length such as `10m` that divides a day. Raises UsageError."""
    found = re.fullmatch(r"([1-9]\d{0,4})([smh])", text)
    seconds = int(found[1]) * _UNIT_S[found[2]] if found else 86_400 if text == "1d" else 0
    if seconds < 60 or 86_400 % seconds:
        raise UsageError(f"--chunk {text!r}: write a length that divides a day, from 1m to 1d, such as 10m or 2h")
    return seconds * 1_000_000


command("backfill", backfill, place=50)
