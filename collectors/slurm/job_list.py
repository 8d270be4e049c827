"""What a list of Slurm's jobs (`scontrol show job`, `squeue --json`) says of the jobs that are not in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuwatch.collectors.shared.records import Columns, Row
from gpuwatch.collectors.slurm.json_values import number_of
from gpuwatch.collectors.slurm.scontrol_records import first_word
from gpuwatch.collectors.slurm.text import known
from gpuwatch.collectors.slurm.waiting import Waiting

LEAST_JOBS = 2
"""A text of one job was probably asked for by its number."""
SCOPE = {"user_name": "UserId", "account": "Account", "queue": "Partition"}
IN_JSON = {"user_name": "user_name", "account": "account", "queue": "partition"}
LISTS_ALL = frozenset(
    {
        "--json",
        "-a",
        "--all",
        "--me",
        "-r",
        "--array",
        "-h",
        "--noheader",
        "-l",
        "--long",
        "-d",
        "--details",
        "show",
        "job",
        "jobs",
    }
)
"""Words of `squeue` and `scontrol` after which the output has every job, or every job of one user."""
OF_ONE = frozenset({"-u", "--user", "--users", "-A", "--account", "--accounts", "-p", "--partition", "--partitions"})
"""Options of which one value is seen in the jobs themselves."""
OF_STATES = frozenset({"-t", "--state", "--states"})
RUNNING = frozenset({"all", "running", "r"})


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
        words = {name: known((first_word(fields, key) or "").partition("(")[0]) for name, key in SCOPE.items()}
        self._take(next((job for job in ids if job), None), words)

    def take_json(self, job: Mapping[str, Any]) -> None:
        """Takes a job of `squeue --json`, in the form of any version. Raises Malformed for a number that is none."""
        numbers = (number_of(job.get(key)) for key in ("array_job_id", "het_job_id", "job_id"))
        words = {name: known(str(job.get(key) or "")) for name, key in IN_JSON.items()}
        self._take(next((str(number) for number in numbers if number), None), words)

    def _take(self, job: str | None, words: Mapping[str, str | None]) -> None:
        _add(self._jobs, job)
        for name, word in words.items():
            _add(self._words[name], word)

    def lacks(self, first_line: str) -> None:
        """Notes that a record could not be read: a job that is missing may be that one."""
        if first_line.startswith("JobId="):
            self.incomplete()

    def incomplete(self) -> None:
        """Notes that jobs may be missing."""
        self._complete = False

    def scope(self) -> Columns | None:
        """The user, account and partition whose jobs are all listed (None: any); no scope where that is not certain."""
        if len(self._jobs) < LEAST_JOBS or not self._complete:
            return None
        return {name: next(iter(words)) if len(words) == 1 else None for name, words in self._words.items()}


def lists_all(command: Any) -> bool:
    """Whether the output of a command has every job, or every job of a user, an account or a partition.

    `command` is what Slurm's JSON has of it: nothing before 23.02, when `squeue --json` ignored its filters, and for slurmrestd.
    """
    words: Sequence[Any] = command if isinstance(command, list) else ()
    before = None
    for word in map(str, words[1:]):
        if before is None and word in OF_ONE | OF_STATES:
            before = word
            continue
        name, _, value = (before, "", word) if before else _option(word)
        before = None
        if name in OF_STATES:
            fits = not RUNNING.isdisjoint(value.lower().split(","))
        else:
            fits = "," not in value if name in OF_ONE else name in LISTS_ALL
        if not fits:
            return False
    return before is None


def _option(word: str) -> tuple[str, str, str]:
    """`--states=all` and `-tall` in two parts."""
    return word.partition("=") if word.startswith("--") or len(word) < 3 or word[0] != "-" else (word[:2], "", word[2:])


def _add(known_words: set[str | None], word: str | None) -> None:
    """Adds a word; a second one is enough to know that there are several."""
    if len(known_words) < LEAST_JOBS:
        known_words.add(word)


def dated(rows: Iterable[Row], jobs: JobList, cluster: str, observed_us: int | None) -> Iterator[Row]:
    """The rows of a text, with its jobs that run or wait dated to it, and a `job_list` row.

    The run times of jobs end when it was written; only that of a suspended one stands still.
    """
    running: list[Columns] = []
    waiting = Waiting()
    for table, row in rows:
        if table == "pending":
            yield from waiting.take(row)
            continue
        if table == "claim" or (table == "workload" and row["state"] in ("admitted", "running", "finished")):
            yield from waiting.superseded(row["cluster"], row["job_id"])
            waiting.seen(row)
        if table == "claim" and row["end_us"] is None:
            running.append(row)
        else:
            yield table, row
    yield from waiting.finish(observed_us)
    written_us = max((row["evidence_us"] for row in running), default=0)
    at_us = max(written_us, observed_us or 0)
    for row in running:
        yield "claim", row | {"evidence_us": at_us}
    # Without a job that runs, it is not certain that the text has the GPUs of jobs.
    if running and (scope := jobs.scope()) is not None:
        yield "job_list", {"cluster": cluster, "at_us": at_us} | scope
