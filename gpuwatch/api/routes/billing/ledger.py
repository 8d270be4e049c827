"""The ledger: GPU-seconds by bucket, and the chargeback."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, WindowText, errors, seen, split
from gpuwatch.api.etags import has, of_file
from gpuwatch.api.paging import CursorText, Limit, following, question, rolling_place
from gpuwatch.api.schema.billing.ledger import Chargeback, Ledger
from gpuwatch.billing import chargeback as billing_chargeback
from gpuwatch.billing.focus import export as focus_export
from gpuwatch.billing.focus.files import MEDIA
from gpuwatch.billing.listings import chargeback_listing, ledger_listing
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, rfc3339
from gpuwatch.output.render import render

if TYPE_CHECKING:
    from gpuwatch.billing.records import Chargeback as Charges
    from gpuwatch.service.service import Service
    from gpuwatch.store.database import Store

STEPS = {"1h": HOUR_US, "1d": DAY_US}
PAGE = 1000
PIECE_BYTES = 1 << 20
OF_BODY = ("Content-Disposition", "Content-Length")
"""Headers of a file that an answer without it does not have."""
By = Annotated[list[str] | None, Query(max_length=20, description="Dimensions, comma-separated.")]
FILES: dict[str, Any] = {
    "text/csv": {"schema": {"type": "string"}},
    "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": {
        "schema": {"type": "string", "format": "binary"}
    },
}

router = APIRouter(prefix=PREFIX, tags=["books"])


@router.get("/ledger", response_model=Ledger, responses=errors(), summary="GPU-seconds by bucket")
def ledger(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    by: By = None,
    team: Names = None,
    cluster: Name = None,
    pool: Name = None,
    step: Annotated[Literal["1h", "1d"] | None, Query(description="Cuts the window at UTC hours or days.")] = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> Response:
    """Every GPU-second of the window is in exactly one row. `funnel`, `capacity_gpu_seconds` and the measures `working`,
    `avoidable` (waste), `free` and `unknown` cover all pages; `groups` has the measures of the `limit` groups of `by` with
    the most avoidable time, and none with `step`.
    """
    dimensions, teams = split(by) or ["bucket"], seen(access.teams, split(team))
    asked = question(
        {"window": window, "by": dimensions, "teams": teams, "cluster": cluster, "pool": pool, "step": step}
    )
    span, offset = rolling_place(cursor, asked, window, service.now_us())

    def look(store: Store) -> dict[str, Any]:
        found = billing_chargeback.ledger(
            store,
            service.state,
            span,
            dimensions,
            cluster,
            teams,
            pool=pool,
            step_us=None if step is None else STEPS[step],
            limit=limit,
            offset=offset,
        )
        listing = ledger_listing(found)
        return {"items": list(listing.items), **listing.extra, "next": following(found.next_offset, span, asked)}

    return kept(request, access, service, look, span)


@router.get(
    "/chargeback",
    response_model=Chargeback,
    responses={**errors(), 200: {"content": FILES}},
    summary="Who pays what",
)
def chargeback(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    by: By = None,
    team: Names = None,
    cluster: Name = None,
    pool: Name = None,
    format: Annotated[
        Literal["json", "csv", "parquet", "xlsx", "focus"], Query(description="Files are not paged.")
    ] = "json",
    focus_version: Annotated[Literal["1.2", "1.4"], Query(description="With format=focus.")] = "1.2",
    focus_format: Annotated[Literal["csv", "parquet"], Query(description="With format=focus.")] = "csv",
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> Response:
    """Rows add up to `total`, which covers all pages. `by` takes any of team, user, queue, namespace, account, job,
    gpu_model, mig_profile, slice, cluster, pool, cause, day, week, month (UTC), node, gpu, name, label:<key>, cost_center. Formats other than json return everything as one file. `focus`
    ignores `by`: its rows are a day, a device and a job; X-Gpuwatch-Unpriced-Gpu-Seconds is the time left out because
    no rate covers it.
    """
    dimensions, teams = split(by) or ["team"], seen(access.teams, split(team))
    asked = question({"window": window, "by": dimensions, "teams": teams, "cluster": cluster, "pool": pool})
    span, offset = rolling_place(cursor, asked, window, service.now_us())
    if format == "focus":
        return _focus(request, service, span, focus_version, focus_format, cluster, pool, teams)

    def look(store: Store, **paged: Any) -> Charges:
        return billing_chargeback.chargeback(store, service.state, span, dimensions, cluster, teams, pool=pool, **paged)

    def shown(store: Store) -> dict[str, Any]:
        found = look(store, limit=limit, offset=offset)
        listing = chargeback_listing(found)
        return {"items": list(listing.items), **listing.extra, "next": following(found.next_offset, span, asked)}

    if format == "json":
        return kept(request, access, service, shown, span)
    with service.reader() as store:
        listing = chargeback_listing(look(store))
    content, media_type = render(listing, format)
    name = f"chargeback-{_ends(span)}.{format}"
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _ends(span: Window) -> str:
    """The ends of a window as a part of a file name: `2026-11-16-to-2026-11-23`, with the time (UTC) where it is not midnight."""
    moments = (rfc3339(us).removesuffix("Z") for us in (span.start_us, span.end_us))
    return "-to-".join(text.removesuffix("T00:00:00").replace(":", "") for text in moments)


def _focus(
    request: Request,
    service: Service,
    span: Window,
    version: str,
    form: str,
    cluster: str | None,
    pool: str | None,
    teams: Collection[str] | None,
) -> Response:
    """The FOCUS file, written to a nameless file first: it never lies in memory, and it goes whatever happens."""
    file = TemporaryFile(prefix="gpuwatch-focus-")  # noqa: SIM115  closed when it is sent
    try:
        with service.reader() as store:
            done = focus_export.write(
                store, service.state, span, file, version=version, form=form, cluster=cluster, pool=pool, teams=teams
            )
        name = f"focus-{version}-{_ends(span)}.{form}"
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Length": str(file.tell()),
            "X-Gpuwatch-Unpriced-Gpu-Seconds": f"{done.unpriced_gpu_seconds:f}",
        }
        if done.warnings:
            headers["X-Gpuwatch-Warnings"] = json.dumps(done.warnings)
        file.seek(0)
        headers["ETag"] = of_file(file)
        if has(request, headers["ETag"]):
            file.close()
            # What the file leaves out can change while its rows do not.
            return Response(status_code=304, headers={name: headers[name] for name in headers if name not in OF_BODY})
        return StreamingResponse(_pieces(file), headers=headers, media_type=MEDIA[form])
    except BaseException:
        file.close()
        raise


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece
