"""`KeySet`: the public keys of whoever signs tokens, as he publishes them, and as they change.

Keys are believed for minutes, and looked at anew beside the work. A token that names a key which is
not known has them fetched at once, but not again for some seconds: whoever sends rubbish costs a
fetch now and then. While the issuer is away the keys that are known stay good.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from trunkline.core import telemetry
from trunkline.core.errors import BadRequest, Invalid, TrunklineError
from trunkline.gateway.reading import read_json

logger = telemetry.get_logger(__name__)

NO_TOKEN = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)
"""What comes of looking at something that is no token, or one that is not valid."""

_ANSWER_WITHIN = 5.0  # seconds
_LARGEST = 1 << 20  # bytes of an answer
_SMALLEST_RSA = 2048  # bits
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_NOT_FETCHED = (OSError, HTTPException, ValueError, TrunklineError)
_OF_RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """What verifies signatures of one algorithm, and of no other."""

    kid: str | None
    algorithm: str
    key: Any


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to other addresses of the web, from https to https alone."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        """The request for another address."""
        if urlsplit(newurl).scheme not in {"https", req.type}:
            raise Invalid(f"it leads to {newurl[:100]}, where others could change the keys")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class KeySet:
    """The keys behind a URL (JWKS, RFC 7517); only `open` and `learn` wait for an answer."""

    def __init__(self, url: str, *, believed_for: float = 300.0, again_after: float = 10.0):
        self._url = url
        self._believed_for = believed_for
        self._again_after = again_after
        self._keys: list[PublishedKey] = []
        self._fetched = self._asked = 0.0
        self._keeping: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Fetch the keys, now and then again, until `close`; `BadRequest` where there are none."""
        try:
            await self._fetch()
        except _NOT_FETCHED as error:
            raise BadRequest(
                f"TRUNKLINE_JWT_JWKS_URL: there are no keys at {self._url}: {_told(error)}.",
                hint="Expected the address of a JSON Web Key Set with RSA keys of 2048 bits or "
                "more, keys on P-256, P-384 or P-521, or Ed25519.",
            ) from None
        self._keeping = asyncio.create_task(self._keep(), name="look at the keys of the issuer")

    async def learn(self, token: str) -> None:
        """Have the key that a token names, if the issuer has it by now."""
        try:
            kid = jwt.get_unverified_header(token).get("kid")
        except NO_TOKEN:
            return  # it is refused for that
        if kid is not None and all(key.kid != kid for key in self._keys):
            may_ask = time.monotonic() - self._asked >= self._again_after
            if may_ask or self._fetching is not None:
                await asyncio.wait({self._begin()})

    def find(self, header: dict[str, Any]) -> PublishedKey:
        """The key for a token with this header; `jwt.InvalidKeyError` when there is none."""
        kid, algorithm = header.get("kid"), header.get("alg")
        named = [key for key in self._keys if kid is None or key.kid == kid]
        found = [key for key in named if key.algorithm == algorithm]
        if named and not found:
            raise jwt.InvalidAlgorithmError(f"it is signed with {algorithm}")
        if not found:
            raise jwt.InvalidKeyError("the issuer has no key with its kid")
        if len(found) > 1:
            raise jwt.InvalidKeyError("its kid names none of the issuer's keys")
        return found[0]

    async def close(self) -> None:
        """Fetch nothing more."""
        if under_way := {task for task in (self._keeping, self._fetching) if task is not None}:
            for task in under_way:
                task.cancel()
            await asyncio.wait(under_way)

    async def _keep(self) -> None:
        while True:
            rest = self._fetched + self._believed_for - time.monotonic()
            await asyncio.sleep(max(rest, self._again_after))
            await asyncio.wait({self._begin()})

    def _begin(self) -> asyncio.Task[None]:
        """Fetch, once for all who wait."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_or_keep(), name="keys of the issuer")
        return self._fetching

    async def _fetch_or_keep(self) -> None:
        try:
            await self._fetch()
        except _NOT_FETCHED as error:
            logger.warning("keys of the issuer not fetched", error=_told(error))
        finally:
            self._fetching = None

    async def _fetch(self) -> None:
        self._asked = time.monotonic()
        async with asyncio.timeout(2 * _ANSWER_WITHIN):
            self._keys = await asyncio.to_thread(_published, self._url)
        self._fetched = time.monotonic()


def _published(url: str) -> list[PublishedKey]:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - see settings
    raw, end = b"", time.monotonic() + _ANSWER_WITHIN
    with urllib.request.build_opener(Redirects).open(request, timeout=_ANSWER_WITHIN) as answer:
        while part := answer.read1(_LARGEST):
            raw += part
            if len(raw) > _LARGEST:
                raise Invalid(f"the answer has more than {_LARGEST} bytes")
            if time.monotonic() > end:  # it trickles
                raise TimeoutError(f"the answer did not come within {_ANSWER_WITHIN:g} seconds")
    document = read_json(raw, "the answer")
    if not isinstance(document, dict) or not isinstance(listed := document.get("keys"), list):
        raise Invalid('the answer is no JSON object with a list of "keys"')
    keys = [key for each in listed if (key := _key(each)) is not None]
    if not keys:
        raise Invalid(f"of {len(listed)} keys none can be used")
    return keys


def _key(given: Any) -> PublishedKey | None:
    """A key to verify with; None for one that is secret, weak, of another use or unknown kind."""
    if not isinstance(given, dict) or given.get("use", "sig") != "sig":
        return None
    kid = given.get("kid")
    try:
        found = jwt.PyJWK(given)
    except (*NO_TOKEN, KeyError, AttributeError, UnsupportedAlgorithm):
        return None
    fits = kid is None or isinstance(kid, str)
    if not fits or found.algorithm_name not in _algorithms(found.key):
        return None
    return PublishedKey(kid, found.algorithm_name, found.key)


def _algorithms(key: Any) -> set[str]:
    """The algorithms that a key can be for."""
    if isinstance(key, RSAPublicKey):
        return _OF_RSA if key.key_size >= _SMALLEST_RSA else set()
    if isinstance(key, EllipticCurvePublicKey):
        return {_CURVES.get(key.curve.name, "")}
    return {"EdDSA"} if isinstance(key, Ed25519PublicKey) else set()


def _told(error: Exception) -> str:
    return str(error).rstrip(".")[:200] or type(error).__name__
