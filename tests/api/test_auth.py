"""Who may do what: loopback, tokens, scopes, teams, and the tricks that must not work."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from gpuwatch.state.sessions import DURATION_US, MAX_PER_TOKEN
from gpuwatch.state.tokens import Tokens
from tests.worlds.api import NOW_US, Api

ELSEWHERE = "192.0.2.7"


@pytest.mark.parametrize(
    ("peer", "host", "headers"),
    [
        pytest.param(ELSEWHERE, "localhost", {}, id="another machine"),
        pytest.param("10.0.0.1", "127.0.0.1", {}, id="a container's gateway"),
        pytest.param("127.0.0.1", "evil.example", {}, id="a name that was pointed at us: DNS rebinding"),
        pytest.param("127.0.0.1", "localhost.evil.example", {}, id="a name that begins like ours"),
        pytest.param("127.0.0.1", "localhost", {"X-Forwarded-For": "127.0.0.1"}, id="through a proxy"),
        pytest.param("127.0.0.1", "localhost", {"Forwarded": "for=127.0.0.1"}, id="through a proxy of the standard"),
        pytest.param("127.0.0.1", "localhost", {"X-Real-IP": "127.0.0.1"}, id="through nginx"),
        *(
            pytest.param("127.0.0.1", "localhost", {name: "127.0.0.1"}, id=f"through a proxy that sends {name}")
            for name in (
                "X-Forwarded-Host",
                "X-Forwarded-Proto",
                "X-Forwarded-Port",
                "X-Forwarded-Server",
                "X-Forwarded-Prefix",
                "X-Forwarded-User",
                "X-Forwarded",
                "Via",
                "CF-Connecting-IP",
                "True-Client-IP",
                "X-Client-IP",
                "Fastly-Client-IP",
                "X-Cluster-Client-IP",
                "X-Original-Forwarded-For",
                "X-Envoy-External-Address",
                "X-Original-URL",
                "X-Scheme",
                "Client-IP",
                "Forwarded-For",
            )
        ),
        pytest.param("127.0.0.1", "localhost", {"Via": ""}, id="through a proxy whose header is empty"),
        pytest.param("127.0.0.1", "localhost", {"Origin": "https://evil.example"}, id="a page of another site"),
        pytest.param("127.0.0.1", "localhost", {"Origin": "null"}, id="a page of no site"),
        pytest.param("127.0.0.1", "localhost", {"Origin": "http://localhost:9"}, id="another port's page"),
        pytest.param("127.0.0.1", "localhost", {"Sec-Fetch-Site": "cross-site"}, id="an image of another site"),
        pytest.param("unix", "localhost", {}, id="a peer without an address"),
    ],
)
def test_loopback_is_not_admin(bare: Api, peer: str, host: str, headers: dict[str, str]) -> None:
    """Before any token exists, only a request that this machine means is let in."""
    answer = bare.get("/api/v1/me", peer=peer, host=host, headers=headers)

    assert (401, "Bearer") == (answer.status_code, answer.headers["www-authenticate"])


@pytest.mark.parametrize(
    ("peer", "host", "headers"),
    [
        pytest.param("127.0.0.1", "localhost", {}, id="IPv4"),
        pytest.param("127.9.9.9", "127.0.0.1:8765", {}, id="all of 127/8, with a port"),
        pytest.param("::1", "[::1]:8765", {}, id="IPv6"),
        pytest.param("::ffff:127.0.0.1", "localhost", {}, id="IPv4 written as IPv6"),
        pytest.param("127.0.0.1", "LOCALHOST", {}, id="case of the name"),
        pytest.param("127.0.0.1", "localhost:8765", {"Origin": "http://localhost:8765"}, id="our own page"),
        pytest.param("127.0.0.1", "localhost", {"Sec-Fetch-Site": "same-origin"}, id="our own script"),
        pytest.param(
            "127.0.0.1", "localhost", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, id="a link to us"
        ),
    ],
)
def test_loopback_is_admin_while_there_is_no_token(bare: Api, peer: str, host: str, headers: dict[str, str]) -> None:
    """A fresh machine works without configuration."""
    answer = bare.get("/api/v1/me", peer=peer, host=host, headers=headers)

    assert {"scope": "admin", "teams": None, "name": "loopback", "tokens": False, "version": bare.service.version} == (
        answer.json()
    )


def test_a_public_url_ends_the_trust_in_loopback(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy on the same machine that adds no header looks like a person there."""
    public = replace(bare.service.settings, public_url="https://gpu.example.com")
    monkeypatch.setattr(bare.service, "settings", public)
    answer = bare.get("/api/v1/me")

    assert (401, True) == (answer.status_code, "public_url" in answer.json()["error"]["hint"])
    assert 401 == bare.get("/metrics").status_code
    assert 200 == bare.get("/api/v1/me", token=bare.service.local_secret).status_code


