"""The `gpuwatch rates` commands: rate card, owned hardware, spot prices, exchange rates, commitments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    actor,
    file_content,
    names,
    now_us,
    opened,
    print_stderr,
    show,
)
from gpuwatch.commands.windows import WindowOption, window_of
from gpuwatch.core.errors import UsageError
from gpuwatch.output.fix_hints import NO_RATES, RATES_HELP
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

CSV, JSON = "text/csv", "application/json"
RATE_COLUMNS = (
    *("card", "gpu_model", "pricing", "usd_per_gpu_hour", "currency", "valid_from", "valid_to", "cluster", "pool"),
    *("mig_profile", "quantity", "commitment_id", "sku", "list_price", "contracted_price"),
    *("node_price", "node_gpus", "node_vcpus", "node_memory_gib", "node_split", "assume_spot"),
)
SHOWN = ("card", "gpu_model", "pricing", "usd_per_gpu_hour", "currency", "valid_from", "valid_to", "quantity")
PLACES = ("cluster", "pool", "mig_profile")
"""Fields that limit a rate to some GPUs; shown only if used."""
FX_COLUMNS = ("from", "to", "rate", "valid_from")
OWNED_SHOWN = ("name", "gpu_model", "gpus", "usd_per_gpu_hour", "currency", "kw", "valid_from", "valid_to")
FILE_MAX_BYTES = 64 << 20

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file that replaces the current data.")]
FILE_HELP = "The file that replaces the current data; without it, the data is shown."
OptionalFile = Annotated[Path | None, typer.Argument(metavar="[FILE]", help=FILE_HELP)]

app = typer.Typer(
    help="Show and set prices of GPU-hours.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


AssumeSpot = Annotated[
    bool, typer.Option("--assume-spot", help="Spot rates price all GPUs of their scope, not only known spot capacity.")
]


@app.command("show")
def show_(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """List the rates in effect. Includes the rate card, owned hardware and spot prices."""
    from gpuwatch.rates import in_force
    from gpuwatch.rates.card import shown

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        items = remote.every(note, "/api/v1/rates/in-force", {})["items"]
    else:
        with opened(data, config) as (_, state, _settings):
            items = [{"card": c} | shown(rate) for c, kept in in_force.by_card(state).items() for rate in kept]
    placed = tuple(name for name in PLACES if any(item.get(name) is not None for item in items))
    show(Listing(RATE_COLUMNS, items, shown=(*SHOWN, *placed), foot=[] if items else NO_RATES), form)


@app.command("set", help=RATES_HELP)
def set_(
    context: typer.Context,
    file: FileArgument,
    assume_spot: AssumeSpot = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Replace the rate card with a file. Nothing changes if a row is invalid."""
    from gpuwatch.quality.rate_checks import models_without_rate, rate_warnings
    from gpuwatch.rates import in_force
    from gpuwatch.rates.card import assuming_spot, parse_rates
    from gpuwatch.rates.csv_table import whole

    content = file_content(file, FILE_MAX_BYTES)
    if (note := lockfile.find(data)) is not None:
        _confirm("rates", remote.send(note, "PUT", "/api/v1/rates", content, CSV, {"assume_spot": assume_spot}))
        return
    rates = (assuming_spot if assume_spot else list)(whole(parse_rates, content, str(file)))
    with _written(data, config, "rates") as (store, state, done):
        done["changed"] = in_force.set_rates(state, rates, actor(), file.name, now_us(context))
        done |= {"rows": len(rates), "warnings": [*rate_warnings(store, rates), *models_without_rate(store, state)]}


