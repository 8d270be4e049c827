"""Sends one e-mail: allowed servers, time limits, and the meaning of the replies."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any

from gpuwatch.alerts.delivery.destination_guard import AddressRefused, Gate, Guard
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.delivery.http_post import Outcome
from gpuwatch.core.errors import UsageError

TIMEOUT_S = 60.0
"""For everything: name resolution, connection, TLS, message, replies. Shorter than an outbox row is held."""
PATIENT_ATTEMPTS = 8
"""Attempts (about twenty minutes) in which a temporarily refused recipient delays the message for all; then the others
get it. No recipient gets it twice."""

MAX_ANSWER = 100_000
"""Bytes of one reply to read."""

_STATUS = re.compile(rb"^[245]\.\d{1,3}\.\d{1,3}\b")
"""An enhanced status code (RFC 3463). No other part of a reply is shown: it may hold a secret."""


def send(
    mail: Mail,
    message: EmailMessage,
    recipients: Sequence[str],
    guard: Guard,
    timeout_s: float = TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
    attempts: int = 0,
) -> Outcome:
    """Sends a message; never raises for what the network or the server does. 4xx is tried again, 5xx is not.

    Never in plain text where TLS is asked for: a server that does not offer STARTTLS gets nothing.
    """
    try:
        gate = Gate(guard, guard.check_host(mail.host, mail.security != "none"))
    except UsageError as error:
        return Outcome(False, str(error), permanent=True)
    client = _Client(mail, gate, timeout_s, tls or ssl.create_default_context())
    alarm = threading.Timer(timeout_s, client.cut)
    alarm.daemon = True
    alarm.start()
    try:
        return _exchange(client, mail, message, recipients, attempts)
    except smtplib.SMTPResponseException as error:
        return _judge(gate.host, error.smtp_code, error.smtp_error)
    except smtplib.SMTPNotSupportedError:
        return Outcome(False, f"{gate.host} does not offer {client.asked}; nothing was sent: check port and security")
    except ssl.SSLError:
        return Outcome(
            False, f"{gate.host}: its TLS certificate is not accepted, or it speaks no TLS; check port and host"
        )
    except (TimeoutError, smtplib.SMTPServerDisconnected) as error:
        # The socket's own timeout may come just before the alarm; smtplib reports it as a closed connection.
        if client.late or isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
            return Outcome(False, f"{gate.host} gave no answer within {timeout_s:g} s")
        return Outcome(False, f"{gate.host} closed or broke the exchange")
    except smtplib.SMTPException:
        return Outcome(False, f"{gate.host} offers no way to log in that is known here; check user and security")
    except socket.gaierror:
        return Outcome(False, f"the name {gate.host} cannot be resolved; check it, or this machine's DNS")
    except OSError as error:
        if gate.refused and not gate.opened:
            words = "leads to an address that is not public; name it in allow_private of gpuwatch.toml to use it"
            return Outcome(False, f"{gate.host} {words}", permanent=True)
        if client.late:
            return Outcome(False, f"{gate.host} gave no answer within {timeout_s:g} s")
        return Outcome(False, f"{gate.host} cannot be reached: {error.strerror or 'connection closed'}")
    finally:
        alarm.cancel()
        client.close()


def _exchange(client: _Client, mail: Mail, message: EmailMessage, recipients: Sequence[str], attempts: int) -> Outcome:
    """1. Connect and greet. 2. TLS. 3. Log in. 4. Sender and recipients. 5. The message, if any recipient was accepted."""
    client.open()
    _log_in(client, mail)
    content = message.as_bytes()
    code, reply = client.mail(mail.sender)
    if code != 250:
        return _judge(mail.host, code, reply)
    answers = [client.rcpt(address) for address in recipients]
    taken = sum(code in (250, 251) for code, _ in answers)
    refusal = _refusal(answers, taken, attempts)
    if refusal is not None:
        return _judge(mail.host, *refusal)
    code, reply = client.data(content)
    if code != 250:
        return _judge(mail.host, code, reply)
    client.leave()
    left = len(recipients) - taken
    return Outcome(True, f"{left} of {len(recipients)} recipients were refused" if left else None)


def _log_in(client: _Client, mail: Mail) -> None:
    """TLS and login, as configured."""
    if mail.security == "starttls":
        client.asked = "STARTTLS"
        client.starttls(context=client.context)
        client.ehlo_or_helo_if_needed()
    if mail.user is not None:
        client.asked = "a way to log in"
        client.login(mail.user, mail.password or "")
    client.ehlo_or_helo_if_needed()


def _refusal(answers: Sequence[tuple[int, bytes]], taken: int, attempts: int) -> tuple[int, bytes] | None:
    """The reply about a recipient that keeps the message from being sent now; None if it is sent to the others."""
    temporary = next((answer for answer in answers if 400 <= answer[0] < 500), None)
    if temporary is not None and (attempts < PATIENT_ATTEMPTS or not taken):
        return temporary
    return None if taken else next((answer for answer in answers if answer[0] >= 500), None)


def _judge(host: str, code: int, reply: bytes | str) -> Outcome:
    """The meaning of a reply other than success. Pure. https://www.rfc-editor.org/rfc/rfc5321#section-4.2"""
    text = reply.encode("utf-8", "replace") if isinstance(reply, str) else reply
    status = _STATUS.match(text)
    word = f" {status[0].decode()}" if status else ""
    if 500 <= code < 600:
        advice = "check user and password" if code in (530, 534, 535, 538) else "check sender and recipients"
        return Outcome(False, f"{host} answers {code}{word}; not tried again: {advice}", permanent=True)
    return Outcome(False, f"{host} answers {code}{word}" if code > 0 else f"{host} closed or broke the exchange")