def test_a_token_ends_the_trust_in_loopback(api: Api) -> None:
    """With the first token everybody needs one."""
    text = api.token("read")

    assert (401, 200) == (
        api.get("/api/v1/me").status_code,
        api.get("/api/v1/me", token=text, peer=ELSEWHERE).status_code,
    )


@pytest.mark.parametrize(
    ("user", "loopback", "secret"),
    [
        pytest.param(None, "loopback", "command line", id="nobody is named"),
        pytest.param("ann", "ann (loopback)", "ann (command line)", id="a name"),
        pytest.param("J%C3%BCrgen%20B", "Jürgen B (loopback)", "Jürgen B (command line)", id="other letters"),
        pytest.param("%20", "loopback", "command line", id="a blank"),
        pytest.param("a%0Ab", "loopback", "command line", id="what cannot be printed"),
        pytest.param("x" * 65, "loopback", "command line", id="too long"),
        pytest.param("%41" * 1000, "loopback", "command line", id="far too long"),
    ],
)
def test_a_caller_on_this_machine_says_who_they_are(bare: Api, user: str | None, loopback: str, secret: str) -> None:
    headers = {} if user is None else {"X-Gpuwatch-User": user}

    assert (loopback, secret) == (
        bare.get("/api/v1/me", headers=headers).json()["name"],
        bare.get("/api/v1/me", headers=headers, token=bare.service.local_secret).json()["name"],
    )


def test_a_token_keeps_its_own_name(api: Api) -> None:
    """From here too; and no token has a name that looks like somebody on this machine."""
    text = api.token("admin", name="robot")

    assert "robot" == api.get("/api/v1/me", token=text, headers={"X-Gpuwatch-User": "ann"}).json()["name"]


def test_the_local_secret_is_admin_from_here_only(api: Api) -> None:
    """What the command line uses."""
    api.token("read")
    secret = api.service.local_secret

    assert ("admin", 403) == (
        api.get("/api/v1/me", token=secret).json()["scope"],
        api.get("/api/v1/me", token=secret, peer=ELSEWHERE).status_code,
    )


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        pytest.param(403, {"Via": "1.1 proxy"}, id="through a proxy it is not"),
        pytest.param(200, {}, id="the server's own address is here"),
    ],
)
def test_the_local_secret_from_the_address_that_the_server_is_bound_to(
    api: Api, status: int, headers: dict[str, str]
) -> None:
    """A server on one address of the machine sees its own commands come from there."""
    api.token("read")
    secret = api.service.local_secret

    assert status == api.get("/api/v1/me", token=secret, peer=ELSEWHERE, host=ELSEWHERE, headers=headers).status_code


