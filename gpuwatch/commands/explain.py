"""The `gpuwatch explain` command: the lines of a charge, and the charge under another policy."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import DEFAULT_DATA, ConfigOption, DataOption, FormatOption, opened, print_stderr, show
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.output.listing import BUCKET_WORDS, Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.policy.policy import Policies
    from gpuwatch.state import State
    from gpuwatch.store.database import Store
    from gpuwatch.store.lockfile import Note

PAGE = 1000
"""Lines per request to a server."""
LINES_MAX = 100_000
"""Maximum lines, because they are held in memory."""
OFFSET_MAX = 10**9
SHOWN_LINES = 50
"""Default number of lines in a table."""
COLUMNS = (
    "what",
    "device",
    "gpu_index",
    "node",
    "start",
    "end",
    "day",
    "owner",
    "job",
    "user",
    "bucket",
    "share",
    "share_method",
    "split",
    "formula",
    "coverage",
    "gpu_seconds",
    "cost_exact",
    "gpu_model",
    "mig_profile",
    "cluster",
    "pool",
    "rate",
    "policy",
    "bucket_hours",
    "text",
)
SHOWN = ("held by", "device", "from", "to", "formula", "measured", "gpu_hours", "cost_exact")
"""Columns of the table."""
HOUR_S = 3600


def explain(
    charge: Annotated[
        str, typer.Argument(metavar="CHARGE", help="The `charge` field of a row of gpuwatch chargeback.")
    ],
    data: DataOption = DEFAULT_DATA,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="FILE|NAME",
            help="Compare with another policy: a policy file, a preset or a policy name.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=1, max=LINES_MAX, help="Maximum lines; default: 50 in a table, else 100000."
        ),
    ] = None,
    offset: Annotated[int, typer.Option("--offset", metavar="N", min=0, max=OFFSET_MAX, help="Lines to skip.")] = 0,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show how a charge was computed."""
    from gpuwatch.billing.charge_id import decode

    table = choose(form, sys.stdout.isatty()) == "table"
    most = limit or (SHOWN_LINES if table else LINES_MAX)
    document = None if policy is None else _document(policy)
    decoded = decode(charge)
    if (note := lockfile.find(data)) is not None:
        charge_data = _remote(note, charge, policy, document, most, offset)
    else:
        from gpuwatch.billing.chargeback import price_all
        from gpuwatch.billing.explain import charge as opening
        from gpuwatch.billing.explain import counterfactual

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            rules = None if policy is None else _policies(store, state, policy, document)
            charge_data = opening.explain(store, state, decoded, limit=most, offset=offset)
            charge_data["under"] = None if rules is None else counterfactual.under(store, state, decoded, rules)
    items = charge_data.pop("items")
    if not table and limit is None and charge_data["next_offset"] is not None:
        print_stderr(
            f"gpuwatch: {len(items)} of {charge_data['lines']} lines; use --offset {charge_data['next_offset']} for the next ones"
        )
    if table:
        items = [_row(item) for item in items]
    show(
        Listing(
            COLUMNS,
            items,
            charge_data,
            shown=SHOWN if table else None,
            foot=_foot(charge_data, len(items), offset, policy),
        ),
        form,
    )


def _policies(store: Store, state: State, policy: str, document: bytes | None) -> Policies:
    """The policies to compare with: those of a document, or of a preset or policy name."""
    from gpuwatch.billing.explain.counterfactual import policies_of
    from gpuwatch.billing.policy_document import proposed

    return policies_of(state, policy) if document is None else proposed(store, state, document, policy)


def _remote(
    note: Note, charge: str, policy: str | None, document: bytes | None, most: int, offset: int
) -> dict[str, Any]:
    """The charge from the server that holds the data directory, all pages."""
    route = f"/api/v1/charges/{charge}"
    name = policy if document is None else None
    charge_data: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    while not charge_data or (charge_data["next"] is not None and len(items) < most):
        page = {"limit": min(PAGE, most - len(items)), "offset": offset + len(items)}
        parameters = page if charge_data else page | {"policy": name}
        more = json.loads(remote.get(note, f"{route}/explain", parameters))
        items += more["items"]
        charge_data = {**(charge_data or more), "next": more["next"]}
    if document is not None:
        kind = "application/json" if document.lstrip().startswith(b"{") else "application/toml"
        charge_data["under"] = remote.send(note, "POST", f"{route}/what-if", document, kind, {}) or None
    following = offset + len(items) if charge_data.pop("next") is not None else None
    return {**charge_data, "items": items, "next_offset": following}


def _document(policy: str) -> bytes | None:
    """The content of a policy file; None for a policy name."""
    from gpuwatch.rates.presets import POLICIES

    path = Path(policy)
    if policy in POLICIES or not (path.suffix or path.exists()):
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"--policy {path}: {error.strerror or error}") from error


def _foot(charge_data: dict[str, Any], count: int, offset: int, policy: str | None) -> list[str]:
    """Lines below the table: the charge, lines not shown, and the other policy's result."""
    currency = charge_data["currency"] or ""
    window = charge_data["window"]
    foot = [f"{charge_data['summary']}."]
    if charge_data["cost_exact"] is not None:
        foot.append(f"Exact cost: {charge_data['cost_exact']} {currency}, the sum of {charge_data['lines']} lines.")
    if charge_data["error"]:
        foot.append(charge_data["error"])
    if count < charge_data["lines"]:
        foot.append(
            f"Lines {offset + 1} to {offset + count} of {charge_data['lines']}; use --offset and --limit for others."
        )
    if charge_data["closed"]:
        foot.append(f"Frozen in period {charge_data['closed']['period']}.")
    if policy is not None:
        foot.append(_then(charge_data["under"], policy))
    return [*foot, f"Window: {window['start']} to {window['end']}, UTC"]


def _then(under: dict[str, Any] | None, policy: str) -> str:
    if under is None:
        return f"Under {policy}: unknown for corrections and for time without a price."
    more = Decimal(under["difference"])
    return (
        f"Under {', then '.join(under['policies'])}: {under['cost']} {under['currency']} instead of {under['now']} "
        f"({more:+}), including the payer's share of passed-on costs."
    )


def _row(item: dict[str, Any]) -> dict[str, str]:
    """A table row for one line."""
    row = {
        "gpu_hours": f"{Decimal(item['gpu_seconds']) / HOUR_S:.2f}",
        "cost_exact": "" if item["cost_exact"] is None else item["cost_exact"],
    }
    if item["what"] != "segment":
        return row | {"held by": item["text"]}
    ratio = item["coverage"]
    gpu = item["gpu"] if item["gpu_index"] is None else f"GPU {item['gpu_index']}"
    words = [item["node"], gpu, None if item["gi"] is None else f"GI-{item['gi']}"]
    return row | {
        "held by": item["job"] or BUCKET_WORDS.get(item["bucket"] or "", "a run"),
        "device": " ".join(word for word in words if word),
        "from": _time(item["start"]),
        "to": _time(item["end"]),
        "formula": item["formula"] or "",
        "measured": "" if ratio is None else f"{ratio:.1%}",
    }


def _time(moment: str) -> str:
    """A time to the second, for a narrow column."""
    return moment[:19].replace("T", " ")


command("explain", explain, place=100)