class _Client(smtplib.SMTP):
    """A client whose sockets go through the gate, with TLS from the first byte if configured."""

    def __init__(self, mail: Mail, gate: Gate, timeout_s: float, context: ssl.SSLContext) -> None:
        self._mail, self._gate, self.context = mail, gate, context
        self.late, self.asked = False, ""
        self._raw: socket.socket | None = None
        super().__init__(timeout=timeout_s, local_hostname=mail.sender.rpartition("@")[2])

    def open(self) -> None:
        """Connects and reads the greeting."""
        self._host = self._mail.host.strip("[]")  # starttls() checks the certificate against this name
        code, reply = self.connect(self._host, self._mail.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, reply)

    def cut(self) -> None:
        """Ends the exchange: the time is over. After STARTTLS its socket differs from the one it opened."""
        self.late = True
        for one in (self._raw, getattr(self, "sock", None)):
            try:
                if one is not None:
                    one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def getreply(self) -> tuple[int, bytes]:
        """A reply of at most MAX_ANSWER bytes."""
        if self.late:
            raise TimeoutError
        if self.file is None and self.sock is not None:
            self.file = self.sock.makefile("rb")
        if self.file is not None:
            self.file = _Bounded(self.file)
        return super().getreply()

    def leave(self) -> None:
        """Sends QUIT. The message is accepted already, so errors do not matter."""
        try:
            self.quit()
        except (smtplib.SMTPException, OSError):
            pass

    def _get_socket(self, host: str, port: int, timeout: float | None) -> socket.socket:
        """Connects to the first allowed address that answers."""
        failed: OSError = OSError("no address")
        for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            if self.late:
                raise TimeoutError
            try:
                found = self._gate.socket(info)
            except AddressRefused as error:
                failed = error
                continue
            self._raw = found
            try:
                found.settimeout(timeout)
                found.connect(info[4])
                if self._mail.security != "tls":
                    return found
                wrapped: Any = self.context.wrap_socket(found, server_hostname=host)
                self._raw = wrapped
                return wrapped  # type: ignore[no-any-return]
            except ssl.SSLError:
                found.close()
                raise
            except OSError as error:
                found.close()
                failed = error
        raise failed


class _Bounded:
    """A server's lines, as long as one answer has no more than MAX_ANSWER bytes of them."""

    def __init__(self, lines: Any) -> None:
        self._lines: Any = lines.lines() if isinstance(lines, _Bounded) else lines
        self._left = MAX_ANSWER

    def lines(self) -> Any:
        """The file itself."""
        return self._lines

    def readline(self, size: int) -> bytes:
        """The next line; nothing, as if the server had gone, where there were too many."""
        line: bytes = self._lines.readline(size) if self._left > 0 else b""
        self._left -= len(line)
        return line

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()
