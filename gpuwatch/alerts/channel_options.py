"""Optional settings of a channel: signature, login, templates, labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.alerts.templates import BUILT_IN, Template

MORE = ("signing_secret", "authorization", "template_subject", "template_body", "labels", "resolve_minutes")
"""The names of the settings."""


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
