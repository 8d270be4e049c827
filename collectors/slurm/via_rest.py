"""Slurm asked through slurmrestd, whichever versions of its API it serves."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import IO

from gpuwatch.collectors.shared.json_stream import pieces_of
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import RunKey
from gpuwatch.collectors.slurm.json import answer_rows
from gpuwatch.collectors.slurm.queries import Once, numbers_of, refuse_unread
from gpuwatch.collectors.slurm.rest_client import Access, NotThere, fetch, told_error
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import SourceUnreachable, UnreadableInput
from gpuwatch.core.model import Rejects, Source

VERSIONS = tuple(f"v0.0.{number}" for number in range(44, 37, -1))
"""Versions of the API whose shapes are read (Slurm 22.05 to 25.11), newest first."""
MAX_LOST_JOBS = 50
"""Lost jobs that are asked for in one round: each is a request of its own."""
MAX_SPECIFICATION_BYTES = 64 << 20

_PATH = re.compile(r"/(slurm|slurmdb)/(v0\.0\.\d+)/jobs/?")


class ByRest:
    """Asks slurmrestd. See slurm_asking.Asking."""

    max_lost = MAX_LOST_JOBS

    def __init__(self, cluster: str, access: Access, version: str, timeout_s: float, max_bytes: int) -> None:
        """`version` "" takes the newest that the server speaks; bounds are those of one answer."""
        self._cluster, self._access, self._wanted = cluster, access, version
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._version = version
        self._once = Once()

    async def jobs(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking."""
        return await self._ask("slurm", "jobs", {}, at_us, rejects)

    async def nodes(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking."""
        return await self._ask("slurm", "nodes", {}, at_us, rejects)

    async def queues(self, at_us: int, accounting: bool, rejects: Rejects) -> list[Row]:
        """See Asking."""
        rows = await self._ask("slurm", "partitions", {}, at_us, rejects)
        rows += await self._ask("slurm", "reservations", {}, at_us, rejects)
        return rows + (await self._ask("slurmdb", "qos", {}, at_us, rejects) if accounting else [])

    async def ended(self, since_us: int, at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking. slurmrestd takes requeued runs and whole times by itself when it is given a start."""
        version = await self._spoken()
        seconds = since_us // SECOND_US
        if version in ("v0.0.38", "v0.0.39"):
            # These read the words of sacct: `uts` says that seconds since the epoch follow.
            query = {"start_time": f"uts{seconds}", "skip_steps": "true"}
        else:
            # With skip_steps, v0.0.40 and v0.0.41 leave out jobs that no scheduler started.
            query = {"start_time": str(seconds)}
        return await self._ask("slurmdb", "jobs", query, at_us, rejects)

    async def ended_of(self, runs: Sequence[RunKey], at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking."""
        rows: list[Row] = []
        for number in numbers_of(runs)[1]:
            try:
                rows += await self._ask("slurmdb", f"job/{number}", {}, at_us, rejects)
            except NotThere:
                continue  # accounting never heard of it
        return rows

    async def _ask(self, part: str, what: str, query: Mapping[str, str], at_us: int, rejects: Rejects) -> list[Row]:
        version = await self._spoken()
        path = f"/{part}/{version}/{what}"
        try:
            body = await fetch(self._access, path, query, self._timeout_s, self._max_bytes)
        except NotThere:
            if "/" not in what:
                self._version = self._wanted  # the server may have been upgraded
            raise
        with body:
            refused = Rejects()
            # A big cluster answers with tens of megabytes: they are read beside the loop, which other sources share.
            rows = await asyncio.to_thread(self._read, body, path, at_us, refused)
        if (part, what) == ("slurm", "jobs"):
            refuse_unread(f"slurmrestd {path}", rows, refused)
        self._once.tell(f"{part} {what.partition('/')[0]}", refused, rejects)
        return rows

    def _read(self, body: IO[bytes], path: str, at_us: int, refused: Rejects) -> list[Row]:
        errors: list[str] = []
        source = Source(f"slurmrestd {path}", self._cluster, "UTC", at_us)
        seen: set[str] = set()
        try:
            found = pieces_of(body, source.path, refused)
            rows = list(answer_rows(found, source, refused, at_us, errors.append, seen))
        except UnreadableInput as error:
            why = str(error).partition(";")[0]
            raise SourceUnreachable(
                f"{why}; is {self._access.url} a slurmrestd, and did it answer to the end?"
            ) from error
        if errors:
            raise told_error(self._access, path, errors[0])
        broken = next((reason for reason in refused.counts if reason.startswith("the file breaks off")), "")
        if broken or "errors" not in seen or (path.startswith("/slurm/") and path.rpartition("/")[2] not in seen):
            # Half a list would end every job of the other half, and none would end them all.
            raise SourceUnreachable(f"slurmrestd {path}: {broken or 'not an answer of Slurm'}; see slurmrestd's log")
        return rows

    async def _spoken(self) -> str:
        """The version to ask in: the newest that is known here and served there."""
        if not self._version:
            self._version = await self._from_specification() or await self._by_trying()
        return self._version

    async def _from_specification(self) -> str:
        for path in ("/openapi/v3", "/openapi"):
            try:
                body = await fetch(self._access, path, {}, self._timeout_s, MAX_SPECIFICATION_BYTES)
            except NotThere:
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
            except NotThere:
                continue
            body.close()
            return version
        raise SourceUnreachable(
            f"slurmrestd {self._access.url}: serves none of {VERSIONS[-1]} to {VERSIONS[0]}; load its plugins "
            "(slurmrestd -s openapi/slurmctld,openapi/slurmdbd)"
        )


def _served(body: IO[bytes]) -> set[str]:
    """Versions of /slurm/…/jobs in an OpenAPI document; none when it is not one."""
    try:
        paths = json.load(body).get("paths", {})
    except (ValueError, RecursionError, AttributeError):
        return set()
    found = [match for path in paths if (match := _PATH.fullmatch(str(path)))]
    return {match[2] for match in found if match[1] == "slurm"}
