"""The `gpuwatch period` commands: close, list, show, reopen, sign, verify."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    actor,
    now_us,
    opened,
    print_stderr,
    show,
    state_only,
    write,
)
from gpuwatch.core.errors import StoreError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.state import State

NO = 1
"""Exit code for a negative result."""
ROUTE = "/api/v1/periods"
HEAD_SHOWN = (
    "period",
    "state",
    "number",
    "closed_at",
    "closed_by",
    "forced",
    "gpu_seconds",
    "cost",
    "currency",
    "digest",
)
HEAD = (*HEAD_SHOWN, "forced_why")
ROW = (
    "team", "user", "queue", "namespace", "account", "job", "gpu_model", "mig_profile", "cluster", "pool", "kind",
    "cause", "currency", "gpu_seconds", "cost_exact",
)  # fmt: skip
ROW_SHOWN = ("team", "user", "job", "gpu_model", "mig_profile", "kind", "currency", "gpu_seconds", "cost_exact")
LINE = ("posted_at", "why", *ROW, "cost")
LINE_SHOWN = ("posted_at", "why", *ROW_SHOWN[:-1], "cost")
SPARE = ("mig_profile", "gpu_model", "gpu_seconds")
Name = Annotated[str, typer.Argument(metavar="NAME", help="A week or month, e.g. 2026-W47 or 2026-11.")]

period = typer.Typer(
    help="Close, sign, verify and reopen billing periods.", rich_markup_mode=None, no_args_is_help=True
)


@period.command("close")
def close(
    context: typer.Context,
    name: Name,
    data: DataOption = DEFAULT_DATA,
    force: Annotated[
        bool, typer.Option("--force", help="Close even if days are missing from the ledger or time has no price.")
    ] = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Freeze the bill of a completed week or month. Later changes become corrections."""
    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        answer = remote.post(note, ROUTE, {"period": name, "force": force})
    else:
        from gpuwatch.billing.periods.close import close as freeze
        from gpuwatch.billing.periods.view import period_dict

        with opened(data, config) as (store, state, _):
            freeze(store, state, name, actor(), now_us(context), force=force)
            answer = period_dict(state, name)
    spare = ("closed_by", "gpu_seconds")
    show(Listing(HEAD, [_head(answer)], shown=HEAD_SHOWN, foot=_forced([answer]), spare=spare), form)


@period.command("list")
def list_(data: DataOption = DEFAULT_DATA, form: FormatOption = None) -> None:
    """List all closings, newest first. Includes reopened ones, with digest and reason."""
    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        found = remote.every(note, ROUTE, {})["items"]
        rows = [{"period": item["period"], **closing} for item in found for closing in item["closings"]]
    else:
        from gpuwatch.billing.periods.repository import Periods
        from gpuwatch.billing.periods.view import closing_words

        with _state(data) as state:
            periods = Periods(state)
            every = [(name, one) for name in periods.names() for one in periods.history(name)]
            rows = [{"period": name, **closing_words(one)} for name, one in every]
    foot = _forced(rows) if rows else ["No closed periods. Close one with gpuwatch period close 2026-W47"]
    shown = ("period", "number", "closed_at", "closed_by", "forced", "digest", "reopened_at", "reopened_by", "reason")
    spare = ("reopened_by", "closed_by", "reason")
    show(Listing((*shown, "forced_why"), rows, shown=shown, foot=foot, spare=spare), form)


@period.command("show")
def show_(
    name: Name,
    data: DataOption = DEFAULT_DATA,
    corrections: Annotated[bool, typer.Option("--corrections", help="Show the correction lines.")] = False,
    content: Annotated[
        bool, typer.Option("--content", help="Print the text whose SHA-256 is the digest, for sha256sum.")
    ] = False,
    form: FormatOption = None,
) -> None:
    """Show a period's frozen rows, signatures or corrections."""
    choose(form, True)
    if content:
        write(_contents(data, name)[0][2])
        return
    of = "corrections" if corrections else "rows"
    if (note := lockfile.find(data)) is not None:
        found = remote.every(note, f"{ROUTE}/{quote(name, safe='')}", {"of": of})
        answer, items = found["period"], found["items"]
    else:
        from gpuwatch.billing.periods import view as periods_view

        with _state(data) as state:
            answer = periods_view.period_dict(state, name)
            items = (periods_view.lines if corrections else periods_view.rows)(state, name)
    head, signed = _head(answer), answer["signatures"]
    extra = {"period": head, "signatures": signed}
    if corrections:
        extra["total"] = _total(items)
    else:
        items = sorted(items, key=_most_expensive)
    foot = [
        f"Period {name}, closing {head['number']}, {head['state']}: {head['gpu_seconds']} GPU-seconds,"
        f" {head['cost'] or 'no single cost'} {head['currency'] or ''}".rstrip(),
        f"SHA-256 {head['digest']}",
        *_forced([head]),
        *(f"Signed by {one['signer']} at {one['signed_at']} (closing {one['number']})" for one in signed),
    ]
    for one in extra.get("total", ()):
        foot.insert(0, f"Corrections: {one['cost']} {one['currency']} in total".rstrip())
    columns, shown = (LINE, LINE_SHOWN) if corrections else (ROW, ROW_SHOWN)
    show(Listing(columns, items, extra, shown=shown, foot=foot, spare=SPARE), form)


