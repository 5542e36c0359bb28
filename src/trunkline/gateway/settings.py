"""What the environment says about the gateway."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from trunkline.core.errors import BadRequest
from trunkline.core.settings import Settings

if TYPE_CHECKING:
    from typing import Self


_SETTING = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


class GatewaySettings(Settings):
    """Who may ask, and for how much; each as ``TRUNKLINE_<NAME>``."""

    jwt_secret: str | None = Field(default=None, repr=False)
    jwt_public_key: str | None = None
    jwt_jwks_url: str | None = None
    """Where whoever signs tokens publishes his keys."""
    jwt_audience: str | None = None
    jwt_issuer: str | None = None
    jwt_require_exp: bool = False
    """Refuse tokens that never expire."""
    jwt_role_claim: str = "role"
    jwt_settings: Annotated[dict[str, str], NoDecode] = Field(default_factory=dict)
    """Claims by the settings that policies read: ``app.org_id=org,app.user=sub``."""
    anonymous_role: str | None = None
    gateway_streams: int = Field(default=10_000, ge=1)
    gateway_streams_per_connection: int = Field(default=100, ge=1)
    gateway_connections: int | None = Field(default=None, ge=1)
    """Connections with a request; None means half of the files that the process may open."""
    gateway_header_seconds: float = Field(default=10, gt=0, le=3600)
    gateway_idle_seconds: int = Field(default=5, ge=1, le=3600)
    gateway_body_bytes: int = Field(default=8 << 20, ge=1024)
    gateway_request_seconds: float = Field(default=30, gt=0, le=3600)

    @field_validator("jwt_secret")
    @classmethod
    def _long_enough(cls, secret: str | None) -> str | None:
        if secret is not None and len(secret.encode()) < 32:
            raise ValueError("a secret for HS256 has 32 bytes or more")
        return secret

    @field_validator("jwt_jwks_url")
    @classmethod
    def _of_the_web(cls, url: str | None) -> str | None:
        try:
            parts = None if url is None else urlsplit(url)
            fits = parts is None or (parts.scheme in {"http", "https"} and bool(parts.hostname))
        except ValueError:
            fits = False
        if not fits:
            raise ValueError("expected an address such as https://login.example/jwks.json")
        return url

    @field_validator("jwt_settings", mode="before")
    @classmethod
    def _pairs(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        pairs = [part.partition("=") for part in given.split(",") if part.strip()]
        if not all(equals and claim.strip() for _, equals, claim in pairs):
            raise ValueError("expected settings and their claims, such as app.org_id=org")
        return {name.strip(): claim.strip() for name, _, claim in pairs}

    @field_validator("jwt_settings")
    @classmethod
    def _settings_with_a_prefix(cls, names: dict[str, str]) -> dict[str, str]:
        for name in names:
            ours = name.lower().startswith(("request.jwt.", "trunkline."))
            if not _SETTING.fullmatch(name) or ours:
                raise ValueError(f'"{name}" is no setting of an application, such as app.org_id')
        return names

    @classmethod
    def from_environment(cls, **explicit: Any) -> Self:
        """Read the environment; raises `BadRequest` with the name of an invalid value."""
        found = cls.load(**explicit)
        assert isinstance(found, cls)
        return found

    @property
    def public_key(self) -> str | None:
        """The key as PEM, read from its file where a path is given."""
        key = self.jwt_public_key
        if key is None or key.lstrip().startswith("-----BEGIN"):
            return key
        try:
            return Path(key).read_text("ascii")
        except (OSError, ValueError) as error:
            raise BadRequest(
                f"TRUNKLINE_JWT_PUBLIC_KEY: the file cannot be read: {error}.",
                hint="Give a public key as PEM, or the path of a file with one.",
            ) from None

    @property
    def open_to_somebody(self) -> bool:
        """Whether there is anybody who may ask at all."""
        keys = self.jwt_secret or self.jwt_public_key or self.jwt_jwks_url
        return bool(keys or self.anonymous_role)
