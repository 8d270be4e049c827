"""The `gpuwatch policy` commands: show who pays for what, set it, and ask what another policy would bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
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

policy = typer.Typer(help="Policies: which team pays for what.", rich_markup_mode=None, no_args_is_help=True)
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
    """The policies in force by day; JSON has them whole, as `policy set` takes them, and the versions there were."""
    from gpuwatch.billing.policy_document import answer, summary
    from gpuwatch.policy.repository import stored_policies

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        said: dict[str, Any] = json.loads(remote.get(note, "/api/v1/policies", {}))
    else:
        with opened(data, config) as (_, state, _settings):
            said = answer(state, now_us(context))
    foot = [f"In force now: {said['in_force']} (version {said['version']})."]
    if not said["items"]:
        foot = ["No policies: teams pay for what they hold, the platform for the rest. gpuwatch policy set FILE."]
    shown = _is_table(form)
    rows = [summary(item) for item in stored_policies(said["items"])] if shown else said["items"]
    fields = tuple(said["items"][0]) if said["items"] else COLUMNS
    extra = {name: said[name] for name in ("version", "in_force", "history")}
    show(Listing(COLUMNS if shown else fields, rows, extra, foot=foot), form)


@policy.command("set")
def set_(
    context: typer.Context, file: FileArgument, data: DataOption = DEFAULT_DATA, config: ConfigOption = None
) -> None:
    """Replaces the policies: the whole file, or nothing where anything in it is wrong."""
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
    typer.echo(f"{done['rows']} policies, version {done['version']}{'' if done['changed'] else ', as before'}")


@policy.command("what-if")
def what_if_(
    context: typer.Context,
    file: FileArgument,
    window: WindowOption,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """What each team pays now, and would pay under the policies of a file; nothing is changed."""
    from gpuwatch.policy.parse import MAX_BYTES

    choose(form, True)
    content, span = file_content(file, MAX_BYTES), window_of(window, context)
    if (note := lockfile.find(data)) is not None:
        asked = {"window": _exact(span)}
        said = remote.send(note, "POST", "/api/v1/policies/what-if", content, _kind(content), asked)
    else:
        from gpuwatch.billing.chargeback import price_all
        from gpuwatch.billing.policy_document import difference_answer, proposed
        from gpuwatch.billing.what_if import compare

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            rules = proposed(store, state, content, str(file))
            said = difference_answer(compare(store, state, span, rules), span)
    foot = [f"Window: {said['window']['start']} to {said['window']['end']}, UTC"]
    show(Listing(CHANGES, said["items"], {"window": said["window"]}, foot=foot), form)


def _kind(content: bytes) -> str:
    return "application/json" if content.lstrip().startswith(b"{") else "application/toml"


def _is_table(form: str | None) -> bool:
    import sys

    return choose(form, sys.stdout.isatty()) == "table"


def _exact(span: Window) -> str:
    from gpuwatch.core.clock import rfc3339

    return f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"


group("policy", policy, place=230)
