"""The table [sso] of gpuwatch.toml: who signs in through an OpenID Connect provider, and with which role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpuwatch.core.errors import UsageError
from gpuwatch.core.names import hidden_character

TABLE = "sso"
MAX_SECRET_BYTES = 4096
MAX_TEAMS = 100
_TEXTS = ("issuer", "client_id", "client_secret_file", "name", "scopes", "groups_claim", "name_claim")
_LISTS = ("admins", "viewers")
_NEEDED = _TEXTS[:3]
_KNOWN = frozenset({*_TEXTS, *_LISTS, "teams", "hours"})


@dataclass(frozen=True)
class Role:
    """What a person may do: scope read or admin; `teams` None sees every team."""

    scope: str
    teams: tuple[str, ...] | None


@dataclass(frozen=True)
class SignOn:
    """The provider, and the groups of people who may sign in. Whoever is in none of the groups is refused."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str = ""
    """The provider's name on the sign-in page."""
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    name_claim: str = "email"
    hours: int = 12
    """How long a session lasts. A change of groups counts from the next sign-in."""
    admins: frozenset[str] = frozenset()
    viewers: frozenset[str] = frozenset()
    teams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Teams that the members of a group see, by group."""

    def role(self, groups: Iterable[str]) -> Role | None:
        """The widest role of somebody in these groups: admin, viewer, or the teams of all groups; None without any."""
        found = frozenset(groups)
        if found & self.admins:
            return Role("admin", None)
        if found & self.viewers:
            return Role("read", None)
        teams = sorted({team for group in found for team in self.teams.get(group, ())})
        return Role("read", tuple(teams)) if teams else None


def configured(tables: Mapping[str, Any], public_url: str | None) -> SignOn | None:
    """The sign-on of a settings file; None without the table. Raises one UsageError with every mistake."""
    table = tables.get(TABLE)
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise UsageError(f"{TABLE}: write [{TABLE}] and its settings below")
    problems = [f"{name} is unknown; known: {', '.join(sorted(_KNOWN))}" for name in sorted(table.keys() - _KNOWN)]
    problems += [f"{name} is missing" for name in _NEEDED if not table.get(name)]
    problems += [f"{name} must be text" for name in _TEXTS if not isinstance(table.get(name, ""), str)]
    problems += _shape_problems(table)
    if find_spec("joserfc") is None:
        problems.append("needs a library: pip install 'gpuwatch[sso]'")
    if public_url is None:
        problems.append("set public_url in [gpuwatch]: the provider sends people back to it")
    if problems:
        raise UsageError("; ".join(f"[{TABLE}] {problem}" for problem in problems))
    return _made(table)


def _made(table: Mapping[str, Any]) -> SignOn:
    issuer = str(table["issuer"]).rstrip("/")
    return SignOn(
        **{
            name: table[name]
            for name in ("client_id", "scopes", "groups_claim", "name_claim", "hours")
            if name in table
        },
        issuer=issuer,
        client_secret=_secret(str(table["client_secret_file"])),
        name=str(table.get("name") or urlsplit(issuer).hostname),
        admins=frozenset(table.get("admins", ())),
        viewers=frozenset(table.get("viewers", ())),
        teams={group: (teams,) if isinstance(teams, str) else tuple(teams) for group, teams in _teams(table).items()},
    )


def _teams(table: Mapping[str, Any]) -> Mapping[str, Any]:
    teams = table.get("teams", {})
    return teams if isinstance(teams, Mapping) else {}


def _shape_problems(table: Mapping[str, Any]) -> list[str]:
    found = [f"{name} must be a list of groups" for name in _LISTS if not _names(table.get(name, []))]
    if not isinstance(table.get("teams", {}), Mapping):
        found.append('teams must be a table: teams = { "group" = ["team"] }')
    for group, teams in _teams(table).items():
        listed = [teams] if isinstance(teams, str) else teams
        if not listed or not _names(listed) or len(listed) > MAX_TEAMS:
            found.append(f"teams of {group!a}: name 1 to {MAX_TEAMS} teams")
    if not any((table.get("admins"), table.get("viewers"), table.get("teams"))):
        found.append("admins, viewers or teams must name a group: nobody could sign in")
    hours = table.get("hours", 12)
    if isinstance(hours, bool) or not isinstance(hours, int) or not 1 <= hours <= 168:
        found.append("hours must be a whole number from 1 to 168")
    if "openid" not in str(table.get("scopes", "openid")).split():
        found.append("scopes must contain openid")
    if isinstance(table.get("issuer"), str) and table["issuer"] and (wrong := _issuer_problem(table["issuer"])):
        found.append(f"issuer {wrong}")
    return found


def _names(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, str) and each.strip() and hidden_character(each) is None for each in value
    )


def _issuer_problem(text: str) -> str:
    """Why a text is no issuer: the OpenID Connect Discovery 1.0 requires https; plain http is allowed on this machine."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("https", "http") or not host or parts.query or parts.fragment or "@" in parts.netloc:
        return "must be a URL such as https://login.example.com/realms/main, without ? and #"
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        return "must begin with https://"
    return ""


def _secret(path: str) -> str:
    """The first line of the file."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_SECRET_BYTES).decode().strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"[{TABLE}] client_secret_file {path}: {getattr(error, 'strerror', None) or error}") from error
    if not text or not text.isprintable():
        raise UsageError(f"[{TABLE}] client_secret_file {path}: must hold the client's secret, one line of text")
    return text
