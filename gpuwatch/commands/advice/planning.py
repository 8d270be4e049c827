"""Plan a job or a policy: `gpuwatch checkpoint`, `gpuwatch decide place` and `gpuwatch decide idle-limit`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.advice.decide import decide
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    now_us,
    opened,
    show,
    with_state,
)
from gpuwatch.commands.windows import WindowOption, window_at, window_in, window_of
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

PLACE = ("rank", "where", "site", "gpu_model", "score", "wait", "data", "cost", "currency", "why")
SHOWN = ("item", "value", "basis", "source")
COLUMNS = ("name", "title", "value", "unit", "text", "basis", "source")
LIMIT_COLUMNS = (
    "limit_minutes", "returned_gpu_hours", "returned_cost", "jobs", "wrong_jobs", "devices", "wrong_devices", "soon_devices",
    "sooner",
)  # fmt: skip
LIMIT_SHOWN = ("limit", "gpu_hours", "cost", "jobs", "used again", "sooner", "by (median)")


def _number(flag: str, words: str) -> Any:
    return typer.Option(flag, metavar="N", help=words)


Number = str | None


def checkpoint(
    context: typer.Context,
    params: Annotated[str, typer.Option("--params", metavar="N", help="Parameters of the model: 70e9 or 70B.")],
    gpus: Annotated[str, _number("--gpus", "GPUs of the job.")],
    write_gbps: Annotated[
        Number, _number("--write-gbps", "Bandwidth at which the job writes, in gigabytes (10^9 bytes) per second.")
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", metavar="fp32|bf16|fp16|fp8", help="Precision of the weights.")
    ] = "bf16",
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer", metavar="NAME", help="adamw, adamw-8bit, lion, sgd-momentum, sgd, or none (weights only)."
        ),
    ] = "adamw",
    bytes_per_param: Annotated[
        Number, _number("--bytes-per-param", "Saved bytes per parameter, instead of precision and optimizer.")
    ] = None,
    stall_share: Annotated[
        Number, _number("--stall-share", "Most of the time that GPUs may wait for checkpoints; default 0.05.")
    ] = None,
    interval_minutes: Annotated[
        Number, _number("--interval-minutes", "Work between two checkpoints; default: the interval that loses least.")
    ] = None,
    background_seconds: Annotated[
        Number,
        _number("--background-seconds", "How long GPUs wait for the copy if the write runs in the background."),
    ] = None,
    restart_minutes: Annotated[
        Number, _number("--restart-minutes", "From a failure until work goes on; default 10, a guess.")
    ] = None,
    rate: Annotated[
        Number,
        _number(
            "--interruptions-per-million-gpu-hours",
            "Failures that end a run; default: measured on this fleet, otherwise a published rate.",
        ),
    ] = None,
    gpu_price: Annotated[Number, _number("--gpu-price", "Price of a GPU-hour; default: from the rate card.")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Only GPUs of this model.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")] = None,
    window: WindowOption = "30d",
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Check whether storage keeps up with checkpoints. Shows size, bandwidth, the best interval, and what stalls cost."""
    from gpuwatch.core.clock import rfc3339
    from gpuwatch.jobs.checkpoint_inputs import question_of
    from gpuwatch.jobs.checkpoints import check

    choose(form, True)
    given = {
        "params": params, "gpus": gpus, "write_gbps": write_gbps, "precision": precision, "optimizer": optimizer,
        "bytes_per_param": bytes_per_param, "stall_share": stall_share, "interval_minutes": interval_minutes,
        "background_seconds": background_seconds, "restart_minutes": restart_minutes,
        "interruptions_per_million_gpu_hours": rate, "gpu_price": gpu_price, "model": model, "cluster": cluster,
    }  # fmt: skip
    question, span = question_of(**given), window_of(window, context)
    source = context.get_parameter_source("data")
    if not data.exists() and source is not None and source.name == "DEFAULT":
        found = check(None, question, None)
    elif (note := lockfile.find(data)) is not None:
        asked = {"window": f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}", **given}
        found = json.loads(remote.get(note, "/api/v1/decisions/checkpoint", asked))
    else:
        from gpuwatch.billing.chargeback import price_all

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            found = check(store, question, span)
    people = [item | {"item": item["title"], "value": item["text"]} for item in found["items"]]
    extra = {name: value for name, value in found.items() if name != "items"}
    foot = [*(note[:1].upper() + note[1:] + "." for note in found["notes"])]
    show(Listing(COLUMNS, found["items"], extra, shown=SHOWN, people=people, foot=foot, right=["value"]), form)


Listed = list[str] | None