@app.command("fx")
def fx_(
    context: typer.Context,
    file: OptionalFile = None,
    currency: Annotated[
        str | None, typer.Option("--currency", metavar="CUR", help="Reporting currency; '' keeps each price's own.")
    ] = None,
    max_age_days: Annotated[
        int | None, typer.Option("--max-age-days", metavar="N", help="Maximum age of an exchange rate in days.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show or set exchange rates and the reporting currency. The file's columns are from,to,rate,valid_from."""
    from dataclasses import replace

    from gpuwatch.quality.rate_checks import fx_warnings
    from gpuwatch.rates import fx
    from gpuwatch.rates.csv_table import whole

    choose(form, True)
    note = lockfile.find(data)
    if file is None and currency is None and max_age_days is None:
        if note is not None:
            found = remote.every(note, "/api/v1/fx", {})
        else:
            with opened(data, config) as (_, state, _settings):
                kept = fx.Fx.read(state)
            found = {"items": fx.shown(kept.rates), "currency": kept.currency, "max_age_days": kept.max_age_days}
        extra = {name: found[name] for name in ("currency", "max_age_days")}
        foot = f"Reporting currency: {extra['currency'] or 'that of each price'}; rates are valid for {extra['max_age_days']} days."
        show(Listing(FX_COLUMNS, found["items"], extra=extra, foot=[foot]), form)
        return
    if note is not None:
        content = _fx_file(note) if file is None else file_content(file, FILE_MAX_BYTES)
        given = {"currency": currency, "max_age_days": max_age_days}
        _confirm("exchange rates", remote.send(note, "PUT", "/api/v1/fx", content, CSV, given))
        return
    with _written(data, config, "exchange rates") as (_store, state, done):
        card = fx.Fx.read(state)
        if file is not None:
            card = replace(card, rates=tuple(whole(fx.parse_fx, file_content(file, FILE_MAX_BYTES), str(file))))
        if currency is not None:
            card = replace(card, currency=currency or None)
        if max_age_days is not None:
            card = replace(card, max_age_days=max_age_days)
        source = "options" if file is None else file.name
        done |= {"changed": fx.replace(state, card, actor(), source, now_us(context)), "rows": len(card.rates)}
        done["warnings"] = fx_warnings(state, card, now_us(context))


@app.command("owned")
def owned_(
    context: typer.Context,
    file: OptionalFile = None,
    measure: Annotated[
        str | None,
        typer.Option(
            "--measure", metavar="W", help="Measure the power of rows marked `measured` in this window, once."
        ),
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show or set the cost of owned hardware. Covers capex, power and operations, with each price's formula."""
    from gpuwatch.quality.rate_checks import rate_warnings
    from gpuwatch.rates import in_force, owned
    from gpuwatch.rates.csv_table import whole
    from gpuwatch.rates.owned_power import measured

    choose(form, True)
    note = lockfile.find(data)
    if file is None:
        if measure is not None:
            raise UsageError("--measure: also give the file with the hardware to measure")
        if note is not None:
            items = remote.every(note, "/api/v1/owned", {})["items"]
        else:
            with opened(data, config) as (_, state, _settings):
                items = [owned.priced(one) for one in in_force.owned_hardware(state)]
        columns = (*owned.REQUIRED, *owned.OPTIONAL, "usd_per_gpu_hour", "formula")
        foot = [f"{item['name']}: {line}" for item in items for line in item["formula"].splitlines()]
        show(Listing(columns, items, shown=OWNED_SHOWN, foot=foot or ["No owned hardware."]), form)
        return
    window, content = None if measure is None else window_of(measure, context), file_content(file, FILE_MAX_BYTES)
    if note is not None:
        _confirm("owned hardware", remote.send(note, "PUT", "/api/v1/owned", content, CSV, {"measure": measure}))
        return
    hardware = whole(owned.parse_owned, content, str(file))
    with _written(data, config, "owned hardware") as (store, state, done):
        known = hardware if window is None else measured(store, hardware, window)
        done["changed"] = in_force.set_owned(state, known, actor(), file.name, now_us(context))
        done |= {"rows": len(known), "warnings": rate_warnings(store, [one.rate() for one in known])}


@app.command("spot")
def spot(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Output of aws ec2 describe-spot-price-history, as JSON or CSV.")
    ],
    instance: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="TYPE=MODEL:GPUS", help="GPUs of an instance type (repeatable)."),
    ] = None,
    zone: Annotated[str | None, typer.Option("--zone", metavar="AZ", help="Only prices in this zone.")] = None,
    product: Annotated[str | None, typer.Option("--product", metavar="P", help="Only this ProductDescription.")] = None,
    currency: Annotated[str, typer.Option("--currency", metavar="CUR", help="Currency of the prices.")] = "USD",
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="C", help="Only GPUs in this cluster.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", metavar="P", help="Only GPUs in this pool.")] = None,
    assume_spot: AssumeSpot = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Add historical spot prices. Adding them twice changes nothing."""
    from gpuwatch.quality.rate_checks import rate_warnings
    from gpuwatch.rates import in_force
    from gpuwatch.rates import spot as rates_spot

    content = file_content(file, FILE_MAX_BYTES)
    words: dict[str, Any] = {"zone": zone, "product": product, "currency": currency, "cluster": cluster, "pool": pool}
    words["assume_spot"] = assume_spot
    mapping = rates_spot.instances_of(names(instance or []))
    if (note := lockfile.find(data)) is not None:
        kind = JSON if content.lstrip()[:1] in (b"{", b"[") else CSV
        parameters = words | {"instance": names(instance or [])}
        _confirm("spot prices", remote.send(note, "POST", "/api/v1/spot", content, kind, parameters))
        return
    new = rates_spot.parse_spot(content, str(file), mapping, **words)
    with _written(data, config, "spot prices") as (store, state, done):
        done["changed"] = in_force.add_spot(state, new, actor(), file.name, now_us(context))
        done |= {"rows": len(new), "warnings": rate_warnings(store, rates_spot.spot_rates(new))}


@app.command("commitments")
def commitments(
    context: typer.Context,
    window: WindowOption = "month",
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show commitments and how much of each was used."""
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.core.clock import rfc3339
    from gpuwatch.rates.commitments import COLUMNS, shown
    from gpuwatch.rates.commitments import commitments as used

    choose(form, True)
    span = window_of(window, context)
    bounds = {"start": rfc3339(span.start_us), "end": rfc3339(span.end_us)}
    if (note := lockfile.find(data)) is not None:
        parameters = {"window": f"{bounds['start']},{bounds['end']}"}
        items = json.loads(remote.get(note, "/api/v1/commitments", parameters))["items"]
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            items = [shown(one) for one in used(store, state, span)]
    foot = [] if items else ["No commitments. A rate with pricing reserved and a quantity is a commitment."]
    spare = (
        "absent_gpu_seconds",
        "idle_gpu_seconds",
        "committed_gpu_seconds",
        "unused_gpu_seconds",
        "used_gpu_seconds",
    )
    show(Listing(COLUMNS, items, extra={"window": bounds}, foot=foot, spare=spare), form)


@contextmanager
def _written(data: Path, config: Path | None, what: str) -> Iterator[tuple[Store, State, dict[str, Any]]]:
    """Store and state for a change, with a confirmation at the end. The next query uses the new prices."""
    done: dict[str, Any] = {}
    with opened(data, config, create=True) as (store, state, _):
        yield store, state, done
    _confirm(what, done)


def _confirm(what: str, done: Mapping[str, Any]) -> None:
    for warning in done.get("warnings") or ():
        print_stderr(f"{what}: {warning}")
    print_stderr(f"{what}: {done['rows']} rows, {'in force' if done['changed'] else 'nothing changed'}")


def _fx_file(note: lockfile.Note) -> bytes:
    """The server's exchange rates as a file, to send again with other options."""
    items = remote.every(note, "/api/v1/fx", {})["items"]
    return "\n".join([",".join(FX_COLUMNS), *(",".join(item[name] for name in FX_COLUMNS) for item in items)]).encode()


group("rates", app, place=250)
