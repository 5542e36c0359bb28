"""Tokens: who is believed, whom nobody becomes, and what settings say."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.gateway.nodes import SECRET, bearer, token

from trunkline import BadRequest
from trunkline.gateway.auth import CLAIMS, Authenticator
from trunkline.gateway.problems import Unauthenticated
from trunkline.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.asking import Connect
    from tests.gateway.nodes import Node, OpenNode, Roles

OWN = "gateway"
RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> str:
    return str(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), "ascii"
    )


def authenticator(*, insecure: bool = False, **given: Any) -> Authenticator:
    settings = GatewaySettings(**{"jwt_secret": SECRET, **given})
    return Authenticator(settings, own_role=OWN, insecure=insecure)


def refused(given: str | None, said: str, **settings: Any) -> None:
    with pytest.raises(Unauthenticated, match=said):
        authenticator(**settings).identify(given)


def unsigned(header: Any, claims: Any) -> str:
    parts = (
        base64.urlsafe_b64encode(part if isinstance(part, bytes) else json.dumps(part).encode())
        for part in (header, claims)
    )
    return ".".join([*(part.decode().rstrip("=") for part in parts), ""])


def test_a_token_names_a_role_and_its_claims_are_a_setting() -> None:
    identity = authenticator().identify(token("ann", org=7, sub=5))

    assert identity.role == "ann"
    assert json.loads(identity.settings[CLAIMS]) == {"role": "ann", "org": 7, "sub": 5}
    assert identity.rest is None


def test_claims_become_settings_as_text() -> None:
    named = "app.org_id=org, app.rights=rights, app.none = gone"
    identity = authenticator(jwt_settings=named).identify(token("ann", org=7, rights=["read", "ü"]))

    del identity.settings[CLAIMS]
    assert identity.settings == {
        "app.org_id": "7",
        "app.rights": '["read", "\\u00fc"]',
        "app.none": "",
    }


def test_another_claim_can_name_the_role() -> None:
    assert authenticator(jwt_role_claim="who").identify(token("x", who="ann")).role == "ann"


def test_an_expired_token_is_refused_after_some_leeway() -> None:
    assert authenticator().identify(token("ann", lasts=-2)).role == "ann"
    refused(token("ann", lasts=-10), "expired")
    refused(token("ann", nbf=time.time() + 60), "not yet valid")


def test_a_token_that_never_expires_is_refused_where_that_is_set() -> None:
    assert authenticator(jwt_require_exp=True).identify(token("ann", lasts=60)).role == "ann"
    refused(token("ann"), 'missing the "exp" claim', jwt_require_exp=True)
    refused(token("ann", exp=None), "not valid", jwt_require_exp=True)


@pytest.mark.parametrize("claims", [{"exp": "soon"}, {"exp": {}}, {"exp": 1e400}, {"nbf": []}])
def test_a_token_whose_times_are_no_numbers_is_refused(claims: dict[str, Any]) -> None:
    refused(jwt.encode({"role": "ann"} | claims, SECRET, "HS256"), "not valid")


def test_a_forged_token_is_refused() -> None:
    refused(token("ann", key="another secret, which is long enough"), "Signature")
    head, _, tail = token("ann").split(".")
    body = base64.urlsafe_b64encode(b'{"role": "root"}').decode().rstrip("=")
    refused(f"{head}.{body}.{tail}", "Signature")


@pytest.mark.parametrize("name", ["none", "None", "NONE", "HS512", "HS384", "RS256", None, [], {}])
def test_a_token_chooses_no_algorithm(name: Any) -> None:
    refused(unsigned({"alg": name, "typ": "JWT"}, {"role": "ann"}), "signed with")


@pytest.mark.parametrize("key", [RSA, CURVE], ids=["rsa", "curve"])
def test_a_public_key_is_never_taken_for_a_secret(key: Any) -> None:
    public = pem(key)
    import hashlib
    import hmac

    head = unsigned({"alg": "HS256"}, {"role": "ann"}).rstrip(".")
    mac = hmac.new(public.encode(), head.encode(), hashlib.sha256).digest()
    forged = f"{head}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"

    refused(forged, "signed with HS256", jwt_secret=None, jwt_public_key=public)
    refused(forged, "Signature", jwt_public_key=public)


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (CURVE, "ES256")], ids=["rsa", "curve"]
)
def test_public_keys_verify_from_text_or_from_a_file(
    key: Any, algorithm: str, tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_text(pem(key))
    signed = token("ann", key=key, algorithm=algorithm)

    for public in (pem(key), str(tmp_path / "key.pem")):
        found = authenticator(jwt_secret=None, jwt_public_key=public).identify(signed)
        assert found.role == "ann"
    refused(token("ann"), "signed with HS256", jwt_secret=None, jwt_public_key=pem(key))


def test_audience_and_issuer_are_checked_where_they_are_set() -> None:
    settings = {"jwt_audience": "shop", "jwt_issuer": "us"}

    assert authenticator(**settings).identify(token("ann", aud="shop", iss="us")).role == "ann"
    assert authenticator().identify(token("ann", aud="other", iss="them")).role == "ann"
    refused(token("ann", aud="other", iss="us"), "audience", **settings)
    refused(token("ann", aud="shop", iss="them"), "issuer", **settings)
    refused(token("ann"), "aud", **settings)


@pytest.mark.parametrize("role", [None, "", 7, ["ann"], "a\0b", "\ud800"])
def test_a_token_that_names_no_role_is_refused(role: Any) -> None:
    refused(token(role), "names no role")


@pytest.mark.parametrize("role", [OWN, "none"])
def test_nobody_becomes_the_role_of_the_gateway(role: str) -> None:
    refused(token(role), "as whom the gateway connects")
    with pytest.raises(BadRequest, match="as whom the gateway connects"):
        authenticator(anonymous_role=role)


def test_without_a_token_one_is_anonymous_or_refused() -> None:
    refused(None, "no token")
    assert authenticator(anonymous_role="guest").identify(None).role == "guest"
    assert authenticator(insecure=True).identify(None).role is None
    assert json.loads(authenticator(anonymous_role="guest").identify("").settings[CLAIMS]) == {}


@pytest.mark.parametrize(
    "rubbish",
    [
        "x",
        "a.b.c",
        "..",
        "\ud800",
        "ü.ü.ü",
        "a" * 100_000,
        unsigned(b"[" * 200_000, {}),
        unsigned(b"{" + b'"a":' * 100_000, {}),
        unsigned([], {}),
        unsigned(b"\xff", {}),
    ],
    ids=range(10),
)
def test_rubbish_is_no_token(rubbish: str) -> None:
    refused(rubbish, "not valid")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"jwt_secret": "short"}, "32 bytes"),
        ({"jwt_settings": "rubbish"}, "app.org_id=org"),
        ({"jwt_settings": "search_path=x"}, "no setting of an application"),
        ({"jwt_settings": "request.jwt.claims=x"}, "no setting of an application"),
        ({"jwt_settings": "app.org id=x"}, "no setting of an application"),
        ({"jwt_settings": "trunkline.x=x"}, "no setting of an application"),
        ({"gateway_streams": "0"}, "GATEWAY_STREAMS"),
    ],
)
def test_settings_that_make_no_sense_are_named(
    settings: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"TRUNKLINE_{name.upper()}", value)
    with pytest.raises(BadRequest, match=said):
        GatewaySettings.from_environment()


@pytest.mark.parametrize("key", ["/nowhere/key.pem", "-----BEGIN PUBLIC KEY-----\nrubbish"])
def test_a_public_key_that_cannot_be_read_is_refused_at_the_start(key: str) -> None:
    with pytest.raises(BadRequest, match="TRUNKLINE_JWT_PUBLIC_KEY"):
        authenticator(jwt_public_key=key)


def test_a_gateway_that_nobody_could_ask_is_refused() -> None:
    with pytest.raises(BadRequest, match="no authentication is configured"):
        authenticator(jwt_secret=None)


async def test_every_route_asks_who_it_is(node: Node) -> None:
    for path in ("/v1/live", "/v1/live/books", "/graphql?query={live{name}}"):
        answer = await node.http.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "TL401"
    assert (await node.http.post("/graphql", json={"query": "{live{name}}"})).status_code == 401
    assert (
        await node.http.get("/v1/live", headers={"Authorization": "Basic x"})
    ).status_code == 401


async def test_a_token_in_the_address_is_believed_and_never_logged(
    node: Node, roles: Roles, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG", logger="trunkline")
    good, bad = token(roles.member), token(roles.member, key="x" * 40)

    assert (await node.http.get("/v1/live", params={"access_token": good})).status_code == 200
    refusal = await node.http.get("/v1/live/books", params={"access_token": bad})
    assert refusal.status_code == 401
    async with node.talk(begin=False) as talk:
        await talk.begin({"access_token": good})
    said = refusal.text + caplog.text + "".join(capfd.readouterr())
    assert good not in said
    assert bad not in said


async def test_nobody_becomes_a_superuser(node: Node, roles: Roles, connect: Connect) -> None:
    answer = await node.http.get("/v1/live", headers=bearer("postgres"))
    assert answer.status_code == 401
    node.session.execute("create role mighty superuser")
    try:
        answer = await node.http.get("/v1/live", headers=bearer("mighty"))
        assert answer.status_code == 401
        assert "superuser" in answer.json()["detail"]
    finally:
        node.session.execute("drop role mighty")
    assert (await node.http.get("/v1/live", headers=bearer(roles.member))).status_code == 200


@pytest.mark.usefixtures("books")
async def test_a_role_that_is_not_there_is_refused_when_subscribing(node: Node) -> None:
    answer = await node.http.get("/v1/live/books", headers=bearer("nobody_there"))

    assert answer.status_code == 403
    assert "may not act as" in answer.json()["detail"]


@pytest.mark.usefixtures("books")
async def test_the_gateway_needs_no_more_than_membership_in_the_roles_it_serves(
    start: OpenNode, roles: Roles, gateway_dsn: str
) -> None:
    from psycopg.conninfo import make_conninfo

    node = await start()
    node.session.execute("create role serving login")
    try:
        node.session.execute(f"grant trunkline_writer, {roles.member} to serving")
        modest = await start(dsn=make_conninfo(gateway_dsn, user="serving"))
        async with modest.follow("/v1/live/books", roles.member) as followed:
            await followed.frame()
            node.write("insert into books values (1)")
            assert (await followed.event()).event == "created"
        refusal = await modest.http.get("/v1/live/books", headers=bearer(roles.stranger))
        assert refusal.status_code == 403
        own = await modest.http.get("/v1/live/books", headers=bearer("serving"))
        assert own.status_code == 401
    finally:
        await modest.platform.close()
        node.session.execute("drop owned by serving; drop role serving")
