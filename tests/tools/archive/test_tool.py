"""`archive`: packing and unpacking, and archives that want out of their folder, or to fill the disk."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from noetl.events.outcomes import Error
from noetl.tools.archive.tool import ArchiveTool
from noetl.tools.kinds.files import ARCHIVE_FORMATS
from noetl.tools.storage.tool import StorageTool
from tests.process_liveness import gone
from tests.servers.object_stores import s3_bucket
from tests.tools.sql_tasks import context, outcome_of

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one child process for most of them
FILES = {"a.csv": b"a,b\n1,2\n", "deep/b ä.txt": "grün\n".encode(), "deep/deeper/empty": b""}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tool() -> AsyncIterator[ArchiveTool]:
    tool = ArchiveTool()
    yield tool
    await tool.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with files in `in`."""
    for name, content in FILES.items():
        place = tmp_path / "data" / "in" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return tmp_path / "data"


async def done(tool: ArchiveTool, folder: Path, op: str, /, **inputs: Any) -> Any:
    outcome = await outcome_of(tool, {"op": op, **inputs}, data_folders=(str(folder),))
    assert outcome.error is None, outcome.error
    return outcome.result


async def error_of(tool: ArchiveTool, folder: Path, op: str, /, spec: Any = None, **inputs: Any) -> Error:
    before = tree(folder)
    outcome = await outcome_of(tool, {"op": op, **inputs}, spec, data_folders=(str(folder),))
    assert outcome.error is not None, outcome.result
    assert tree(folder) == before, "something is left of a task that failed"
    return outcome.error


def tree(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


async def test_a_folder_is_restored_from_every_format(tool: ArchiveTool, folder: Path) -> None:
    for form in ARCHIVE_FORMATS:
        if form == "gz":
            continue
        packed = await done(tool, folder, "pack", source="in", target=f"out/all.{form}")
        listed = await done(tool, folder, "list", source=f"out/all.{form}")
        unpacked = await done(tool, folder, "unpack", source=f"out/all.{form}", target=f"back/{form}")

        assert tree(folder / "back" / form) == FILES, form
        assert [one["name"] for one in listed["files"]] == sorted(FILES), form
        assert packed["size"] == (folder / "out" / f"all.{form}").stat().st_size
        assert packed["checksum"].startswith("sha256:")
        assert unpacked["count"] == 3
        assert unpacked["bytes"] == sum(map(len, FILES.values()))
        assert all(one["checksum"].startswith("sha256:") for one in unpacked["files"])


async def test_one_file_is_compressed_and_expanded(tool: ArchiveTool, folder: Path) -> None:
    await done(tool, folder, "pack", source="in/a.csv", target="a.csv.gz")
    listed = await done(tool, folder, "list", source="a.csv.gz")
    await done(tool, folder, "unpack", source="a.csv.gz", target="back")
    several = await error_of(tool, folder, "pack", source=["in"], target="x.gz")

    assert gzip.decompress((folder / "a.csv.gz").read_bytes()) == FILES["a.csv"]
    assert listed["files"] == [{"name": "a.csv", "size": 8}]
    assert tree(folder / "back") == {"a.csv": FILES["a.csv"]}
    assert "gz holds one file" in several.message


async def test_members_are_selected_by_patterns(tool: ArchiveTool, folder: Path) -> None:
    await done(tool, folder, "pack", source="in", target="all.zip")
    await done(tool, folder, "pack", source="in", target="csv.tar.gz", members="*.csv")
    await done(tool, folder, "unpack", source="all.zip", target="some", members=["deep/deeper", "*.txt"])
    listed = await done(tool, folder, "list", source="csv.tar.gz")

    assert sorted(tree(folder / "some")) == ["deep/b ä.txt", "deep/deeper/empty"]
    assert [one["name"] for one in listed["files"]] == ["a.csv"]


async def test_files_are_extracted_into_an_existing_folder(tool: ArchiveTool, folder: Path) -> None:
    await done(tool, folder, "pack", source="in", target="all.zip")
    (folder / "there").mkdir()
    (folder / "there" / "a.csv").write_text("old")
    (folder / "there" / "mine").write_text("kept")

    for _ in range(2):  # a repeated attempt does the same again
        await done(tool, folder, "unpack", source="all.zip", target="there")

    assert tree(folder / "there") == {**FILES, "mine": b"kept"}


async def test_a_link_in_the_target_is_not_followed(tool: ArchiveTool, folder: Path, tmp_path: Path) -> None:
    await done(tool, folder, "pack", source="in", target="all.zip")
    (tmp_path / "outside").mkdir()
    (folder / "there").mkdir()
    (folder / "there" / "deep").symlink_to(tmp_path / "outside")

    outcome = await outcome_of(
        tool, {"op": "unpack", "source": "all.zip", "target": "there"}, data_folders=(str(folder),)
    )

    assert outcome.error is not None
    assert outcome.error.kind == "archive.conflict"
    assert os.listdir(tmp_path / "outside") == []


def _tar(*members: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size) if member.isreg() else None)
    return made.getvalue()


