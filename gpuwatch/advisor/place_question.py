"""The question of a placement: how many GPUs for how long, where the data is, and the sites, links and clouds to consider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.errors import UsageError

GPUS_MAX = 100_000
LISTED_MAX = 100
"""Sites, links, clouds or data sets that one question may name."""
NAME_MAX = 200


@dataclass(frozen=True)
class Link:
    """Between two sites: GB (10^9 bytes) per second, and the price of a GB that is moved; None unknown."""

    gb_per_s: Fraction | None
    price_per_gb: Fraction | None


@dataclass(frozen=True)
class Cloud:
    """GPUs that can be rented: price of a GPU-hour (None: the on-demand rate of the card), GPUs of a node, wait."""

    name: str
    price: Fraction | None = None
    gpus_a_node: int | None = None
    wait_hours: Fraction | None = None


@dataclass(frozen=True)
class Question:
    """A request for a placement. `hours` is the run time on the best links of all candidates."""

    gpus: int
    model: str | None = None
    hours: Fraction = Fraction(24)
    data: Mapping[str, Fraction] = field(default_factory=dict)
    """GB by site."""
    sites: Mapping[str, str] = field(default_factory=dict)
    """Site by cluster, or by `cluster/pool`; a cluster that is not here is its own site."""
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    clouds: Sequence[Cloud] = ()
    cluster: str | None = None

    def site_of(self, cluster: str, pool: str | None) -> str:
        """The site of a pool."""
        return self.sites.get(f"{cluster}/{pool}", self.sites.get(cluster, cluster))


def question_of(
    gpus: str,
    *,
    model: str | None = None,
    hours: str | None = None,
    cluster: str | None = None,
    data: Sequence[str] = (),
    site: Sequence[str] = (),
    link: Sequence[str] = (),
    cloud: Sequence[str] = (),
) -> Question:
    """The question of options as text. Raises UsageError naming the option.

    `data`: `4000@site-a`. `site`: `cluster=site`, `cluster/pool=site`. `link`: `from=a,to=b,gb_per_s=1.25,price_per_gb=0.02`.
    `cloud`: `name=aws,price=6.88,gpus_a_node=8,wait_hours=0.5`.
    """
    for name, values in (("data_gb", data), ("site", site), ("link", link), ("cloud", cloud)):
        if len(values) > LISTED_MAX:
            raise UsageError(f"{name}: at most {LISTED_MAX}")
    count = _number("gpus", gpus, 1)
    if count.denominator != 1 or count > GPUS_MAX:
        raise UsageError(f"gpus {gpus!r}: give a whole number from 1 to {GPUS_MAX:,}")
    amount: dict[str, Fraction] = {}
    for text in data:
        size, at, where = text.partition("@")
        if not at:
            raise UsageError(f"data_gb {text!r}: give gigabytes and their site, such as 4000@site-a")
        where = _name("data_gb", where, text)
        amount[where] = amount.get(where, Fraction(0)) + _number("data_gb", size, 0)
    return Question(
        int(count),
        model,
        Fraction(24) if hours is None else _number("hours", hours, Fraction(1, 3600), 100_000),
        amount,
        dict(_pair("site", text) for text in site),
        dict(_link(text) for text in link),
        _clouds(cloud),
        cluster,
    )


def _link(text: str) -> tuple[tuple[str, str], Link]:
    given = _fields("link", text, {"from": str, "to": str, "gb_per_s": _positive, "price_per_gb": _number})
    if "from" not in given or "to" not in given:
        raise UsageError(f"link {text!r}: name both ends, such as from=site-a,to=aws,gb_per_s=1.25,price_per_gb=0.02")
    return (given["from"], given["to"]), Link(given.get("gb_per_s"), given.get("price_per_gb"))


def _clouds(texts: Sequence[str]) -> tuple[Cloud, ...]:
    kinds: dict[str, Any] = {"name": str, "price": _number, "gpus_a_node": _positive, "wait_hours": _number}
    clouds = []
    for text in texts:
        given = _fields("cloud", text, kinds)
        if "name" not in given:
            raise UsageError(f"cloud {text!r}: name it, such as name=aws,price=6.88,gpus_a_node=8")
        size = given.get("gpus_a_node")
        if size is not None and size.denominator != 1:
            raise UsageError(f"cloud {text!r}: gpus_a_node is a whole number")
        clouds.append(
            Cloud(given["name"], given.get("price"), None if size is None else int(size), given.get("wait_hours"))
        )
    if len({cloud.name for cloud in clouds}) < len(clouds):
        raise UsageError("cloud: each needs a name of its own")
    return tuple(clouds)


def _fields(option: str, text: str, kinds: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """`a=1,b=2` by name. Raises UsageError for an unknown or repeated name."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, value = _pair(option, part.strip())
        if name not in kinds or name in found:
            raise UsageError(f"{option} {text!r}: {name!r} is not one of {', '.join(kinds)}, or repeated")
        kind = kinds[name]
        found[name] = value if kind is str else kind(f"{option} {name}", value)
    return found


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text!r}: write NAME=VALUE")
    return _name(option, name, text), _name(option, value, text)


def _name(option: str, name: str, text: str) -> str:
    if not name.strip() or len(name) > NAME_MAX:
        raise UsageError(f"{option} {text[:NAME_MAX]!r}: a name has 1 to {NAME_MAX} characters")
    return name.strip()


def _positive(option: str, text: str) -> Fraction:
    found = _number(option, text)
    if not found:
        raise UsageError(f"{option} {text!r}: give a number above 0")
    return found


def _number(option: str, text: str, least: Fraction | int = 0, most: int = 10**12) -> Fraction:
    try:
        found = Decimal(text.strip())
        if found.is_finite() and least <= found <= most and found.adjusted() > -30:
            return Fraction(found)
    except ArithmeticError:
        pass
    raise UsageError(f"{option} {text!r}: give a number from {float(least):g} to {most:,}")
