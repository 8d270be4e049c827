"""Queries Slurm through slurmrestd, in any of the supported versions of its API."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

from gpuwatch.collectors.shared.changes import NewRejects
from gpuwatch.collectors.shared.json_stream import elements_of
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import RunKey
from gpuwatch.collectors.slurm.json import document_rows
from gpuwatch.collectors.slurm.queries import numbers_of, require_readable
from gpuwatch.collectors.slurm.rest_client import Access, PathNotFound, fetch, reported_error
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import SourceUnreachable, UnreadableInput
from gpuwatch.core.model import Rejects, Source

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s to import, which most commands do not need

VERSIONS = tuple(f"v0.0.{number}" for number in range(44, 37, -1))
"""Supported versions of the API (Slurm 22.05 to 25.11), newest first."""
MAX_LOST_JOBS = 50
"""Lost jobs that are looked up in one round, with one request each."""
MAX_SPECIFICATION_BYTES = 64 << 20

_PATH = re.compile(r"/(slurm|slurmdb)/(v0\.0\.\d+)/jobs/?")


class RestClient:
    """Queries slurmrestd."""

    max_lost = MAX_LOST_JOBS

    def __init__(self, cluster: str, access: Access, version: str, timeout_s: float, max_bytes: int) -> None:
        """`version` "" selects the newest version that the server supports; the limits apply to each response."""
        self._cluster, self._access, self._wanted = cluster, access, version
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._version = version
        self._new_rejects = NewRejects()
        self.traces: list[aiohttp.TraceConfig] = []
        """What follows each request."""

    async def jobs(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        return await self._query("slurm", "jobs", {}, at_us, rejects)

    async def nodes(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        return await self._query("slurm", "nodes", {}, at_us, rejects)

    async def queues(self, at_us: int, accounting: bool, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        rows = await self._query("slurm", "partitions", {}, at_us, rejects)
        rows += await self._query("slurm", "reservations", {}, at_us, rejects)
        return rows + (await self._query("slurmdb", "qos", {}, at_us, rejects) if accounting else [])

    async def ended(self, since_us: int, at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient. Given a start, slurmrestd includes requeued runs and does not truncate times."""
        version = await self._api_version()
        seconds = since_us // SECOND_US
        if version in ("v0.0.38", "v0.0.39"):
            # These parse times like sacct: `uts` means that seconds since the epoch follow.
            query = {"start_time": f"uts{seconds}", "skip_steps": "true"}
        else:
            # With skip_steps, v0.0.40 and v0.0.41 omit jobs that were not started by a scheduler.
            query = {"start_time": str(seconds)}
        return await self._query("slurmdb", "jobs", query, at_us, rejects)

    async def ended_of(self, runs: Sequence[RunKey], at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        rows: list[Row] = []
        for number in numbers_of(runs)[1]:
            try:
                rows += await self._query("slurmdb", f"job/{number}", {}, at_us, rejects)
            except PathNotFound:
                continue  # not in accounting
        return rows

    async def _query(self, part: str, what: str, query: Mapping[str, str], at_us: int, rejects: Rejects) -> list[Row]:
        version = await self._api_version()
        path = f"/{part}/{version}/{what}"
        try:
            body = await fetch(self._access, path, query, self._timeout_s, self._max_bytes, self.traces)
        except PathNotFound:
            if "/" not in what:
                self._version = self._wanted  # the server may have been upgraded
            raise
        with body:
            rejected = Rejects()
            # The response of a big cluster has tens of megabytes: a thread parses it, so that other sources go on.
            rows = await asyncio.to_thread(self._parse, body, path, at_us, rejected)
        if (part, what) == ("slurm", "jobs"):
            require_readable(f"slurmrestd {path}", rows, rejected)
        self._new_rejects.add(f"{part} {what.partition('/')[0]}", rejected, rejects)
        return rows

    def _parse(self, body: IO[bytes], path: str, at_us: int, rejected: Rejects) -> list[Row]:
        errors: list[str] = []
        source = Source(f"slurmrestd {path}", self._cluster, "UTC", at_us)
        seen: set[str] = set()
        try:
            found = elements_of(body, source.path, rejected)
            rows = list(document_rows(found, source, rejected, at_us, errors.append, seen))
        except UnreadableInput as error:
            why = str(error).partition(";")[0]
            raise SourceUnreachable(
                f"{why}; is {self._access.url} a slurmrestd, and was its response complete?"
            ) from error
        if errors:
            raise reported_error(self._access, path, errors[0])
        broken = next((reason for reason in rejected.counts if reason.startswith("the file breaks off")), "")
        if broken or "errors" not in seen or (path.startswith("/slurm/") and path.rpartition("/")[2] not in seen):
            # With an incomplete list, the missing jobs would be taken for ended.
            raise SourceUnreachable(f"slurmrestd {path}: {broken or 'not a response of Slurm'}; see slurmrestd's log")
        return rows

    async def _api_version(self) -> str:
        """The newest API version that both sides support."""
        if not self._version:
            self._version = await self._from_specification() or await self._by_trying()
        return self._version

    async def _from_specification(self) -> str:
        for path in ("/openapi/v3", "/openapi"):
            try:
                body = await fetch(self._access, path, {}, self._timeout_s, MAX_SPECIFICATION_BYTES)
            except PathNotFound:
                continue
            with body:
                served = await asyncio.to_thread(_served, body)
            if newest := next((version for version in VERSIONS if version in served), ""):
                return newest
        return ""

    async def _by_trying(self) -> str:
        for version in VERSIONS:
            try:
                body = await fetch(self._access, f"/slurm/{version}/ping", {}, self._timeout_s, self._max_bytes)
            except PathNotFound:
                continue
            body.close()
            return version
        raise SourceUnreachable(
            f"slurmrestd {self._access.url}: serves none of {VERSIONS[-1]} to {VERSIONS[0]}; load its plugins "
            "(slurmrestd -s openapi/slurmctld,openapi/slurmdbd)"
        )


def _served(body: IO[bytes]) -> set[str]:
    """Versions of /slurm/…/jobs in an OpenAPI document, none for anything else."""
    try:
        paths = json.load(body).get("paths", {})
    except (ValueError, RecursionError, AttributeError):
        return set()
    found = [match for path in paths if (match := _PATH.fullmatch(str(path)))]
    return {match[2] for match in found if match[1] == "slurm"}
