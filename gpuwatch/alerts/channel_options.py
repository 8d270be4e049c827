"""Optional settings of a channel: signature, login, templates, labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpuwatch.alerts.delivery.signature import SECRET_MAX, SECRET_MIN, is_secret
from gpuwatch.alerts.kind import ChannelKind, kinds_with
from gpuwatch.alerts.templates import BUILT_IN, MAX_BODY, MAX_SUBJECT, Template, problem
from gpuwatch.alerts.timing import Take

MORE = ("signing_secret", "authorization", "template_subject", "template_body", "labels", "resolve_minutes")
"""The names of the settings."""
MAX_LABELS = 20
MAX_LABEL = 200
MAX_AUTHORIZATION = 500
RESOLVE_MINUTES_MIN, RESOLVE_MINUTES_MAX = 2, 24 * 60
OWN_LABELS = ("alertname", "rule", "severity", "team", "cluster", "subject_kind", "subject", "finding")
"""Labels that every pushed alert has anyway; a channel cannot set them."""

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class More:
    """No text made by this class contains a secret."""

    signing_secret: str | None = field(default=None, repr=False)
    """Signs the messages of a webhook."""
    authorization: str | None = field(default=None, repr=False)
    """Value of the Authorization header, for a webhook or an Alertmanager."""
    template: Template = BUILT_IN
    labels: tuple[tuple[str, str], ...] = ()
    """Further labels of each alert, for an Alertmanager."""
    resolve_minutes: int = 5
    """How long an alert fires without being pushed again, for an Alertmanager."""

    def settings(self) -> dict[str, Any]:
        """The settings without the secrets."""
        return {
            "template_subject": self.template.subject,
            "template_body": self.template.body,
            "labels": dict(self.labels),
            "resolve_minutes": self.resolve_minutes,
        }

    def public(self) -> dict[str, Any]:
        """Which secrets are set."""
        return {
            "signing_secret_set": self.signing_secret is not None,
            "authorization_set": self.authorization is not None,
        }

    def sealed(self) -> dict[str, str]:
        """The secrets, for storage only."""
        both = {"signing_secret": self.signing_secret, "authorization": self.authorization}
        return {name: value for name, value in both.items() if value is not None}

    @classmethod
    def of(cls, kept: Mapping[str, Any], sealed: Mapping[str, str]) -> More:
        """From what `settings` and `sealed` returned; missing settings have their defaults."""
        return cls(
            template=Template(kept.get("template_subject"), kept.get("template_body")),
            labels=tuple(sorted(kept.get("labels", {}).items())),
            resolve_minutes=kept.get("resolve_minutes", cls.resolve_minutes),
            **sealed,
        )


def more_of(
    item: Mapping[str, Any], kind: ChannelKind, known: More, moves: bool, take: Take, problems: list[str]
) -> More:
    """The optional settings of a channel that is being read. An absent secret is kept, an empty one is removed.

    `moves`: the address is new. The login must be given again then, or whoever may change the address could have it sent
    to another server.
    """
    words = f"{SECRET_MIN} to {SECRET_MAX} printable characters, or whsec_ and base64; for kind {kinds_with('signs')}"
    signing = _secret(item, "signing_secret", known.signing_secret if kind.signs else None)
    take("signing_secret", None, lambda v: not v or (kind.signs and is_secret(v)), words)
    words = f"at most {MAX_AUTHORIZATION} printable ASCII characters such as Bearer and a token"
    login = _secret(item, "authorization", known.authorization if kind.logs_in else None)
    is_login = partial(_is_login, kind)
    take("authorization", None, is_login, f"{words}; for kind {kinds_with('logs_in')}")
    if moves and login is not None and not item.get("authorization"):
        problems.append('authorization must be given again (or removed with "") where url changes')
    texts = {"template_subject": MAX_SUBJECT, "template_body": MAX_BODY}
    wrong = {name: problem(item.get(name), limit) for name, limit in texts.items()}
    problems += [f"{name} {what}" for name, what in wrong.items() if what]
    labels = take("labels", {}, partial(_is_labels, kind), f"{_LABEL_WORDS}; for kind {kinds_with('labels')}")
    minutes = take("resolve_minutes", More.resolve_minutes, _is_minutes, _MINUTE_WORDS)
    template = Template(*(None if wrong[name] else item.get(name) for name in texts))
    return More(signing, login, template, tuple(sorted(labels.items())), minutes)


_LABEL_WORDS = f"a table of at most {MAX_LABELS} label names and texts, none of {', '.join(OWN_LABELS)}"
_MINUTE_WORDS = f"whole minutes from {RESOLVE_MINUTES_MIN} to {RESOLVE_MINUTES_MAX}"


def _secret(item: Mapping[str, Any], name: str, known: str | None) -> str | None:
    value = item.get(name)
    return known if value is None else value or None


def _is_login(kind: ChannelKind, value: object) -> bool:
    if not value:
        return True
    printable = isinstance(value, str) and value.isascii() and value.isprintable()
    return kind.logs_in and printable and len(str(value)) <= MAX_AUTHORIZATION


def _is_labels(kind: ChannelKind, value: object) -> bool:
    if not isinstance(value, Mapping) or len(value) > MAX_LABELS or (value and not kind.labels):
        return False
    return all(
        isinstance(name, str)
        and _LABEL.fullmatch(name) is not None
        and len(name) <= MAX_LABEL
        and name not in OWN_LABELS
        and isinstance(text, str)
        and 0 < len(text) <= MAX_LABEL
        for name, text in value.items()
    )


def _is_minutes(value: object) -> bool:
    return (
        isinstance(value, int) and not isinstance(value, bool) and RESOLVE_MINUTES_MIN <= value <= RESOLVE_MINUTES_MAX
    )
