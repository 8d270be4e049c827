"""Records of sacct with times of the hour that clocks repeat: the other records of the text decide what they mean. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.run_times import RUNNING_STATES, RunTimes, is_estimated, naive_us, run_times
from gpuwatch.collectors.slurm.text import duration_us, known, possible_times
from gpuwatch.core.clock import SECOND_US

HELD_MAX = 200_000
"""Records that are held back until a text ends; those beyond stay estimated."""
NOTED_MAX = 1_000_000
"""Jobs whose submission in such an hour is remembered."""
GUESSED, PRINTED = " guessed", " printed start"
"""Keys of fields that no text has: that a decided time is an estimate, and the start as it was printed."""

Fields = dict[str, str]
Jobs = dict[int, set[tuple[int, int | None]]]
"""The printed times of each job's submission in that hour, and which reading it is (0 or 1) where that is certain."""


class RepeatedHour:
    """Holds back the records whose times could be two instants until all of a text is read.

    Job numbers are given in the order of submission: where a later number has an earlier printed time, clocks were set back between
    the two. All jobs that run were looked at in the same second: start and elapsed time of each add up to it. A job that was resized
    has a record whose submission is the end of the one before, and whose start is that of the job: one that is certain decides for all.
    """

    def __init__(self, tz: ZoneInfo) -> None:
        self._tz = tz
        self._held: list[tuple[int, str, str, Fields]] = []
        self._written: dict[str, int] = {}
        self._noted = 0
        self._submitted: dict[tuple[str, str], Jobs] = defaultdict(dict)
        """By cluster and day."""
        self._ended: dict[tuple[str, str, int | None], RunTimes] = {}
        """The times of records of a job, by cluster, job and printed end."""
        self._began: dict[tuple[str, str, int | None], int] = {}
        """Starts that are certain, likewise."""

    def note(self, cluster: str, fields: Fields) -> None:
        """Takes the times of a job, also of one without GPUs."""
        if len(possible_times(fields["start"], self._tz)) > 1 and len(self._began) < NOTED_MAX:
            # After a resize the submission is later than the start, and says nothing of it.
            times = run_times(None, fields["start"], fields["end"], elapsed_us(fields), self._tz)
            if times.start_us is not None and not times.guessed:
                self._began[cluster, _job(fields), naive_us(fields["start"])] = times.start_us
        if len(possible_times(fields["end"], self._tz)) > 1 and len(self._ended) < NOTED_MAX:
            self._ended[cluster, _job(fields), naive_us(fields["end"])] = run_times(
                fields.get("submit"), fields["start"], fields["end"], elapsed_us(fields), self._tz
            )
        submit = known(fields.get("submit"))
        readings = sorted(possible_times(submit, self._tz))
        number, printed = _number(fields), naive_us(submit or "")
        if len(readings) < 2 or number is None or printed is None or submit is None or self._noted >= NOTED_MAX:
            return
        self._noted += 1
        times = run_times(submit, fields["start"], fields["end"], elapsed_us(fields), self._tz)
        certain = None if times.submit_guessed or times.submit_us is None else readings.index(times.submit_us)
        self._submitted[cluster, submit[:10]].setdefault(number, set()).add((printed, certain))

    def holds(self, number: int, line: str, cluster: str, fields: Fields, rows: list[Row]) -> bool:
        """Whether the record of these rows is held back, because its times could be others."""
        claims = [row for table, row in rows if table == "claim"]
        readings = possible_times(fields.get("submit"), self._tz)
        resized = len(readings) > 1 and any(
            row["end_us"] is not None and row["start_us"] <= us <= row["end_us"] for row in claims for us in readings
        )
        waits = len(readings) > 1 and any(table == "pending" for table, _ in rows)
        if not resized and not waits and not any(is_estimated(row["labels"]) for row in claims):
            for row in claims:
                if row["end_us"] is None and row["evidence_us"] > row["start_us"] and not row["suspended_us"]:
                    self._written[cluster] = max(self._written.get(cluster, 0), row["evidence_us"])
            return False
        if len(self._held) >= HELD_MAX:
            return False
        self._held.append((number, line, cluster, fields))
        return True

    def finish(self) -> Iterator[tuple[int, str, str, Fields]]:
        """The records that were held back, with their submission and the time of the text where these are certain now."""
        turns = {key: _turn(jobs) for key, jobs in self._submitted.items()}
        ends = [self._end(cluster, fields) for _, _, cluster, fields in self._held]
        for (_, _, cluster, fields), end_us in zip(self._held, ends, strict=True):
            if end_us is not None:
                start_us = self._began[cluster, _job(fields), naive_us(fields["start"])]
                self._ended[cluster, _job(fields), naive_us(fields["end"])] = RunTimes(None, start_us, end_us)
        for (line_number, line, cluster, fields), end_us in zip(self._held, ends, strict=True):
            decided = {} if end_us is None else {"end": _seconds(end_us)}
            submit, number = known(fields.get("submit")) or "", _number(fields) or 0
            last, first = turns.get((cluster, submit[:10]), (None, None))
            readings = sorted(possible_times(submit, self._tz))
            if before := self._ended.get((cluster, _job(fields), naive_us(submit))):
                decided |= _after(before, fields, self._tz)
            elif len(readings) == 2 and last is not None and number <= last:
                decided["submit"] = _seconds(readings[0])
            elif len(readings) == 2 and first is not None and number >= first:
                decided["submit"] = _seconds(readings[1])
            running = known(fields["end"]) is None and (fields["state"].split() or [""])[0] in RUNNING_STATES
            if running and elapsed_us(fields) and cluster in self._written:
                decided["end"] = _seconds(self._written[cluster])
            if len(readings) == 2 and readings[1] > self._written.get(cluster, readings[1]):
                decided["submit"] = _seconds(readings[0])
            yield line_number, line, cluster, fields | decided
        self._held, self._written, self._submitted, self._noted = [], {}, defaultdict(dict), 0
        self._ended, self._began = {}, {}

    def _end(self, cluster: str, fields: Fields) -> int | None:
        """The end of a record by the certain start of its job, None where none is or the end has one reading."""
        readings = possible_times(fields["end"], self._tz)
        began_us = self._began.get((cluster, _job(fields), naive_us(fields["start"])))
        length_us = elapsed_us(fields)
        if began_us is None or length_us is None or len(readings) < 2:
            return None
        end_us = began_us + length_us
        return min(readings, key=lambda us: abs(us - end_us))


