"""What a channel may have beside its address, filters and times: signature, login, templates, labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.alerts.channels.signature import SECRET_MAX, SECRET_MIN, is_secret
from gpuwatch.alerts.templates import BUILT_IN, MAX_BODY, MAX_SUBJECT, Template, problem
from gpuwatch.alerts.timing import Take

MORE = ("signing_secret", "authorization", "template_subject", "template_body", "labels", "resolve_minutes")
"""The fields, as people write them."""
MAX_LABELS = 20
MAX_LABEL = 200
MAX_AUTHORIZATION = 500
RESOLVE_MINUTES_MIN, RESOLVE_MINUTES_MAX = 2, 24 * 60
OWN_LABELS = ("alertname", "rule", "severity", "team", "cluster", "subject_kind", "subject", "finding")
"""Labels of every alert that is pushed to Alertmanager; none of them can be set."""

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class More:
    """The secrets are in no text that this class gives."""

    signing_secret: str | None = field(default=None, repr=False)
    """Of a webhook: signs its messages."""
    authorization: str | None = field(default=None, repr=False)
    """Of a webhook or an Alertmanager: the value of the header."""
    template: Template = BUILT_IN
    labels: tuple[tuple[str, str], ...] = ()
    """Of an Alertmanager: more labels of each alert."""
    resolve_minutes: int = 5
    """Of an Alertmanager: how long an alert fires without being pushed again."""

    def settings(self) -> dict[str, Any]:
        """What is no secret."""
        return {
            "template_subject": self.template.subject,
            "template_body": self.template.body,
            "labels": dict(self.labels),
            "resolve_minutes": self.resolve_minutes,
        }

    def public(self) -> dict[str, Any]:
        """Which secrets there are."""
        return {
            "signing_secret_set": self.signing_secret is not None,
            "authorization_set": self.authorization is not None,
        }

    def sealed(self) -> dict[str, str]:
        """The secrets, for the state alone."""
        both = {"signing_secret": self.signing_secret, "authorization": self.authorization}
        return {name: value for name, value in both.items() if value is not None}

    @classmethod
    def of(cls, kept: Mapping[str, Any], sealed: Mapping[str, str]) -> More:
        """Of what `settings` and `sealed` gave; what is not there has its default."""
        return cls(
            template=Template(kept.get("template_subject"), kept.get("template_body")),
            labels=tuple(sorted(kept.get("labels", {}).items())),
            resolve_minutes=kept.get("resolve_minutes", cls.resolve_minutes),
            **sealed,
        )


def more_of(item: Mapping[str, Any], kind: str, known: More, moves: bool, take: Take, problems: list[str]) -> More:
    """The fields of a channel that is being read. A secret that is absent stays, an empty one is removed.

    `moves`: the address is a new one. Whoever may change it could have the old login sent to a server of his own.
    """
    signs = kind == "webhook"
    logs_in = kind in ("webhook", "alertmanager")
    words = f"{SECRET_MIN} to {SECRET_MAX} printable characters, or whsec_ and base64; for kind webhook"
    signing = _secret(item, "signing_secret", known.signing_secret if signs else None)
    take("signing_secret", None, lambda v: not v or (signs and is_secret(v)), words)
    words = f"at most {MAX_AUTHORIZATION} printable ASCII characters such as Bearer and a token; for webhook and alertmanager"
    login = _secret(item, "authorization", known.authorization if logs_in else None)
    take("authorization", None, lambda v: not v or (logs_in and _is_header(v)), words)
    if moves and login is not None and not item.get("authorization"):
        problems.append('authorization must be given again (or removed with "") where url changes')
    texts = {"template_subject": MAX_SUBJECT, "template_body": MAX_BODY}
    wrong = {name: problem(item.get(name), limit) for name, limit in texts.items()}
    problems += [f"{name} {what}" for name, what in wrong.items() if what]
    labels = take("labels", {}, lambda v: _is_labels(v, kind), _LABEL_WORDS)
    minutes = take("resolve_minutes", More.resolve_minutes, _is_minutes, _MINUTE_WORDS)
    template = Template(*(None if wrong[name] else item.get(name) for name in texts))
    return More(signing, login, template, tuple(sorted(labels.items())), minutes)


_LABEL_WORDS = (
    f"a table of at most {MAX_LABELS} label names and texts, none of {', '.join(OWN_LABELS)}; for kind alertmanager"
)
_MINUTE_WORDS = f"whole minutes from {RESOLVE_MINUTES_MIN} to {RESOLVE_MINUTES_MAX}"


def _secret(item: Mapping[str, Any], name: str, known: str | None) -> str | None:
    value = item.get(name)
    return known if value is None else value or None


def _is_header(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_AUTHORIZATION and value.isascii() and value.isprintable()


def _is_labels(value: object, kind: str) -> bool:
    if not isinstance(value, Mapping) or len(value) > MAX_LABELS or (value and kind != "alertmanager"):
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
