"""Which of the supported kinds an API server has, and in which version."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.collectors.kubernetes.client import Client, Refused
from gpuwatch.collectors.kubernetes.feeds import Feed
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mappings, string

FORBIDDEN, NOT_FOUND = 403, 404
MAX_GROUPS = 10_000


async def versions_of(client: Client, feeds: Iterable[Feed]) -> dict[tuple[str, str], str]:
    """The first supported version of each kind that the server has, by (group, plural).

    Kinds that the server lacks are left out. Raises SourceUnreachable.
    """
    wanted = [feed for feed in feeds if feed.versions]
    try:
        groups = _groups(await client.document("/apis"))
    except Refused as error:
        if error.status not in (FORBIDDEN, NOT_FOUND):
            raise
        # An account may read kinds without access to discovery: then each kind's preferred version is tried.
        return {(feed.group, feed.plural): feed.versions[0] for feed in wanted}
    served: dict[tuple[str, str], frozenset[str]] = {}
    found: dict[tuple[str, str], str] = {}
    for feed in wanted:
        offered = groups.get(feed.group, ()) if feed.group else ("v1",)
        for version in (v for v in feed.versions if v in offered):
            if (feed.group, version) not in served:
                served[feed.group, version] = await _plurals(client, feed.group, version)
            if feed.plural in served[feed.group, version]:
                found[feed.group, feed.plural] = version
                break
    return found


def _groups(body: Object) -> dict[str, tuple[str, ...]]:
    """Versions by API group."""
    try:
        return {
            string(group, "name") or "": tuple(string(v, "version") or "" for v in mappings(group, "versions"))
            for group in mappings(body, "groups")[:MAX_GROUPS]
        }
    except Malformed as error:
        raise Refused(f"/apis: {error}; is this an API server?") from error


async def _plurals(client: Client, group: str, version: str) -> frozenset[str]:
    """Names of the collections of a version that can be listed and watched; none if the version is gone."""
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        resources = mappings(await client.document(path), "resources")
        return frozenset(string(r, "name") or "" for r in resources if {"list", "watch"} <= _verbs(r))
    except Malformed as error:
        raise Refused(f"{path}: {error}; is this an API server?") from error
    except Refused as error:
        if error.status in (FORBIDDEN, NOT_FOUND):
            return frozenset()
        raise


def _verbs(resource: Object) -> set[str]:
    verbs = resource.get("verbs")
    return {verb for verb in verbs if isinstance(verb, str)} if isinstance(verbs, list) else set()
