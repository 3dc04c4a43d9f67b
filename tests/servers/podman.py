"""A real Podman for tests, from Debian's packages, unpacked and not installed: its API on a Unix socket of its own.

It needs root, and a kernel that lets runc make containers; where it cannot, the tests that ask for it are skipped, and
say so. No registry can be reached, so the image is made here, of busybox. Containers have the network of the machine:
one of their own would need programs that change its firewall.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.servers.environments import debian_environment, library_path
from tests.servers.programs import FOLDER, ServedProgram

IMAGE = "localhost/busy:1"
_PACKAGES = (
    *("podman", "conmon", "runc", "busybox-static", "libsubid4", "libgpgme11", "libassuan0", "libseccomp2"),
    *("libdevmapper1.02.1", "libsemanage2", "libsepol2", "libaudit1", "libcap-ng0", "libglib2.0-0"),
)
_CONFIGURATION = """
[engine]
runtime = "runc"
conmon_path = ["{root}/usr/bin/conmon"]
conmon_env_vars = ["PATH={path}", "LD_LIBRARY_PATH={libraries}"]
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
[engine.runtimes]
runc = ["{root}/usr/sbin/runc"]
[containers]
netns = "host"
seccomp_profile = "unconfined"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "k8s-file"
"""
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'


class Podman(ServedProgram):
    def __init__(self) -> None:
        if os.getuid() != 0:
            pytest.skip("NOT TESTED: Podman's tests need root")
        self._root = debian_environment("podman", *_PACKAGES)
        self._program = str(self._root / "usr/bin/podman")
        command = ("system", "service", "--time", "0", f"unix://{FOLDER}/podman.sock")
        self._environment = library_path(self._root)
        super().__init__([self._program, *command], environment=self._environment)

    @property
    def socket(self) -> Path:
        return self.folder / "podman.sock"

    @property
    def auth(self) -> str:
        return f"unix://{self.socket}"

    def prepare(self) -> None:
        path = f"{self._root}/usr/bin:{self._root}/usr/sbin:{os.environ['PATH']}"
        # The monitor of a container starts Podman again when it ends, to write down its exit code. Without the
        # libraries that fails, and Podman looks for the code for 20 s, as fast as it can.
        libraries = self._environment["LD_LIBRARY_PATH"]
        written = _CONFIGURATION.format(root=self._root, folder=self.folder, path=path, libraries=libraries)
        (self.folder / "containers.conf").write_text(written)
        (self.folder / ".config/containers").mkdir(parents=True)
        (self.folder / ".config/containers/policy.json").write_text(_POLICY)
        (self.folder / "registries.conf").write_text("unqualified-search-registries = []\n")
        places = f'graphroot = "{self.folder}/graph"\nrunroot = "{self.folder}/run"\n'
        (self.folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\n{places}')
        self._environment |= {
            "HOME": str(self.folder),
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.folder / "registries.conf"),
            "XDG_RUNTIME_DIR": str(self.folder),
            "PATH": path,
        }
        self._make_image()

    def connect(self) -> None:
        # The file is there before Podman listens on it, so that it exists says nothing.
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(self.socket))

    def _make_image(self) -> None:
        with tempfile.TemporaryDirectory() as made:
            root = Path(made)
            root.chmod(0o755)
            (root / "bin").mkdir()
            (root / "tmp").mkdir()
            (root / "tmp").chmod(0o1777)  # as every image has it; mkdir would take the umask off
            shutil.copy(self._root / "bin/busybox", root / "bin/busybox")
            for name in ("sh", "cat", "dd", "env", "id", "mkdir", "pwd", "sleep", "tail", "touch", "wc", "yes", "ls"):
                (root / "bin" / name).symlink_to("busybox")
            with tarfile.open(self.folder / "image.tar", "w") as archive:
                archive.add(root, arcname=".")
        self.tell("import", str(self.folder / "image.tar"), IMAGE)
        tried = self.tell("run", "--rm", IMAGE, "/bin/sh", "-c", "exit 0", check=False)
        if tried.returncode:
            pytest.skip(f"NOT TESTED: no container can run here: {tried.stderr.decode(errors='replace')[-300:]}")

    def tell(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        whole = [self._program, *command]
        done = subprocess.run(whole, env=self._environment, capture_output=True, timeout=120, check=False)
        assert not check or done.returncode == 0, done.stderr.decode(errors="replace")
        return done

    def containers(self) -> list[str]:
        """The names of all containers, running or not."""
        return self.tell("ps", "--all", "--format", "{{.Names}}").stdout.decode().split()

    def stop(self) -> None:
        """Quickly: a test process that takes 10 s to end is killed, and would leave the engine running."""
        listed = self.folder / "graph/vfs-containers/containers.json"
        if self.process.poll() is None and listed.exists() and json.loads(listed.read_text() or "[]"):
            self.tell("rm", "--force", "--all", "--time", "0", check=False)  # of a test that failed
        super().stop()


@cache
def podman() -> Podman:
    return Podman()
