"""What a browser keeps for us and must not change: JSON beside its signature (HMAC-SHA256, RFC 2104). It is not secret."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

MAX_SEALED = 3000
"""Characters; longer text is not looked at."""


class Seal:
    """Signs with a key that is derived from a secret, so every process that knows the secret can check it."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"gpuwatch seal " + secret.encode()).digest()

    def close(self, content: dict[str, Any]) -> str:
        """The content as text for a cookie, with its signature."""
        body = json.dumps(content).encode()
        return f"{url_text(body)}.{url_text(self._signature(body))}"

    def open(self, sealed: str) -> dict[str, Any] | None:
        """The content that `close` was given; None for every other text."""
        if len(sealed) > MAX_SEALED:
            return None
        try:
            body, given = (urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in sealed.split("."))
        except ValueError:
            return None
        if not hmac.compare_digest(self._signature(body), given):
            return None
        content: dict[str, Any] = json.loads(body)
        return content

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")


def url_text(content: bytes) -> str:
    """Bytes as base64url without padding (RFC 7515 appendix C)."""
    return urlsafe_b64encode(content).decode().rstrip("=")
