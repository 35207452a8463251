"""A stub of an OpenID Connect provider on this machine, which issues tokens to known clients over plain HTTP."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote_plus
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from airflow_provider_kafka_spark.core.errors import LocalServiceError
from airflow_provider_kafka_spark.testing.managed_server import ManagedServer
from airflow_provider_kafka_spark.testing.ports import LOOPBACK

_KEY_ID = "testing"
_ALGORITHM = "RS256"
# Maximum seconds to read a client's request.
_REQUEST_SECONDS = 10.0
_TOKEN_LIFE = 3600
_LONGEST_BODY = 64 * 1024


class IdentityProvider(ManagedServer):
    """Answers the client-credentials grant of OAuth 2 with signed tokens, inside ``with``.

    ``POST`` to :attr:`token_url` wants ``grant_type=client_credentials`` and the client's id and secret, by basic
    authentication or in the form; it answers with a JWT signed by RS256, whose ``sub`` is the client's id.
    ``GET`` of :attr:`jwks_url` gives the key to check it. It runs in threads of this process and ends with it.

    :param clients: client ids and secrets
    :param audience: the tokens' ``aud``
    """

    def __init__(self, clients: Mapping[str, str], *, audience: str = "kafka") -> None:
        self.clients = dict(clients)
        self.audience = audience
        self.scope = "kafka"
        self._revoked: set[str] = set()
        self._key = rsa.generate_private_key(65537, 2048)
        self._server: ThreadingHTTPServer | None = None
        self._thread: Thread | None = None

    @property
    def issuer(self) -> str:
        """The provider's address, which is the tokens' ``iss`` too.

        :raises LocalServiceError: it does not run
        """
        if self._server is None:
            raise self._not_running()
        return f"http://{LOOPBACK}:{self._server.server_port}"

    @property
    def token_url(self) -> str:
        """The endpoint for tokens."""
        return f"{self.issuer}/token"

    @property
    def jwks_url(self) -> str:
        """The endpoint for the key that verifies tokens."""
        return f"{self.issuer}/jwks"

    def start(self) -> None:
        """Start to listen, on a free port of the loopback interface; requests are answered when this returns.

        :raises LocalServiceError: it runs already
        """
        if self._server is not None:
            raise self._already_running(self.issuer)
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="identity-provider", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop to listen. Calling it again does nothing.

        :raises LocalServiceError: it did not within some seconds
        """
        server, self._server = self._server, None
        thread, self._thread = self._thread, None
        if server is None or thread is None:
            return
        server.shutdown()
        server.server_close()
        thread.join(_REQUEST_SECONDS)
        if thread.is_alive():
            raise LocalServiceError(
                f"The identity provider's thread must end within {_REQUEST_SECONDS:g} seconds; it still runs. Look for "
                "a request that is still being answered."
            )

    def revoke(self, client_id: str) -> None:
        """Refuse this client from now on. Its earlier tokens stay valid until they expire."""
        self._revoked.add(client_id)

    def token(self, client_id: str, *, life: int = _TOKEN_LIFE, **claims: object) -> str:
        """Return a token as the endpoint does, without a request.

        :param client_id: any name, a known client's or not
        :param life: seconds until it expires; negative for one that has expired
        :param claims: others, or other values, such as ``aud="another"``
        """
        now = int(time.time())
        content = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": client_id,
            "scope": self.scope,
            # The issue time must be before the expiry, also for a token that expired long ago.
            "iat": now + min(0, life),
            "exp": now + life,
            "jti": uuid4().hex,
            **claims,
        }
        return jwt.encode(content, self._key, algorithm=_ALGORITHM, headers={"kid": _KEY_ID})

    def _jwks(self) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**key, "kid": _KEY_ID, "alg": _ALGORITHM, "use": "sig"}]}

    def _grant(self, authorization: str | None, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer to a request for a token, as RFC 6749 has them."""
        client_id, secret = _basic(authorization) or (form.get("client_id", ""), form.get("client_secret", ""))
        # A client may or may not encode both for the header (RFC 6749, 2.3.1); most do not.
        known = [(client_id, secret), (unquote_plus(client_id), unquote_plus(secret))]
        client_id = next((each for each, its in known if each in self.clients and self.clients[each] == its), "")
        if not client_id or client_id in self._revoked:
            return 401, {"error": "invalid_client", "error_description": "unknown client, wrong secret, or revoked"}
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type", "error_description": "expected client_credentials"}
        scope = form.get("scope") or self.scope
        token = self.token(client_id, scope=scope)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": _TOKEN_LIFE, "scope": scope}


def _basic(authorization: str | None) -> tuple[str, str] | None:
    kind, _, encoded = (authorization or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, secret


def _handler(provider: IdentityProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS

        def do_POST(self) -> None:
            length = min(int(self.headers.get("Content-Length") or 0), _LONGEST_BODY)
            fields = parse_qs(self.rfile.read(length).decode(errors="replace"))
            if self.path != "/token":
                self._answer(404, {"error": "not_found", "error_description": f"no {self.path}; POST to /token"})
                return
            status, content = provider._grant(
                self.headers.get("Authorization"), {name: values[0] for name, values in fields.items()}
            )
            self._answer(status, content)

        def do_GET(self) -> None:
            if self.path != "/jwks":
                self._answer(404, {"error": "not_found", "error_description": f"no {self.path}; GET /jwks"})
                return
            self._answer(200, provider._jwks())

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing to the test's stderr."""

        def _answer(self, status: int, content: Mapping[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="testing"')
            self.end_headers()
            self.wfile.write(body)

    return Handler
