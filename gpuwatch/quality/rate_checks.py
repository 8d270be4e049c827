"""Prices and ownership rules without effect: rates for absent models, rules that match nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from gpuwatch.billing.prices import spot_nodes_of
from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.output.fix_hints import Advice
from gpuwatch.policy.ownership import LABEL_KIND, TEAM_LABEL, TeamRule, parse_labels
from gpuwatch.policy.repository import load_team_rules
from gpuwatch.quality.check import OK, WARN, Check, named
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate
from gpuwatch.rates.fx import Fx
from gpuwatch.rates.matching import match_models
from gpuwatch.rates.models import ANY_MODEL
from gpuwatch.state import State
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

WARNINGS_MAX = 100
"""Warnings listed in one answer; the rest are counted."""
MODELS_NAMED = 20
OVERLAPS_MAX = 100
"""Names matched by two rules that are reported."""

SPOT_DAYS_MAX = 7
"""Older spot prices are reported: clouds change theirs at least every few days."""

Names = Mapping[str, frozenset[str]]
"""Names of runs, by the kind of rule that matches them."""


def checks(store: Store, state: State, advice: Advice) -> list[Check]:
    """Problems of the prices and rules in force, for `gpuwatch doctor`. Prices are those of the last pricing."""
    return [_rules(store, state, advice), _currencies(store, Fx.read(state)), *_spot_prices(store, state)]


def rate_warnings(store: Store, rates: Sequence[Rate]) -> list[str]:
    """A warning for each model that no GPU of the fleet has. Its rates are kept: hardware may arrive later."""
    models = [model for (model,) in store.sql("select distinct model from device where model is not null order by 1")]
    if not models:
        return []
    used = {id(rate) for matches in match_models(rates, models).values() for rate in matches}
    first: dict[str, Rate] = {}
    for rate in rates:
        if id(rate) not in used and rate.gpu_model != ANY_MODEL:
            first.setdefault(rate.gpu_model, rate)
    has = ", ".join(models[:MODELS_NAMED])
    absent = (
        f"{_line(rate.line)}the fleet has no {model!r}, so this rate has no effect yet; it has {has}"
        for model, rate in first.items()
    )
    nowhere = (
        f"{_line(rate.line)}no node is known to be spot capacity, so this spot rate of {rate.gpu_model!r} has no effect yet: "
        "label the nodes, name the pool, or set the rate with --assume-spot"
        for rate in _without_spot(store, rates, used)
    )
    return _bounded([*absent, *nowhere])


def models_without_rate(store: Store, state: State) -> list[str]:
    """A warning for each model of the fleet that no rate in force prices, with the line to add."""
    return _bounded(
        f"no rate prices {model!r}: its GPU-hours have no cost; add a line for it, or one for *"
        for model in unpriced_models(store, state)
    )


def unpriced_models(store: Store, state: State) -> list[str]:
    """The models of the fleet that no rate in force prices."""
    models = [model for (model,) in store.sql("select distinct model from device where model is not null order by 1")]
    found = match_models(in_force.in_force(state), models)
    return [model for model in models if not found.get(model)]


def _without_spot(store: Store, rates: Sequence[Rate], used: Container[int]) -> list[Rate]:
    """The first spot rate of each model that needs nodes known to be spot, where there are none."""
    first: dict[str, Rate] = {}
    for rate in rates:
        if not rate.prices(spot=False) and id(rate) in used:
            first.setdefault(rate.gpu_model, rate)
    return [] if not first or spot_nodes_of(store, rates) else list(first.values())


def fx_warnings(state: State, fx: Fx, now_us: int) -> list[str]:
    """A warning for each currency that cannot be converted to the reporting currency, with the line to add; and one if
    neither a price nor an exchange rate uses the reporting currency. `doctor` reports the fleet's own prices once computed.
    """
    if fx.currency is None:
        return []
    rates = [rate for rate in in_force.in_force(state) if rate.valid_to_us is None or rate.valid_to_us > now_us]
    priced = {rate.currency for rate in rates}
    warnings = []
    for currency in sorted(priced - {fx.currency}):
        try:
            fx.at(currency, fx.currency, now_us)
        except UsageError as error:
            warnings.append(f"prices in {currency} are not converted to {fx.currency} but stay in {currency}: {error}")
    if fx.currency not in priced and not warnings and all(one.quote != fx.currency for one in fx.rates):
        warnings.append(f"no price is in {fx.currency} and no exchange rate leads to it: is it the right currency?")
    return _bounded(warnings)


def team_warnings(store: Store, rules: Sequence[TeamRule]) -> list[str]:
    """A warning for each rule that no run matches, and for each name that two rules give to two teams."""
    names = names_of(store)
    if not any(names.values()):
        return []
    idle = (
        f"{_line(rule.line)}{rule.match_kind},{rule.match},{rule.team} matches no run: check its spelling (case matters)"
        for rule in unmatched(rules, names)
    )
    return _bounded([*idle, *(_overlap(*found) for found in two_ways(rules, names))])


def names_of(store: Store) -> Names:
    """The names of runs, by kind; labels as `label:<key>`."""
    found: dict[str, set[str]] = {}
    for row in remembered.rows(store, "quality/owner_word"):
        kind, value = row["kind"], row["value"]
        if kind == "own":
            for word, name in parse_labels(value).items():
                if word not in ("labels", "outer"):
                    found.setdefault("user" if word == "user_name" else word, set()).add(name)
            value = parse_labels(value).get("labels")
        if kind in ("labels", "own"):
            for key, label in parse_labels(value).items():
                found.setdefault(LABEL_KIND + key, set()).add(label)
        else:
            found.setdefault(kind, set()).add(value)
    return {kind: frozenset(values) for kind, values in found.items()}


def unmatched(rules: Iterable[TeamRule], names: Names) -> list[TeamRule]:
    """The rules that match no name of their kind."""
    return [rule for rule in rules if not _matched(rule, names.get(rule.match_kind, frozenset()))]


def two_ways(rules: Sequence[TeamRule], names: Names) -> list[tuple[str, TeamRule, TeamRule]]:
    """Names that two wildcard rules give to two teams: (name, the rule that decides, the other one).

    Neither rule is a special case of the other, and no earlier rule names it exactly. One name for each pair of rules, at
    most OVERLAPS_MAX.
    """
    found: dict[tuple[int, int], tuple[str, TeamRule, TeamRule]] = {}
    exact = {(rule.match_kind, rule.match): place for place, rule in enumerate(rules) if "*" not in rule.match}
    for kind, patterns in _wildcards(rules).items():
        for name in sorted(names.get(kind, ())):
            matching = [(place, rule) for place, rule in patterns if rule.matches(name)]
            if matching and matching[0][0] < exact.get((kind, name), len(rules)):
                for first, other in _rivals([rule for _, rule in matching]):
                    if len(found) < OVERLAPS_MAX:
                        found.setdefault((id(first), id(other)), (name, first, other))
    return list(found.values())


def _wildcards(rules: Sequence[TeamRule]) -> dict[str, list[tuple[int, TeamRule]]]:
    """The rules with a wildcard and their places, by kind; only kinds whose rules name several teams."""
    found: dict[str, list[tuple[int, TeamRule]]] = defaultdict(list)
    for place, rule in enumerate(rules):
        if "*" in rule.match:
            found[rule.match_kind].append((place, rule))
    return {kind: patterns for kind, patterns in found.items() if len({rule.team for _, rule in patterns}) > 1}


def _rivals(matching: Sequence[TeamRule]) -> Iterator[tuple[TeamRule, TeamRule]]:
    """The rule that decides, with each later one for another team that is not more general."""
    first = matching[0]
    for other in matching[1:]:
        if other.team != first.team and not other.matches(first.match):
            yield first, other


def _overlap(name: str, first: TeamRule, other: TeamRule) -> str:
    kind = first.match_kind
    return f"{kind} {name!r} matches two rules: {_rule(first)}, which decides, and {_rule(other)}"


def _rules(store: Store, state: State, advice: Advice) -> Check:
    warnings = team_warnings(store, load_team_rules(state))
    if not warnings:
        return Check("rules", OK, f"every ownership rule matches a run (a run's own label {TEAM_LABEL} comes first)")
    fix = "Correct or remove these rules, and send the whole list again"
    fix += ": " + (f"PUT {advice.url}/api/v1/teams" if advice.live else advice.command("import bundle BUNDLE"))
    return Check("rules", WARN, f"ownership rules without effect: {named(warnings, '; ')}", fix)


def _currencies(store: Store, fx: Fx) -> Check:
    if fx.currency is None:
        return Check("currencies", OK, "prices are shown in the currency of their rate")
    rows = store.rows("quality/doctor_fx", currency=fx.currency)
    if not rows:
        return Check("currencies", OK, f"every price is in {fx.currency}")
    spans, fixes = [], ["Add these lines to the file of exchange rates and set it again (gpuwatch rates fx FILE):"]
    for row in rows:
        try:
            fx.at(row["currency"], fx.currency, row["from_us"])
            why = f"exchange rates do not reach to {rfc3339(row['to_us'])}"
        except UsageError as error:
            why = str(error)
        spans.append(f"{row['currency']} from {rfc3339(row['from_us'])} to {rfc3339(row['to_us'])} ({why})")
        fixes.append(f"{row['currency']},{fx.currency},RATE,{rfc3339(row['from_us'])}")
    what = f"prices that are not in {fx.currency} and stay in their own currency: {named(spans, '; ')}"
    return Check("currencies", WARN, what, "\n".join(fixes))


def _spot_prices(store: Store, state: State) -> list[Check]:
    """Whether spot prices reach to the end of the ledger: the last one applies until the next is imported."""
    prices = in_force.spot_prices(state)
    ends_us = remembered.sql(store, "select max(end_us) from capacity")[0][0]
    if not prices or ends_us is None:
        return []
    last: dict[tuple[str, str, str], int] = {}
    for one in prices:
        last[one.series] = max(last.get(one.series, one.at_us), one.at_us)
    old = [
        f"{' '.join(word for word in series if word)} of {rfc3339(at_us)}"
        for series, at_us in sorted(last.items())
        if at_us < ends_us - SPOT_DAYS_MAX * DAY_US
    ]
    if not old:
        return [Check("spot", OK, "spot prices reach to the end of the ledger")]
    what = f"spot prices that are older than {SPOT_DAYS_MAX} days and still charged: {named(old, '; ')}"
    return [
        Check(
            "spot", WARN, what, "Import newer output of aws ec2 describe-spot-price-history: gpuwatch rates spot FILE"
        )
    ]


def _matched(rule: TeamRule, values: frozenset[str]) -> bool:
    return any(map(rule.matches, values)) if "*" in rule.match else rule.match in values


def _bounded(sentences: Iterable[str]) -> list[str]:
    every = list(sentences)
    more = len(every) - WARNINGS_MAX
    return every[:WARNINGS_MAX] + ([f"and {more} more"] if more > 0 else [])


def _rule(rule: TeamRule) -> str:
    where = f"line {rule.line} " if rule.line else ""
    return f"{where}({rule.match} to {rule.team})"


def _line(line: int) -> str:
    return f"line {line}: " if line else ""
