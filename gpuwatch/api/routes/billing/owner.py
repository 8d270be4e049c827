"""Who would own a job, a pod or anything that has these words."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, Name, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.schema.billing.owner import DecidedOwners
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.owner_of import owners_of

LABELS_MAX = 20
Labels = Annotated[list[str] | None, Query(max_length=LABELS_MAX, description="KEY=VALUE, repeated.")]

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/teams/owner", response_model=DecidedOwners, responses=errors(404), summary="Who would own a job")
def owner(
    access: FleetReader,
    service: Svc,
    job: Name = None,
    cluster: Name = None,
    namespace: Name = None,
    account: Name = None,
    user: Name = None,
    queue: Name = None,
    label: Labels = None,
) -> Response:
    """The team, the reason, and the rule that decides. With `job`, a job or pod that has run, whose words are looked up; what is
    given beside it replaces its own. An answer for each different set of words.
    """
    labels = {}
    for one in label or ():
        key, sign, value = one.partition("=")
        if not key or not sign:
            raise ApiError(400, f"label {one[:100]!r}: write KEY=VALUE", field="label")
        labels[key] = value
    words = {"cluster": cluster, "namespace": namespace, "account": account, "user_name": user, "queue": queue}
    if job is None and not labels and not any(words.values()):
        raise ApiError(400, "give a job, a namespace, an account, a user, a queue or a label", field="job")
    try:
        with service.reader() as store:
            found = owners_of(store, service.state, words, labels, job)
    except UsageError as error:
        raise ApiError(404, str(error), field="job") from error
    return answer({"items": found})
