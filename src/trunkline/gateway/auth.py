"""Who asks: a JSON web token becomes a role of the database and settings that policies read.

The gateway has rights of its own, with which it connects. Nobody gets them: a token names another
role, and whoever has no token acts as the anonymous role, or is refused.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from trunkline.core.errors import BadRequest
from trunkline.gateway.key_set import NO_TOKEN, KeySet
from trunkline.gateway.problems import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import HTTPConnection

    from trunkline.gateway.settings import GatewaySettings

CLAIMS = "request.jwt.claims"

_LEEWAY = 5  # seconds by which clocks may differ
_NOBODY_ELSE = "none"  # to SET ROLE this is no role: it gives back that of the connection


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a request acts as; role None: as whom the gateway connects."""

    role: str | None
    settings: dict[str, str] = field(default_factory=lambda: {CLAIMS: "{}"})
    expires: float | None = None
    """When its token does, in seconds of the epoch."""

    @property
    def rest(self) -> float | None:
        """The seconds for which it is still good; None: for ever."""
        return None if self.expires is None else self.expires - time.time()


class Authenticator:
    """Tells by a token who asks."""

    def __init__(self, settings: GatewaySettings, *, own_role: str, insecure: bool = False):
        self._settings = settings
        self._own_role = own_role
        self._insecure = insecure
        self._keys = _keys(settings)
        self.key_set = None if settings.jwt_jwks_url is None else KeySet(settings.jwt_jwks_url)
        if not (insecure or settings.open_to_somebody):
            raise BadRequest(
                "no authentication is configured: there is neither a key for tokens nor a role for "
                "requests without one.",
                hint="Set TRUNKLINE_JWT_SECRET, TRUNKLINE_JWT_PUBLIC_KEY, TRUNKLINE_JWT_JWKS_URL "
                "or TRUNKLINE_ANONYMOUS_ROLE; or, to try it, give --insecure.",
            )
        if settings.jwt_jwks_url and not (settings.jwt_audience or settings.jwt_issuer):
            raise BadRequest(
                "TRUNKLINE_JWT_JWKS_URL alone lets in whoever has a token of the issuer, also one"
                " for somebody else.",
                hint="Set TRUNKLINE_JWT_AUDIENCE to what tokens for this gateway have as their aud,"
                " or TRUNKLINE_JWT_ISSUER where every token with that iss is for it.",
            )
        if settings.anonymous_role in {own_role, _NOBODY_ELSE}:
            raise BadRequest(
                f'TRUNKLINE_ANONYMOUS_ROLE is "{settings.anonymous_role}", as whom the gateway'
                " connects.",
                hint="Name a role that may do less.",
            )

    def identify(self, token: str | None) -> Identity:
        """Who has this token, or none; raises `Unauthenticated`."""
        if token:
            return self._of_claims(self._claims(token))
        if self._settings.anonymous_role is not None:
            return Identity(self._settings.anonymous_role)
        if self._insecure:
            return Identity(None)
        raise Unauthenticated(
            "there is no token.", hint="Expected a header: Authorization: Bearer <token>."
        )

    def _claims(self, token: str) -> dict[str, Any]:
        if not self._keys and self.key_set is None:
            raise Unauthenticated(
                "tokens are not accepted here.", hint="No key for them is configured. Send none."
            )
        wanted = self._settings
        try:
            key, algorithm = self._key(jwt.get_unverified_header(token))
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=wanted.jwt_audience,
                issuer=wanted.jwt_issuer,
                leeway=_LEEWAY,
                options={
                    "verify_aud": wanted.jwt_audience is not None,
                    "verify_sub": False,
                    "require": ["exp"] if wanted.jwt_require_exp else [],
                },
            )
        except NO_TOKEN as error:
            raise Unauthenticated(
                f"the token is not valid: {str(error)[:200]}.", hint=self._expected()
            ) from None

    def _key(self, header: dict[str, Any]) -> tuple[Any, str]:
        """What verifies a token with this header, and by which algorithm."""
        algorithm = str(header.get("alg"))
        if algorithm in self._keys:
            return self._keys[algorithm], algorithm
        if self.key_set is None:
            raise jwt.InvalidAlgorithmError(f"it is signed with {algorithm}")
        found = self.key_set.find(header)
        return found.key, found.algorithm

    def _of_claims(self, claims: dict[str, Any]) -> Identity:
        name = self._settings.jwt_role_claim
        role = claims.get(name, self._settings.anonymous_role)
        if not isinstance(role, str) or not _can_be_sent(role) or not role:
            raise Unauthenticated(
                f'the token names no role: it has no claim "{name}" that is a text.',
                hint=self._expected(),
            )
        if role in {self._own_role, _NOBODY_ELSE} and not self._insecure:
            raise Unauthenticated(
                f'the token names the role "{role}", as whom the gateway connects.',
                hint="Expected a role that may do less.",
            )
        settings = {CLAIMS: json.dumps(claims)}
        for setting, claim in self._settings.jwt_settings.items():
            settings[setting] = text = _text(claims.get(claim))
            if not _can_be_sent(text):
                raise Unauthenticated(f'the claim "{claim}" is a text that Postgres cannot hold.')
        expires = claims.get("exp")
        return Identity(role, settings, None if expires is None else float(expires) + _LEEWAY)

    def _expected(self) -> str:
        wanted = self._settings
        signed = [*self._keys, *(() if self.key_set is None else ("a key of the issuer",))]
        parts = [
            f"signed with {' or '.join(signed)}",
            "not expired, with a time in exp" if wanted.jwt_require_exp else "not expired",
            f'with a role in the claim "{wanted.jwt_role_claim}"',
        ]
        if wanted.jwt_audience is not None:
            parts.append(f'for the audience "{wanted.jwt_audience}"')
        if wanted.jwt_issuer is not None:
            parts.append(f'by the issuer "{wanted.jwt_issuer}"')
        return f"Expected a token that is {', '.join(parts)}."


