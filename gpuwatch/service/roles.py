"""What one process of gpuwatch does: everything, or the part of one role."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gpuwatch.alerts.repository import Channels
from gpuwatch.core.errors import Misdirected, StoreError, UsageError
from gpuwatch.service.config import Plan
from gpuwatch.state import State
from gpuwatch.store import lockfile
from gpuwatch.store.database import FILE_NAME

ONE_PROCESS = (
    "The embedded store can be open in one process only, so the roles of one directory cannot run beside each other"
)


@dataclass(frozen=True)
class Role:
    """`analyses`: collects, receives and analyses data. `leads`: alerts, budgets and reports. `pages`: the user interface."""

    name: str
    analyses: bool
    leads: bool
    pages: bool


ALL = Role("all", analyses=True, leads=True, pages=True)
CELL = Role("cell", analyses=True, leads=False, pages=False)
API = Role("api", analyses=False, leads=False, pages=True)
LEAD = Role("lead", analyses=False, leads=True, pages=False)
ROLES = {role.name: role for role in (ALL, CELL, API, LEAD)}


def role_of(name: str) -> Role:
    """The role of a name. Raises UsageError for another one."""
    if name not in ROLES:
        raise UsageError(f"--role {name}: use one of {', '.join(ROLES)}")
    return ROLES[name]


def part_of(role: Role, plan: Plan) -> Plan:
    """The configuration as a role uses it: only one that analyzes has sources and publishes, and only `api` and `lead` copy a lake.

    Raises UsageError for a lake without the name under which this process would publish.
    """
    if role.analyses:
        if plan.lake is not None:
            plan.lake.need_cell()
        return plan
    return replace(plan, live=(), lake=plan.lake)


def is_replica(role: Role, plan: Plan) -> bool:
    """Whether the process answers from a copy of a lake, which it keeps up to date."""
    return not role.analyses and plan.lake is not None


def check_directory(role: Role, directory: Path, replica: bool = False) -> None:
    """Raises StoreError if a role cannot work on a directory: another process has it, or nobody collects data for it."""
    if role == ALL:
        return
    if (note := lockfile.find(directory)) is not None:
        raise StoreError(
            f"--role {role.name}: {directory} is in use by process {note.pid}, which serves {note.url}. {ONE_PROCESS}: stop "
            "that process, or let it do everything (--role all)"
        )
    if not role.analyses and not replica and not (directory / FILE_NAME).exists():
        raise StoreError(
            f"--role {role.name}: there is no data in {directory}, and this role collects none; import some, restore a backup, "
            "or run --role all. A replica that answers from a lake needs [lake] in --config"
        )


def check_work(role: Role, state: State, plan: Plan) -> None:
    """Raises UsageError for configured work that nobody would do."""
    if not _shares_lead(state, plan) and (undone := left_undone(role, state, plan, False)):
        raise UsageError("; ".join(undone))


def check_receives(role: Role, is_replica: bool) -> None:
    """Raises for data that a process of this role does not store."""
    if is_replica:
        raise Misdirected(
            f"this process stores no data, because its role is {role.name} and its data come from a lake: send it to the cell "
            "that has the cluster; gpuwatch lake clusters lists their addresses"
        )
    if not role.analyses:
        raise StoreError(
            f"this process stores no data, because its role is {role.name}: send it to one with role all or cell"
        )


def left_undone(role: Role, state: State, plan: Plan, led: bool) -> list[str]:
    """Configured work that nobody does while this process has the directory, with the fix; empty if there is none.

    `led`: another process has the lease of the lead. A process that only answers questions about a copy is meant to send nothing.
    """
    if role != CELL or led:
        return []
    found = [f"channel {channel.name}" for channel in Channels(state).list() if channel.enabled]
    found += ["report_directory"] if plan.settings.report_directory is not None else []
    fix = (
        "No process has the lead: start one with --role lead, or disable it"
        if _shares_lead(state, plan)
        else f"{ONE_PROCESS}: run --role all, or disable it"
    )
    return [
        f"{what} is configured, but role {role.name} sends no alerts and writes no reports. {fix}" for what in found
    ]


def _shares_lead(state: State, plan: Plan) -> bool:
    """Whether a process of role lead may work for this cell."""
    return plan.lake is not None and state.on_server
