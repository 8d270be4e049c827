"""E-mail against a real SMTP server that takes, refuses, hangs and closes: once, encrypted, and nothing leaks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.alerts import report_notice
from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.channels.email import ATTACHED_MAX_BYTES, message_id, single
from gpuwatch.alerts.delivery.destination_guard import Gate, Guard
from gpuwatch.alerts.delivery.email_send import _Client
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.outbox.deliver import Deliverer, listing
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.report_recipients import Recipients, replace
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.errors import SourceUnreachable, UsageError
from gpuwatch.report.files import SETTLE_US, last_week
from gpuwatch.report.summary import Summary
from gpuwatch.service import after_pass
from gpuwatch.settings import Settings
from gpuwatch.state import State
from tests.worlds.alerts import T0_US, Clock, add_channel, deliverer, finding, hook
from tests.worlds.patience import HANG_S, PATIENCE_S

controller = pytest.importorskip("aiosmtpd.controller", reason="aiosmtpd is not installed: no real SMTP server to test")
smtp = pytest.importorskip("aiosmtpd.smtp")

PASSWORD = "SecretSecretAbCd"
HERE = "127.0.0.1"


class Inbox:
    """What a server got, and what it answers: `refuse` by command or by recipient."""

    def __init__(self, **refuse: str) -> None:
        self.refuse = {name.replace("_", "@"): text for name, text in refuse.items()}
        self.got: list[tuple[list[str], Message]] = []
        self.encrypted: list[bool] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        result = self.refuse.get("RCPT") or self.refuse.get(address.partition("@")[0])
        if result:
            return result
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if "DATA" in self.refuse:
            return self.refuse["DATA"]
        self.got.append((list(envelope.rcpt_tos), message_from_bytes(envelope.content, policy=default)))
        self.encrypted.append(session.ssl is not None)
        return "250 OK"

    def only(self) -> Message:
        """The one message that came."""
        assert 1 == len(self.got)
        return self.got[0][1]


@contextmanager
def server(inbox: Inbox, tls: ssl.SSLContext | None = None, **options: Any) -> Iterator[int]:
    """A running server on a free port of this machine."""
    with socket.socket() as free:
        free.bind((HERE, 0))
        port = free.getsockname()[1]
    if tls is not None:
        options |= {"tls_context": tls, "require_starttls": True}
    running = controller.Controller(inbox, hostname=HERE, port=port, **options)
    running.start()
    try:
        yield port
    finally:
        running.stop()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(a server's, a client's that trusts it)."""
    x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed: no certificate for TLS")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    where = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    where.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    serves = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serves.load_cert_chain(where)
    trusts = ssl.create_default_context(cafile=str(where))
    return serves, trusts


def channel(state: State, port: int, **item: Any) -> None:
    """An e-mail channel `ops` to this machine, in plain text unless told."""
    words = {"kind": "email", "host": HERE, "port": port, "security": "none", "from": "gpuwatch@example.com"}
    words |= {"name": "ops", "to": ["ann@example.com"], **item}
    Channels(state, Guard.of([HERE, "localhost"])).put(words, "ann", T0_US)


def sender(state: State, clock: Clock, **options: Any) -> Deliverer:
    """A deliverer that may send to this machine."""
    return deliverer(state, clock, allow_private=[HERE, "localhost"], **options)


def deliver(state: State, clock: Clock, **options: Any) -> int:
    """One pass; how many messages arrived."""
    return asyncio.run(asyncio.wait_for(sender(state, clock, **options).deliver_due(), PATIENCE_S))


def fares(state: State) -> tuple[str | None, int, int]:
    """(last error, pending, dead) of the channel."""
    (status,) = (item["status"] for item in listing(state) if item["name"] == "ops")
    return status["last_error"], status["pending"], status["dead"]