def token_of(connection: HTTPConnection) -> str | None:
    """The token that came with a request, in its header or (from EventSource) in its query."""
    header = connection.headers.get("authorization")
    if header is not None:
        return bearer(header)
    return connection.query_params.get("access_token")


def token_in(payload: Mapping[str, Any] | None) -> str | None:
    """The token in the payload of ``connection_init``."""
    for name, value in (payload or {}).items():
        if not isinstance(value, str):
            continue
        if name.lower() == "authorization":
            return bearer(value)
        if name in {"token", "access_token"}:
            return value
    return None


def bearer(header: str) -> str:
    """The token of a header ``Authorization``."""
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated(
            "the header Authorization is not understood.", hint="Expected: Bearer <token>."
        )
    return token.strip()


def _keys(settings: GatewaySettings) -> dict[str, Any]:
    """What verifies a signature, by algorithm: no key is ever used for another one."""
    keys: dict[str, Any] = {}
    if settings.jwt_secret is not None:
        keys["HS256"] = settings.jwt_secret
    if (pem := settings.public_key) is not None:
        if settings.jwt_jwks_url is not None:
            raise BadRequest(
                "TRUNKLINE_JWT_PUBLIC_KEY and TRUNKLINE_JWT_JWKS_URL are both set.",
                hint="Set one of them: where keys are published, they are all there.",
            )
        try:
            key = load_pem_public_key(pem.encode())
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if isinstance(key, RSAPublicKey):
            keys["RS256"] = key
        elif isinstance(key, EllipticCurvePublicKey) and key.curve.name == "secp256r1":
            keys["ES256"] = key
        else:
            raise BadRequest(
                "TRUNKLINE_JWT_PUBLIC_KEY is no public key that can be used.",
                hint="Expected PEM: RSA, or an elliptic curve P-256.",
            )
    return keys


def _can_be_sent(text: str) -> bool:
    """Whether Postgres takes a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _text(value: Any) -> str:
    """A claim as the text of a setting."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
