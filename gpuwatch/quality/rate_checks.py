"""What is not wrong in itself but has no effect: rates for models that are not there, rules that match nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuwatch.core.clock import DAY_US, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.output.fix_hints import Advice
from gpuwatch.policy.ownership import LABEL_KIND, TEAM_LABEL, TeamRule, parse_labels
from gpuwatch.policy.repository import load_team_rules
from gpuwatch.quality.check import OK, WARN, Check, named
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate, match_models
from gpuwatch.rates.fx import Fx
from gpuwatch.rates.models import ANY_MODEL
from gpuwatch.state import State
from gpuwatch.store.database import Store

WARNINGS_MAX = 100
"""Sentences that one answer has; the rest is counted."""
MODELS_NAMED = 20
OVERLAPS_MAX = 100
"""Names that two rules match of which are told."""

SPOT_DAYS_MAX = 7
"""A spot price that nobody has renewed for longer is named: clouds change theirs every few days at most."""

Names = Mapping[str, frozenset[str]]
"""Names that runs have, by the kind of rule that matches them."""


def checks(store: Store, state: State, advice: Advice) -> list[Check]:
    """What the prices and rules in force lack, for `gpuwatch doctor`; prices are those of the last pricing."""
    return [_rules(store, state, advice), _currencies(store, Fx.read(state)), *_spot_prices(store, state)]


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


def fx_warnings(state: State, fx: Fx, now_us: int) -> list[str]:
    """A sentence a currency whose prices now stay in it although another one is reported in, with the line to add; and
    one where no price is in the reported currency and no exchange rate leads to it. What doctor tells of the fleet's own
    prices follows once they are computed.
    """
    if fx.currency is None:
        return []
    rates = [rate for rate in in_force.in_force(state) if rate.valid_to_us is None or rate.valid_to_us > now_us]
    priced = {rate.currency for rate in rates}
    told = []
    for currency in sorted(priced - {fx.currency}):
        try:
            fx.at(currency, fx.currency, now_us)
        except UsageError as error:
            told.append(f"prices in {currency} are not told in {fx.currency} but stay in {currency}: {error}")
    if fx.currency not in priced and not told and all(one.quote != fx.currency for one in fx.rates):
        told.append(f"no price is in {fx.currency} and no exchange rate leads to it: is it the currency you mean?")
    return _bounded(told)


def team_warnings(store: Store, rules: Sequence[TeamRule]) -> list[str]:
    """A sentence a rule that no run matches, and a name that two rules give to two teams."""
    names = names_of(store)
    if not any(names.values()):
        return []
    idle = (
        f"{_line(rule.line)}{rule.match_kind},{rule.match},{rule.team} matches no run: check its spelling, case counts"
        for rule in unmatched(rules, names)
    )
    return _bounded([*idle, *(_overlap(*found) for found in two_ways(rules, names))])


def names_of(store: Store) -> Names:
    """The names that runs have; of labels by `label:<key>`."""
    found: dict[str, set[str]] = {}
    for row in store.rows("quality/owner_word"):
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


def two_ways(rules: Sequence[TeamRule], names: Names) -> list[tuple[str, TeamRule, TeamRule]]:
    """(name, the rule that decides, another one) of names that two rules with stars give to two teams, where neither is
    the other's special case and no rule before them is for that name: once a pair of rules, at most OVERLAPS_MAX.
    """
    found: dict[tuple[int, int], tuple[str, TeamRule, TeamRule]] = {}
    wild: dict[str, list[tuple[int, TeamRule]]] = {}
    exact = {(rule.match_kind, rule.match): place for place, rule in enumerate(rules) if "*" not in rule.match}
    for place, rule in enumerate(rules):
        if "*" in rule.match:
            wild.setdefault(rule.match_kind, []).append((place, rule))
    for kind, of_kind in wild.items():
        for name in sorted(names.get(kind, ())) if len({rule.team for _, rule in of_kind}) > 1 else ():
            matching = [(place, rule) for place, rule in of_kind if rule.matches(name)]
            if not matching or exact.get((kind, name), len(rules)) < matching[0][0]:
                continue
            first = matching[0][1]
            for _, other in matching[1:]:
                if other.team != first.team and not other.matches(first.match) and len(found) < OVERLAPS_MAX:
                    found.setdefault((id(first), id(other)), (name, first, other))
    return list(found.values())


def _overlap(name: str, first: TeamRule, other: TeamRule) -> str:
    kind = first.match_kind
    return f"{kind} {name!r} is matched two ways: by {_rule(first)}, which decides, and by {_rule(other)}"


def _rules(store: Store, state: State, advice: Advice) -> Check:
    told = team_warnings(store, load_team_rules(state))
    if not told:
        return Check("rules", OK, f"every ownership rule matches a run (runs' own label {TEAM_LABEL} comes first)")
    fix = "Correct these rules or leave them out, and send the whole list again"
    fix += ": " + (f"PUT {advice.url}/api/v1/teams" if advice.live else advice.command("import bundle BUNDLE"))
    return Check("rules", WARN, f"ownership rules without effect: {named(told, '; ')}", fix)


def _currencies(store: Store, fx: Fx) -> Check:
    if fx.currency is None:
        return Check("currencies", OK, "prices are told in the currency of their rate")
    rows = store.rows("quality/doctor_fx", currency=fx.currency)
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


def _spot_prices(store: Store, state: State) -> list[Check]:
    """Whether spot prices reach to the end of the books: the last one holds until somebody imports the next."""
    prices = in_force.spot_prices(state)
    ends_us = store.sql("select max(end_us) from capacity")[0][0]
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
        return [Check("spot", OK, "spot prices reach to the end of the books")]
    what = f"spot prices that are older than {SPOT_DAYS_MAX} days and still charged: {named(old, '; ')}"
    return [
        Check(
            "spot", WARN, what, "Import what aws ec2 describe-spot-price-history tells since: gpuwatch rates spot FILE"
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
