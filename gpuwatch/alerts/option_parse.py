"""Reads the optional settings of a channel: signature, login, templates, labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from gpuwatch.alerts.channel_options import More
from gpuwatch.alerts.delivery.signature import SECRET_MAX, SECRET_MIN, is_secret
from gpuwatch.alerts.kind import ChannelKind, kinds_with
from gpuwatch.alerts.templates import MAX_BODY, MAX_SUBJECT, Template, problem
from gpuwatch.alerts.timing import Take

MAX_LABELS = 20
MAX_LABEL = 200
MAX_AUTHORIZATION = 500
RESOLVE_MINUTES_MIN, RESOLVE_MINUTES_MAX = 2, 24 * 60
OWN_LABELS = ("alertname", "rule", "severity", "team", "cluster", "subject_kind", "subject", "finding")
"""Labels that every pushed alert has anyway; a channel cannot set them."""

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