def note(team: str | None = "vision", **words: Any) -> Summary:
    """A report to tell of."""
    title = "The fleet" if team is None else f"Team {team}"
    stem = f"2026-W45/{'fleet' if team is None else f'team-{team}'}"
    base: dict[str, Any] = {
        "week": "2026-W45",
        "team": team,
        "title": f"{title}: GPU spend, week 2026-W45",
        "window": "Monday 2 to Sunday 8 November 2026, UTC",
        "lead": f"{title} pays $12.00 in week 2026-W45, up 50 % from the previous week.",
        "budget": "No budget is set.",
        "numbers": (("To pay", "$12.00", "▲ 50 %"), ("Held idle", "$3.00", "")),
        "wastes": (("GPUs held and idle: job 4711", "user ann", "$3.00", "Release the devices."),),
        "quality": "98 % of held time measured",
        "stem": stem,
    }
    return Summary(**{**base, **words})


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"host": None}, "host must be the name of a mail server"),
        ({"host": "mail.example.com\r\nQUIT"}, "host must be the name of a mail server"),
        ({"port": 70_000}, "port must be a port from 1 to 65535"),
        ({"security": "ssl"}, "security must be one of starttls, tls, none"),
        ({"from": "ann@example.com\nBcc: all@example.com"}, "from must be an address"),
        ({"to": ["ann@example.com", "Ann <a@b>"]}, "to must be a list of at most 100 addresses"),
        ({"to": "ann@example.com"}, "to must be a list"),
        ({"user": "u"}, "password must be given where a user is"),
        ({"url": "https://x.example/y"}, "url must be absent"),
        ({"host": "10.0.0.1"}, "10.0.0.1 is not a public address; name it in allow_private"),
        ({"security": "none", "host": "mail.example.com"}, "security none is for hosts named in allow_private only"),
        ({"colour": 1}, "colour is not known"),
    ],
)
def test_a_wrong_channel_is_refused(state: State, item: dict[str, Any], expected: str) -> None:
    base = {
        "kind": "email",
        "name": "ops",
        "host": "mail.example.com",
        "from": "g@example.com",
        "to": ["a@example.com"],
    }
    with pytest.raises(UsageError, match=expected.replace("(", r"\(")):
        Channels(state).put({**base, **item}, "ann", T0_US)

    assert () == Channels(state).list()


def test_the_password_is_in_no_answer_and_follows_no_other_host(state: State) -> None:
    """An administrator who does not know it cannot have it sent to a server of his own."""
    words = {"user": "u", "password": PASSWORD}
    channel(state, 25, **words)
    channel(state, 25, events=["report"])  # what is not named stays
    kept = Channels(state).get("ops").mail

    assert kept is not None
    assert ("u", PASSWORD) == (kept.user, kept.password)
    assert PASSWORD not in json.dumps(listing(state))
    assert PASSWORD not in repr(Channels(state).get("ops"))
    for other in ({"host": "localhost"}, {"port": 26}, {"user": "v"}):
        with pytest.raises(UsageError, match="password must be given again where host, port or user changes"):
            channel(state, **{"port": 25, **other})
    assert kept == Channels(state).get("ops").mail


def test_a_finding_arrives_as_text_and_as_a_page(state: State, clock: Clock) -> None:
    inbox = Inbox()
    with server(inbox) as port:
        channel(state, port)
        enqueue(state, [finding(summary="8 of 8 <idle>\r\nBcc: all@example.com")], clock())
        assert [1, 0] == [deliver(state, clock), deliver(state, clock)]
    message: Any = inbox.only()
    text, page = (message.get_body((kind,)).get_content() for kind in ("plain", "html"))

    assert "High · GPUs held and idle: job 4711 (train-llm) on n1 · team red, alice · $480/day" == message["Subject"]
    assert message_id("ops|f1|opened|1|high", "gpuwatch@example.com") == message["Message-ID"]
    assert ("auto-generated", None) == (message["Auto-Submitted"], message["Bcc"])
    assert "Fix: Release the devices." in text
    assert "https://gpuwatch.example/ui/findings/f1" in text
    assert "8 of 8 &lt;idle&gt; Bcc: all@example.com" in page
    assert (None, 0, 0) == fares(state)


def test_many_findings_are_one_digest(state: State, clock: Clock) -> None:
    inbox = Inbox()
    with server(inbox) as port:
        channel(state, port, digest="hourly")
        enqueue(state, [finding(f"f{n}") for n in range(3)], clock())
        clock.forward(3600)
        assert 1 == deliver(state, clock)

    assert inbox.only()["Subject"].startswith("3 findings: 3 opened")


