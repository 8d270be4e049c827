"""The rules as the API returns them: texts, effective thresholds with their sources, and feedback of owners."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuwatch.analysis.pipeline import parameters as site_parameters
from gpuwatch.core import sqlfile
from gpuwatch.findings import custom_rules
from gpuwatch.findings.effective_thresholds import in_force
from gpuwatch.findings.presets import PRESETS, source_of
from gpuwatch.findings.repository import Actions, Feedback
from gpuwatch.findings.texts import SEVERITIES, SEVERITY_ORDER
from gpuwatch.findings.threshold_overrides import ALL, Layer, layers
from gpuwatch.rules.rule import Rule, rules
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

Z95 = 1.959964
"""Standard deviations on either side that hold 95 % of a normal distribution."""
_SEVERITY = re.compile(f"'({'|'.join(SEVERITY_ORDER)})'")


def all_rules(settings: Settings, store: Store) -> dict[str, Rule]:
    """gpuwatch's own rules and those of the site, by id."""
    return dict(sorted({**rules(), **custom_rules.load(settings.detectors_dir, store)}.items()))


def pools_of(store: Store) -> list[tuple[str, str]] | None:
    """Clusters and pools that overrides may name; None if no device has a pool yet."""
    rows = store.sql("select distinct cluster, pool from device where pool is not null order by all")
    return [(cluster, pool) for cluster, pool in rows] or None


def listed(
    known: Mapping[str, Rule], state: State, settings: Settings, team_bound: bool = False
) -> list[dict[str, Any]]:
    """Rules as JSON, with the thresholds that apply without an override of a pool or team. `team_bound` leaves feedback out."""
    found = layers(state)
    feedback = {} if team_bound else Actions(state).feedback()
    return [
        _item(rule, found, settings, None if team_bound else feedback.get(rule.id, Feedback()))
        for rule in known.values()
    ]


def presets() -> list[dict[str, Any]]:
    """The presets as JSON: their values and the sources of the numbers."""
    return [
        {"name": each.name, "title": each.title, "values": [vars(value) for value in each.values]}
        for each in PRESETS.values()
    ]


def severities(rule: Rule) -> list[str]:
    """The severities that findings of a rule can have, least severe first: those named in its code or SQL, else by cost."""
    sql = rule.sql or "".join(statement.text for statement in sqlfile.load(f"detectors/{rule.stem}"))
    named = set(_SEVERITY.findall(sql)) if re.search(r"\bas severity\b", sql) else set()
    if rule.severity is not None:
        cells = [cell.cell_contents for cell in rule.severity.__closure__ or ()]
        named |= {word for word in (*rule.severity.__code__.co_consts, *cells) if word in SEVERITY_ORDER}
    named = named or {name for _, name in SEVERITIES} | {"high"}
    return [word for word in SEVERITY_ORDER if word in named]


def _item(rule: Rule, found: tuple[Layer, ...], settings: Settings, feedback: Feedback | None) -> dict[str, Any]:
    base = site_parameters(rule, settings)
    known = in_force(found, rule.id, base)
    values = base if known.parameters is None else known.parameters
    file = custom_rules.file_of(rule.id)
    return {
        "id": rule.id,
        "title": rule.title,
        "why": rule.why,
        "remedy": None,
        "bucket": rule.bucket,
        "mode": rule.mode,
        "severities": severities(rule),
        "origin": "gpuwatch" if file is None else "site",
        "file": file,
        "preset": known.preset,
        "off": known.parameters is None,
        "thresholds": {name: float(value) for name, value in values.items()},
        "sources": {
            t.name: _source(rule, t.name, t.source, values, base, known.preset, found) for t in rule.thresholds
        },
        "feedback": None if feedback is None else feedback_of(feedback),
        "doc": f"docs/detectors/{rule.id}.md" if file is None else file,
    }


def feedback_of(feedback: Feedback) -> dict[str, Any]:
    """Feedback of owners as JSON, with the 95 % confidence interval of the precision after Wilson (1927)."""
    true, false = feedback.true_positives, feedback.false_positives
    low, high = _interval(true, true + false)
    return {
        "true_positives": true,
        "false_positives": false,
        "precision": feedback.precision,
        "precision_low": low,
        "precision_high": high,
    }


def _interval(hits: int, rated: int) -> tuple[float | None, float | None]:
    """The score interval of a share: wide for few answers, None for none."""
    if not rated:
        return None, None
    share, z2 = hits / rated, Z95 * Z95
    middle = (share + z2 / (2 * rated)) / (1 + z2 / rated)
    half = Z95 * (share * (1 - share) / rated + z2 / (4 * rated * rated)) ** 0.5 / (1 + z2 / rated)
    return round(max(middle - half, 0.0), 4), round(min(middle + half, 1.0), 4)


def _source(
    rule: Rule,
    name: str,
    own: str,
    values: Mapping[str, Any],
    base: Mapping[str, Any],
    preset: str,
    found: tuple[Layer, ...],
) -> str:
    """Where an effective number comes from: an override, its preset, the settings, or the rule's page."""
    set_here = any((rule.id, name) == given[:2] for layer in found if layer.scope == ALL for given in layer.thresholds)
    if set_here:
        return "set on the card of detectors"
    if (source := source_of(preset, rule.id, name)) is not None:
        return source
    return own if values[name] == rule.parameters[name] else f"the setting of the site; by itself: {own}"