@decide.command("place")
@with_state
def place(
    context: typer.Context,
    gpus: Annotated[str, typer.Option("--gpus", metavar="N", help="GPUs of the job.")],
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Only GPUs of this model: H100.")] = None,
    hours: Annotated[str | None, typer.Option("--hours", metavar="H", help="Run time; default 24.")] = None,
    data_gb: Annotated[
        Listed, typer.Option("--data-gb", metavar="GB@SITE", help="Data that the job reads (repeatable).")
    ] = None,
    site: Annotated[
        Listed,
        typer.Option("--site", metavar="CLUSTER=SITE", help="Site of a cluster, or of CLUSTER/POOL (repeatable)."),
    ] = None,
    link: Annotated[
        Listed,
        typer.Option("--link", metavar="LINK", help="Repeatable: from=A,to=B,gb_per_s=1.25,price_per_gb=0.02."),
    ] = None,
    cloud: Annotated[
        Listed,
        typer.Option("--cloud", metavar="CLOUD", help="Repeatable: name=aws,price=6.88,gpus_a_node=8,wait_hours=0.5."),
    ] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")] = None,
    data: DataOption = DEFAULT_DATA,
    window: WindowOption = "30d",
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Rank pools and clouds for a job. By topology, expected wait, price, and where the data is, with the reasons."""
    from gpuwatch.advisor.place import place as look
    from gpuwatch.advisor.place_question import question_of
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.core.clock import rfc3339

    choose(form, True)
    question = question_of(
        gpus,
        model=model,
        hours=hours,
        cluster=cluster,
        data=data_gb or (),
        site=site or (),
        link=link or (),
        cloud=cloud or (),
    )
    if (note := lockfile.find(data)) is not None:
        span = window_at(window, context, note)
        asked = {
            "window": f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}", "gpus": gpus, "model": model, "hours": hours,
            "cluster": cluster, "data_gb": data_gb, "site": site, "link": link, "cloud": cloud,
        }  # fmt: skip
        found = json.loads(remote.get(note, "/api/v1/decisions/place", asked))
    else:
        with opened(data, config) as (store, state, _):
            span = window_in(window, context, store)
            price_all(store, state)
            found = look(store, state, now_us(context), span, question)
    show_places(found, form)


def show_places(found: dict[str, Any], form: str | None) -> None:
    """The ranking as a table, a line of reasons for each; JSON has every number."""
    from gpuwatch.core.words import duration

    people = [
        item
        | {"where": " / ".join(item[name] for name in ("cluster", "pool") if item[name]) or item["site"]}
        | {"wait": _time(item["wait_seconds"], duration), "data": _time(item["transfer_seconds"], duration)}
        | {"score": _score(item), "cost": item["cost"] or "unknown", "why": "; ".join(item["reasons"])}
        for item in found["items"]
    ]
    foot = ["No GPUs of this model are known, and no cloud was named."] if not people else []
    foot += [f"{note[:1].upper()}{note[1:]}." for note in found["notes"]]
    columns = list(found["items"][0]) if people else list(PLACE)
    extra = {name: value for name, value in found.items() if name != "items"}
    right = ("score", "wait", "data")
    show(Listing(columns, found["items"], extra, shown=PLACE, people=people, foot=foot, right=right), form)


def _time(seconds: float | None, words: Callable[[float], str]) -> str:
    return "unknown" if seconds is None else words(seconds)


def _score(item: dict[str, Any]) -> str:
    if item["score"] is not None:
        return f"{item['score']:.2f}"
    return "does not fit" if item["score_most"] is None else f"at most {item['score_most']:.2f}"


@decide.command("idle-limit")
@with_state
def idle_limit(
    context: typer.Context,
    team: Annotated[str | None, typer.Option("--team", metavar="T", help="Only GPUs that this team held.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")] = None,
    data: DataOption = DEFAULT_DATA,
    window: WindowOption = "30d",
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Try idle limits from 5 minutes to 4 hours on past data. Shows GPU-hours returned, jobs hit, and requests served sooner."""
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.core.clock import rfc3339
    from gpuwatch.reclaim.limits import try_limits

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        span = window_at(window, context, note)
        asked = {
            "window": f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}", "team": team, "cluster": cluster,
        }  # fmt: skip
        found = json.loads(remote.get(note, "/api/v1/what-if/idle-limits", asked))
    else:
        with opened(data, config) as (store, state, _):
            span = window_in(window, context, store)
            price_all(store, state)
            found = try_limits(store, state, span, teams=None if team is None else [team], cluster=cluster)
    extra = {name: value for name, value in found.items() if name != "items"}
    foot = [found.get("not_measured") or "No held GPU idled for five minutes or longer."]
    if found["idle"] is not None and float(found["idle"]["returned_gpu_hours"]):
        foot = []
    people = [_limit_row(item) for item in found["items"]]
    show(
        Listing(LIMIT_COLUMNS, found["items"], extra, shown=LIMIT_SHOWN, people=people, foot=foot, right=LIMIT_SHOWN),
        form,
    )


def _limit_row(item: Mapping[str, Any]) -> dict[str, Any]:
    """A limit as the table prints it."""
    from gpuwatch.core.words import duration

    sooner = item["sooner"] or {}
    cost = item["returned_cost"]
    return {
        "limit": f"{item['limit_minutes']} min",
        "gpu_hours": f"{float(item['returned_gpu_hours']):,.1f}",
        "cost": "no price" if cost is None else f"{float(cost):,.2f}",
        "jobs": item["jobs"],
        "used again": item["wrong_jobs"],
        "sooner": sooner.get("requests"),
        "by (median)": "" if not sooner.get("median_s") else duration(sooner["median_s"]),
    }


command("checkpoint", checkpoint, place=245)
