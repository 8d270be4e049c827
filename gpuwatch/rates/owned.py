"""Owned hardware: what a GPU-hour costs, by a formula that is shown with all its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.rates.card import Rate
from gpuwatch.rates.csv_table import amount, moment, plain, read_rows, whole_number

CARD = "owned"
HOURS_A_YEAR = 8760
MEASURED = "measured"
"""Value of `kw` for a power that is to be measured."""

REQUIRED = ("name", "gpu_model", "gpus", "capex", "years", "kw", "price_per_kwh", "valid_from")
AMOUNTS = ("host_kw", "ops_per_year", "space_per_year", "support_per_year")
"""Optional amounts, 0 by default."""
RATIOS = {"adders": Decimal(0), "residual": Decimal(0), "pue": Decimal(1), "availability": Decimal(1)}
"""Optional ratios with their defaults; the first two are ratios of capex."""
WORDS = ("currency", "valid_to", "cluster", "pool", "kw_source")
OPTIONAL = (*RATIOS, *AMOUNTS, *WORDS)
NAME_MAX = 200

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%", re.ASCII)


@dataclass(frozen=True)
class Owned:
    """Servers of one kind, bought together: `capex`, `kw` and the amounts a year are of all `gpus` of them.

    Ratios are 0..1 (0.2 is 20 %); `kw` None is a power that is still to be measured; `host_kw` is what the rest of the
    servers draws beside it.
    """

    name: str
    gpu_model: str
    gpus: int
    capex: Decimal
    years: Decimal
    kw: Decimal | None
    price_per_kwh: Decimal
    valid_from_us: int
    valid_to_us: int | None = None
    adders: Decimal = Decimal(0)
    residual: Decimal = Decimal(0)
    pue: Decimal = Decimal(1)
    availability: Decimal = Decimal(1)
    host_kw: Decimal = Decimal(0)
    ops_per_year: Decimal = Decimal(0)
    space_per_year: Decimal = Decimal(0)
    support_per_year: Decimal = Decimal(0)
    currency: str = "USD"
    cluster: str | None = None
    pool: str | None = None
    kw_source: str | None = None
    """Source of a measured power: which counter, of how many GPUs, when."""
    line: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(f"owned {self.name!r}: {problem}") from ValueError(problem)

    @property
    def hourly_exact(self) -> Fraction:
        """Cost of one GPU for one hour by the formula of `formula`, unrounded. Needs a known `kw`."""
        if self.kw is None:
            raise UsageError(f"owned {self.name!r}: its power is not measured yet; see rates owned --measure")
        capex = Fraction(self.capex)
        invested = (capex * (1 + Fraction(self.adders)) - capex * Fraction(self.residual)) / Fraction(self.years)
        kwh = Fraction(self.kw + self.host_kw) * Fraction(self.pue) * HOURS_A_YEAR
        yearly = invested + kwh * Fraction(self.price_per_kwh)
        yearly += Fraction(self.ops_per_year) + Fraction(self.space_per_year) + Fraction(self.support_per_year)
        return yearly / (self.gpus * HOURS_A_YEAR * Fraction(self.availability))

    @property
    def hourly(self) -> Decimal:
        """The price of a GPU-hour, rounded to the 12 decimals of a rate."""
        return Decimal(plain(fraction_to_decimal(self.hourly_exact)))

    def rate(self) -> Rate:
        """The resulting rate, with pricing `owned`."""
        return Rate(
            self.gpu_model,
            "owned",
            self.hourly,
            self.valid_from_us,
            self.valid_to_us,
            self.cluster,
            self.pool,
            None,
            self.currency,
            self.line,
        )

    def formula(self) -> str:
        """The formula of the price on two lines: in words and in numbers."""
        words = (
            "[(capex × (1 + adders) − capex × residual) / years + (kW + host kW) × PUE × 8760 × price per kWh"
            " + ops + space + support] / (GPUs × 8760 × availability)"
        )
        n = {
            name: plain(value)
            for name in (*RATIOS, *AMOUNTS, "capex", "years", "kw", "price_per_kwh")
            if (value := getattr(self, name)) is not None
        }
        figures = (
            f"[({n['capex']} × (1 + {n['adders']}) − {n['capex']} × {n['residual']}) / {n['years']}"
            f" + ({n['kw']} + {n['host_kw']}) × {n['pue']} × {HOURS_A_YEAR} × {n['price_per_kwh']}"
            f" + {n['ops_per_year']} + {n['space_per_year']} + {n['support_per_year']}]"
            f" / ({self.gpus} × {HOURS_A_YEAR} × {n['availability']})"
        )
        return f"{words}\n= {figures} = {plain(self.hourly)} {self.currency} a GPU-hour"


def parse_owned(text: str | bytes, file: str, rejects: Rejects) -> tuple[Owned, ...]:
    """The hardware of a CSV file with REQUIRED and OPTIONAL columns; a bad line goes to `rejects`, the rest is kept.

    Raises UnreadableInput where the file is not CSV with these columns.
    """
    kept: dict[str, Owned] = {}
    for line, row in read_rows(text, file, REQUIRED, OPTIONAL, rejects):
        shown = ",".join(row.values())
        try:
            one = owned_of(row, line)
        except (ValueError, UsageError) as error:
            rejects.add(str(error.__cause__ or error), file, line, shown)
            continue
        first = kept.setdefault(one.name, one)
        if first is not one:
            rejects.add("name is used twice", file, line, f"line {line} repeats line {first.line}: {shown}")
    return tuple(kept.values())


def owned_of(row: Mapping[str, Any], line: int) -> Owned:
    """A row of texts as a record; an absent or empty optional cell takes its default. Raises ValueError or UsageError."""
    cells = {name: str(row[name]).strip() for name in (*REQUIRED, *OPTIONAL) if row.get(name) not in (None, "")}
    if row.get("currency") == "":
        raise ValueError("currency is empty: write a three-letter code such as USD, or leave the column out for USD")
    if missing := [name for name in REQUIRED if name not in cells]:
        raise ValueError(f"{missing[0]} is empty")
    kw = None if cells["kw"].lower() == MEASURED else amount(cells["kw"], "kw")
    return Owned(
        cells["name"],
        cells["gpu_model"],
        whole_number(cells["gpus"], "gpus"),
        amount(cells["capex"], "capex"),
        amount(cells["years"], "years"),
        kw,
        amount(cells["price_per_kwh"], "price_per_kwh"),
        moment(cells["valid_from"], "valid_from"),
        moment(cells["valid_to"], "valid_to") if "valid_to" in cells else None,
        **{name: _ratio(cells[name], name) if name in cells else default for name, default in RATIOS.items()},
        **{name: amount(cells[name], name) for name in AMOUNTS if name in cells},
        currency=cells.get("currency", "USD"),
        cluster=cells.get("cluster"),
        pool=cells.get("pool"),
        kw_source=cells.get("kw_source"),
        line=line,
    )


def shown(one: Owned) -> dict[str, Any]:
    """A record as a row of texts, which `owned_of` parses back."""
    texts = {name: plain(getattr(one, name)) for name in ("capex", "years", *RATIOS, "price_per_kwh", *AMOUNTS)}
    return {
        "name": one.name,
        "gpu_model": one.gpu_model,
        "gpus": one.gpus,
        **texts,
        "kw": MEASURED if one.kw is None else plain(one.kw),
        "kw_source": one.kw_source,
        "currency": one.currency,
        "cluster": one.cluster,
        "pool": one.pool,
        "valid_from": rfc3339(one.valid_from_us),
        "valid_to": None if one.valid_to_us is None else rfc3339(one.valid_to_us),
    }


def priced(one: Owned) -> dict[str, Any]:
    """A record with its price and the formula."""
    return shown(one) | {"usd_per_gpu_hour": plain(one.hourly), "formula": one.formula()}


def _ratio(text: str, column: str) -> Decimal:
    """`0.2` or `20%`."""
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        return amount(percent[1], column).scaleb(-2)
    return amount(text, column)


def _problems(one: Owned) -> Iterable[str]:
    if not one.name or len(one.name) > NAME_MAX:
        yield f"name is empty or longer than {NAME_MAX} characters"
    for name in ("capex", "price_per_kwh", *AMOUNTS, *RATIOS):
        if (value := getattr(one, name)) < 0 or not value.is_finite():
            yield f"{name} is negative or not a number"
    if one.kw is not None and one.kw < 0:
        yield "kw is negative"
    if one.years <= 0:
        yield "years is not above 0"
    if one.residual > 1:
        yield "residual is a ratio of capex from 0 to 1, such as 0.2 or 20%"
    if one.pue < 1:
        yield "pue is below 1"
    if not 0 < one.availability <= 1:
        yield "availability is not above 0 and at most 1"
    if one.kw is not None:
        one.rate()  # its model, currency and validity are held to what a rate may be
