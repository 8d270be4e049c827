"""The responses in a folder by the Ray head that they are from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.collectors.ray.state import Responses
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

MAX_NAMED = 3
NAME_CHARS = 40
FIX = "put the responses of each head, its version.json included, into a folder of its own"


@dataclass(frozen=True)
class File:
    """The responses in one file."""

    path: str
    responses: Responses


def by_head(files: Sequence[File], root: str, rejects: Rejects) -> list[Responses]:
    """The responses of each head, one after the other.

    Heads are known by their session, without one by their head node. Files of one head may be in any folders below
    `root`. With several heads, a file is from the head that is named in its folder or in the nearest one above it.
    Raises UnreadableInput if a file may be from several heads: job ids repeat from head to head.
    """
    if len(_heads(files)) <= 1:
        return [_joined(files, rejects)]
    folders = _folders(files, Path(root))
    named = {folder: found for folder, group in folders.items() if (found := _heads(group))}
    if crowded := next((folder for folder, found in sorted(named.items()) if len(found) > 1), None):
        heads = sorted(named[crowded])
        shown = ", ".join(head[:NAME_CHARS] for head in heads[:MAX_NAMED]) + (", ..." if len(heads) > MAX_NAMED else "")
        raise UnreadableInput(f"{crowded}: has responses of {len(heads)} Ray heads ({shown}); {FIX}")
    sessions = _session_of_node(folders.values())
    groups: dict[str, list[File]] = {}
    for folder, group in folders.items():
        owner = next((at for at in (folder, *folder.parents) if at in named), None)
        if owner is None:
            count = len({head for found in named.values() for head in found})
            raise UnreadableInput(f"{group[0].path}: may be from any of {count} Ray heads in {root}; {FIX}")
        head = next(iter(named[owner]))
        groups.setdefault(sessions.get(head, head), []).extend(group)
    return [_joined(group, rejects) for _, group in sorted(groups.items())]


def _folders(files: Iterable[File], root: Path) -> dict[Path, list[File]]:
    found: dict[Path, list[File]] = {}
    for file in files:
        folder = Path(file.path).parent
        found.setdefault(folder if folder.is_relative_to(root) else root, []).append(file)
    return found


def _heads(files: Sequence[File]) -> set[str]:
    """The sessions in some files, or their living head nodes if those are more."""
    sessions, nodes = _sessions(files), _nodes(files)
    return nodes if len(nodes) > len(sessions) else sessions


def _session_of_node(folders: Iterable[Sequence[File]]) -> dict[str, str]:
    """The session of a head node, where a folder has both: another folder of that head may lack version.json."""
    both = [(_nodes(files), _sessions(files)) for files in folders]
    return {node: session for nodes, (session,) in ((n, s) for n, s in both if len(s) == 1) for node in nodes}


def _sessions(files: Iterable[File]) -> set[str]:
    return {file.responses.session for file in files if file.responses.session}


def _nodes(files: Iterable[File]) -> set[str]:
    """The living head nodes in some files."""
    items = (item for file in files for item in file.responses.of("node"))
    return {str(item["node_id"]) for item in items if item.get("is_head_node") is True and item.get("state") != "DEAD"}


def _joined(files: Iterable[File], rejects: Rejects) -> Responses:
    first, *others = files
    for other in others:
        first.responses.join(other.responses, other.path, rejects)
    return first.responses
