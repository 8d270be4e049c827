"""The `gpuwatch reclaim` command: idle devices that should be released."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    now_us,
    opened,
    print_stderr,
    show,
    write,
)
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose, visible
from gpuwatch.store import lockfile

COLUMNS = (
    "step", "key", "cluster", "job", "name", "scheduler", "team", "user", "nodes", "devices", "idle_devices", "idle_since",
    "idle_minutes", "step_at", "next_step", "next_at", "held_by", "held_until", "action", "preset", "confidence",
    "wasted_gpu_hours", "wasted_cost", "currency", "contention", "command",
)  # fmt: skip
SHOWN = ("step", "job", "team", "idle_devices", "idle_minutes", "next_step", "held_by", "wasted_cost", "contended_cost")


def reclaim(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    team: Annotated[str | None, typer.Option("--team", metavar="T", help="Only this team.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")] = None,
    step: Annotated[str | None, typer.Option("--step", metavar="S", help="Only jobs at this step.")] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Record the steps that are due (a running service does this itself).")
    ] = False,
    commands: Annotated[
        bool, typer.Option("--commands", help="Only print the recommended commands; nothing runs them.")
    ] = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """List jobs that hold idle devices. Shows the notices sent to their owners; never stops a job."""
    from gpuwatch.reclaim.measured import not_measured
    from gpuwatch.reclaim.state import advance, as_dict, check_step, proposals

    chosen = choose(form, sys.stdout.isatty())
    check_step(step)
    if (note := lockfile.find(data)) is not None:
        if record:
            raise UsageError(
                f"--record: process {note.pid} serves {data} and records the steps itself; remove this option"
            )
        answer = remote.every(note, "/api/v1/reclaim", {"team": team, "cluster": cluster, "step": step})
        items, reason = answer["items"], answer.get("not_measured")
    else:
        from gpuwatch.billing.chargeback import price_all

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            at_us = now_us(context)
            if record:
                advance(store, state, at_us)
            teams = None if team is None else [team]
            found = proposals(store, state, at_us, teams=teams, cluster=cluster)
            items = [as_dict(one) for one in found if step is None or one.at.step == step]
            reason = not_measured(store, cluster)
    if commands:
        _print_commands([item for item in items if item["command"] is not None and item["held_by"] is None])
        return
    if chosen == "table":
        items = [item | {"contended_cost": _contended_cost(item)} for item in items]
    foot = [] if items else [reason or "No job holds idle devices that should be released."]
    show(Listing(COLUMNS, items, shown=SHOWN, foot=foot), chosen)


def _contended_cost(item: dict[str, Any]) -> str | None:
    return item["contention"]["cost"] if item["contention"] else None


def _print_commands(items: Sequence[dict[str, Any]]) -> None:
    """The commands only, for a shell. Raises UsageError for several clusters: commands do not name theirs."""
    names = sorted({item["cluster"] for item in items})
    if len(names) > 1:
        raise UsageError(
            f"--commands: there are jobs in clusters {', '.join(names)}, and commands do not name their cluster; "
            "choose one with --cluster"
        )
    write("".join(f"{visible(item['command'])}\n" for item in items))
    if not items:
        print_stderr("No job has a recommended command. Run gpuwatch reclaim to list jobs and their steps.")


command("reclaim", reclaim, place=190)
