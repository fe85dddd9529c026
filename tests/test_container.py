"""The container image: built by Docker where a daemon runs, else its steps one by one in a chroot of Debian.

Both are the Dockerfile itself. Then the server runs as the image's user, is healthy, asks for its token and dehazes.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TOKEN = "correct-horse-battery"
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}
"""The Debian that has this Python: a stand-in for Docker's images of it."""


def parse(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


@dataclass
class Chroot:
    """One stage of the image in a folder of its own."""

    folder: Path
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"})
    user: str = "root"
    workdir: str = "/"
    health: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def words(self, *command: str) -> list[str]:
        environment = [f"{name}={value}" for name, value in (self.environment | {"HOME": self._home()}).items()]
        user = f"--userspec={self.user}:{self.user}"
        inside = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(command)}"
        return ["env", "-i", *environment, "chroot", user, str(self.folder), "/bin/sh", "-c", inside]

    def run(self, *command: str) -> str:
        done = subprocess.run(self.words(*command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def do(self, word: str, rest: str, stages: dict[str, "Chroot"]) -> None:
        """Carry out an instruction."""
        if word == "RUN":
            settings = [f"{name}={shlex.quote(value)}" for name, value in self.arguments.items()]
            self.run("/bin/sh", "-ec", "; ".join([*(f"export {text}" for text in settings), rest]))
        elif word == "ARG":
            name, _, value = rest.partition("=")
            self.arguments.setdefault(name, value)
        elif word == "ENV":
            name, _, value = rest.partition("=")
            self.environment[name] = value.replace("$PATH", self.environment["PATH"])
        elif word == "COPY":
            self._copy(rest.split(), stages)
        elif word == "USER":
            self.user = rest
        elif word == "WORKDIR":
            self.workdir = rest
            (self.folder / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "HEALTHCHECK":
            self.health = json.loads(rest.partition("CMD ")[2])
        elif word in ("ENTRYPOINT", "CMD"):
            setattr(self, "entrypoint" if word == "ENTRYPOINT" else "command", json.loads(rest))
        else:
            assert word in ("VOLUME", "EXPOSE"), f"no such instruction here: {word}"

    def _copy(self, words: list[str], stages: dict[str, "Chroot"]) -> None:
        origin = ROOT
        if words[0].startswith("--from="):
            origin = stages[words.pop(0).removeprefix("--from=")].folder
        *sources, target = words
        place = self.folder / target.lstrip("/")
        for source in (origin / name.lstrip("/") for name in sources):
            into = place / source.name if target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, into, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, into)

    def _home(self) -> str:
        users = (line.split(":") for line in (self.folder / "etc/passwd").read_text().splitlines())
        return next(fields[5] for fields in users if fields[0] == self.user)


@contextmanager
def pip_settings() -> Iterator[dict[str, str]]:
    """What this machine's pip is told, as variables. Folders that it looks into are served over loopback meanwhile."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    pairs = dict(re.findall(r"^(?:\w+|:env:)\.([a-z-]+)='(.*)'$", listed.stdout, re.MULTILINE))
    pairs.pop("cert", None)
    with ExitStack() as servers:

        def address(match: re.Match[str]) -> str:
            quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
            folder = Path(match[1])
            server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(folder.parent)))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            servers.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}/{folder.name}/"

        local = re.compile(r"(?<!\S)(?:file://)?(/\S+)")
        yield {f"PIP_{name.upper().replace('-', '_')}": local.sub(address, value) for name, value in pairs.items()}


def build_in_chroots(folder: Path, arguments: dict[str, str], target: str = "last") -> Chroot:
    """Carry out the Dockerfile up to a stage, as Docker does: those that it does not need are left out."""
    suite, base = SUITES[sys.version_info[:2]], folder / "base"
    words = ["debootstrap", "--variant=minbase", "--include=ca-certificates,python3,python3-venv", suite, str(base)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("debootstrap reaches no Debian")
    stages: dict[str, Chroot] = {}
    stage: Chroot | None = None
    with pip_settings() as settings:
        for word, rest in parse((ROOT / "Dockerfile").read_text()):
            if word == "FROM":
                name = rest.partition(" AS ")[2] or "last"
                if target in stages:
                    break
                if name not in ("build", target):
                    stage = None
                    continue
                stage = Chroot(folder / f"stage{len(stages)}", arguments | settings)
                subprocess.run(["cp", "-a", str(base), str(stage.folder)], check=True)
                shutil.copy("/etc/resolv.conf", stage.folder / "etc/resolv.conf")
                shutil.copy("/etc/ssl/certs/ca-certificates.crt", stage.folder / "etc/ssl/certs/")
                stages[name] = stage
            elif stage is not None:  # arguments before the first stage choose the image, for which Debian stands in
                stage.do(word, rest, stages)
    return stages[target]


def fetch(path: str, token: str | None = None) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:8000{path}", headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def check_server(server: subprocess.Popen) -> None:
    """It answers, with its token only."""
    end = time.monotonic() + 120
    while True:
        assert server.poll() is None, server.stderr.read()
        try:
            assert fetch("/health")[0] == 200
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.2)
    assert fetch("/api/jobs")[0] == 401
    assert fetch("/api/jobs", TOKEN) == (200, b"[]")


@contextmanager
def process_table(folder: Path) -> Iterator[None]:
    """Mount /proc, from which PyTorch learns about the processor."""
    subprocess.run(["mount", "-t", "proc", "proc", str(folder / "proc")], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder / "proc")], check=True)


def check_image(image: Chroot) -> None:
    """Run what the image runs: as its user, with its token, its health check and its other command."""
    assert image.run("id", "-u").strip() == "10001"
    serve = (*image.entrypoint, *image.command)
    refused = subprocess.run(image.words(*serve), capture_output=True, text=True, check=False)
    assert (refused.returncode, "set --token" in refused.stderr) == (2, True)
    image.environment["LIBRANET_TOKEN"] = TOKEN
    server = subprocess.Popen(image.words(*serve), stderr=subprocess.PIPE, text=True)
    try:
        check_server(server)
        image.run(*image.health)
    finally:
        server.terminate()
        server.wait(20)
    assert TOKEN not in server.stderr.read()
    with pytest.raises(AssertionError):
        image.run(*image.health)
    video = image.folder / "work" / "foggy.mp4"
    shutil.copy(ROOT / "src" / "libranet" / "page" / "foggy.mp4", video)
    preview = ("--preview", "1", "-o", "sheet.png", "--model", "libranet-small")
    image.run(*image.entrypoint, "dehaze", "foggy.mp4", *preview)
    assert (video.parent / "sheet.png").stat().st_uid == 10001
    size = sum(file.lstat().st_size for file in (image.folder / "opt/libranet").rglob("*") if file.is_file())
    print(f"/opt/libranet: {size / 1e9:.2f} GB")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="no debootstrap here: apt-get install debootstrap")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a chroot needs root")
@pytest.mark.skipif(sys.version_info[:2] not in SUITES, reason="no Debian has this Python")
def test_the_steps_of_the_dockerfile_make_a_server(tmp_path):
    """PyTorch comes from wherever this machine's pip finds it: its CPU index may be out of reach."""
    image = build_in_chroots(tmp_path, {"INDEX": "https://pypi.org/simple"})
    with process_table(image.folder):
        check_image(image)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="no debootstrap here: apt-get install debootstrap")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a chroot needs root")
@pytest.mark.skipif(sys.version_info[:2] not in SUITES, reason="no Debian has this Python")
def test_the_steps_of_the_dockerfile_make_a_node_of_a_cluster(tmp_path):
    image = build_in_chroots(tmp_path, {"INDEX": "https://pypi.org/simple", "EXTRAS": "cluster"}, "worker")
    assert image.run("id", "-u").strip() == "10001"
    assert "ray, version" in image.run("ray", "--version")
    assert "how long this machine will be there" in image.run("python3", "-m", "libranet.cluster.drain", "--help")
    assert image.entrypoint == []


@pytest.mark.slow
def test_docker_builds_and_runs_the_image():
    client = shutil.which("docker")
    if client is None or subprocess.run([client, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker daemon here")
    subprocess.run(["docker", "build", "-q", "-t", "libranet-test", str(ROOT)], check=True)
    words = ["docker", "run", "--rm", "-p", "127.0.0.1:8000:8000", "-e", f"LIBRANET_TOKEN={TOKEN}", "libranet-test"]
    server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        check_server(server)
    finally:
        server.terminate()
        server.wait(30)


def test_the_dockerfile_ends_without_rights():
    steps = parse((ROOT / "Dockerfile").read_text())
    last = steps[max(number for number, (word, _) in enumerate(steps) if word == "FROM") :]
    names = [word for word, _ in last]
    assert ("USER", "libranet") in last
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "HEALTHCHECK" in names


def test_compose_runs_both_images_with_a_secret():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert services["libranet-gpu"]["build"]["args"] == {"TORCH": "cuda"}
    assert services["libranet"]["command"][-2:] == ["--token-file", "/run/secrets/token"]
    assert services["libranet"]["read_only"] is True


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_understands_the_unit(tmp_path):
    text = (ROOT / "packaging" / "libranet.service").read_text()
    unit = tmp_path / "libranet.service"
    unit.write_text(text.replace("/opt/libranet/bin/libranet", "/bin/true"))
    words = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "libranet.service" in line] == []


@pytest.mark.skipif(shutil.which("caddy") is None, reason="no caddy here: apt-get install caddy")
def test_caddy_understands_its_configuration():
    words = ["caddy", "adapt", "--config", str(ROOT / "packaging" / "Caddyfile"), "--adapter", "caddyfile"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert '"strip_path_prefix":"/haze"' in found
    assert '"dial":"127.0.0.1:8000"' in found


def test_the_ignored_files_are_those_that_the_dockerfile_does_not_copy():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    steps = parse((ROOT / "Dockerfile").read_text())
    copied = {name for word, rest in steps if word == "COPY" for name in rest.split()[:-1]}
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert kept == {name for name in copied if not name.startswith(("--", "/"))}
