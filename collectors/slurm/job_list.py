"""What a text of `scontrol show job` says of the jobs that are not in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuwatch.collectors.shared.records import Columns, Row
from gpuwatch.collectors.slurm.scontrol_records import first_word
from gpuwatch.collectors.slurm.text import known

LEAST_JOBS = 2
"""A text of one job was probably asked for by its number."""
SCOPE = {"user_name": "UserId", "account": "Account", "queue": "Partition"}


class JobList:
    """Whose jobs a text lists: all jobs, or those of one user, account or partition. Jobs without GPUs count too.

    scontrol does not print its own options, so the jobs show them: if all belong to one user, those of others may be hidden
    (`PrivateData=jobs`).
    """

    def __init__(self) -> None:
        self._jobs: set[str | None] = set()
        self._words: dict[str, set[str | None]] = {name: set() for name in SCOPE}
        self._complete = True

    def take(self, fields: dict[str, str]) -> None:
        """Takes a job. The tasks of an array and the components of a job are one: scontrol prints all for one number."""
        ids = (first_word(fields, key) for key in ("ArrayJobId", "HetJobId", "PackJobId", "JobId"))
        _add(self._jobs, next((job for job in ids if job), None))
        for name, key in SCOPE.items():
            _add(self._words[name], known((first_word(fields, key) or "").partition("(")[0]))

    def lacks(self, first_line: str) -> None:
        """Notes that a record could not be read: a job that is missing may be that one."""
        self._complete = self._complete and not first_line.startswith("JobId=")

    def scope(self) -> Columns | None:
        """The user, account and partition whose jobs are all listed (None: any); no scope where that is not certain."""
        if len(self._jobs) < LEAST_JOBS or not self._complete:
            return None
        return {name: next(iter(words)) if len(words) == 1 else None for name, words in self._words.items()}


def _add(known_words: set[str | None], word: str | None) -> None:
    """Adds a word; a second one is enough to know that there are several."""
    if len(known_words) < LEAST_JOBS:
        known_words.add(word)


def dated(rows: Iterable[Row], jobs: JobList, cluster: str, observed_us: int | None) -> Iterator[Row]:
    """The rows of a text, with its jobs that run dated to it, and a `job_list` row.

    The run times of these jobs end when it was written; only that of a suspended one stands still.
    """
    running: list[Columns] = []
    for table, row in rows:
        if table == "claim" and row["end_us"] is None:
            running.append(row)
        else:
            yield table, row
    written_us = max((row["evidence_us"] for row in running), default=0)
    at_us = max(written_us, observed_us or 0)
    for row in running:
        yield "claim", row | {"evidence_us": at_us}
    # Without a job that runs, it is not certain that the text has the GPUs of jobs.
    if running and (scope := jobs.scope()) is not None:
        yield "job_list", {"cluster": cluster, "at_us": at_us} | scope
