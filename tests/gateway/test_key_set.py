"""Keys of an issuer who publishes them, and changes them."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from contextlib import suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.gateway.serving import READER, bearer, serving
from tests.gateway.test_auth import CURVE, RSA, pem

from trunkline import BadRequest, Invalid
from trunkline.gateway import key_set
from trunkline.gateway.auth import Authenticator
from trunkline.gateway.key_set import KeySet
from trunkline.gateway.problems import Unauthenticated
from trunkline.gateway.settings import GatewaySettings
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER = ec.generate_private_key(ec.SECP256R1())
WEAK = rsa.generate_private_key(65537, 1024)
EDWARDS = ed25519.Ed25519PrivateKey.generate()


class Issuer(ThreadingHTTPServer):
    """Publishes keys, counts who asks, and can keep them waiting."""

    def __init__(self) -> None:
        self.answer: Any = {"keys": []}
        self.status = 200
        self.asked = 0
        self.elsewhere = ""
        self.trickles = False
        self.left = threading.Event()
        self.done = threading.Event()
        self.open = threading.Event()
        self.open.set()
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/jwks.json"

    def publish(self, **keys: Any) -> None:
        self.answer = {"keys": [published(kid, key) for kid, key in keys.items()]}


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        issuer = self.server
        assert isinstance(issuer, Issuer)
        issuer.asked += 1
        issuer.open.wait(10)
        self.send_response(issuer.status)
        if issuer.elsewhere:
            self.send_header("Location", issuer.elsewhere)
        self.end_headers()
        if issuer.trickles:
            self.trickle(issuer)
            return
        given = issuer.answer
        self.wfile.write(given if isinstance(given, bytes) else json.dumps(given).encode())

    def trickle(self, issuer: Issuer) -> None:
        with suppress(OSError):
            while not issuer.done.wait(0.01):
                self.wfile.write(b" ")
        issuer.left.set()

    def log_message(self, *_told: Any) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.open.set()
        server.done.set()
        server.shutdown()
        thread.join()


def published(kid: str | None, key: Any, **more: Any) -> dict[str, Any]:
    algorithms = jwt.algorithms
    kinds: dict[type, Any] = {
        type(CURVE): algorithms.ECAlgorithm,
        type(RSA): algorithms.RSAAlgorithm,
        type(EDWARDS): algorithms.OKPAlgorithm,
    }
    found: dict[str, Any] = kinds[type(key)].to_jwk(key.public_key(), as_dict=True)
    return found | ({} if kid is None else {"kid": kid}) | {"use": "sig"} | more


def signed(kid: str | None, key: Any, algorithm: str = "ES256", **claims: Any) -> str:
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode({"role": READER, "aud": "shop", **claims}, key, algorithm, headers=headers)


def settings_of(issuer: Issuer, **given: Any) -> GatewaySettings:
    given = {"jwt_audience": "shop", **given}
    return GatewaySettings(_env_file=None, jwt_jwks_url=issuer.url, **given)  # type: ignore[call-arg]


async def opened(issuer: Issuer, **how: Any) -> Authenticator:
    authenticator = Authenticator(settings_of(issuer), own_role="gateway")
    authenticator.key_set = KeySet(issuer.url, **how)
    await authenticator.key_set.open()
    return authenticator


async def role_of(authenticator: Authenticator, token: str) -> str | None:
    assert authenticator.key_set is not None
    await authenticator.key_set.learn(token)
    return authenticator.identify(token).role


async def refused(authenticator: Authenticator, token: str, said: str) -> None:
    with pytest.raises(Unauthenticated, match=said):
        await role_of(authenticator, token)


async def test_a_key_that_is_new_is_found_and_one_that_is_gone_is_believed_no_more(
    issuer: Issuer, web_dsn: str
) -> None:
    issuer.publish(old=CURVE)
    async with serving(web_dsn, jwt_jwks_url=issuer.url, jwt_audience="shop") as web:
        web.gateway.authenticator.key_set = KeySet(issuer.url, again_after=0)
        await web.gateway.begin()

        async def answers(kid: str, key: Any) -> int:
            header = {"Authorization": f"Bearer {signed(kid, key)}"}
            return (await web.raw("GET", "/v1/log", role=None, headers=header)).status_code

        assert await answers("old", CURVE) == 200
        issuer.publish(old=CURVE, new=OTHER)
        assert await answers("new", OTHER) == 200
        assert await answers("new", CURVE) == 401
        issuer.publish(new=OTHER)
        assert await answers("newer", OTHER) == 401  # and has the keys fetched
        assert await answers("old", CURVE) == 401
        header = bearer(READER, aud="shop")  # a secret goes on beside them
        assert (await web.raw("GET", "/v1/log", role=None, headers=header)).status_code == 200


async def test_keys_are_looked_at_anew_beside_the_work(issuer: Issuer) -> None:
    issuer.publish(one=CURVE)
    authenticator = await opened(issuer, believed_for=0, again_after=0)
    issuer.publish(one=OTHER)
    assert await role_of(authenticator, signed("one", CURVE)) == READER

    keys = authenticator.key_set
    assert keys is not None

    def changed() -> None:
        assert keys.find({"kid": "one", "alg": "ES256"}).key == OTHER.public_key()

    await eventually(changed)
    await refused(authenticator, signed("one", CURVE), "Signature")


async def test_a_key_that_is_gone_is_forgotten_also_while_nobody_asks(issuer: Issuer) -> None:
    issuer.publish(one=CURVE)
    authenticator = await opened(issuer, believed_for=0, again_after=0)
    issuer.publish(two=OTHER)
    keys = authenticator.key_set
    assert keys is not None

    await eventually(lambda: keys.find({"kid": "two", "alg": "ES256"}), also=(jwt.PyJWTError,))
    await keys.close()
    await refused(authenticator, signed("one", CURVE), "no key with its kid")


async def test_an_answer_that_trickles_is_left_and_costs_no_thread(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_set, "_ANSWER_WITHIN", 0.1)
    issuer.trickles = True
    with pytest.raises(BadRequest, match="there are no keys"):
        await KeySet(issuer.url).open()
    assert await asyncio.to_thread(issuer.left.wait, 10)


@pytest.mark.parametrize(
    ("asked", "elsewhere"),
    [("https", "http://login.example/"), ("http", "ftp://x/"), ("https", "file:///etc/passwd")],
)
def test_keys_are_not_taken_from_where_others_could_change_them(asked: str, elsewhere: str) -> None:
    request = urllib.request.Request(f"{asked}://login.example/jwks.json")
    with pytest.raises(Invalid, match="leads to"):
        key_set.Redirects().redirect_request(request, BytesIO(), 302, "", Message(), elsewhere)


async def test_keys_are_fetched_where_their_address_leads_to(issuer: Issuer) -> None:
    issuer.publish(one=CURVE)
    with Issuer() as other:
        other.status, other.elsewhere = 302, issuer.url
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        authenticator = await opened(other)
        thread.join()
    assert await role_of(authenticator, signed("one", CURVE)) == READER


async def test_tokens_with_kids_that_nobody_knows_are_no_flood_for_the_issuer(
    issuer: Issuer,
) -> None:
    issuer.publish(one=CURVE)
    authenticator = await opened(issuer, again_after=3600)
    for n in range(50):
        await refused(authenticator, signed(f"no {n}", OTHER), "no key with its kid")
    assert issuer.asked == 1
    authenticator = await opened(issuer, again_after=0)
    before = issuer.asked
    issuer.open.clear()
    rubbish = [signed(f"no {n}", OTHER) for n in range(50)]
    waiting = [asyncio.create_task(refused(authenticator, each, "kid")) for each in rubbish]
    await asyncio.sleep(0)
    assert await role_of(authenticator, signed("one", CURVE)) == READER  # nobody else waits
    issuer.open.set()
    await asyncio.gather(*waiting)
    assert issuer.asked == before + 1


async def test_keys_that_are_known_stay_good_while_the_issuer_is_away(issuer: Issuer) -> None:
    issuer.publish(one=CURVE)
    authenticator = await opened(issuer, believed_for=0, again_after=0)
    for status, answer in ((503, b""), (200, b"<html>"), (200, {"keys": []}), (200, b"[" * 9999)):
        issuer.status, issuer.answer = status, answer
        await refused(authenticator, signed("new", OTHER), "no key with its kid")
        assert await role_of(authenticator, signed("one", CURVE)) == READER


async def test_a_key_verifies_by_its_own_algorithm_and_secrets_are_no_keys(issuer: Issuer) -> None:
    secret = "a secret that somebody published by mistake"
    octets = {"kty": "oct", "k": "YSBzZWNyZXQ", "alg": "HS256", "kid": "oct"}
    issuer.answer = {
        "keys": [
            published("ec", CURVE),
            published("ps", RSA, alg="PS256"),
            published("ed", EDWARDS),
            published("enc", OTHER, use="enc"),
            published("unfit", OTHER, alg="RS256"),
            published("curve", OTHER, alg="ES384"),
            published("weak", WEAK),
            octets,
            {"kty": "EC", "kid": ["ec"]},
            "rubbish",
        ]
    }
    authenticator = await opened(issuer)
    for kid, key, algorithm in (
        ("ec", CURVE, "ES256"),
        ("ps", RSA, "PS256"),
        ("ed", EDWARDS, "EdDSA"),
        (None, CURVE, "ES256"),
    ):
        assert await role_of(authenticator, signed(kid, key, algorithm)) == READER
    await refused(authenticator, signed("ps", RSA, "RS256"), "signed with RS256")
    await refused(authenticator, signed("ec", secret, "HS256"), "signed with HS256")
    await refused(authenticator, signed("oct", secret, "HS256"), "no key with its kid")
    for kid in ("enc", "unfit", "curve"):
        await refused(authenticator, signed(kid, OTHER), "no key with its kid")
    await refused(authenticator, signed("ec", OTHER), "Signature")


async def test_tokens_that_an_issuer_gave_to_others_are_no_good_here(issuer: Issuer) -> None:
    issuer.publish(one=CURVE)
    authenticator = await opened(issuer)
    await refused(authenticator, signed("one", CURVE, aud="their shop"), "Audience")
    await refused(authenticator, signed("one", CURVE, aud=None), "aud")
    with pytest.raises(BadRequest, match="whoever has a token of the issuer") as error:
        Authenticator(settings_of(issuer, jwt_audience=None), own_role="gateway")
    assert "TRUNKLINE_JWT_AUDIENCE" in error.value.hint
    Authenticator(settings_of(issuer, jwt_audience=None, jwt_issuer="https://x"), own_role="me")


async def test_a_token_without_a_kid_is_refused_where_several_keys_fit(issuer: Issuer) -> None:
    issuer.publish(one=CURVE, two=OTHER)
    await refused(await opened(issuer), signed(None, CURVE), "names none")


async def test_without_keys_it_does_not_start_and_says_why(issuer: Issuer, web_dsn: str) -> None:
    weak = {"keys": [published("weak", WEAK)]}
    for status, answer, said in (
        (404, b"", "404"),
        (200, b"<html>", "not JSON"),
        (200, [], "no JSON object"),
        (200, {"keys": []}, "of 0 keys none"),
        (200, weak, "of 1 keys none"),
        (200, b" " * (1 << 21), "more than 1048576 bytes"),
    ):
        issuer.status, issuer.answer = status, answer
        with pytest.raises(BadRequest, match=said) as error:
            await KeySet(issuer.url).open()
        assert "TRUNKLINE_JWT_JWKS_URL" in error.value.message
    with pytest.raises(BadRequest, match="JWKS_URL"):
        async with serving(web_dsn, jwt_jwks_url=issuer.url, jwt_audience="shop"):
            pass
    both = settings_of(issuer, jwt_public_key=pem(CURVE))
    with pytest.raises(BadRequest, match="both"):
        Authenticator(both, own_role="gateway")
    for url in ("jwks.json", "file:///etc/passwd", "https://", "http://[::"):
        with pytest.raises(ValueError, match="expected an address"):
            GatewaySettings(_env_file=None, jwt_jwks_url=url)  # type: ignore[call-arg]
