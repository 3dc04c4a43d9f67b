"""Files that were built into the package, as answers: packed where the browser takes that, and kept packed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from gzip import compress
from importlib.resources import files
from importlib.resources.abc import Traversable
from mimetypes import guess_type

from fastapi import Request, Response

_AS_TEXT = {".yaml": "text/plain; charset=utf-8"}  # shown, where a browser would store it
_PACKED_ALREADY = (".png", ".gz")


def built_folder(name: str) -> Traversable:
    return files("noetl") / name


@cache
def built_files(folder: str) -> frozenset[str]:
    """The names of everything in a built folder. Only these are ever opened, never a path of a request."""
    root = built_folder(folder)
    return frozenset(_walked(root, "")) if root.is_dir() else frozenset()


def _walked(folder: Traversable, prefix: str) -> Iterator[str]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walked(one, f"{prefix}{one.name}/")
        else:
            yield prefix + one.name


def built_file(request: Request, folder: str, name: str, headers: Mapping[str, str]) -> Response:
    """A file of a built folder, which must be one of `built_files`."""
    suffix = name[name.rfind(".") :]
    kind = _AS_TEXT.get(suffix) or guess_type(name)[0] or "application/octet-stream"
    given = {**headers, "vary": "accept-encoding"}
    if suffix in _PACKED_ALREADY or "gzip" not in request.headers.get("accept-encoding", ""):
        body = built_folder(folder).joinpath(*name.split("/")).read_bytes()
        return Response(body, headers=given, media_type=kind)
    return Response(_packed(folder, name), headers=given | {"content-encoding": "gzip"}, media_type=kind)


@cache
def _packed(folder: str, name: str) -> bytes:
    """Nothing of it is secret, so packing tells nobody anything."""
    return compress(built_folder(folder).joinpath(*name.split("/")).read_bytes(), mtime=0)