@pytest.mark.parametrize(
    ("refuse", "expected", "pending", "dead"),
    [
        pytest.param({"RCPT": "421 4.7.0 come back"}, "127.0.0.1 answers 421 4.7.0", 1, 0, id="a server that closes"),
        pytest.param({"RCPT": "450 4.2.0 greylisted"}, "127.0.0.1 answers 450 4.2.0", 1, 0, id="a greylisting one"),
        pytest.param({"DATA": "451 busy"}, "127.0.0.1 answers 451", 1, 0, id="a busy one"),
        pytest.param(
            {"RCPT": "550 5.1.1 no such user"}, "127.0.0.1 answers 550 5.1.1; not tried again", 0, 1, id="nobody"
        ),
        pytest.param(
            {"DATA": "554 5.7.1 spam"}, "127.0.0.1 answers 554 5.7.1; not tried again", 0, 1, id="no such mail"
        ),
    ],
)
def test_what_a_refusal_means(
    state: State, clock: Clock, refuse: dict[str, str], expected: str, pending: int, dead: int
) -> None:
    """4xx is tried again with the same Message-ID, 5xx never."""
    inbox = Inbox(**refuse)
    with server(inbox) as port:
        channel(state, port)
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock)
        error, *counts = fares(state)
        assert error is not None
        assert error.startswith(expected)
        assert [pending, dead] == counts
        inbox.refuse.clear()
        clock.forward(60)
        assert pending == deliver(state, clock)

    assert pending == len(inbox.got)


def test_one_of_two_recipients_who_is_unknown_does_not_hold_the_other_up(state: State, clock: Clock) -> None:
    inbox = Inbox(bob="550 5.1.1 no such user")
    with server(inbox) as port:
        channel(state, port, to=["ann@example.com", "bob@example.com"])
        enqueue(state, [finding()], clock())
        assert 1 == deliver(state, clock)

    assert [["ann@example.com"]] == [to for to, _ in inbox.got]


def test_one_who_is_refused_for_now_gets_it_later_and_nobody_twice(state: State, clock: Clock) -> None:
    inbox = Inbox(bob="451 4.3.0 later")
    with server(inbox) as port:
        channel(state, port, to=["ann@example.com", "bob@example.com"])
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock)
        inbox.refuse.clear()
        clock.forward(60)
        assert 1 == deliver(state, clock)

    assert [["ann@example.com", "bob@example.com"]] == [to for to, _ in inbox.got]


@contextmanager
def odd(answer: bytes | None) -> Iterator[int]:
    """A server that greets with `answer` and closes; with None it says nothing at all."""
    ended = threading.Event()
    with socket.create_server((HERE, 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if answer is not None:
                    connection.sendall(answer)
                else:
                    ended.wait(PATIENCE_S)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(None, f"127.0.0.1 gave no answer within {HANG_S:g} s", id="a server that hangs"),
        pytest.param(b"", "127.0.0.1 closed or broke the exchange", id="one that closes at once"),
        pytest.param(b"421 4.3.2 shutting down\r\n", "127.0.0.1 answers 421 4.3.2", id="one that is shutting down"),
        pytest.param(
            b"\x00\xff" * 50 + b"\r\n", "127.0.0.1 closed or broke the exchange", id="one that speaks no SMTP"
        ),
        pytest.param(
            b"220-welcome\r\n" * 20_000 + b"421 4.3.2 shutting down\r\n",
            "127.0.0.1 closed or broke the exchange",
            id="one whose answer has no end",
        ),
    ],
)
def test_what_may_pass_is_tried_again(state: State, clock: Clock, answer: bytes | None, expected: str) -> None:
    with odd(answer) as port:
        channel(state, port)
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock, timeout_s=HANG_S if answer is None else PATIENCE_S)

    assert (expected, 1, 0) == fares(state)


def test_nobody_listens_is_tried_again(state: State, clock: Clock) -> None:
    with socket.socket() as free:
        free.bind((HERE, 0))
        channel(state, free.getsockname()[1])
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock)

    error, pending, dead = fares(state)
    assert error is not None
    assert error.startswith("127.0.0.1 cannot be reached")
    assert (1, 0) == (pending, dead)


