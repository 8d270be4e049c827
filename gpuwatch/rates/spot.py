"""Spot price history of a cloud, converted into consecutive rates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.rates.card import Rate
from gpuwatch.rates.csv_table import MAX_ROWS, EveryRow, RowsRefused, amount, moment, plain, read_rows

CARD = "spot"
COLUMNS = ("instancetype", "spotprice", "timestamp")
MORE = ("availabilityzone", "productdescription", "gpu_model", "gpus")
MAPPING = "TYPE=MODEL:GPUS, e.g. p5.48xlarge=H100:8"
GPUS_MAX = 1024
"""GPUs of one instance."""

_MAPPING = re.compile(r"(?P<type>[^=\s]+)=(?P<model>[^=]+):(?P<gpus>\d{1,4})", re.ASCII)


@dataclass(frozen=True)
class Instance:
    """The GPUs of an instance type."""

    gpu_model: str
    gpus: int


@dataclass(frozen=True)
class SpotPrice:
    """From `at_us` on, an instance costs `price` an hour, until the next price of its series."""

    instance_type: str
    zone: str
    product: str
    at_us: int
    price: Decimal
    currency: str
    gpu_model: str
    gpus: int
    cluster: str | None = None
    pool: str | None = None
    assume_spot: bool = False

    @property
    def series(self) -> tuple[str, str, str]:
        """Identifies the series of prices it belongs to."""
        return self.instance_type, self.zone, self.product

    @property
    def scope(self) -> tuple[str, str | None, str | None]:
        """The scope of its rates."""
        return self.gpu_model, self.cluster, self.pool


def instances_of(texts: Iterable[str]) -> dict[str, Instance]:
    """`p5.48xlarge=H100:8` of each text. Raises UsageError naming the text that does not match."""
    found: dict[str, Instance] = {}
    for text in texts:
        match = _MAPPING.fullmatch(text.strip())
        if match is None or not 0 < int(match["gpus"]) <= GPUS_MAX:
            raise UsageError(f"--instance {text}: write {MAPPING}")
        found[match["type"]] = Instance(match["model"].strip(), int(match["gpus"]))
    return found


def parse_spot(
    text: bytes,
    file: str,
    instances: Mapping[str, Instance],
    *,
    zone: str | None = None,
    product: str | None = None,
    currency: str = "USD",
    cluster: str | None = None,
    pool: str | None = None,
    assume_spot: bool = False,
) -> list[SpotPrice]:
    """The prices of `aws ec2 describe-spot-price-history` (JSON, or CSV with the same column names), all or none.

    `zone` and `product` choose one series where the file has several. Each type's GPUs come from its row (gpu_model,
    gpus) or from `instances`. Raises RowsRefused naming every bad row, UnreadableInput for another file.
    """
    rejects = EveryRow()
    kept: list[SpotPrice] = []
    for line, row in _rows(text, file, rejects):
        try:
            if (zone and row.get("availabilityzone") != zone) or (product and row.get("productdescription") != product):
                continue
            instance = _instance(row, instances)
            kept.append(
                SpotPrice(
                    row["instancetype"],
                    row.get("availabilityzone", ""),
                    row.get("productdescription", ""),
                    moment(row["timestamp"], "timestamp"),
                    _price(row["spotprice"]),
                    currency,
                    instance.gpu_model,
                    instance.gpus,
                    cluster,
                    pool,
                    assume_spot,
                )
            )
        except (ValueError, UsageError) as error:
            rejects.add(str(error), file, line)
    if rejects.total:
        raise RowsRefused(rejects.named, rejects.total)
    return kept


def merged(known: Iterable[SpotPrice], new: Iterable[SpotPrice]) -> list[SpotPrice]:
    """Both as one history, sorted; a price that is in both counts once.

    Raises UsageError where two prices of one series begin at once, or two series would price the same GPUs.
    """
    points: dict[tuple[object, ...], SpotPrice] = {}
    owners: dict[tuple[object, ...], SpotPrice] = {}
    for one in (*known, *new):
        first = points.setdefault((*one.series, one.at_us), one)
        if first != one:
            raise UsageError(
                f"spot: {_named(one)} has two prices at {rfc3339(one.at_us)}: {plain(first.price)} {first.currency} "
                f"({first.gpus} × {first.gpu_model}) and {plain(one.price)} {one.currency} "
                f"({one.gpus} × {one.gpu_model}); nothing was changed"
            )
        other = owners.setdefault(one.scope, one)
        if other.series != one.series:
            raise UsageError(
                f"spot: {_named(other)} and {_named(one)} would both price {one.gpu_model}: choose one by --zone and "
                "--product, or give each its own --cluster or --pool; nothing was changed"
            )
    return sorted(points.values(), key=lambda one: (*one.series, one.at_us))


def spot_rates(prices: Sequence[SpotPrice]) -> tuple[Rate, ...]:
    """Consecutive half-open rates of each series: price / GPUs of the instance, to 12 places, half to even. The last one
    has no end; equal prices that follow each other are one rate.
    """
    rates: list[Rate] = []
    begun: SpotPrice | None = None
    for one in (*sorted(prices, key=lambda one: (*one.series, one.at_us)), None):
        if begun is not None and one is not None and one.series == begun.series:
            if _terms(one) == _terms(begun):
                continue
            rates.append(_rate(begun, one.at_us))
        elif begun is not None:
            rates.append(_rate(begun, None))
        begun = one
    return tuple(rates)


def shown(one: SpotPrice) -> dict[str, Any]:
    """A price for API and command line."""
    row = as_row(one) | {"assume_spot": one.assume_spot}
    row["at"] = rfc3339(row.pop("at_us"))
    return row


def as_row(one: SpotPrice) -> dict[str, Any]:
    """A price as a stored row."""
    row = vars(one) | {"price": plain(one.price)}
    return row if row.pop("assume_spot") is False else row | {"assume_spot": True}


def from_row(row: Mapping[str, Any]) -> SpotPrice:
    """A price from a stored row."""
    return SpotPrice(**(dict(row) | {"price": Decimal(row["price"])}))


def _terms(one: SpotPrice) -> tuple[object, ...]:
    return one.price, one.currency, one.gpus, one.assume_spot


def _rate(one: SpotPrice, until_us: int | None) -> Rate:
    hourly = Decimal(plain(fraction_to_decimal(Fraction(one.price) / one.gpus)))
    words = (one.cluster, one.pool, None, one.currency)
    return Rate(
        one.gpu_model, "spot", hourly, one.at_us, until_us, *words, sku=one.instance_type, assume_spot=one.assume_spot
    )


def _rows(text: bytes, file: str, rejects: Rejects) -> Iterable[tuple[int, dict[str, str]]]:
    """(line or place in the list, row with lower-case names)."""
    if not text.lstrip()[:1] in (b"{", b"["):
        return read_rows(text, file, COLUMNS, MORE, rejects)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{file}: not JSON ({error})") from error
    items = found.get("SpotPriceHistory") if isinstance(found, dict) else found
    if not isinstance(items, list):
        raise UnreadableInput(f"{file}: no list SpotPriceHistory; save what aws ec2 describe-spot-price-history prints")
    if len(items) > MAX_ROWS:
        raise UnreadableInput(f"{file}: {len(items)} prices; at most {MAX_ROWS} are read from one file")
    rows: list[tuple[int, dict[str, str]]] = []
    for place, item in enumerate(items, 1):
        row = {str(k).lower(): str(v) for k, v in item.items() if v is not None} if isinstance(item, dict) else {}
        if missing := [name for name in COLUMNS if name not in row]:
            rejects.add(f"no {missing[0]}", file, place)
            continue
        rows.append((place, row))
    return rows


def _instance(row: Mapping[str, str], instances: Mapping[str, Instance]) -> Instance:
    name = row["instancetype"]
    if row.get("gpu_model") and row.get("gpus"):
        return instances_of([f"{name}={row['gpu_model']}:{row['gpus']}"])[name]
    if name not in instances:
        raise ValueError(f"the GPUs of {name} are unknown: add --instance {name}=MODEL:GPUS")
    return instances[name]


def _price(text: str) -> Decimal:
    price = amount(text, "spotprice")
    if price < 0:
        raise ValueError("spotprice is negative")
    return price


def _named(one: SpotPrice) -> str:
    return " ".join(word for word in one.series if word)
