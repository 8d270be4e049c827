"""The `gpuwatch policy` commands: show, set and compare chargeback policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    DEFAULT_WINDOW,
    ConfigOption,
    DataOption,
    FormatOption,
    WindowOption,
    actor,
    file_content,
    now_us,
    opened,
    show,
    window_of,
)
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window

policy = typer.Typer(help="Show, set and compare chargeback policies.", rich_markup_mode=None, no_args_is_help=True)
COLUMNS = ("name", "valid_from", "valid_to", "basis", "payers", "more")
CHANGES = ("team", "now", "then", "difference", "currency")

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="TOML or JSON with policies; see docs/charge-back/policies.md.")
]


@policy.command("show")
def show_(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show the policies and when they apply. JSON has the full definitions and the history."""
    from gpuwatch.billing.policy_document import answer, summary
    from gpuwatch.policy.repository import stored_policies

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        response: dict[str, Any] = json.loads(remote.get(note, "/api/v1/policies", {}))
    else:
        with opened(data, config) as (_, state, _settings):
            response = answer(state, now_us(context))
    foot = [f"In effect now: {response['in_force']} (version {response['version']})."]
    if not response["items"]:
        foot = [
            "No policies: teams pay for what they hold, the platform for the rest. Set them with gpuwatch policy set FILE."
        ]
    shown = _is_table(form)
    rows = [summary(item) for item in stored_policies(response["items"])] if shown else response["items"]
    fields = tuple(response["items"][0]) if response["items"] else COLUMNS
    extra = {name: response[name] for name in ("version", "in_force", "history")}
    show(Listing(COLUMNS if shown else fields, rows, extra, foot=foot), form)


@policy.command("set")
def set_(
    context: typer.Context, file: FileArgument, data: DataOption = DEFAULT_DATA, config: ConfigOption = None
) -> None:
    """Replace all policies with a file. Nothing changes if it is invalid."""
    from gpuwatch.policy.parse import MAX_BYTES

    content = file_content(file, MAX_BYTES)
    if (note := lockfile.find(data)) is not None:
        done = remote.send(note, "PUT", "/api/v1/policies", content, _kind(content), {})
    else:
        from gpuwatch.billing.chargeback import price_all
        from gpuwatch.billing.policy_document import replace

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            done = replace(store, state, content, file.name, actor(), now_us(context))
    typer.echo(f"{done['rows']} policies, version {done['version']}{'' if done['changed'] else ', unchanged'}")


@policy.command("what-if")
def what_if_(
    context: typer.Context,
    file: FileArgument,
    window: WindowOption = DEFAULT_WINDOW,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Compare charges with the policies in a file. Nothing is changed."""
    from gpuwatch.policy.parse import MAX_BYTES

    choose(form, True)
    content, span = file_content(file, MAX_BYTES), window_of(window, context)
    if (note := lockfile.find(data)) is not None:
        parameters = {"window": _exact(span)}
        response = remote.send(note, "POST", "/api/v1/policies/what-if", content, _kind(content), parameters)
    else:
        from gpuwatch.billing.chargeback import price_all
        from gpuwatch.billing.policy_document import difference_answer, proposed
        from gpuwatch.billing.what_if import closed_in, compare

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            rules = proposed(store, state, content, str(file))
            response = difference_answer(compare(store, state, span, rules), span, closed_in(state, span))
    foot = [f"Window: {response['window']['start']} to {response['window']['end']}, UTC"]
    show(Listing(CHANGES, response["items"], {"window": response["window"]}, foot=foot), form)


def _kind(content: bytes) -> str:
    return "application/json" if content.lstrip().startswith(b"{") else "application/toml"


def _is_table(form: str | None) -> bool:
    import sys

    return choose(form, sys.stdout.isatty()) == "table"


def _exact(span: Window) -> str:
    from gpuwatch.core.clock import rfc3339

    return f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"


group("policy", policy, place=230)
