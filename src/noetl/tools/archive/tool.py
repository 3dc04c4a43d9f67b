"""`archive`: packs files into an archive, unpacks one, lists one.

The work is done by a child process, which ends when the task is cancelled. A new archive, or a new folder, appears
complete or not at all. Into an existing folder, files are moved one by one, each complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.base.errors import ToolError
from noetl.tools.archive.reading import MAX_BYTES, MAX_FILES, MAX_RATIO, ArchiveAnswer, ArchiveRequest, PackedFile
from noetl.tools.child_process import ChildPool, Program
from noetl.tools.contract import OwningTool, ToolContext, ToolResult
from noetl.tools.files import FileEnd, TaskFolder, brief_errors, end_of
from noetl.tools.input_shapes import whole_number
from noetl.tools.kinds.files import ARCHIVE_FORMATS, ARCHIVE_OPS

INPUT = "archive.input"
_OWN = re.compile(r"^\..*\.[0-9a-f]{12}\.part$")  # files that another task is writing
_PROGRAM = Program(module="noetl.tools.archive.child", name="archive", error="archive.error")
_ENDINGS = {
    ".zip": "zip",
    ".tar": "tar",
    **dict.fromkeys((".tar.gz", ".tgz"), "tar.gz"),
    **dict.fromkeys((".tar.bz2", ".tbz2", ".tbz"), "tar.bz2"),
    **dict.fromkeys((".tar.xz", ".txz"), "tar.xz"),
    ".gz": "gz",
}


class ArchiveTool(OwningTool):
    def __init__(self) -> None:
        self._children = ChildPool(_PROGRAM)
        super().__init__(self._children)

    async def run(self, inputs: Mapping[str, Any], context: ToolContext) -> ToolResult:
        op = str(inputs.get("op") or "")
        if op not in ARCHIVE_OPS:
            raise ToolError(INPUT, f'op "{op}" is not known: write {", ".join(ARCHIVE_OPS)}')
        with brief_errors(context), TaskFolder("archive", context) as place:
            run = {"pack": self._pack, "unpack": self._unpack, "list": self._list}[op]
            return ToolResult(result=await run(inputs, context, place))

    async def _list(self, inputs: Mapping[str, Any], context: ToolContext, place: TaskFolder) -> dict[str, Any]:
        end = end_of(inputs.get("source"), inputs.get("auth"), kind="archive", name="source")
        answer = await self._answer(await _reading("list", end, inputs, context, place), context)
        return {"url": end.written, **_answer_row(answer)}

    async def _unpack(self, inputs: Mapping[str, Any], context: ToolContext, place: TaskFolder) -> dict[str, Any]:
        end = end_of(inputs.get("source"), inputs.get("auth"), kind="archive", name="source")
        target = end_of(inputs.get("target"), None, kind="archive", name="target")
        if target.is_object:
            raise ToolError(
                INPUT, f'"{target.written}" is no folder here: unpack into a data folder, then copy with storage'
            )
        folder = place.allowed(target.written)
        if folder.exists() and not folder.is_dir():
            raise ToolError(INPUT, f'"{target.written}" is a file: name a folder')
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Leftovers of a killed attempt under the same name are deleted first: the child requires a new folder.
        part = place.part_of(folder)
        place.clear(part)
        request = await _reading("unpack", end, inputs, context, place)
        answer = await self._answer(msgspec.structs.replace(request, folder=str(part)), context)
        _move_in(part, folder)
        return {"url": target.written, **_answer_row(answer)}

    async def _pack(self, inputs: Mapping[str, Any], context: ToolContext, place: TaskFolder) -> dict[str, Any]:
        end = end_of(inputs.get("target"), inputs.get("auth"), kind="archive", name="target")
        limits, members = _limits(context), _patterns(inputs)
        files = await _files(inputs, place, limits["max_files"], members)
        new = place.begin(end)
        request = ArchiveRequest(
            op="pack",
            archive=str(new.part),
            name=end.written,
            format=_format(inputs, end),
            files=[file for file in files if Path(file.path) not in (new.place, new.part)],
            **limits,
        )
        answer = await self._answer(request, context)
        await place.finish(new, if_absent=inputs.get("if_absent") is True)
        return {"url": end.written, **_answer_row(answer), "size": answer.size, "checksum": answer.checksum}

    async def _answer(self, request: ArchiveRequest, context: ToolContext) -> ArchiveAnswer:
        answer = await self._children.call(context.task_run.execution_id, msgspec.to_builtins(request))
        return msgspec.convert(answer["result"], ArchiveAnswer)


def _answer_row(answer: ArchiveAnswer) -> dict[str, Any]:
    files = [
        {name: value for name, value in msgspec.to_builtins(one).items() if value is not None} for one in answer.members
    ]
    return {"files": files, "count": len(files), "bytes": sum(one.size for one in answer.members)}


async def _reading(
    op: str, end: FileEnd, inputs: Mapping[str, Any], context: ToolContext, place: TaskFolder
) -> ArchiveRequest:
    return ArchiveRequest(
        op=op,
        format=_format(inputs, end),
        archive=str(await place.fetched(end)),
        name=end.written,
        inner=end.name.removesuffix(".gz") or "content",
        members=_patterns(inputs),
        **_limits(context),
    )


def _move_in(part: Path, folder: Path) -> None:
    """Move a new folder into place at once; into an existing folder, move file by file."""
    if not folder.exists() or not any(folder.iterdir()):
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
        return
    for path in sorted(part.rglob("*")):
        place = folder / path.relative_to(part)
        if path.is_dir():
            _check_folder(place)
            place.mkdir(exist_ok=True)
        else:
            _check_folder(place.parent)
            if place.is_dir() and not place.is_symlink():
                raise ToolError(
                    "archive.conflict", f'"{place.name}" is a folder in the target, and a file in the archive'
                )
            os.replace(path, place)


def _check_folder(place: Path) -> None:
    """A link that lies in the target could lead out of the data folder."""
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise ToolError("archive.conflict", f'"{place.name}" is no folder in the target, and one in the archive')


async def _files(inputs: Mapping[str, Any], place: TaskFolder, max_files: int, members: list[str]) -> list[PackedFile]:
    source = inputs.get("source")
    auth = source.get("auth", inputs.get("auth")) if isinstance(source, Mapping) else inputs.get("auth")
    written = source.get("url") if isinstance(source, Mapping) else source
    found: dict[str, str] = {}
    for one in written if isinstance(written, list) else [written]:
        end = end_of(one, auth, kind="archive", name="source")
        for name, path in [(end.name, await place.fetched(end))] if end.is_object else _local(end, place, members):
            if name in found:
                raise ToolError(INPUT, f'two files would be called "{name}" in the archive: pack the folder above them')
            if len(found) == max_files:
                raise ToolError(
                    "archive.limit", f"there are more than {max_files} files: raise spec.max_files if it may"
                )
            found[name] = str(path)
    if not found:
        raise ToolError("archive.missing", "there is no file to pack")
    return [PackedFile(path, name) for name, path in sorted(found.items())]


def _local(end: FileEnd, place: TaskFolder, members: list[str]) -> Iterator[tuple[str, Path]]:
    """The files of a path: itself, or the files below it, by their names in the archive."""
    from noetl.tools.archive.reading import matches

    path = place.allowed(end.written)
    if path.is_file():
        yield path.name, path
        return
    if not path.is_dir():
        raise ToolError("archive.missing", f'"{end.written}" does not exist')
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in (*folders, *names):
            below = Path(folder) / name
            if below.is_symlink():
                shown = below.relative_to(path)
                raise ToolError(INPUT, f'"{shown}" in "{end.written}" is a link: links are not packed; copy its target')
        for name in sorted(names):
            below = Path(folder) / name
            inner = below.relative_to(path).as_posix()
            if below.is_file() and not _OWN.search(name) and matches(inner, members):
                yield inner, below


def _format(inputs: Mapping[str, Any], end: FileEnd) -> str:
    written, name = inputs.get("format"), end.name.lower()
    form = str(written) if written is not None else next((_ENDINGS[one] for one in _ENDINGS if name.endswith(one)), "")
    if form not in ARCHIVE_FORMATS:
        what = f'format "{form}" is not known' if form else f'"{end.name}" does not say what it is'
        raise ToolError(INPUT, f"{what}: write format: {', '.join(ARCHIVE_FORMATS)}")
    return form


def _patterns(inputs: Mapping[str, Any]) -> list[str]:
    members = inputs.get("members")
    return [] if members is None else [str(one) for one in (members if isinstance(members, list) else [members])]


def _limits(context: ToolContext) -> dict[str, Any]:
    limits = {"max_files": MAX_FILES, "max_bytes": MAX_BYTES, "max_ratio": MAX_RATIO}
    return {
        name: whole_number(context.spec.get(name), f"spec.{name}", default, error=INPUT)
        for name, default in limits.items()
    }
