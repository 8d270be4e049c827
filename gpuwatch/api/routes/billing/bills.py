"""Cloud bills, compared with the ledger."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, FleetReader
from gpuwatch.api.common import PREFIX, Name, Svc, WindowText, answer, errors, window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema.common import Money, Shape, Span
from gpuwatch.billing.reconcile.compare import reconcile
from gpuwatch.billing.reconcile.listing import reconcile_answer, reconcile_listing
from gpuwatch.core.errors import StoreError
from gpuwatch.imports.files import ImportReport
from gpuwatch.imports.uploads import bill_importer
from gpuwatch.output.render import render

PAGE = 1000
PATH_MAX = 1000
"""Characters of the name of a file with the folders that say of which delivery it is."""
PART_BYTES_MAX = 200
BESIDE_MAX = 500
WRITE_BYTES = 1 << 20
_BYTES = {"schema": {"type": "string", "format": "binary"}}

FileName = Annotated[
    str,
    Query(
        min_length=1,
        max_length=PATH_MAX,
        pattern=r"^[^\x00-\x1f\x7f\\]+$",
        description="The file's name, with its folder if that names a delivery (AWS, Azure).",
        examples=["cur.csv"],
    ),
]
Beside = Annotated[
    list[str] | None, Query(max_length=BESIDE_MAX, description="Names of all files that are parts of the same bill.")
]

router = APIRouter(prefix=PREFIX, tags=["books"])


class BillSums(Shape):
    """The bill, gpuwatch, and the components of `difference`."""

    currency: str | None
    bill: Money
    gpuwatch: Money
    difference: Money
    untracked: Money
    unbilled: Money
    price: Money
    boundaries: Money
    discounts: Money
    taxes: Money
    commitments: Money
    not_gpu: Money
    no_rate: Money
    not_convertible: Money
    unexplained: Money


class SumsOfGroup(BillSums):
    final: bool


class PriceOfBill(Shape):
    provider: str
    gpu_model: str
    pricing: str
    bill_per_gpu_hour: Money
    card_per_gpu_hour: Money | None
    currency: str
    rates_csv: str


class Reconciled(Shape):
    items: list[SumsOfGroup]
    window: Span
    by: Literal["day", "node", "account"]
    cost: Literal["effective", "billed"]
    totals: list[BillSums]
    suggestions: list[PriceOfBill]
    notes: list[str]
    next: str | None


@router.get(
    "/reconcile",
    response_model=Reconciled,
    responses={**errors(), 200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    summary="Cloud bills compared with the ledger",
)
def reconciled(
    access: FleetReader,
    service: Svc,
    window: WindowText = "7d",
    by: Annotated[Literal["day", "node", "account"], Query(description="What a row is.")] = "day",
    provider: Name = None,
    cost: Annotated[Literal["effective", "billed"], Query(description="Which cost of the bill.")] = "effective",
    format: Annotated[Literal["json", "csv"], Query(description="A file is not paged.")] = "json",
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> Response:
    """Covers whole UTC days that the window touches. In each row the components add up to `difference` exactly;
    `totals`, `suggestions` and `notes` cover all pages.
    """
    asked = question({"window": window, "by": by, "provider": provider, "cost": cost})
    place = decode(cursor, asked)
    now_us = service.now_us()
    span = window_of(window, now_us) if place is None or place.window is None else place.window
    with service.reader() as store:
        found = reconcile(store, service.state, span, now_us=now_us, by=by, provider=provider, cost=cost)
    comparison = reconcile_answer(found)
    if format == "csv":
        content, media_type = render(reconcile_listing(comparison), "csv")
        return Response(content, media_type=media_type)
    start = 0 if place is None else place.position
    items = comparison["items"][start : start + limit]
    more = start + limit < len(comparison["items"])
    following = encode(Cursor("", start + limit, span), asked) if more else None
    return answer({**comparison, "items": items, "next": following})


class RefusedLine(Shape):
    reason: str
    count: int
    file: str
    line: int
    example: str


class BillImported(Shape):
    files: int
    repeated: int
    records: int
    rejected: int
    unreadable: int
    examples: list[RefusedLine]


@router.post(
    "/bills",
    response_model=BillImported,
    responses=errors(415),
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": _BYTES}}},
    summary="Imports a file of a bill, plain or gzip",
)
async def import_bill(
    request: Request,
    access: Admin,
    service: Svc,
    kind: Annotated[str, Query(min_length=1, max_length=64, examples=["bill-aws-cur"])],
    name: FileName,
    beside: Beside = None,
) -> Response:
    """Imports the file like `gpuwatch import` and returns the same result. A file that was imported before changes
    nothing; an unreadable file is refused; invalid rows are left out and counted.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise ApiError(415, f"content encoding {encoding[:50]!r}: send the file as it is, plain or gzip")
    file = _inner(name, "name")
    others = [_inner(other, "beside") for other in beside or ()]
    await to_thread.run_sync(bill_importer, kind)
    with service.bills.room() as room:
        await _keep(request, room / file)
        return answer(import_answer(await to_thread.run_sync(service.bills.take, kind, room, file, others)))


def import_answer(report: ImportReport) -> dict[str, Any]:
    """A report as JSON has it, with the first example of each reason."""
    examples = [
        {"reason": why, "count": count} | dict(zip(("file", "line", "example"), rejects.first[why], strict=True))
        for rejects in report.rejects
        for why, count in rejects.faults.items()
    ]
    return {
        "files": report.files,
        "repeated": report.repeated,
        "records": report.records,
        "rejected": report.rejected,
        "unreadable": len(report.unreadable),
        "examples": examples,
    }


def _inner(name: str, field: str) -> str:
    """A name as a path that leads nowhere else. Raises ApiError."""
    parts = PurePosixPath(name.strip("/")).parts
    if not parts or ".." in parts or any(len(part.encode()) > PART_BYTES_MAX or "\0" in part for part in parts):
        why = f"no name of a file, without .. and with parts of at most {PART_BYTES_MAX} bytes"
        raise ApiError(400, f"{field} {name[:200]!r}: {why}", "send the file's name, e.g. name=cur.csv", field)
    return "/".join(parts)


async def _keep(request: Request, path: Path) -> None:
    """Writes the body to a new file as it arrives."""

    def write(piece: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(piece)
        except OSError as error:
            raise StoreError(f"cannot keep the file until it is imported: {error.strerror}; make room") from error

    held = bytearray()
    async for piece in request.stream():
        held += piece
        if len(held) >= WRITE_BYTES:
            await to_thread.run_sync(write, bytes(held))
            held.clear()
    await to_thread.run_sync(write, bytes(held))