def _after(before: RunTimes, fields: Fields, tz: ZoneInfo) -> Fields:
    """What the part of a job before a resize decides for the part after it. The word GUESSED says that it is an estimate itself."""
    decided = {} if before.end_us is None else {"submit": _seconds(before.end_us)}
    if before.start_us in possible_times(fields["start"], tz) and before.start_us is not None:
        decided |= {"start": _seconds(before.start_us), PRINTED: fields["start"]}
    return decided | ({GUESSED: GUESSED} if before.guessed else {})


def elapsed_us(fields: Fields) -> int | None:
    """How long a job ran, suspended time included; None where the text does not have it."""
    raw = fields.get("elapsedraw", "")
    number = int(raw) * SECOND_US if raw.isascii() and raw.isdigit() and len(raw) < 12 else None
    elapsed = duration_us(fields.get("elapsed")) if number is None else number
    # Slurm's elapsed time excludes suspended time.
    return None if elapsed is None else elapsed + (duration_us(fields.get("suspended")) or 0)


def _number(fields: Fields) -> int | None:
    """The number that a job got when it was submitted: that of the array, or of the first component."""
    match = re.match(r"\d{1,18}", fields.get("jobid") or fields.get("jobidraw") or "")
    return int(match[0]) if match else None


def _job(fields: Fields) -> str:
    return fields.get("jobid") or fields.get("jobidraw") or ""


def _seconds(us: int) -> str:
    return str(us // SECOND_US)


def _turn(jobs: Jobs) -> tuple[int | None, int | None]:
    """The last job that was certainly submitted before clocks were set back, and the first one certainly after.

    Without the jobs that were submitted again, whose number is older than their submission. None where the order decides nothing,
    or contradicts itself.
    """
    order = sorted((number, *next(iter(times))) for number, times in jobs.items() if len(times) == 1)
    printed = [time for _, time, _ in order]
    before = [number for number, _, reading in order if reading == 0]
    after = [number for number, _, reading in order if reading == 1]
    latest, earliest = accumulate(printed, max), accumulate(reversed(printed), min)
    after += [number for (number, time, _), bound in zip(order, latest, strict=True) if time < bound]
    before += [number for (number, time, _), bound in zip(reversed(order), earliest, strict=True) if time > bound]
    last, first = max(before, default=None), min(after, default=None)
    return (None, None) if last is not None and first is not None and last >= first else (last, first)
