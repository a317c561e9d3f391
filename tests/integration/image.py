"""Does what a Dockerfile says without a container engine: in folders, by chroot and namespaces.

A stage is a folder with its root file system. An image (``debian:…``) is made by debootstrap, of
the distribution's packages of today. Layers, digests and registries are not imitated.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

import pytest

from colltune import process
from tests.dockerfile import Instruction, Stage, ignored, stages

PROGRAMS = ("debootstrap", "unshare", "nsenter", "chroot", "mount", "ip", "hostname")
SUITE = "bookworm"
STEP_S = 900.0
# what a container finds in /proc and /dev; all of it ends with the namespace
PREPARE = """
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero random urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
"""
# an engine gives a build the host's name service, and a site's network may need a certificate
BUILD = """
mount -t tmpfs tmpfs "$root/run"
touch "$root/etc/resolv.conf"
mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
if [ -n "${PIP_CERT-}" ]; then
  cp "$PIP_CERT" "$root/run/cert.pem"
  set -- PIP_CERT=/run/cert.pem "$@"
fi
exec chroot "$root" env -i --chdir="$workdir" "$@"
"""
START = """
hostname container
ip link set lo up
mount -t tmpfs tmpfs "$root/tmp"
mount --bind -o ro "$mounted" "$root/$mountpoint"
mount -o remount,bind,ro "$mounted" "$root/$mountpoint"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs \\
  --inh-caps=-all --bounding-set=-all env -i "$@"
