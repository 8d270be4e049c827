"""Signing in through an OpenID Connect provider: the authorization code flow with PKCE, state and nonce.

Sources: OpenID Connect Core 1.0 sections 3.1 and 5.3, Discovery 1.0, RFC 7636 (PKCE). Nothing is kept on the server between
leaving for the provider and coming back: what must not be forged travels in a cookie that is signed with the client's secret,
so any replica can finish what another began.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import anyio
import httpx

from gpuwatch.api.seal import Seal, url_text
from gpuwatch.core.names import hidden_character
from gpuwatch.state.sessions import Person

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

    from gpuwatch.service.sign_on import SignOn

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signatures with a public key: a shared secret or none proves nothing."""
UNDER_WAY_US = 10 * 60 * 1_000_000
"""How long somebody may take at the provider."""
KEPT_US = 3600 * 1_000_000
"""How long the provider's description and keys are used without asking again."""
RETRY_US = 30 * 1_000_000
"""Least time between two questions for its keys."""
LEEWAY_S = 60
TIMEOUT_S = 10.0
MAX_ANSWER = 512 * 1024
MAX_GROUPS = 5000
MAX_NAME = 100
LISTED = 5


class SignInFailed(Exception):
    """Nobody is signed in. The text is for the person at the browser; `status` as of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Leaving:
    """Where the browser goes, and what its cookie holds until it is back."""

    location: str
    sealed: str
    seconds: int


class Provider:
    """The provider of a configuration; its description and keys are kept for an hour."""

    def __init__(self, config: SignOn, back: str, now_us: Callable[[], int]) -> None:
        """`back`: the address to which the provider sends the browser."""
        self.config, self._back, self._now_us = config, back, now_us
        self._seal = Seal(config.client_secret)
        self._lock = anyio.Lock()
        self._metadata: tuple[int, dict[str, Any]] | None = None
        self._keys: tuple[int, list[Any]] | None = None

    async def leave(self, target: str) -> Leaving:
        """Begins a sign-in; `target` comes back from `arrive`."""
        metadata = await self._described()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = url_text(hashlib.sha256(verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self.config.client_id,
            "redirect_uri": self._back,
            "scope": self.config.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        end_us = self._now_us() + UNDER_WAY_US
        kept = {"state": state, "nonce": nonce, "verifier": verifier, "target": target[:1000], "end_us": end_us}
        address = _address(metadata, "authorization_endpoint")
        return Leaving(
            f"{address}{'&' if '?' in address else '?'}{urlencode(query)}",
            self._seal.close(kept),
            UNDER_WAY_US // 1_000_000,
        )

    async def arrive(self, sealed: str, state: str, code: str) -> tuple[Person, str]:
        """The person whom the provider sent back, and the target of `leave`. Raises SignInFailed."""
        kept = self._seal.open(sealed)
        if (
            kept is None
            or self._now_us() >= kept["end_us"]
            or not hmac.compare_digest(kept["state"].encode(), state.encode())
        ):
            raise SignInFailed(400, "This sign-in took too long or was begun in another browser. Please try again.")
        metadata = await self._described()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back,
            "code_verifier": kept["verifier"],
        }
        tokens = await self._asked("POST", _address(metadata, "token_endpoint"), **self._authenticated(metadata, form))
        claims = await self._verified(str(tokens.get("id_token") or ""), kept["nonce"], metadata)
        return await self._person(claims, metadata, tokens), str(kept["target"])

    def _authenticated(self, metadata: Mapping[str, Any], form: dict[str, str]) -> dict[str, Any]:
        """The client's proof of itself: HTTP Basic unless the provider takes it in the form only."""
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        pair = self.config.client_id, self.config.client_secret
        if "client_secret_basic" in methods or "client_secret_post" not in methods:
            return {"data": form, "auth": httpx.BasicAuth(*(quote(part, safe="") for part in pair))}
        return {"data": form | dict(zip(("client_id", "client_secret"), pair, strict=True))}

    async def _person(self, claims: dict[str, Any], metadata: dict[str, Any], tokens: dict[str, Any]) -> Person:
        subject, wanted = str(claims["sub"]), self.config.groups_claim
        if wanted not in claims and metadata.get("userinfo_endpoint") and tokens.get("access_token"):
            more = await self._asked(
                "GET",
                _address(metadata, "userinfo_endpoint"),
                headers={"Authorization": f"Bearer {tokens['access_token']}"},
            )
            if more.get("sub") != subject:
                raise SignInFailed(502, f"{self.config.name} described another person than it identified.")
            claims = more | claims
        groups = groups_of(claims, wanted)
        name = shown_name(claims, self.config.name_claim)
        role = self.config.role(groups)
        if role is None:
            raise SignInFailed(403, self._no_role(name, claims, groups))
        return Person(self.config.issuer, subject, name, role.scope, role.teams)

    def _no_role(self, name: str, claims: Mapping[str, Any], groups: list[str]) -> str:
        provider, claim = self.config.name, self.config.groups_claim
        if claim not in claims:
            fix = f"It has to send the claim {claim}, or [sso] groups_claim has to name the one that it sends."
            return f"{provider} did not say in which groups {name} is. {fix}"
        listed = ", ".join(sorted(groups)[:LISTED]) + (
            f" and {len(groups) - LISTED} more" if len(groups) > LISTED else ""
        )
        return (
            f"{name} is in no group that may use gpuwatch (groups: {listed or 'none'}). An administrator can add one."
        )

    async def _verified(self, text: str, nonce: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The claims of an ID token (OpenID Connect Core 1.0 section 3.1.3.7)."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        rules = jwt.JWTClaimsRegistry(
            now=self._now_us() // 1_000_000,
            leeway=LEEWAY_S,
            iss={"essential": True, "value": metadata["issuer"]},
            aud={"essential": True, "value": self.config.client_id},
            exp={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        asked_us, keys = await self._current_keys(metadata, None)
        try:
            try:
                token = jwt.decode(text, _key_set(keys), ALGORITHMS)
            except (JoseError, ValueError):
                if self._now_us() - asked_us < RETRY_US:
                    raise
                _, keys = await self._current_keys(metadata, asked_us)  # the provider may have new keys
                token = jwt.decode(text, _key_set(keys), ALGORITHMS)
            rules.validate(token.claims)
        except (JoseError, ValueError) as error:
            raise SignInFailed(
                502, f"{self.config.name} sent a proof of identity that is not valid: {error}."
            ) from error
        claims = dict(token.claims)
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") != self.config.client_id:
            raise SignInFailed(502, f"{self.config.name} sent a proof of identity for another client.")
        return claims

    async def _described(self) -> dict[str, Any]:
        """The provider's description (Discovery 1.0 section 4)."""
        async with self._lock:
            if self._metadata is None or self._now_us() - self._metadata[0] >= KEPT_US:
                found = await self._asked("GET", f"{self.config.issuer}/.well-known/openid-configuration")
                if str(found.get("issuer", "")).rstrip("/") != self.config.issuer:
                    raise SignInFailed(
                        502,
                        f"{self.config.issuer} calls itself {str(found.get('issuer'))[:200]}. [sso] issuer must be that.",
                    )
                self._metadata = self._now_us(), found
            return self._metadata[1]

    async def _current_keys(self, metadata: Mapping[str, Any], older_than_us: int | None) -> tuple[int, list[Any]]:
        """When the provider was asked for its keys, and the keys; asked for again if they are from `older_than_us`."""
        async with self._lock:
            kept = self._keys
            if kept is None or kept[0] == older_than_us or self._now_us() - kept[0] >= KEPT_US:
                found = await self._asked("GET", _address(metadata, "jwks_uri"))
                if not isinstance(found.get("keys"), list):
                    raise SignInFailed(502, f"{self.config.name} has no list of keys.")
                kept = self._keys = self._now_us(), found["keys"]
            return kept

    async def _asked(self, method: str, address: str, **request: Any) -> dict[str, Any]:
        """A JSON object from the provider, of at most MAX_ANSWER bytes within TIMEOUT_S; redirects are not followed."""
        try:
            with anyio.fail_after(TIMEOUT_S):
                async with (
                    httpx.AsyncClient(timeout=TIMEOUT_S, headers={"Accept": "application/json"}) as client,
                    client.stream(method, address, **request) as response,
                ):
                    body = b""
                    async for part in response.aiter_bytes():
                        body += part
                        if len(body) > MAX_ANSWER:
                            raise SignInFailed(502, f"{self.config.name} answered with more than {MAX_ANSWER} bytes.")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            words = str(error) or type(error).__name__
            raise SignInFailed(502, f"{self.config.name} cannot be reached: {words}.") from error
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if response.status_code != 200 or not isinstance(found, dict):
            why = (
                str(found.get("error_description") or found.get("error") or "")[:300] if isinstance(found, dict) else ""
            )
            raise SignInFailed(502, f"{self.config.name} answered {response.status_code}{': ' + why if why else ''}.")
        return found


def _key_set(keys: list[Any]) -> KeySet:
    """The public keys for signatures; kinds of keys that nobody here knows are left out (RFC 7517 section 5)."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet, import_key

    found = []
    for key in keys:
        if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig":
            with suppress(JoseError, ValueError):
                found.append(import_key(key))
    return KeySet(found)


def groups_of(claims: Mapping[str, Any], claim: str) -> list[str]:
    """The groups of a person: a list of texts, or one text. Raises SignInFailed where the provider left them out."""
    left_out = claims.get("_claim_names")
    if claim not in claims and isinstance(left_out, Mapping) and claim in left_out:
        fix = "Let it send only the groups that are assigned to this application."
        raise SignInFailed(403, f"You are in too many groups for the provider to list. {fix}")
    given = claims.get(claim, [])
    listed = [given] if isinstance(given, str) else given
    return [each for each in listed if isinstance(each, str)][:MAX_GROUPS] if isinstance(listed, list) else []


def shown_name(claims: Mapping[str, Any], preferred: str) -> str:
    """The person's name for the pages and the audit log. An e-mail address that the provider did not verify is not used."""
    for claim in (preferred, "preferred_username", "name", "sub"):
        if claim == "email" and claims.get("email_verified") is False:
            continue
        name = claims.get(claim)
        if isinstance(name, str) and name.strip() and hidden_character(name) is None:
            return name.strip()[:MAX_NAME]
    raise SignInFailed(502, "The provider gave no name that can be shown.")


def _address(metadata: Mapping[str, Any], name: str) -> str:
    found = metadata.get(name)
    if not isinstance(found, str) or not found.startswith(("https://", "http://")):
        raise SignInFailed(502, f"The provider's description has no {name}.")
    return found
