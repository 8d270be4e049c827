"""The table of GPU models: what each cost, and how much of it was held. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Column, Section, Table, Text, row
from gpuwatch.report.facts import Amount, Facts, ModelUse, added
from gpuwatch.report.html.markup import name
from gpuwatch.report.tables import OTHERS, money_of

MODELS_SHOWN = 12


def models(facts: Facts) -> Section | None:
    """The cost of each GPU model; None where there is only one."""
    groups: dict[str | None, list[ModelUse]] = defaultdict(list)
    for use in facts.models:
        groups[use.gpu_model].append(use)
    if len({use.gpu_model for use in facts.models if use.kind in ("allocated", "platform")}) < 2:
        return None
    lines = [(model, added(u.amount for u in uses), uses) for model, uses in groups.items()]
    lines.sort(key=lambda line: (line[0] is None, -money_of(line[1]), -line[1].gpu_seconds, str(line[0])))
    shown, rest = lines[:MODELS_SHOWN], lines[MODELS_SHOWN:]
    costs = report_text.cells([amount for _, amount, _ in shown], facts.currency)
    rows = []
    _, *hours = report_text.hour_column([amount.gpu_hours for _, amount, _ in shown])
    for (model, amount, uses), cost, owned in zip(shown, costs, hours, strict=True):
        costs_only = model is None and not amount.gpu_seconds
        cells = ["Costs without a GPU" if costs_only else _model(model), cost, owned]
        rows.append(row([*cells, _held_share(amount, uses)] if facts.team is None else cells))
    columns = [Column("Model", part=3), Column("Cost", number=True), Column("GPU-hours", number=True)]
    columns += [Column("Held", number=True)] if facts.team is None else []
    blocks: list[Block] = [Table(tuple(columns), tuple(rows))]
    if rest:
        blocks.append(Text(f"{len(rest)} {OTHERS}.", "soft"))
    return Section(f"GPU models: {_model(shown[0][0])} costs the most", tuple(blocks))


def _held_share(amount: Amount, uses: Sequence[ModelUse]) -> str:
    """The held part of the GPU time of a model."""
    held = sum((use.amount.gpu_seconds for use in uses if use.kind == "allocated"), Decimal(0))
    return report_text.percent(report_text.ratio(held, amount.gpu_seconds)) if amount.gpu_seconds else ""


def _model(model: str | None) -> str:
    return name((model or "").removeprefix("NVIDIA "), "unknown model")