def _tar_info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = 1 if kind == tarfile.REGTYPE else 0
    return info


def _zip(*names: str, mode: int = 0) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo("x")
            info.filename, info.external_attr = name, mode << 16
            archive.writestr(info, "/etc/passwd")
    return made.getvalue()


UNSAFE = {
    "slip.zip": _zip("ok", "../../evil"),
    "absolute.zip": _zip("/tmp/evil"),
    "backslash.zip": _zip("..\\evil"),
    "drive.zip": _zip("C:evil"),
    "control.zip": _zip("a\nb"),
    "link.zip": _zip("link", mode=stat.S_IFLNK | 0o777),
    "device.zip": _zip("device", mode=stat.S_IFCHR | 0o666),
    "long.zip": _zip("n" * 300),
    "file_and_folder.zip": _zip("a", "a/b"),
    "slip.tar": _tar(_tar_info("ok"), _tar_info("../evil")),
    "inner_slip.tar": _tar(_tar_info("a/../../evil")),
    "absolute.tar": _tar(_tar_info("/tmp/evil")),
    "symlink.tar": _tar(_tar_info("l", tarfile.SYMTYPE, "/etc"), _tar_info("l/evil")),
    "hardlink.tar": _tar(_tar_info("l", tarfile.LNKTYPE, "/etc/passwd")),
    "device.tar": _tar(_tar_info("d", tarfile.CHRTYPE)),
    "pipe.tar": _tar(_tar_info("p", tarfile.FIFOTYPE)),
    "twice.tar": _tar(_tar_info("a"), _tar_info("./a")),
}


