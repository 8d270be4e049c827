"""What is not wrong in itself but has no effect: rates for models that are not there, rules that match nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuwatch.advice import Advice
from gpuwatch.clock import rfc3339
from gpuwatch.doctor_check import OK, WARN, Check, named
from gpuwatch.errors import UsageError
from gpuwatch.fx import Fx
from gpuwatch.rate_models import ANY_MODEL
from gpuwatch.rates import Rate, match_models
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import LABEL_KIND, TEAM_LABEL, TeamRule, parse_labels

WARNINGS_MAX = 100
"""Sentences that one answer has; the rest is counted."""
MODELS_NAMED = 20
OVERLAPS_MAX = 100
"""Names that two rules match of which are told."""

Names = Mapping[str, frozenset[str]]
"""Names that runs have, by the kind of rule that matches them."""


def checks(store: Store, state: State, advice: Advice) -> list[Check]:
    """What the prices and rules in force lack, for `gpuwatch doctor`; prices are those of the last pricing."""
    return [_rules(store, state, advice), _currencies(store, Fx.read(state))]


def rate_warnings(store: Store, rates: Sequence[Rate]) -> list[str]:
    """A sentence a model that no GPU of the fleet has: its rates are kept, since hardware comes later than its price."""
    models = [model for (model,) in store.sql("select distinct model from device where model is not null order by 1")]
    if not models:
        return []
    used = {id(rate) for matches in match_models(rates, models).values() for rate in matches}
    first: dict[str, Rate] = {}
    for rate in rates:
        if id(rate) not in used and rate.gpu_model != ANY_MODEL:
            first.setdefault(rate.gpu_model, rate)
    has = ", ".join(models[:MODELS_NAMED])
    return _bounded(
        f"{_line(rate.line)}no GPU of the fleet is a {model!r}: the rate is kept and prices nothing yet; it has {has}"
        for model, rate in first.items()
    )


def team_warnings(store: Store, rules: Sequence[TeamRule]) -> list[str]:
    """A sentence a rule that no run matches, and a name that two rules give to two teams."""
    names = names_of(store)
    if not any(names.values()):
        return []
    idle = (
        f"{_line(rule.line)}{rule.match_kind},{rule.match},{rule.team} matches no run: check its spelling, case counts"
        for rule in unmatched(rules, names)
    )
    return _bounded([*idle, *overlaps(rules, names)])


def names_of(store: Store) -> Names:
    """The names that runs have; of labels by `label:<key>`."""
    found: dict[str, set[str]] = {}
    for row in store.rows("cost/owner_word"):
        kind, value = row["kind"], row["value"]
        if kind == "own":
            for word, said in parse_labels(value).items():
                if word != "labels":
                    found.setdefault("user" if word == "user_name" else word, set()).add(said)
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


def overlaps(rules: Sequence[TeamRule], names: Names) -> list[str]:
    """A sentence a pair of rules with stars that give one name to two teams, where neither is the other's special case."""
    told: dict[tuple[int, int], str] = {}
    wild: dict[str, list[TeamRule]] = {}
    for rule in rules:
        if "*" in rule.match:
            wild.setdefault(rule.match_kind, []).append(rule)
    for kind, of_kind in wild.items():
        for name in sorted(names.get(kind, ())) if len({rule.team for rule in of_kind}) > 1 else ():
            matching = [rule for rule in of_kind if rule.matches(name)]
            for other in matching[1:]:
                first = matching[0]
                if other.team != first.team and not other.matches(first.match) and len(told) < OVERLAPS_MAX:
                    told.setdefault(
                        (id(first), id(other)),
                        f"{kind} {name!r} is matched two ways: by {_rule(first)}, which decides, and by {_rule(other)}",
                    )
    return list(told.values())


def _rules(store: Store, state: State, advice: Advice) -> Check:
    told = team_warnings(store, state.team_rules())
    if not told:
        return Check("rules", OK, f"every ownership rule matches a run (runs' own label {TEAM_LABEL} comes first)")
    fix = "Correct these rules or leave them out, and send the whole list again"
    fix += ": " + (f"PUT {advice.url}/api/v1/teams" if advice.live else advice.command("import bundle BUNDLE"))
    return Check("rules", WARN, f"ownership rules without effect: {named(told, '; ')}", fix)


def _currencies(store: Store, fx: Fx) -> Check:
    if fx.currency is None:
        return Check("currencies", OK, "prices are told in the currency of their rate")
    rows = store.rows("reports/doctor_fx", currency=fx.currency)
    if not rows:
        return Check("currencies", OK, f"every price is in {fx.currency}")
    told, fixes = [], ["Add these lines to the file of exchange rates and set it again (gpuwatch rates fx FILE):"]
    for row in rows:
        try:
            fx.at(row["currency"], fx.currency, row["from_us"])
            why = f"exchange rates do not reach to {rfc3339(row['to_us'])}"
        except UsageError as error:
            why = str(error)
        told.append(f"{row['currency']} from {rfc3339(row['from_us'])} to {rfc3339(row['to_us'])} ({why})")
        fixes.append(f"{row['currency']},{fx.currency},RATE,{rfc3339(row['from_us'])}")
    what = f"prices that are not in {fx.currency} and stay in their own currency: {named(told, '; ')}"
    return Check("currencies", WARN, what, "\n".join(fixes))


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