@pytest.mark.parametrize(
    ("scope", "teams", "expected"),
    [
        pytest.param("ingest", (), {"fleet": 403, "quality": 403, "rates": 403, "put": 403, "write": 415}, id="ingest"),
        pytest.param("read", (), {"fleet": 200, "quality": 200, "rates": 200, "put": 403, "write": 403}, id="read"),
        pytest.param(
            "read", ("red",), {"fleet": 200, "quality": 403, "rates": 200, "put": 403, "write": 403}, id="of a team"
        ),
        pytest.param("admin", (), {"fleet": 200, "quality": 200, "rates": 200, "put": 415, "write": 415}, id="admin"),
    ],
)
def test_a_scope_opens_what_it_says(api: Api, scope: str, teams: tuple[str, ...], expected: dict[str, int]) -> None:
    """415 stands for let in: the body is looked at only then."""
    text = api.token(scope, *teams)
    found = {
        "fleet": api.get("/api/v1/fleet", token=text).status_code,
        "quality": api.get("/api/v1/quality", token=text).status_code,
        "rates": api.get("/api/v1/rates", token=text).status_code,
        "put": api.request("PUT", "/api/v1/rates", token=text).status_code,
        "write": api.request("POST", "/api/v1/write", token=text).status_code,
    }

    assert expected == found


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("Bearer ", id="empty"),
        pytest.param("Bearer gw_000000000000_x", id="unknown id"),
        pytest.param("Bearer gw__", id="no id"),
        pytest.param("Bearer " + "x" * 5000, id="far too long"),
        pytest.param("Basic YWRtaW46YWRtaW4=", id="another scheme"),
        pytest.param("gw_1_2", id="no scheme"),
    ],
)
def test_a_wrong_token_is_nobody(bare: Api, header: str) -> None:
    """Also from loopback while there is no token: who shows a wrong one is not trusted."""
    assert 401 == bare.get("/api/v1/me", headers={"Authorization": header}).status_code


def test_half_of_a_token_opens_nothing(api: Api) -> None:
    """Right id, wrong secret."""
    text = api.token("admin")

    assert [401, 401] == [
        api.get("/api/v1/me", token=text[:-1]).status_code,
        api.get("/api/v1/me", token=text + "x").status_code,
    ]


def test_a_revoked_or_expired_token_opens_nothing(api: Api) -> None:
    """At once."""
    tokens = Tokens(api.service.state)
    keeper = api.token("admin")
    gone, text = tokens.create("gone", "read", None, None, "test", NOW_US)
    _, short = tokens.create("short", "read", None, NOW_US + 1, "test", NOW_US - 10)
    _, over = tokens.create("over", "read", None, NOW_US, "test", NOW_US - 10)
    before = api.get("/api/v1/me", token=text).status_code
    tokens.revoke(gone.id, "test", NOW_US)

    assert [200, 401, 200, 401, 200] == [
        before, *(api.get("/api/v1/me", token=each).status_code for each in (text, short, over, keeper))
    ]  # fmt: skip


def test_many_wrong_tokens_are_slowed_down(api: Api) -> None:
    """Of one address; a right token is never refused for others' guesses, and time heals."""
    right = api.token("read")

    def tried(peer: str) -> int:
        return api.get("/api/v1/me", token="gw_0_0", peer=peer).status_code

    first = [tried(ELSEWHERE) for _ in range(25)]
    answer = api.get("/api/v1/me", token="gw_0_0", peer=ELSEWHERE)

    assert [401] * 20 + [429] * 5 == first
    assert "5" == answer.headers["retry-after"]
    assert (401, 200) == (tried("192.0.2.8"), api.get("/api/v1/me", token=right, peer=ELSEWHERE).status_code)
    api.clock.now += 60
    assert 401 == tried(ELSEWHERE)


def test_guessing_from_one_network_counts_together(api: Api) -> None:
    """One IPv6 client has a whole /64."""
    api.token("read")
    peers = [f"2001:db8::{n:x}" for n in range(1, 25)]

    assert 429 == [api.get("/api/v1/me", token="gw_0_0", peer=peer).status_code for peer in peers][-1]


def session(api: Api, token: str) -> dict[str, str]:
    """The cookie of a new session."""
    answer = api.request("POST", "/api/v1/session", token=token)
    assert 201 == answer.status_code
    return {"Cookie": f"gpuwatch_session={answer.json()['session']}"}


def test_a_browser_shows_its_session_in_a_cookie(api: Api) -> None:
    """It counts as the token does; the token itself opens nothing there."""
    token = api.token("admin")
    cookie = session(api, token)

    assert [200, 415, 401, 401] == [
        api.get("/api/v1/me", headers=cookie, peer=ELSEWHERE).status_code,
        api.request("PUT", "/api/v1/rates", headers=cookie, peer=ELSEWHERE).status_code,
        api.get("/api/v1/me", headers={"Cookie": f"gpuwatch_session={token}"}).status_code,
        api.get("/api/v1/me", headers={"Cookie": f"gpuwatch_token={token}"}).status_code,
    ]
    assert "test" == api.get("/api/v1/me", headers=cookie).json()["name"]


