"""Runs one of Slurm's commands without a shell, with a deadline and a limit on its output."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpuwatch.core.errors import SourceUnreachable

MAX_STDERR_BYTES = 4096
READ_BYTES = 1 << 18
KILL_TIMEOUT_S = 5.0
"""How long to wait for the pipes of a killed command: a child in its own session may outlive it."""

_DROPPED = ("SACCT_", "SCONTROL_", "SQUEUE_", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS")
"""Variables that would change what the commands print."""


def environment(inherited: Mapping[str, str], conf_file: str = "") -> dict[str, str]:
    """The environment of a command: times in UTC, English messages, complete task lists of arrays."""
    kept = {name: value for name, value in inherited.items() if not name.startswith(_DROPPED)}
    fixed = {"TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard", "SLURM_BITSTR_LEN": "0"}
    return kept | fixed | ({"SLURM_CONF": conf_file} if conf_file else {})


async def output_of(argv: Sequence[str], env: Mapping[str, str], timeout_s: float, max_bytes: int) -> bytes:
    """Returns what the command prints, at most `max_bytes`.

    Raises SourceUnreachable when it is missing, fails, prints more, or takes longer than `timeout_s` seconds; it and
    its children are then killed.
    """
    command = os.path.basename(argv[0])
    process = await _start(command, argv, env)
    assert process.stdout is not None and process.stderr is not None
    # Both pipes are read concurrently: a full pipe would block the command.
    stdout = asyncio.ensure_future(_read(process.stdout, max_bytes, command))
    stderr = asyncio.ensure_future(_read_start(process.stderr, MAX_STDERR_BYTES))
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(stdout, stderr)
            code = await process.wait()
    except TimeoutError as error:
        raise SourceUnreachable(
            f"{command}: no answer within {timeout_s:g} s; see `scontrol ping`, or raise timeout_s in [[slurm]]"
        ) from error
    finally:
        if process.returncode is None:
            await _kill(process, stdout, stderr)
    if code:
        raise SourceUnreachable(_failure(command, code, stderr.result().decode(errors="replace")))
    return stdout.result()


async def _start(command: str, argv: Sequence[str], env: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Starts the command in its own process group. Raises SourceUnreachable."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # A start that is cancelled midway would leave the command's children behind.
        with suppress(OSError):
            await _kill(await starting)
        raise
    except FileNotFoundError as error:
        raise SourceUnreachable(
            f"{command}: not found; install Slurm's client commands here or set bin_dir in [[slurm]]"
        ) from error
    except OSError as error:
        raise SourceUnreachable(f"{command}: cannot run ({error.strerror}); check {argv[0]}") from error


async def _kill(process: asyncio.subprocess.Process, *readers: asyncio.Future[bytes]) -> None:
    """Kills a command with its children and drains its pipes, which asyncio waits for."""
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None and process.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_TIMEOUT_S):
            await asyncio.gather(_read_start(process.stdout, 0), _read_start(process.stderr, 0), process.wait())


async def _read(pipe: asyncio.StreamReader, max_bytes: int, command: str) -> bytes:
    chunks, size = list[bytes](), 0
    while chunk := await pipe.read(READ_BYTES):
        size += len(chunk)
        if size > max_bytes:
            raise SourceUnreachable(f"{command}: prints more than {max_bytes} bytes; raise max_bytes in [[slurm]]")
        chunks.append(chunk)
    return b"".join(chunks)


async def _read_start(pipe: asyncio.StreamReader, max_bytes: int) -> bytes:
    """The first `max_bytes` bytes; the rest is read and discarded."""
    kept = b""
    while chunk := await pipe.read(READ_BYTES):
        kept += chunk[: max(0, max_bytes - len(kept))]
    return kept


def _failure(command: str, code: int, stderr: str) -> str:
    """An error message with what to do."""
    line = next((line.strip() for line in stderr.splitlines() if line.strip()), f"exit status {code}")
    lower = line.lower()
    if "slurm_load" in lower or "unable to contact" in lower or "controller" in lower:
        fix = "check that slurmctld runs (`scontrol ping`) and that this host has its slurm.conf and munge key"
    elif command == "sacct" or "dbd" in lower or "accounting" in lower:
        fix = "check slurmdbd; a site without accounting sets accounting = false in [[slurm]]"
    else:
        fix = f"run `{command}` by hand as this user"
    return f"{command}: {line[:300]}; {fix}"
