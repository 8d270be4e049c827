"""The `gpuwatch backtest` command: runs a rule over a past window."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from gpuwatch.commands import hints, remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import DEFAULT_DATA, ConfigOption, DataOption, FormatOption, now_us, opened, show
from gpuwatch.commands.windows import WindowOption, window_of
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

COLUMNS = (
    "change", "key", "cluster", "subject", "team", "started_at", "ended_at", "confidence", "gpu_hours", "cost", "currency",
    "summary", "verdict",
)  # fmt: skip
SHOWN = ("change", "subject", "team", "started_at", "gpu_hours", "cost", "summary", "verdict")


def backtest(
    context: typer.Context,
    rule: Annotated[str, typer.Argument(metavar="DETECTOR", help="Id of a rule; see gpuwatch detectors show.")],
    window: WindowOption = "7d",
    data: DataOption = DEFAULT_DATA,
    preset: Annotated[str | None, typer.Option("--preset", metavar="P", help="Preset to try.")] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option("--threshold", metavar="NAME=VALUE", help="Threshold to try, e.g. idle_us_min=30m."),
    ] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Try a rule on past data. Compares what it would have flagged with its current settings; stores nothing."""
    from gpuwatch.analysis.backtest_request import asked_thresholds, pairs

    chosen = choose(form, sys.stdout.isatty())
    given, span = pairs(threshold or []), window_of(window, context)
    if (note := lockfile.find(data)) is not None:
        from gpuwatch.core.clock import rfc3339

        body: dict[str, Any] = {"window": f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"}
        body |= {"preset": preset, "thresholds": given or None, "cluster": cluster}
        result = remote.post(note, f"/api/v1/detectors/{rule}/backtest", body)
        hint = None
        if not result["items"]:
            ledger = json.loads(remote.get(note, "/api/v1/ledger", {"window": body["window"]}))
            hint = hints.empty_served(note, ledger["capacity_gpu_seconds"])
    else:
        from gpuwatch.analysis.backtest import as_dict
        from gpuwatch.analysis.backtest import backtest as tried
        from gpuwatch.analysis.rules_listing import all_rules
        from gpuwatch.billing.chargeback import price_all

        with opened(data, config) as (store, state, settings):
            known = all_rules(settings, store)
            if rule not in known:
                raise UsageError(f"detector {rule}: unknown; known: {', '.join(known)}")
            chosen_preset, thresholds = asked_thresholds(known[rule], preset, given)
            price_all(store, state)
            hint = hints.empty_outside(store, span)
            result = as_dict(
                tried(
                    store,
                    state,
                    settings,
                    known[rule],
                    span,
                    now_us(context),
                    preset=chosen_preset,
                    thresholds=thresholds,
                    cluster=cluster,
                )
            )
    items = result["items"]
    if chosen == "table":
        items = [item | {"subject": item["subject"]["id"]} for item in items]
    extra = {name: value for name, value in result.items() if name != "items"}
    show(Listing(COLUMNS, items, extra, shown=SHOWN, foot=_foot(result)), chosen)
    hints.print_hint(hint)


def _foot(result: dict[str, Any]) -> list[str]:
    changes, feedback = result["changes"], result["feedback"]
    lines = [f"Window: {result['window']['start']} to {result['window']['end']}, UTC"]
    lines.append(
        f"With these settings: {_words(result['total'])}. With the current settings: {_words(result['today'])}."
    )
    lines.append(f"New: {changes['new']}, gone: {changes['gone']}, unchanged: {changes['same']}.")
    if feedback["precision"] is not None:
        reviewed = feedback["true_positives"] + feedback["false_positives"]
        between = f"{100 * feedback['precision_low']:.0f} to {100 * feedback['precision_high']:.0f} %, 95 % confidence"
        lines.append(
            f"Owners marked {feedback['true_positives']} of {reviewed} correct ({between}); {feedback['unsaid']} not reviewed."
        )
    if result["left_out"]:
        lines.append(
            f"{result['left_out']} more are included in the totals. The list has at most 1,000; choose a shorter window."
        )
    return lines


def _words(sums: dict[str, Any]) -> str:
    money = ", ".join(f"{price['amount']} {price['currency']}" for price in sums["cost"]) or "no price"
    return f"{sums['findings']} findings, {float(sums['gpu_hours']):,.1f} GPU-hours, {money}"


command("backtest", backtest, place=180)
