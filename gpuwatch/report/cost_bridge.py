"""From what GPU time cost at its price to what is charged: policies, shared costs and corrections, line by line. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report import text as report_text
from gpuwatch.report.document import Column, Row, Section, Table, Text, row
from gpuwatch.report.facts import Amount, Facts, added
from gpuwatch.report.html.markup import owner_name

OWNERS_SHOWN = 40
TITLE = "From the cost of GPU time to what is charged"


@dataclass(frozen=True)
class Bridge:
    """One owner's amounts in one currency: `at_price` + `policy` + `shared` + `correction` = `charged`."""

    owner: str | None
    at_price: Decimal
    policy: Decimal
    shared: Decimal
    correction: Decimal

    @property
    def charged(self) -> Decimal:
        """What the owner pays."""
        return self.at_price + self.policy + self.shared + self.correction


def bridges(facts: Facts) -> tuple[Bridge, ...]:
    """One for each owner of the fleet, or the team's; empty where currencies differ or something has no price."""
    currency = facts.currency
    charged: dict[str | None, dict[str, list[Amount]]] = defaultdict(lambda: defaultdict(list))
    for payer in facts.payers:
        charged[payer.name if facts.team is None else facts.team][payer.kind].append(payer.amount)
    found = []
    for owner in {*charged, *facts.priced}:
        kinds = {kind: added(amounts) for kind, amounts in charged.get(owner, {}).items()}
        held = (kinds.get(kind, Amount()) for kind in ("allocated", "platform"))
        at_price = facts.priced.get(owner, Amount()).cost_in(currency)
        paid = added(held).cost_in(currency)
        shared, correction = (kinds.get(kind, Amount()).cost_in(currency) for kind in ("shared", "correction"))
        if at_price is None or paid is None or shared is None or correction is None:
            return ()
        found.append(Bridge(owner, at_price, paid - at_price, shared, correction))
    return tuple(sorted(found, key=lambda b: (b.owner == PLATFORM, -b.charged, str(b.owner))))


def needed(facts: Facts) -> bool:
    """Whether a policy makes the charges differ from the cost of the buckets: by default they do not."""
    return any(b.policy or b.shared for b in bridges(facts))


def bridge(facts: Facts) -> Section | None:
    """The steps from the cost chart to the bill; None where both are the same."""
    if not needed(facts):
        return None
    found = bridges(facts)
    head, line, sentence = _difference(facts)
    if facts.team is not None:
        (one,) = found
        lines = [
            ("GPU time held, at its price", one.at_price),
            (line, one.policy),
            ("Idle, stranded and shared costs that the policy passes on", one.shared),
            ("Corrections of closed periods", one.correction),
        ]
        rows = [row([label, _exact(amount, facts.currency)]) for label, amount in lines if amount]
        rows.append(row(["To pay", _exact(one.charged, facts.currency)], "sum"))
        table = Table((Column("", part=4), Column("Cost", number=True)), tuple(rows))
        return Section(TITLE, (table,))
    named = {"policy": head, "shared": "Passed on", "correction": "Corrections"}
    parts = {part: word for part, word in named.items() if any(getattr(b, part) for b in found)}
    columns = (
        Column("Owner", part=2.2),
        *(Column(head, number=True) for head in ("At its price", *parts.values(), "Charged")),
    )
    kept, rest = list(found[:OWNERS_SHOWN]), found[OWNERS_SHOWN:]
    rows = [_row(owner_name(b.owner), b, parts, facts.currency) for b in kept]
    if rest:
        rows.append(_row(f"{len(rest)} more", _sum(rest), parts, facts.currency, "other"))
    rows.append(_row("Total", _sum(found), parts, facts.currency, "sum"))
    text = f"{sentence}; each row adds up to what is charged."
    return Section(TITLE, (Text(text, "soft"), Table(columns, tuple(rows))))


def _difference(facts: Facts) -> tuple[str, str, str]:
    """Why held time is not charged at its price: a column title, a row label and a sentence."""
    version = facts.versions.policies
    policy = f"Policy version {version}" if version else "The policy in force"
    line = f"{policy}: charge for that time minus its price"
    sentence = f"{policy} charges differently from the price of the time that each team held"
    if facts.closed is None:
        return "Policy", line, sentence
    later = "charges are frozen, and data changed after the closing"
    if version:
        return "Policy, closing", f"{line}; changes after the closing", f"{sentence}; {later}"
    return "Since closing", "Data that changed after the closing", f"{later[0].upper()}{later[1:]}"


def _sum(many: tuple[Bridge, ...]) -> Bridge:
    zero = Decimal(0)
    parts = (sum((getattr(b, n) for b in many), zero) for n in ("at_price", "policy", "shared", "correction"))
    return Bridge(None, *parts)


def _row(label: str, one: Bridge, parts: Iterable[str], currency: str | None, kind: str = "") -> Row:
    amounts = (one.at_price, *(getattr(one, part) for part in parts), one.charged)
    return row([label, *(_exact(amount, currency) for amount in amounts)], kind)


def _exact(amount: Decimal, currency: str | None) -> str:
    """To the cent, so that readers can add up the rows."""
    return report_text.plain(amount, 2, currency)
