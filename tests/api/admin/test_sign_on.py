"""Signing in through a provider: what is believed of its answers, and what is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from gpuwatch.api import sign_on
from gpuwatch.api.seal import MAX_SEALED
from gpuwatch.api.sign_on import Provider, SignInFailed
from gpuwatch.core.errors import UsageError
from gpuwatch.service.sign_on import Role, SignOn, configured
from gpuwatch.state.sessions import Person

ISSUER, BACK, NOW_S = "https://login.example.com", "https://gw.example.com/ui/login/back", 1_800_000_000
KEY = RSAKey.generate_key(2048, {"kid": "a", "use": "sig"})
CONFIG = SignOn(
    ISSUER,
    "gpuwatch",
    "s3cret",
    "Example",
    admins=frozenset({"root"}),
    viewers=frozenset({"finops"}),
    teams={"ml": ("nlp", "vision"), "bio": ("bio",)},
)
METADATA = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize?tenant=1",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
    "userinfo_endpoint": f"{ISSUER}/userinfo",
}
Change = Callable[[dict[str, Any]], Any]


class Fake(Provider):
    """A provider whose answers a test sets, by the end of the address."""

    def __init__(self, config: SignOn = CONFIG) -> None:
        self.now_us = NOW_S * 1_000_000
        super().__init__(config, BACK, lambda: self.now_us)
        self.keys: list[Any] = [KEY.as_dict(private=False)]
        self.answers: dict[str, Any] = {"/.well-known/openid-configuration": METADATA}
        self.asked: list[str] = []
        self.sent: list[dict[str, Any]] = []

    async def _asked(self, method: str, address: str, **request: Any) -> dict[str, Any]:
        path = urlsplit(address).path
        self.asked.append(path)
        self.sent.append(request)
        return {"keys": self.keys} if path == "/keys" else dict(self.answers[path])

    def sign_in(self, claims: Change | None = None, key: Any = KEY, header: dict[str, Any] | None = None) -> Person:
        """A whole sign-in; `claims` changes those of a correct ID token."""
        leaving = asyncio.run(self.leave("/ui/jobs"))
        query = {name: found[0] for name, found in parse_qs(urlsplit(leaving.location).query).items()}
        given = {
            "iss": ISSUER,
            "aud": "gpuwatch",
            "sub": "u1",
            "exp": NOW_S + 300,
            "iat": NOW_S,
            "nonce": query["nonce"],
            "email": "ann@example.com",
            "groups": ["ml", "other"],
        }
        if claims is not None:
            claims(given)
        token = jwt.encode(header or {"alg": "RS256", "kid": "a"}, given, key, ["RS256", "ES256", "HS256", "none"])
        self.answers["/token"] = {"id_token": token, "access_token": "at"}
        return asyncio.run(self.arrive(leaving.sealed, query["state"], "code"))[0]


def without(name: str) -> Change:
    return lambda claims: claims.pop(name)


def having(**changed: Any) -> Change:
    return lambda claims: claims.update(changed)


def test_a_person_gets_the_teams_of_all_groups() -> None:
    provider = Fake()

    assert Person(ISSUER, "u1", "ann@example.com", "read", ("nlp", "vision")) == provider.sign_in()
    assert ("read", ("bio", "nlp", "vision")) == rights(provider.sign_in(having(groups=["bio", "ml"])))
    assert ("read", None) == rights(provider.sign_in(having(groups=["bio", "finops"])))
    assert ("admin", None) == rights(provider.sign_in(having(groups=["finops", "root"])))
    assert ("admin", None) == rights(provider.sign_in(having(groups="root")))


def rights(person: Person) -> tuple[str, tuple[str, ...] | None]:
    return person.scope, person.teams


def test_the_browser_is_sent_with_state_nonce_and_pkce() -> None:
    provider = Fake()
    first, second = (asyncio.run(provider.leave("/ui/")) for _ in range(2))
    query = parse_qs(urlsplit(first.location).query)

    assert first.location.startswith(f"{ISSUER}/authorize?tenant=1&")
    assert (["code"], ["S256"], [BACK]) == (
        query["response_type"],
        query["code_challenge_method"],
        query["redirect_uri"],
    )
    for name in ("state", "nonce", "code_challenge"):
        assert len(query[name][0]) >= 43
        assert query[name] != parse_qs(urlsplit(second.location).query)[name]
    provider.sign_in()
    verifier = provider.sent[provider.asked.index("/token")]["data"]["code_verifier"]
    assert len(verifier) >= 43
    assert verifier not in first.location


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param(having(aud="another"), id="for another client"),
        pytest.param(having(aud=["another"]), id="for other clients"),
        pytest.param(having(aud=["gpuwatch", "another"]), id="for several, and nobody authorized"),
        pytest.param(having(azp="another"), id="authorized another"),
        pytest.param(having(iss="https://evil.example.com"), id="of another issuer"),
        pytest.param(having(exp=NOW_S - 61), id="expired"),
        pytest.param(having(exp="never"), id="an expiry that is no time"),
        pytest.param(having(nonce="x" * 43), id="of another sign-in"),
        pytest.param(having(nbf=NOW_S + 3600), id="of the future"),
        pytest.param(having(sub=""), id="of nobody"),
        *(pytest.param(without(name), id=f"without {name}") for name in ("aud", "iss", "exp", "nonce", "sub")),
    ],
)
def test_claims_that_prove_nothing_are_refused(claims: Change) -> None:
    with pytest.raises(SignInFailed) as caught:
        Fake().sign_in(claims)

    assert 502 == caught.value.status


@pytest.mark.parametrize(
    ("key", "header"),
    [
        pytest.param(RSAKey.generate_key(2048), {"alg": "RS256", "kid": "a"}, id="another key"),
        pytest.param(OctKey.import_key("s3cret" * 8), {"alg": "HS256", "kid": "a"}, id="a shared secret"),
        pytest.param(KEY, {"alg": "none"}, id="no signature"),
    ],
)  # fmt: skip
def test_a_forged_signature_is_refused(key: Any, header: dict[str, Any]) -> None:
    with pytest.raises(SignInFailed, match="not valid"):
        Fake().sign_in(None, key, header)


def test_new_keys_are_asked_for_but_not_with_every_forgery() -> None:
    provider, new = Fake(), ECKey.generate_key("P-256", {"kid": "b"})
    provider.sign_in()
    provider.keys = [{"kty": "AKP", "kid": "pq"}, "nonsense", new.as_dict(private=False)]
    with pytest.raises(SignInFailed):
        provider.sign_in(None, new, {"alg": "ES256", "kid": "b"})
    assert 1 == provider.asked.count("/keys")

    provider.now_us += sign_on.RETRY_US
    assert "u1" == provider.sign_in(None, new, {"alg": "ES256", "kid": "b"}).subject
    assert (2, 1) == (provider.asked.count("/keys"), provider.asked.count("/.well-known/openid-configuration"))


def test_a_sign_in_belongs_to_the_browser_that_began_it() -> None:
    provider, other = Fake(), Fake(replace(CONFIG, client_secret="another"))
    leaving, foreign = asyncio.run(provider.leave("/ui/")), asyncio.run(other.leave("/ui/"))
    state = parse_qs(urlsplit(leaving.location).query)["state"][0]
    body, _, signature = leaving.sealed.partition(".")
    for sealed, given in (
        (leaving.sealed, "x" * 43),
        (foreign.sealed, parse_qs(urlsplit(foreign.location).query)["state"][0]),
        (f"{body}.{signature[:-2]}AA", state),
        ("", state),
        ("ä.ö", state),
        (leaving.sealed * 9, state),
    ):
        with pytest.raises(SignInFailed, match="Please try again"):
            asyncio.run(provider.arrive(sealed, given, "code"))
    provider.now_us += sign_on.UNDER_WAY_US
    with pytest.raises(SignInFailed, match="took too long"):
        asyncio.run(provider.arrive(leaving.sealed, state, "code"))
    assert "/token" not in provider.asked


def test_groups_come_from_the_user_information_where_the_token_has_none() -> None:
    provider = Fake()
    provider.answers["/userinfo"] = {"sub": "u1", "groups": ["finops"], "email": "other@example.com"}
    assert ("ann@example.com", "read", None) == named(provider.sign_in(without("groups")))

    provider.answers["/userinfo"] = {"sub": "u2", "groups": ["root"]}
    with pytest.raises(SignInFailed, match="another person"):
        provider.sign_in(without("groups"))


def named(person: Person) -> tuple[str, str, tuple[str, ...] | None]:
    return person.name, person.scope, person.teams


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        pytest.param(having(groups=["other"]), r"in no group .* \(groups: other\)", id="no known group"),
        pytest.param(having(groups=[]), r"\(groups: none\)", id="no group"),
        pytest.param(having(groups={"root": 1}), r"\(groups: none\)", id="groups of another shape"),
        pytest.param(without("groups"), "did not say in which groups", id="no groups sent"),
        pytest.param(
            lambda claims: claims.pop("groups") and claims.update({"_claim_names": {"groups": "src1"}}),
            "too many groups",
            id="more groups than fit",
        ),
    ],
)
def test_who_has_no_role_is_refused_with_the_reason(claims: Change, words: str) -> None:
    provider = Fake()
    provider.answers["/userinfo"] = {"sub": "u1"}
    with pytest.raises(SignInFailed, match=words) as caught:
        provider.sign_in(claims)

    assert 403 == caught.value.status


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        pytest.param(
            having(email_verified=False, preferred_username="ann"), "ann", id="an address that was not verified"
        ),
        pytest.param(having(email="a\u202eb", name="Ann"), "Ann", id="hidden characters"),
        pytest.param(having(email=5), "u1", id="no text"),
        pytest.param(having(email="a" * 300), "a" * 100, id="too long"),
    ],
)
def test_the_name_can_be_shown(claims: Change, name: str) -> None:
    assert name == Fake().sign_in(claims).name


def test_a_provider_that_calls_itself_otherwise_is_refused() -> None:
    provider = Fake()
    provider.answers["/.well-known/openid-configuration"] = METADATA | {"issuer": "https://other.example.com"}
    with pytest.raises(SignInFailed, match=r"calls itself https://other\.example\.com"):
        provider.sign_in()


def test_an_issuer_may_end_with_a_slash() -> None:
    provider = Fake()
    provider.answers["/.well-known/openid-configuration"] = METADATA | {"issuer": f"{ISSUER}/"}

    assert "u1" == provider.sign_in(having(iss=f"{ISSUER}/")).subject
    with pytest.raises(SignInFailed):
        provider.sign_in()


@pytest.fixture
def secret(tmp_path: Path) -> str:
    (tmp_path / "secret").write_text("s3cret\n")
    return str(tmp_path / "secret")


def table(secret: str, **changed: Any) -> dict[str, Any]:
    return {
        "sso": {
            "issuer": f"{ISSUER}/",
            "client_id": "gpuwatch",
            "client_secret_file": secret,
            "admins": ["root"],
            **changed,
        }
    }


def test_a_table_is_read(secret: str) -> None:
    found = configured(table(secret, teams={"ml": "nlp", "bio": ["bio", "gen"]}, hours=8), "https://gw.example.com")

    assert found is not None
    assert (ISSUER, "login.example.com", 8) == (found.issuer, found.name, found.hours)
    assert Role("read", ("bio", "gen", "nlp")) == found.role(["bio", "ml"])
    assert "s3cret" not in repr(found)
    assert configured({}, None) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"issuer": "http://login.example.com"}, "issuer must begin with https://"),
        ({"issuer": "login.example.com"}, "issuer must be a URL"),
        ({"issuer": "https://u:p@login.example.com"}, "issuer must be a URL"),
        ({"client_id": ""}, "client_id is missing"),
        ({"client_secret": "x"}, "client_secret is unknown; known: admins"),
        ({"client_secret_file": "/nowhere/secret"}, "client_secret_file /nowhere/secret: No such file"),
        ({"admins": []}, "nobody could sign in"),
        ({"admins": "root"}, "admins must be a list of groups"),
        ({"teams": ["ml"]}, "teams must be a table"),
        ({"teams": {"ml": []}}, "teams of 'ml'"),
        ({"hours": 0}, "hours must be a whole number"),
        ({"scopes": "profile"}, "scopes must contain openid"),
    ],
)
def test_mistakes_in_the_table_are_named(secret: str, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        configured(table(secret, **changed), "https://gw.example.com")

    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_it_needs_the_public_address(secret: str) -> None:
    with pytest.raises(UsageError, match="set public_url"):
        configured(table(secret), None)


def test_what_a_cookie_keeps_is_no_secret_of_ours() -> None:
    sealed = asyncio.run(Fake().leave("/ui/")).sealed

    assert len(sealed) <= MAX_SEALED
    assert {"state", "nonce", "verifier", "target", "end_us"} == json.loads(_decoded(sealed)).keys()


def _decoded(sealed: str) -> bytes:
    from base64 import urlsafe_b64decode

    body = sealed.partition(".")[0]
    return urlsafe_b64decode(body + "=" * (-len(body) % 4))