def test_without_starttls_nothing_is_sent(state: State, clock: Clock) -> None:
    """Not the password either: somebody may stand between."""
    inbox = Inbox()
    with server(inbox) as port:
        channel(state, port, security="starttls", user="u", password=PASSWORD)
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock)

    assert [] == inbox.got
    assert ("127.0.0.1 does not offer STARTTLS; nothing was sent: check port and security", 1, 0) == fares(state)


def test_starttls_and_a_password(
    state: State, clock: Clock, certificate: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    """Logged in over TLS; a certificate that is not trusted gets nothing."""
    inbox, (serves, trusts) = Inbox(), certificate
    seen: list[tuple[bytes, bytes]] = []

    def known(server_: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
        seen.append((data.login, data.password))
        return smtp.AuthResult(success=data.password == PASSWORD.encode(), handled=False)

    with server(inbox, serves, authenticator=known, auth_required=True) as port:
        channel(state, port, host="localhost", security="starttls", user="u", password=PASSWORD)
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock)
        error = fares(state)[0]
        clock.forward(60)
        arrived = deliver(state, clock, tls=trusts)
        assert (1, None) == (arrived, fares(state)[0])
        channel(state, port, host="localhost", security="starttls", user="u", password="wrong")
        enqueue(state, [finding("f2")], clock())
        assert 0 == deliver(state, clock, tls=trusts)

    assert "localhost: its TLS certificate is not accepted, or it speaks no TLS; check port and host" == error
    assert [True] == inbox.encrypted
    assert [(b"u", PASSWORD.encode()), (b"u", b"wrong")] == seen[:2]
    error, pending, dead = fares(state)
    assert (0, 1) == (pending, dead)
    assert error is not None
    assert "check user and password" in error


@contextmanager
def scripted(*answers: bytes) -> Iterator[int]:
    """A server that greets, answers each line with the next answer, and closes after the last."""
    with socket.create_server((HERE, 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                connection.sendall(b"220 here\r\n")
                for answer in answers:
                    if not lines.readline():
                        return
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(PATIENCE_S)


def test_a_server_with_another_way_to_log_in_is_named(state: State, clock: Clock) -> None:
    """It can be reached: nobody should look for it in the network."""
    with scripted(b"250-here\r\n250 AUTH GSSAPI\r\n", b"221 bye\r\n") as port:
        channel(state, port, user="u", password=PASSWORD)
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock)

    assert ("127.0.0.1 offers no way to log in that is known here; check user and security", 1, 0) == fares(state)


def test_a_server_that_closes_within_the_message_is_tried_again(state: State, clock: Clock) -> None:
    """It took the first lines of the text: whether it has all of them nobody knows."""
    with scripted(b"250 here\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go on\r\n") as port:
        channel(state, port)
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock)

    error, pending, dead = fares(state)
    assert error is not None
    assert error.startswith("127.0.0.1 c")
    assert (1, 0) == (pending, dead)


def test_a_private_address_is_refused_when_it_is_connected_to(state: State, clock: Clock) -> None:
    """What was allowed once and is no more."""
    channel(state, 25)
    enqueue(state, [finding()], clock())
    made = deliverer(state, clock, allow_private=["127.0.0.2"])

    assert 0 == asyncio.run(made.deliver_due())
    assert 1 == fares(state)[2]


def test_a_report_goes_to_its_readers_once(state: State, clock: Clock, tmp_path: Path) -> None:
    """With PDF and XLSX; the team's to the card's addresses, the fleet's to the channel's."""
    inbox = Inbox()
    (tmp_path / "2026-W45").mkdir()
    for name in ("fleet.pdf", "fleet.xlsx", "team-vision.pdf"):
        (tmp_path / "2026-W45" / name).write_bytes(name.encode())
    replace(state, [{"team": "vision", "to": ["vic@example.com"]}], "ann", "test", T0_US)
    with server(inbox) as port:
        channel(state, port, events=["report"])
        listed = [note(None), note("vision"), note("search")]
        assert [2, 0] == [report_notice.enqueue(state, listed, clock()) for _ in range(2)]
        enqueue(state, [finding()], clock())
        assert 2 == deliver(state, clock, reports=tmp_path)
    (fleet_to, fleet), (team_to, team) = inbox.got

    assert (["ann@example.com"], ["vic@example.com"]) == (fleet_to, team_to)
    assert "Team vision: GPU spend, week 2026-W45: $12.00, ▲ 50 %" == team["Subject"]
    names = [(part.get_filename(), part.get_payload(decode=True)) for part in fleet.iter_attachments()]  # type: ignore[attr-defined]
    assert [
        ("gpuwatch-2026-W45-fleet.pdf", b"fleet.pdf"),
        ("gpuwatch-2026-W45-fleet.xlsx", b"fleet.xlsx"),
    ] == names
    text = team.get_body(("plain",)).get_content()  # type: ignore[attr-defined]
    assert "https://gpuwatch.example/api/v1/reports/weekly?week=2026-W45&team=vision&format=pdf" in text
    assert "Action 1: $3.00: GPUs held and idle: job 4711 (user ann). Release the devices." in text


def test_a_report_without_readers_waits_for_them(state: State, clock: Clock) -> None:
    """Sent once somebody has an address, of the week that ended last only; what was sent is not sent again."""
    now_us = clock()
    week = last_week(now_us - SETTLE_US)
    notes = [note(None, week=week), note("vision", week=week)]
    channel(state, 1, events=["report"])
    assert report_notice.to_announce_again(state, now_us) is None  # nothing was told yet
    assert 1 == report_notice.enqueue(state, notes, now_us)
    report_notice.mark_announced(state, week)
    assert report_notice.to_announce_again(state, now_us) is None
    replace(state, [{"team": "vision", "to": ["vic@example.com"]}], "ann", "test", now_us)

    assert (week, None) == (
        report_notice.to_announce_again(state, now_us),
        report_notice.to_announce_again(state, now_us + 7 * 24 * HOUR_US),
    )
    assert [1, 0] == [report_notice.enqueue(state, notes, now_us, mail_only=True) for _ in range(2)]
    report_notice.mark_announced(state, week)
    assert report_notice.to_announce_again(state, now_us) is None


def test_a_file_that_is_too_large_is_linked_only(state: State, clock: Clock, tmp_path: Path) -> None:
    inbox = Inbox()
    (tmp_path / "2026-W45").mkdir()
    (tmp_path / "2026-W45" / "fleet.pdf").write_bytes(b"x" * (ATTACHED_MAX_BYTES + 1))
    with server(inbox) as port:
        channel(state, port, events=["report"])
        report_notice.enqueue(state, [note(None)], clock())
        assert 1 == deliver(state, clock, reports=tmp_path)

    assert [] == list(inbox.only().iter_attachments())  # type: ignore[attr-defined]


def test_a_forged_stem_reads_no_other_file(state: State, clock: Clock, tmp_path: Path) -> None:
    inbox = Inbox()
    (tmp_path / "secret.pdf").write_bytes(b"x")
    with server(inbox) as port:
        channel(state, port, events=["report"])
        report_notice.enqueue(state, [note(None, stem="2026-W45/../secret")], clock())
        deliver(state, clock, reports=tmp_path)

    assert [] == list(inbox.only().iter_attachments())  # type: ignore[attr-defined]


def test_slack_gets_a_line_and_a_link(state: State, clock: Clock) -> None:
    """To the fleet's channel and to the team's; only where `report` is among the events."""

    async def story() -> None:
        async with hook(200) as fleet, hook(200) as team, hook(200) as program, hook(200) as deaf:
            add_channel(state, fleet.url, name="fleet", events=["report"])
            add_channel(state, team.url, name="team", events=["opened", "report"], teams=["vision"])
            add_channel(state, program.url, name="program", kind="webhook", events=["report"])
            add_channel(state, deaf.url, name="deaf")
            assert 3 == report_notice.enqueue(state, [note(None), note("vision"), note("search")], clock())
            assert 3 == await sender(state, clock).deliver_due()
            (body,) = team.bodies
            assert (
                ":page_facing_up: *Team vision pays $12.00 in week 2026-W45, up 50 % from the previous week.*"
                == body["blocks"][0]["text"]["text"]
            )
            assert ["To pay", "Held idle"] == [field["text"].split("*")[1] for field in body["blocks"][1]["fields"]]
            assert body["blocks"][2]["text"]["text"].endswith("· user ann\nRelease the devices.")
            url = body["blocks"][3]["elements"][0]["url"]
            assert "https://gpuwatch.example/api/v1/reports/weekly?week=2026-W45&team=vision&format=pdf" == url
            assert ("report", None) == (program.bodies[0]["event"], program.bodies[0]["report"]["team"])
            assert (1, []) == (len(fleet.bodies), deaf.bodies)

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_recipients_are_taken_whole_or_not_at_all(state: State) -> None:
    """Every bad row is named."""
    assert replace(state, [{"team": "*", "to": ["ann@example.com"]}], "ann", "test", T0_US)
    with pytest.raises(UsageError, match=r"nothing was changed: items.0: 'x' is not an address .*; items.2: team 'a'"):
        rows = [{"team": "b", "to": ["x"]}, {"team": "a", "to": ["a@b.c"]}, {"team": "a", "to": ["a@b.c"]}]
        replace(state, rows, "ann", "test", T0_US)

    assert {"*": ("ann@example.com",)} == dict(Recipients.read(state).by_team)


def test_who_drips_after_starttls_is_left_when_the_time_is_over(
    state: State, clock: Clock, certificate: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    """Each line comes in time, and there is no end of them."""
    serves, trusts = certificate
    lines: list[int] = []
    with socket.create_server((HERE, 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            plain.sendall(b"220 hello\r\n")
            plain.recv(1000)
            plain.sendall(b"250-hello\r\n250 STARTTLS\r\n")
            plain.recv(1000)
            plain.sendall(b"220 go ahead\r\n")
            with serves.wrap_socket(plain, server_side=True) as wrapped, contextlib.suppress(OSError):
                wrapped.recv(1000)
                while len(lines) < 40 and not select.select([wrapped], [], [], 0.05)[0]:
                    wrapped.sendall(b"250-more\r\n")
                    lines.append(len(lines))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        channel(state, listener.getsockname()[1], host="localhost", security="starttls")
        enqueue(state, [finding()], clock())
        assert 0 == deliver(state, clock, tls=trusts, timeout_s=0.4)
        thread.join(PATIENCE_S)

    assert "localhost gave no answer within 0.4 s" == fares(state)[0]
    assert len(lines) < 40


def test_no_further_address_is_tried_when_the_time_is_over() -> None:
    mail = Mail(HERE, 9, "none", "a@example.com", ("b@example.com",))
    client = _Client(mail, Gate(Guard.of([HERE]), HERE), 1.0, ssl.create_default_context())
    client.cut()

    with pytest.raises(TimeoutError):
        client.open()


@pytest.mark.parametrize(
    ("try_s", "wait_s", "expected"),
    [
        pytest.param(0.2, 10.0, "channel ops: 127.0.0.1 gave no answer within 0.2 s", id="the server hangs"),
        pytest.param(0.6, 0.2, "channel ops: no response within 0.2 s", id="more than the server hangs"),
    ],
)
def test_the_test_button_answers_in_time(
    state: State, monkeypatch: pytest.MonkeyPatch, try_s: float, wait_s: float, expected: str
) -> None:
    monkeypatch.setattr(after_pass, "TEST_TRY_S", try_s)
    monkeypatch.setattr(after_pass, "TEST_WAIT_S", wait_s)
    config = after_pass.AlertConfig([HERE], [])
    button = after_pass.Alerting(state, config, lambda: T0_US, lambda: "", Settings(), lambda *_: None)
    with odd(None) as port:
        channel(state, port)
        with pytest.raises(SourceUnreachable) as raised:
            button.send_test("ops")

    assert expected == str(raised.value)


def test_an_end_says_why_and_a_budget_claims_no_waste(state: State, clock: Clock) -> None:
    over = Alert("resolved", "k", "", finding(state="resolved", resolved_reason="rule_changed").as_dict())
    budget = Alert("opened", "k", "", finding(key="budget:red:2026-11:100", title="Budget passed").as_dict())
    mail = Mail(HERE, 25, "none", "a@example.com", ("b@example.com",))
    listed = [single(mail, alert, None, "k", T0_US).get_body(("plain",)) for alert in (over, budget)]
    texts = [part.get_content() for part in listed if part is not None]

    assert "Why it ended: rule changed" in texts[0].splitlines()
    assert "High · Budget passed: job 4711 (train-llm) on n1 · team red, alice" == texts[1].splitlines()[0]
    assert "Rate" not in texts[1] and "Cost" not in texts[1]
