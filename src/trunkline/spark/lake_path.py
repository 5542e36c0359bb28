"""Where a lake is: an absolute path or an address, the same for the driver and every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from pyarrow import fs


def insist_on_absolute(path: str) -> str:
    """The path itself; `Invalid` for one that would depend on the folder of a process."""
    if "://" in path or path.startswith("/"):
        return path
    raise Invalid(
        f'a path in a lake is absolute or an address, got "{path}".',
        hint="Every process of Spark has a folder of its own. Name the whole path.",
    )


def _validated(path: str) -> str:
    try:
        return insist_on_absolute(path)
    except Invalid as error:
        raise ValueError(error.message) from None


LakePath = Annotated[str, AfterValidator(_validated)]
"""An option that is such a path."""


def files_in(path: str) -> fs.FileSystem:
    """The files below a path, by names that are relative to it."""
    from pyarrow import fs  # slow to import

    if "://" in path and not path.startswith("file://"):
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(path))
    return fs.SubTreeFileSystem(path.removeprefix("file://"), fs.LocalFileSystem())