"""
# as an image of the distribution has it: no package stays where it was downloaded, nor its manual
SLIM = """
cd "$root"
rm -rf var/cache/apt/*.bin var/cache/apt/archives/*.deb var/lib/apt/lists/*
rm -rf usr/share/doc usr/share/man usr/share/locale
echo 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; };' > etc/apt/apt.conf.d/clean
echo 'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";' >> etc/apt/apt.conf.d/clean
echo 'path-exclude /usr/share/doc/*' > etc/dpkg/dpkg.cfg.d/slim
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SPACES = ("--mount", "--net", "--uts", "--ipc", "--pid")


@dataclass(frozen=True)
class Image:
    """A built stage: its root file system, and how a container of it is started."""

    root: Path
    environment: dict[str, str]
    user: str = "0:0"
    workdir: str = "/"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    health: tuple[str, ...] = ()

    def programs(self) -> set[str]:
        """Return the names of all that can be executed in it, links in a ``bin`` included."""
        found = set()
        for folder, _, names in os.walk(self.root):
            for name in names:
                mode = (Path(folder) / name).lstat().st_mode
                is_named = stat.S_ISLNK(mode) and folder.endswith("bin")
                if is_named or (stat.S_ISREG(mode) and mode & 0o111):
                    found.add(name)
        return found


def skip_without() -> None:
    """Skip the test, with the reason, where images cannot be built like this."""
    if os.geteuid() != 0:
        pytest.skip("building an image without an engine needs root")
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"building an image without an engine needs the program {program}")
    allowed = process.run(["unshare", *SPACES, "--fork", "true"], timeout_s=20.0)
    if not allowed.ok:
        pytest.skip(f"namespaces are not allowed here: {allowed.stderr.strip()}")


class Builder:
    """Builds stages of ``Dockerfile`` in the folder `context`, each in a folder of `work`."""

    def __init__(self, context: Path, work: Path) -> None:
        self._context = context
        self._work = work
        self._stages = stages(context / "Dockerfile")
        self._ignored = (context / ".dockerignore").read_text().split("\n")
        self._built: dict[str, Image] = {}

    def build(self, name: str) -> Image:
        """Build a stage, or what its FROM names, once."""
        if name not in self._built:
            stage = self._stages.get(name)
            self._built[name] = self._stage(stage) if stage else self._distribution(name)
        return self._built[name]

    def _distribution(self, name: str) -> Image:
        assert name.startswith("debian:12."), name
        root = self._work / "distribution"
        command = ["debootstrap", "--variant=minbase", SUITE, str(root)]
        process.check(process.run(command, timeout_s=STEP_S), f"making {name}")
        slim = process.run(["sh", "-ec", SLIM], timeout_s=STEP_S, env={"root": str(root)})
        process.check(slim, f"making {name} slim")
        return Image(root, {"PATH": PATH})

    def _stage(self, stage: Stage) -> Image:
        base = self.build(stage.base)
        root = self._work / stage.name
        copied = process.run(["cp", "-a", "--reflink=auto", base.root, root], timeout_s=STEP_S)
        process.check(copied, f"copying {stage.base}")
        image = replace(base, root=root)
        for instruction in stage.instructions:
            image = self._step(image, instruction)
        return image

    def _step(self, image: Image, instruction: Instruction) -> Image:
        changed: dict[str, Any] = {}
        match instruction.word:
            case "RUN":
                self._run(image, instruction.text)
            case "COPY":
                self._copy(image, instruction)
            case "ENV" | "ARG":
                changed = {"environment": image.environment | instruction.assignments}
            case "USER":
                changed = {"user": instruction.text}
            case "WORKDIR":
                _below(image.root, instruction.text).mkdir(parents=True, exist_ok=True)
                changed = {"workdir": instruction.text}
            case "ENTRYPOINT":
                changed = {"entrypoint": tuple(instruction.exec_form or ())}
            case "CMD":
                changed = {"command": tuple(instruction.exec_form or ())}
            case "HEALTHCHECK":
                check = Instruction("CMD", {}, instruction.text.partition("CMD ")[2])
                changed = {"health": tuple(check.exec_form or ())}
            case "LABEL" | "EXPOSE":
                pass
            case word:
                raise ValueError(f"{word}: an instruction that is not imitated here")
        return replace(image, **changed)

    def _run(self, image: Image, script: str) -> None:
        variables = [f"{name}={value}" for name, value in image.environment.items()]
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command += ["sh", "-ec", PREPARE + BUILD, "sh"]
        command += [*variables, "sh", "-c", script]
        environment = {n: v for n, v in os.environ.items() if n in ("PATH", "PIP_CERT")}
        environment |= {"root": str(image.root), "workdir": image.workdir}
        outcome = process.run(command, timeout_s=STEP_S, env=environment)
        process.check(outcome, f"RUN {script[:60]}…")

    def _copy(self, image: Image, instruction: Instruction) -> None:
        *sources, target = instruction.text.split()
        stage = instruction.options.get("from")
        target_path = _below(image.root, str(PurePosixPath(image.workdir) / target))
        for source in sources:
            found = _below(self.build(stage).root, source) if stage else self._context / source
            if found.is_dir():
                shutil.copytree(
                    found,
                    target_path,
                    symlinks=True,
                    dirs_exist_ok=True,
                    ignore=None if stage else self._out,
                )
            else:
                assert not self._is_out(found), f"{found} is not sent to the build"
                into = target_path / found.name if target.endswith("/") else target_path
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, into)

    def _out(self, folder: str, names: list[str]) -> set[str]:
        return {name for name in names if self._is_out(Path(folder) / name)}

    def _is_out(self, path: Path) -> bool:
        relative = PurePosixPath(path.relative_to(self._context))
        return ignored([line for line in self._ignored if line], relative)


class Container:
    """A running container of an image, with a read-only root and no way out; a context manager.

    The folder `mounted` is at `mountpoint`, read-only too; ``/tmp`` is the only place to write.
    """

    def __init__(self, image: Image, mounted: Path, mountpoint: str) -> None:
        self.image = image
        self._mounts = {"mounted": str(mounted), "mountpoint": mountpoint.lstrip("/")}
        self._log = tempfile.TemporaryFile("a+")  # noqa: SIM115
        self._holder: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def __enter__(self) -> Self:
        user, _, group = self.image.user.partition(":")
        settings = self._mounts | {"root": str(self.image.root), "user": user, "group": group}
        command = ["unshare", *SPACES, "--fork", "--kill-child", "sh", "-ec", PREPARE + START, "sh"]
        started = [*self.inside(), *self.image.entrypoint, *self.image.command]
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command, *started],
            env={"PATH": os.environ["PATH"]} | settings,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        while not self.pid:
            assert self._holder.poll() is None, self.log()
            self.pid = int(children.read_text() or 0)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._holder is not None
        self._holder.kill()
        self._holder.wait()
        self._log.close()

    def inside(self) -> list[str]:
        """Return the words for ``env`` that make the image's environment."""
        words = [f"{name}={value}" for name, value in self.image.environment.items()]
        return [f"--chdir={self.image.workdir}", *words]

    def execute(self, command: Sequence[str], timeout_s: float = 20.0) -> process.ProcessResult:
        """Run `command` in the container as its user, as ``docker exec`` does."""
        user, _, group = self.image.user.partition(":")
        enter = ["nsenter", f"--target={self.pid}", *SPACES, f"--root=/proc/{self.pid}/root"]
        enter += [f"--setuid={user}", f"--setgid={group}", "env", "-i", *self.inside()]
        return process.run([*enter, *command], timeout_s=timeout_s)

    def stop(self, timeout_s: float) -> int:
        """Send its first process SIGTERM; return its exit status."""
        assert self._holder is not None
        os.kill(self.pid, 15)
        return self._holder.wait(timeout=timeout_s)

    def status(self, name: str) -> str:
        """Return a line of the first process's status, such as ``Uid``."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{name}:\s*(.*)$", text, re.M)
        assert found is not None
        return found[1]

    def log(self) -> str:
        """Return what it has printed."""
        self._log.flush()
        self._log.seek(0)
        return self._log.read()


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")