def test_a_session_ends_by_sign_out_revocation_and_time(api: Api) -> None:
    tokens = Tokens(api.service.state)
    token, other = api.token("read"), api.token("read")
    ended, revoked, old = session(api, token), session(api, other), session(api, token)
    api.request("DELETE", "/api/v1/session", headers=ended)
    tokens.revoke(other.split("_")[1], "test", api.service.now_us())

    assert [401, 401, 200] == [api.get("/api/v1/me", headers=one).status_code for one in (ended, revoked, old)]
    api.moment[0] += DURATION_US
    assert 401 == api.get("/api/v1/me", headers=old).status_code


def test_a_session_does_not_outlive_its_token(api: Api) -> None:
    tokens, now_us = Tokens(api.service.state), api.service.now_us()
    _, text = tokens.create("short", "read", None, now_us + 60_000_000, "test", now_us)
    answer = api.request("POST", "/api/v1/session", token=text).json()

    assert 60 == answer["expires_in_s"]


def test_sessions_are_stored_as_digests_and_bounded(api: Api) -> None:
    token = api.token("read")
    first = session(api, token)
    text = first["Cookie"].partition("=")[2]
    for _ in range(MAX_PER_TOKEN):
        api.moment[0] += 1
        last = session(api, token)
    with api.service.state.transaction(write=False) as connection:
        stored = connection.execute(sa.text("select digest from session")).all()

    assert (MAX_PER_TOKEN, False) == (len(stored), text in str(stored))
    assert [401, 200] == [api.get("/api/v1/me", headers=one).status_code for one in (first, last)]


def test_a_session_needs_a_token(bare: Api) -> None:
    """Trust in loopback cannot be carried elsewhere."""
    assert 400 == bare.request("POST", "/api/v1/session").status_code


def test_a_cookie_of_another_server_says_nothing(bare: Api) -> None:
    """Ports of one machine share cookies: a fresh server is not locked by an older one's."""
    assert 200 == bare.get("/api/v1/me", headers={"Cookie": "gpuwatch_session=x"}).status_code


def test_another_site_cannot_use_the_cookie_to_change_anything(api: Api) -> None:
    """Even where a browser sends it."""
    headers = {**session(api, api.token("admin")), "Origin": "https://evil.example"}

    assert 403 == api.request("PUT", "/api/v1/rates", headers=headers).status_code


def test_probes_need_no_token_and_learn_no_names(api: Api) -> None:
    """Readiness from elsewhere counts sources; from here it names them."""
    api.service._sources.add("dcgm http://secretnode:9400", "dcgm", "c1", 30.0)
    api.token("read")
    far = api.get("/readyz", peer=ELSEWHERE)

    assert (200, 1, False) == (far.status_code, far.json()["sources"]["never"], "secretnode" in far.text)
    assert "secretnode" in api.get("/readyz").text


def test_metrics_are_for_loopback_and_tokens_of_the_fleet(api: Api) -> None:
    """A token of one team sees nobody's sources."""
    whole, team = api.token("ingest"), api.token("read", "red")

    assert [200, 401, 200, 403] == [
        api.get("/metrics").status_code,
        api.get("/metrics", peer=ELSEWHERE).status_code,
        api.get("/metrics", peer=ELSEWHERE, token=whole).status_code,
        api.get("/metrics", token=team).status_code,
    ]


def test_answers_are_counted_by_route_and_not_by_what_anybody_asks_for(api: Api) -> None:
    """Labels are as many as there are routes."""
    api.get("/api/v1/findings/none-1", headers={"X-Http-Method": "GET"})
    api.get("/nothing/here")
    api.request("BREW", "/healthz")
    output = api.get("/metrics").text
    counted = sorted(line for line in output.splitlines() if line.startswith("gpuwatch_http_requests_total{"))

    assert [
        'gpuwatch_http_requests_total{method="GET",route="/api/v1/findings/{key}",status="404"} 1.0',
        'gpuwatch_http_requests_total{method="GET",route="other",status="404"} 1.0',
        'gpuwatch_http_requests_total{method="other",route="/healthz",status="405"} 1.0',
    ] == counted