@pytest.mark.parametrize("name", UNSAFE)
async def test_an_archive_with_unsafe_members_is_refused_as_a_whole(
    tool: ArchiveTool, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "a" / "data"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(UNSAFE[name])

    error = await error_of(tool, folder, "unpack", source=name, target="out")

    assert error.kind == "archive.unsafe"
    assert name in error.message
    assert os.listdir(folder) == [name]
    assert tree(tmp_path) == {f"a/data/{name}": UNSAFE[name]}


def _bomb() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            with archive.open(f"zeros{number}", "w") as out:
                for _ in range(40):
                    out.write(bytes(1 << 20))
    return made.getvalue()


async def test_archive_bombs_are_stopped_by_ratio_bytes_and_count(tool: ArchiveTool, tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(_bomb())
    (tmp_path / "b.gz").write_bytes(gzip.compress(bytes(100 << 20)))
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(_tar(_tar_info("a")) + bytes(100 << 20)))
    (tmp_path / "many.tar").write_bytes(_tar(*(_tar_info(f"f{number}") for number in range(30))))
    (tmp_path / "many.zip").write_bytes(_zip(*(f"f{number}" for number in range(30))))
    cases: list[tuple[str, dict[str, int], str]] = [
        ("b.zip", {}, "max_ratio"),
        ("b.gz", {}, "max_ratio"),
        ("b.zip", {"max_ratio": 10_000, "max_bytes": 1 << 20}, "max_bytes"),
        ("b.gz", {"max_bytes": 1 << 20}, "max_bytes"),
        ("many.tar", {"max_files": 20}, "max_files"),
        ("many.zip", {"max_files": 20}, "max_files"),
    ]

    for name, spec, words in cases:
        error = await error_of(tool, tmp_path, "unpack", spec, source=name, target="out")
        assert error.kind == "archive.limit", name
        assert words in error.message, name
    ended = await done(tool, tmp_path, "unpack", source="b.tar.gz", target="out")

    assert ended["count"] == 1, "what follows the end of a tar is not read"


async def test_a_header_that_requests_excessive_memory_is_refused(tool: ArchiveTool, tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 3 << 30
    (tmp_path / "t.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))

    error = await error_of(tool, tmp_path, "unpack", source="t.tar", target="out")

    assert error.kind in ("archive.limit", "archive.data")


@pytest.mark.parametrize("name", ["t.zip", "t.tar", "t.tar.gz", "t.tar.bz2", "t.tar.xz", "t.gz"])
async def test_an_invalid_or_truncated_archive_is_reported(tool: ArchiveTool, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is no archive at all" * 100)
    nothing = await error_of(tool, tmp_path, "list", source=name)
    (tmp_path / "big").write_bytes(os.urandom(300_000))
    await done(tool, tmp_path, "pack", source="big", target=name)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:150_000])
    cut = await error_of(tool, tmp_path, "unpack", source=name, target="out")

    assert nothing.kind == "archive.data"
    assert cut.kind == "archive.data"
    assert name in cut.message


async def test_an_encrypted_zip_is_reported(tool: ArchiveTool, tmp_path: Path) -> None:
    body = bytearray(_zip("secret.txt"))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        body[body.index(mark) + offset] |= 1
    (tmp_path / "t.zip").write_bytes(body)

    error = await error_of(tool, tmp_path, "unpack", source="t.zip", target="out")

    assert error.kind == "archive.denied"
    assert '"secret.txt" of t.zip is encrypted' in error.message


@pytest.mark.parametrize(
    ("op", "inputs", "kind", "words"),
    [
        ("shred", {"source": "in"}, "archive.input", "pack, unpack, list"),
        ("pack", {"source": "in", "target": "../x.zip"}, "archive.input", "outside the folders"),
        ("pack", {"source": "/etc", "target": "x.zip"}, "archive.input", "outside the folders"),
        ("pack", {"source": "nowhere", "target": "x.zip"}, "archive.missing", "does not exist"),
        ("pack", {"source": "in", "target": "x.rar"}, "archive.input", "format"),
        ("pack", {"source": ["in/a.csv", "in/a.csv"], "target": "x.zip"}, "archive.input", "two files"),
        ("pack", {"source": "in"}, "archive.input", '"target" is missing'),
        ("unpack", {"source": "nowhere.zip", "target": "x"}, "archive.missing", "does not exist"),
        ("unpack", {"source": "x.zip", "target": "s3://b/x"}, "archive.input", "no folder here"),
        ("unpack", {"source": "in/a.csv", "target": "x"}, "archive.input", "does not say what it is"),
    ],
)
async def test_invalid_inputs_are_refused(
    tool: ArchiveTool, folder: Path, op: str, inputs: dict[str, Any], kind: str, words: str
) -> None:
    error = await error_of(tool, folder, op, **inputs)

    assert error.kind == kind
    assert words in error.message


async def test_links_are_not_packed(tool: ArchiveTool, folder: Path) -> None:
    (folder / "in" / "link").symlink_to("/etc/passwd")

    error = await error_of(tool, folder, "pack", source="in", target="x.zip")

    assert '"link" in "in" is a link' in error.message


async def test_an_existing_archive_is_kept_on_request(tool: ArchiveTool, folder: Path) -> None:
    (folder / "x.zip").write_text("old")

    error = await error_of(tool, folder, "pack", source="in", target="x.zip", if_absent=True)

    assert error.kind == "archive.conflict"


async def test_a_cancelled_task_leaves_no_process_and_no_partial_archive(tmp_path: Path) -> None:
    tool = ArchiveTool()
    (tmp_path / "big").write_bytes(os.urandom(1 << 20) * 60)
    running = asyncio.ensure_future(
        tool.run({"op": "pack", "source": "big", "target": "x.tar.xz"}, context(data_folders=(str(tmp_path),)))
    )
    while not (children := [child.pid for child in tool._children._busy]):
        await asyncio.sleep(0.01)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await tool.close()

    assert await gone(children[0])
    assert os.listdir(tmp_path) == ["big"]


@pytest.mark.timeout(600)
async def test_objects_are_packed_and_unpacked_by_url(tool: ArchiveTool, folder: Path) -> None:
    bucket, storage = s3_bucket(), StorageTool()
    more: dict[str, Any] = {"tool": lambda kind: storage, "data_folders": (str(folder),)}
    url = f"{bucket.url}/archives/all.zip"

    put = await outcome_of(tool, {"op": "pack", "source": "in", "target": url, "auth": bucket.auth}, **more)
    got = await outcome_of(tool, {"op": "unpack", "source": url, "target": "back", "auth": bucket.auth}, **more)
    await storage.close()

    assert put.error is None
    assert got.error is None
    assert tree(folder / "back") == FILES