@period.command("reopen")
def reopen(
    context: typer.Context,
    name: Name,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, stored with the closing.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Reopen a closed period. Its closing stays listed; its corrections are withdrawn."""
    if (note := lockfile.find(data)) is not None:
        remote.post(note, f"{ROUTE}/{quote(name, safe='')}/reopen", {"reason": reason})
    else:
        from gpuwatch.billing.periods.repository import Periods

        with _state(data) as state:
            Periods(state).reopen(name, actor(), reason, now_us(context))
    print_stderr(f"period {name} is open again; close it when it is correct")


@period.command("sign")
def sign(
    context: typer.Context,
    name: Name,
    signer: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the signer.")],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note by the signer.")] = "",
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Sign the current closing of a period. Several people may sign."""
    if (server := lockfile.find(data)) is not None:
        body = {"name": signer, "note": note}
        digest = remote.post(server, f"{ROUTE}/{quote(name, safe='')}/sign", body)["digest"]
    else:
        from gpuwatch.billing.periods.repository import Periods

        with _state(data) as state:
            digest = Periods(state).sign(name, signer, note, actor(), now_us(context)).digest
    print_stderr(f"period {name} signed by {signer}: {digest}")


@period.command("verify")
def verify(name: Name, data: DataOption = DEFAULT_DATA, form: FormatOption = None) -> None:
    """Verify the digest of every closing. Exits with 1 if one does not match."""
    from gpuwatch.billing.periods.frozen import digest_of

    choose(form, True)
    rows = [
        {"period": name, "number": number, "digest": digest, "recomputed": again, "holds": again == digest}
        for number, digest, again in ((n, recorded, digest_of(text)) for n, recorded, text in _contents(data, name))
    ]
    show(Listing(("period", "number", "digest", "recomputed", "holds"), rows), form)
    if not all(row["holds"] for row in rows):
        raise typer.Exit(NO)


def _contents(data: Path, name: str) -> list[tuple[int, str, str]]:
    """(number, digest, text) of every closing of a period, newest first."""
    if (note := lockfile.find(data)) is not None:
        place = f"{ROUTE}/{quote(name, safe='')}"
        closings = json.loads(remote.get(note, place, {"limit": 1}))["period"]["closings"]
        return [
            (n, recorded, remote.get(note, f"{place}/content", {"number": n}).decode())
            for n, recorded in ((one["number"], one["digest"]) for one in closings)
        ]
    from gpuwatch.billing.periods.repository import Periods
    from gpuwatch.billing.periods.view import history

    with _state(data) as state:
        found = history(state, name)
        return [(one.number, one.digest, Periods(state).content(name, one.number)) for one in found]


def _forced(closings: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each forced closing with what was missing."""
    forced = [one for one in closings if one["forced"]]
    return [f"Period {one['period']}, closing {one['number']}, was forced: {one['forced_why']}" for one in forced]


def _most_expensive(row: Mapping[str, Any]) -> tuple[str, bool, Decimal]:
    """Sort key: by currency, most expensive first, rows without a price last."""
    cost = row["cost_exact"]
    return row["currency"] or "", cost is None, -Decimal(cost or 0)


def _total(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The total of corrections by currency."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for line in lines:
        if line["cost"] is not None:
            sums[line["currency"] or ""] += Decimal(line["cost"])
    return [{"cost": f"{sums[currency]:f}", "currency": currency} for currency in sorted(sums)]


def _head(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {column: answer[column] for column in HEAD}


@contextmanager
def _state(data: Path) -> Iterator[State]:
    """Only the state database: frozen periods do not need the ledger."""
    if not data.is_dir():
        raise StoreError(f"no gpuwatch data in {data}: import something first, or pass --data DIR")
    with state_only(data) as state:
        yield state


group("period", period, place=260)
