"""Reads one policy of a document, field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gpuwatch.core.money import EXACT_PLACES
from gpuwatch.policy import policy as p
from gpuwatch.policy.values import FACTOR_PLACES, MAX_ITEMS, Values, shown
from gpuwatch.rates.presets import POLICIES

MAX_SECONDS, MAX_MINUTES = 86_400, 10_080
"""Longest billing increment (a day) and checkpoint interval (a week)."""
GPU_DIGITS, AMOUNT_DIGITS = 7, 10
"""Digits before the point of a quota and of a shared cost: microseconds and money have to be added up in whole numbers."""

_LABEL = re.compile(r"[\w./:@-]{1,317}")
"""Keys of labels: a domain, a slash and a name."""
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_FIELDS = (
    "name", "valid_from", "valid_to", "preset", "basis", "payers", "quotas", "discounts", "minimum_billing_seconds",
    "checkpoint_minutes", "mig_share_method", "shared",
)  # fmt: skip
_TAKEN_BY = {p.QUOTA_HOLDER: ("idle", "stranded"), p.OWNER: (p.LOST_WORK,), p.CAUSER: ()}
_WHY_NOT = {
    (p.QUOTA_HOLDER, "out_of_service"): "a broken GPU is kept for nobody; use platform, proportional or even",
    (p.QUOTA_HOLDER, "mig_remainder"): "no quota covers what no slice can; use platform, proportional or even",
    (p.QUOTA_HOLDER, p.UNUSED): "what is held is no free quota; use platform, proportional or even",
    (p.OWNER, p.UNUSED): "that is the basis allocated: set basis instead",
}
_NO_OWNER = "nobody held it; use platform, proportional or even"
_NO_CAUSE = "no record says who caused it; use platform, proportional or even"
_LOST = "only owner (who ran it), platform or cause may pay for it"


class PolicyReader(Values):
    """Reads one policy; adds every mistake to `problems` and continues."""

    def policy(self, row: Any) -> p.Policy | None:
        before = len(self.problems)
        if not isinstance(row, Mapping):
            self.wrong("", "is no table", "write [[policies]] with name and valid_from")
            return None
        for name in row:
            if name not in _FIELDS:
                self.wrong(name, "is not known", f"known: {', '.join(_FIELDS)}")
        preset = self.choice("preset", row.get("preset"), tuple(POLICIES), optional=True)
        row = {**POLICIES.get(preset or "", {}), **row}
        start, end = self.day(row, "valid_from", required=True), self.day(row, "valid_to", required=False)
        if start is not None and end is not None and end <= start:
            self.wrong("valid_to", "is not after valid_from", "name a later midnight, or leave it out")
        method = self.choice("mig_share_method", row.get("mig_share_method"), p.SHARE_METHODS, optional=True)
        made: dict[str, Any] = {
            "name": self.text(row, "name"),
            "basis": self.basis(row.get("basis", "allocated")),
            "payers": self.payers(row.get("payers", {})),
            "quotas": tuple(self.each(row, "quotas", self.quota)),
            "discounts": tuple(self.each(row, "discounts", self.discount)),
            "minimum_billing_seconds": self.whole(row, "minimum_billing_seconds", 0, MAX_SECONDS),
            "checkpoint_minutes": self.whole(row, "checkpoint_minutes", p.CHECKPOINT_MINUTES, MAX_MINUTES),
            "shared": tuple(self.each(row, "shared", self.shared)),
        }
        self.check_together(made)
        if len(self.problems) > before or start is None:
            return None
        return p.Policy(valid_from_us=start, valid_to_us=end, mig_share_method=method, preset=preset, **made)

    def check_together(self, made: Mapping[str, Any]) -> None:
        """Checks fields that depend on each other."""
        quota_paid = any(entry.payer == p.QUOTA_HOLDER for _, entry in made["payers"])
        if quota_paid and not made["quotas"]:
            self.wrong("quotas", "is empty, and quota_holder pays", "name the quotas, or another payer")
        for n, other in self.repeated([cost.name for cost in made["shared"]]):
            self.wrong(f"shared.{n}.name", f"is that of shared.{other}", "give each shared cost its own name")

    def basis(self, value: Any) -> tuple[tuple[str, Decimal], ...]:
        """A basis by name, or weights that add up to 1."""
        weights = {value: "1"} if isinstance(value, str) else value
        if not isinstance(weights, Mapping) or not weights:
            self.wrong("basis", "is neither a name nor weights", f"use {', '.join(p.BASES)} or {{used = 0.5, ...}}")
            return ()
        kept = {}
        for name, weight in weights.items():
            if name not in p.BASES:
                self.wrong("basis", f"{shown(name)} is not known", f"use {', '.join(p.BASES)}")
            kept[name] = self.factor(f"basis.{name}", weight)
        if sum(kept.values()) != 1 and all(name in p.BASES for name in kept):
            self.wrong("basis", f"weights add up to {sum(kept.values())}", "make them add up to 1")
        return tuple((name, kept[name]) for name in p.BASES if kept.get(name))

    def payers(self, value: Any) -> tuple[tuple[str, p.Payer], ...]:
        if not isinstance(value, Mapping):
            self.wrong("payers", "is no table", 'write payers = { idle = "proportional" }')
            return ()
        for cause in value:
            if cause not in p.CAUSES:
                self.wrong(f"payers.{cause}", "is not known", f"known: {', '.join(p.CAUSES)}")
        return tuple((cause, self.payer(cause, value[cause])) for cause in p.CAUSES if cause in value)

    def payer(self, cause: str, value: Any) -> p.Payer:
        where = f"payers.{cause}"
        entry = {"payer": value} if isinstance(value, str) else value
        if not isinstance(entry, Mapping) or set(entry) - {"payer", "scope"} or entry.get("payer") not in p.PAYERS:
            self.wrong(where, "names no payer", f"use one of {', '.join(p.PAYERS)}, or {{payer = ..., scope = [...]}}")
            return p.Payer()
        who, scope = entry["payer"], entry.get("scope", list(p.SCOPE))
        if refusal := _refusal(cause, who):
            self.wrong(where, f"{who} cannot pay for {cause}", refusal)
        if not isinstance(scope, list) or any(name not in p.SCOPE for name in scope):
            self.wrong(f"{where}.scope", "is no list of dimensions", f"known: {', '.join(p.SCOPE)}")
            scope = []
        if "scope" in entry and who not in (p.PROPORTIONAL, p.EVEN):
            self.wrong(f"{where}.scope", f"{who} has no scope", "leave it out: it is for proportional and even")
        return p.Payer(who, tuple(name for name in p.SCOPE if name in scope))

    def quota(self, where: str, row: Mapping[str, Any]) -> p.Quota | None:
        self.only(where, row, ("team", "gpus", *p.SCOPE))
        team = self.team(f"{where}.team", row.get("team"))
        gpus = self.number(f"{where}.gpus", row.get("gpus"), GPU_DIGITS, FACTOR_PLACES)
        words = {name: self.word(f"{where}.{name}", row.get(name)) for name in p.SCOPE}
        if self.known.places is not None and not any(
            p.matches(words["cluster"], words["pool"], words["gpu_model"], place) for place in self.known.places
        ):
            self.wrong(where, "no GPU of the fleet lies in it", "correct cluster, pool or gpu_model")
        return None if gpus is None else p.Quota(team, gpus, words["cluster"], words["pool"], words["gpu_model"])

    def discount(self, where: str, row: Mapping[str, Any]) -> p.Discount | None:
        words = [name for name in row if name != "factor"]
        known = [name for name in words if name in p.DISCOUNT_WORDS[:3] or name == "preemptible"]
        known += [name for name in words if name.startswith("label:") and len(name) > len("label:")]
        if len(words) != 1 or known != words:
            self.wrong(
                where, "does not name one thing to match", "write qos, priority, queue, label:KEY or preemptible"
            )
            return None
        factor = self.factor(f"{where}.factor", row.get("factor"))
        word, _, key = words[0].partition(":")
        if key and not _LABEL.fullmatch(key):
            self.wrong(f"{where}.{words[0]}", "is no key of a label", "write letters, digits, and . _ / - : @")
        if word == "preemptible":
            if row[word] not in (True, "true"):
                self.wrong(f"{where}.preemptible", "is not true", "write preemptible = true")
            return p.Discount(word, "true", factor)
        return p.Discount(word, self.name(f"{where}.{words[0]}", row[words[0]]), factor, key)

    def shared(self, where: str, row: Mapping[str, Any]) -> p.SharedCost | None:
        self.only(where, row, ("name", "amount", "per", "currency", "split", "teams", "percentages"))
        before = len(self.problems)
        name = self.name(f"{where}.name", row.get("name"))
        if name in (*p.CAUSES, p.DISCOUNT, p.MINIMUM):
            self.wrong(f"{where}.name", f"{name!r} is a cost of the fleet", "name it otherwise")
        amount = self.number(f"{where}.amount", row.get("amount"), AMOUNT_DIGITS, EXACT_PLACES)
        per = self.choice(f"{where}.per", row.get("per"), p.PERIODS)
        currency = self.currency(f"{where}.currency", row.get("currency"))
        split = self.choice(f"{where}.split", row.get("split"), p.SPLITS)
        teams = row.get("teams", [])
        if not isinstance(teams, list) or len(teams) > MAX_ITEMS:
            self.wrong(f"{where}.teams", "is no list", f"write the names of up to {MAX_ITEMS} teams")
            teams = []
        if split == "fixed" and teams:
            self.wrong(f"{where}.teams", "says who pays beside percentages", "leave it out")
        named = [self.team(f"{where}.teams.{n}", team) for n, team in enumerate(teams)]
        for n, other in self.repeated(named):
            self.wrong(f"{where}.teams.{n}", f"is that of teams.{other}", "name each team once")
        parts = self.percentages(where, split, row.get("percentages"))
        if len(self.problems) > before or amount is None:
            return None
        return p.SharedCost(name, amount, str(per), str(currency), str(split), tuple(named), parts)

    def currency(self, where: str, value: Any) -> str:
        if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
            self.wrong(where, "is no three-letter ISO 4217 code", "write one such as USD")
        elif self.known.currencies is not None and value not in self.known.currencies:
            fix = f"use one of {', '.join(sorted(self.known.currencies))}, or add a rate for it to the fx card"
            self.wrong(where, f"{value} is neither a price's nor has it an exchange rate", fix)
        return str(value)

    def percentages(self, where: str, split: Any, value: Any) -> tuple[tuple[str, Decimal], ...]:
        if split != "fixed":
            if value is not None:
                self.wrong(f"{where}.percentages", "is for a fixed split", 'write split = "fixed", or leave it out')
            return ()
        if not isinstance(value, Mapping) or not value or len(value) > MAX_ITEMS:
            what = f"names more than {MAX_ITEMS} teams" if isinstance(value, Mapping) and value else "is missing"
            self.wrong(f"{where}.percentages", what, "write { team = 60, other = 40 }")
            return ()
        parts = tuple(
            (self.team(f"{where}.percentages", team), self.factor(f"{where}.percentages.{team}", part, 100))
            for team, part in value.items()
        )
        if self.repeated([team for team, _ in parts]):
            self.wrong(f"{where}.percentages", "names a team twice", "name each team once, without blanks around it")
        if (total := sum(part for _, part in parts)) != 100:
            self.wrong(f"{where}.percentages", f"add up to {total}", "make them add up to 100")
        return tuple(sorted(parts))


def _refusal(cause: str, who: str) -> str | None:
    """Why somebody cannot pay for a cost, and who can; None where he can."""
    if cause == p.LOST_WORK:
        return None if who in (p.OWNER, p.PLATFORM, p.CAUSER) else _LOST
    if who not in _TAKEN_BY or cause in _TAKEN_BY[who]:
        return None
    return _WHY_NOT.get((who, cause)) or (_NO_OWNER if who == p.OWNER else _NO_CAUSE)
