"""Signatures of webhook messages: HMAC-SHA256 over id, time and body, as Standard Webhooks has them. Pure.

https://www.standardwebhooks.com
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from hashlib import sha256

PREFIX = "whsec_"
"""Of a secret that is written in base64; another one is taken as it stands."""
SECRET_MIN, SECRET_MAX = 16, 500
"""Characters of a secret."""
TOLERANCE_S = 300
"""How far the clocks of sender and receiver may be apart; an older message may be somebody's recording."""


def headers(secret: str, key: str, body: bytes, at_s: int) -> dict[str, str]:
    """`webhook-id` (the same when a message is repeated), `webhook-timestamp` (seconds) and `webhook-signature`."""
    identity = message_id(key)
    return {
        "webhook-id": identity,
        "webhook-timestamp": str(at_s),
        "webhook-signature": sign(secret, identity, at_s, body),
    }


def message_id(key: str) -> str:
    """The key of a message in characters that every header may have."""
    return f"msg_{sha256(key.encode()).hexdigest()[:32]}"


def sign(secret: str, identity: str, at_s: int, body: bytes) -> str:
    """`v1,` and the base64 of HMAC-SHA256(secret, id.timestamp.body)."""
    signed = hmac.new(_key(secret), f"{identity}.{at_s}.".encode() + body, sha256)
    return f"v1,{b64encode(signed.digest()).decode()}"


def verify(secret: str, found: Mapping[str, str], body: bytes, now_s: int) -> bool:
    """Whether a message with headers `found` (names in lower case) was signed with `secret`, and lately."""
    try:
        identity, at_s = found["webhook-id"], int(found["webhook-timestamp"])
        signatures = found["webhook-signature"].encode().split()
    except (KeyError, ValueError):
        return False
    expected = sign(secret, identity, at_s, body).encode()
    return abs(now_s - at_s) <= TOLERANCE_S and any(hmac.compare_digest(expected, given) for given in signatures)


def is_secret(value: object) -> bool:
    """Whether a text can sign: printable, long enough, and base64 where it says so."""
    if not isinstance(value, str) or not SECRET_MIN <= len(value) <= SECRET_MAX or not value.isprintable():
        return False
    try:
        return len(_key(value)) >= SECRET_MIN
    except Error:
        return False


def _key(secret: str) -> bytes:
    return b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else secret.encode()
