"""The `gpuwatch explain` command: what a charge is made of, and what it would be under another policy."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import DEFAULT_DATA, ConfigOption, DataOption, FormatOption, opened, say, show
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.output.listing import BUCKET_WORDS, Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.store.lockfile import Note

PAGE = 1000
"""Lines that a server is asked for at once."""
LINES_MAX = 100_000
"""Lines of one answer: they lie in memory."""
OFFSET_MAX = 10**9
SHOWN_LINES = 50
"""Lines of a table, where nobody says how many."""
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
SHOWN = ("held by", "device", "from", "to", "reckoned by", "measured", "gpu_hours", "cost_exact")
"""Columns of the table: a line in few words."""
HOUR_S = 3600


def explain(
    charge: Annotated[str, typer.Argument(metavar="CHARGE", help="`charge` of a row of gpuwatch chargeback.")],
    data: DataOption = DEFAULT_DATA,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="FILE|NAME",
            help="What it would be under this: a file of policies, a preset, or a policy's name.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", metavar="N", min=1, max=LINES_MAX, help="Most lines; default: 50 in a table, else 100000."
        ),
    ] = None,
    offset: Annotated[
        int, typer.Option("--offset", metavar="N", min=0, max=OFFSET_MAX, help="Lines before the first.")
    ] = 0,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """What a charge is the sum of, line by line; the id of a charge stands in each row of gpuwatch chargeback."""
    from gpuwatch.billing.charge_id import decode

    table = choose(form, sys.stdout.isatty()) == "table"
    most = limit or (SHOWN_LINES if table else LINES_MAX)
    document = None if policy is None else _document(policy)
    asked = decode(charge)
    if (note := lockfile.find(data)) is not None:
        told = _remote(note, charge, policy, document, most, offset)
    else:
        from gpuwatch.billing.chargeback import price_all
        from gpuwatch.billing.explain import charge as opening
        from gpuwatch.billing.explain import counterfactual
        from gpuwatch.billing.policy_document import proposed

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            rules = None
            if policy is not None:
                rules = counterfactual.policies_of(state, policy) if document is None else None
                rules = rules or proposed(store, state, document or b"", policy)
            told = opening.explain(store, state, asked, limit=most, offset=offset)
            told["under"] = None if rules is None else counterfactual.under(store, state, asked, rules)
    items = told.pop("items")
    if not table and limit is None and told["next_offset"] is not None:
        say(f"gpuwatch: {len(items)} of {told['lines']} lines; --offset {told['next_offset']} tells the next")
    if table:
        items = [_row(item) for item in items]
    show(
        Listing(COLUMNS, items, told, shown=SHOWN if table else None, foot=_foot(told, len(items), offset, policy)),
        form,
    )


def _remote(
    note: Note, charge: str, policy: str | None, document: bytes | None, most: int, offset: int
) -> dict[str, Any]:
    """The answer of the server that holds the data directory, page by page."""
    route = f"/api/v1/charges/{charge}"
    name = policy if document is None else None
    told: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    while not told or (told["next"] is not None and len(items) < most):
        page = {"limit": min(PAGE, most - len(items)), "offset": offset + len(items)}
        asked = page if told else page | {"policy": name}
        more = json.loads(remote.get(note, f"{route}/explain", asked))
        items += more["items"]
        told = {**(told or more), "next": more["next"]}
    if document is not None:
        kind = "application/json" if document.lstrip().startswith(b"{") else "application/toml"
        told["under"] = remote.send(note, "POST", f"{route}/what-if", document, kind, {}) or None
    following = offset + len(items) if told.pop("next") is not None else None
    return {**told, "items": items, "next_offset": following}


def _document(policy: str) -> bytes | None:
    """The content of a file of policies; None where it is no file, but a name."""
    from gpuwatch.rates.presets import POLICIES

    path = Path(policy)
    if policy in POLICIES or not (path.suffix or path.exists()):
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"--policy {path}: {error.strerror or error}") from error


def _foot(told: dict[str, Any], count: int, offset: int, policy: str | None) -> list[str]:
    """What stands below a table: the charge, the lines that are not shown, and what it would be."""
    currency = told["currency"] or ""
    window = told["window"]
    foot = [f"{told['summary']}."]
    if told["cost_exact"] is not None:
        foot.append(f"Exactly: {told['cost_exact']} {currency}, the sum of {told['lines']} lines.")
    if told["error"]:
        foot.append(told["error"])
    if count < told["lines"]:
        foot.append(f"Lines {offset + 1} to {offset + count} of {told['lines']}; --offset and --limit tell others.")
    if told["closed"]:
        foot.append(f"Frozen in period {told['closed']['period']}.")
    if policy is not None:
        foot.append(_then(told["under"], policy))
    return [*foot, f"Window: {window['start']} to {window['end']}, UTC"]


def _then(under: dict[str, Any] | None, policy: str) -> str:
    if under is None:
        return f"Under {policy}: not known for a correction, or for time without a price."
    more = Decimal(under["difference"])
    return (
        f"Under {', then '.join(under['policies'])}: {under['cost']} {under['currency']} instead of {under['now']} "
        f"({more:+}), with all that its payer pays of what others left."
    )


def _row(item: dict[str, Any]) -> dict[str, str]:
    """A line in the columns of the table."""
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
        "reckoned by": item["formula"] or "",
        "measured": "" if ratio is None else f"{ratio:.1%}",
    }


def _time(moment: str) -> str:
    """A moment to the second, for a narrow column."""
    return moment[:19].replace("T", " ")


command("explain", explain, place=100)
