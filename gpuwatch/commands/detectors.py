"""The `gpuwatch detectors` commands: show rules, set thresholds, check custom rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    actor,
    file_content,
    now_us,
    opened,
    print_stderr,
    show,
)
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

detectors = typer.Typer(
    help="Show rules, set thresholds, check custom rules.", rich_markup_mode=None, no_args_is_help=True
)
COLUMNS = ("id", "title", "bucket", "severities", "origin", "preset", "off", "thresholds", "sources", "feedback", "doc")
SHOWN = ("id", "title", "bucket", "preset", "state", "precision")
REFUSED = ("file", "line", "reason", "fix")
NO = 1
"""Exit code for a negative result."""


@detectors.command("show")
def show_(
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """List all rules. Shows whether they are enabled and their precision from owners' feedback."""
    from gpuwatch.analysis.rules_listing import all_rules, listed, presets
    from gpuwatch.findings import custom_rules
    from gpuwatch.findings.threshold_overrides import answer

    chosen = choose(form, sys.stdout.isatty())
    if (note := lockfile.find(data)) is not None:
        response = remote.every(note, "/api/v1/detectors", {})
        items, refused = response["items"], response["refused"]
        card: dict[str, Any] = json.loads(remote.get(note, "/api/v1/detectors/card", {}))
    else:
        with opened(data, config) as (store, state, settings):
            items = listed(all_rules(settings, store), state, settings)
            refused = [each.__dict__ for each in custom_rules.refused()]
            card = answer(state)
    foot = [
        f"Settings version {card['version']}; overrides for {len(card['pools'])} pools and {len(card['teams'])} teams."
    ]
    foot += [f"Rejected: {each['file']}:{each['line']}: {each['reason']}; {each['fix']}" for each in refused]
    if chosen == "table":
        items = [item | {"state": "off" if item["off"] else "on", "precision": _precision(item)} for item in items]
    show(
        Listing(COLUMNS, items, {"card": card, "presets": presets(), "refused": refused}, shown=SHOWN, foot=foot),
        chosen,
    )


@detectors.command("set")
def set_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML or JSON; see docs/act/thresholds.md.")],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Set presets, thresholds and disabled rules from a file. Nothing changes if it is invalid."""
    from gpuwatch.findings.threshold_overrides import MAX_BYTES

    content = file_content(file, MAX_BYTES)
    if (note := lockfile.find(data)) is not None:
        kind = "application/json" if content.lstrip().startswith(b"{") else "application/toml"
        done = remote.send(note, "PUT", "/api/v1/detectors/card", content, kind, {})
    else:
        from gpuwatch.analysis.rules_listing import all_rules, pools_of
        from gpuwatch.findings.threshold_overrides import put, read
        from gpuwatch.policy.known_names import team_names

        with opened(data, config) as (store, state, settings):
            teams = team_names(store, state) or None
            found = read(content, file.name, all_rules(settings, store), teams, pools_of(store))
            done = put(state, found, file.name, actor(), now_us(context))
    typer.echo(f"detector settings, version {done['version']}{'' if done['changed'] else ', unchanged'}")


@detectors.command("validate")
def validate(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory of SQL files; see docs/act/site-detectors.md.")
    ],
    form: FormatOption = None,
) -> None:
    """Check custom rules before use. Lists each rejected file with line, reason and fix."""
    from gpuwatch.findings.custom_rules import read
    from gpuwatch.store.database import Store

    chosen = choose(form, sys.stdout.isatty())
    with Store.open(None) as store:
        loaded = read(directory, store)
    for rule_id, file in loaded.files.items():
        print_stderr(f"valid: {file}: {rule_id}")
    items = [each.__dict__ for each in loaded.refused]
    show(Listing(REFUSED, items, foot=[] if items else [f"{len(loaded.rules)} valid, none rejected."]), chosen)
    if items:
        raise typer.Exit(NO)


def _precision(item: dict[str, Any]) -> str | None:
    feedback = item["feedback"]
    if feedback is None or feedback["precision"] is None:
        return None
    between = f"{100 * feedback['precision_low']:.0f} to {100 * feedback['precision_high']:.0f}"
    return (
        f"{100 * feedback['precision']:.0f} % of {feedback['true_positives'] + feedback['false_positives']} ({between})"
    )


group("detectors", detectors, place=200)
