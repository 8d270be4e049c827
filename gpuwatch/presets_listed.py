"""The rules as everybody reads them: words, thresholds in force with their sources, and what owners said of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuwatch import site_rules
from gpuwatch.analyze import parameters as site_parameters
from gpuwatch.detectors.rule import Rule, rules
from gpuwatch.presets import source_of
from gpuwatch.presets_card import ALL, Layer, layers
from gpuwatch.presets_sets import in_force
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.state.actions import Actions, Feedback
from gpuwatch.store import Store


def all_rules(settings: Settings, store: Store) -> dict[str, Rule]:
    """gpuwatch's own rules and those of the site, by id."""
    return dict(sorted({**rules(), **site_rules.load(settings.detectors_dir, store)}.items()))


def listed(
    known: Mapping[str, Rule], state: State, settings: Settings, team_bound: bool = False
) -> list[dict[str, Any]]:
    """Rules as JSON has them: what holds where the card names no pool and no team. `team_bound` leaves feedback out."""
    found = layers(state)
    feedback = {} if team_bound else Actions(state).feedback()
    return [
        _item(rule, found, settings, None if team_bound else feedback.get(rule.id, Feedback()))
        for rule in known.values()
    ]


def _item(rule: Rule, found: tuple[Layer, ...], settings: Settings, told: Feedback | None) -> dict[str, Any]:
    base = site_parameters(rule, settings)
    known = in_force(found, rule.id, base)
    values = base if known.parameters is None else known.parameters
    file = site_rules.file_of(rule.id)
    return {
        "id": rule.id,
        "title": rule.title,
        "why": rule.why,
        "remedy": None,
        "bucket": rule.bucket,
        "mode": rule.mode,
        "origin": "gpuwatch" if file is None else "site",
        "file": file,
        "preset": known.preset,
        "off": known.parameters is None,
        "thresholds": {name: float(value) for name, value in values.items()},
        "sources": {
            t.name: _source(rule, t.name, t.source, values, base, known.preset, found) for t in rule.thresholds
        },
        "feedback": None
        if told is None
        else {
            "true_positives": told.true_positives,
            "false_positives": told.false_positives,
            "precision": told.precision,
        },
        "doc": f"docs/detectors/{rule.id}.md" if file is None else file,
    }


def _source(
    rule: Rule,
    name: str,
    own: str,
    values: Mapping[str, Any],
    base: Mapping[str, Any],
    preset: str,
    found: tuple[Layer, ...],
) -> str:
    """Where a number in force comes from: the card, its preset, the settings, or the rule's page."""
    set_here = any((rule.id, name) == given[:2] for layer in found if layer.scope == ALL for given in layer.thresholds)
    if set_here:
        return "set on the card of detectors"
    if (told := source_of(preset, rule.id, name)) is not None:
        return told
    return own if values[name] == rule.parameters[name] else f"the setting of the site; by itself: {own}"
