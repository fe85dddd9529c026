"""Clips of a flaky S3 over hosts in network namespaces: own addresses, own disks; one is cut off in the middle.

Each host is a Ray node in a namespace, behind a bridge; the head, the store and `libranet dehaze --cluster` are in
another one. The store is moto behind a proxy with faults. Needs root, `ip`, and the extras for development.

python benchmarks/cluster.py hosts --clips 200 --errors 0.05
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HEAD = "10.77.0.1"
PORT, METRICS_PORT = 6399, 8099
BUCKET = "archive"
DISK_MB = 24
TOKEN = secrets.token_hex(32)
"""As a real cluster has one: whoever reaches a node's port without it is turned away."""
POISON = "clip007.mp4"
PATIENT = {"RAY_raylet_start_wait_time_s": "60"}
"""A raylet gives up where its Python agent needs more than 15 s, as on a busy machine: then the node starts again."""
MOST_STARTS = 6


def possible() -> bool:
    """Whether this machine lets us make namespaces."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", "libranet-try"], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", "libranet-try"], capture_output=True, check=False)
    return made


@dataclass(frozen=True)
class Hosts:
    """Namespaces: one with the head, and so many others."""

    prefix: str
    count: int

    @property
    def head(self) -> str:
        return f"{self.prefix}-head"

    def name(self, number: int) -> str:
        return f"{self.prefix}-h{number}"

    def link(self, number: int) -> str:
        """The cable of a host, at the bridge."""
        return f"v{self.prefix[-6:]}{number}"


def _ip(*words: str, inside: str | None = None) -> None:
    where = ["-n", inside] if inside else []
    subprocess.run(["ip", *where, *words], check=True, capture_output=True)


@contextmanager
def namespaces(count: int) -> Iterator[Hosts]:
    """Make a head and hosts that reach each other. All of their processes are killed at the end."""
    hosts = Hosts(f"lb{os.getpid()}", count)
    names = [hosts.head, *(hosts.name(number) for number in range(count))]
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("link", "set", "lo", "up", inside=name)
        _ip("link", "add", "br0", "type", "bridge", inside=hosts.head)
        _ip("addr", "add", f"{HEAD}/24", "dev", "br0", inside=hosts.head)
        _ip("link", "set", "br0", "up", inside=hosts.head)
        for number in range(count):
            name, link = hosts.name(number), hosts.link(number)
            _ip("link", "add", link, "netns", hosts.head, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", link, "master", "br0", inside=hosts.head)
            _ip("link", "set", link, "up", inside=hosts.head)
            _ip("addr", "add", f"10.77.0.{11 + number}/24", "dev", "eth0", inside=name)
            _ip("link", "set", "eth0", "up", inside=name)
        yield hosts
    finally:
        for name in names:
            kill_all(name)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def kill_all(host: str) -> None:
    """Kill the processes of a namespace, but not this one."""
    found = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=False)
    for pid in map(int, found.stdout.split()):
        if pid != os.getpid():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def measure_hosts(folder: Path, *, clips: int, hosts: int, errors: float, seed: int) -> dict:
    """Set the hosts up, and do the rest in the head's namespace."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a namespace must not outlive this process
    with namespaces(hosts) as made:
        given = {"prefix": made.prefix, "clips": clips, "hosts": hosts, "errors": errors, "seed": seed}
        words = ["ip", "netns", "exec", made.head, sys.executable, __file__, str(folder), json.dumps(given)]
        done = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"the run in the namespace failed with code {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1])


def _environment(endpoint: str) -> dict[str, str]:
    src = str(Path(__file__).parents[1] / "src")
    return {
        **os.environ,
        **PATIENT,
        "PYTHONPATH": src,
        "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": "/tmp",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _start_ray(hosts: Hosts, environment: dict[str, str], folder: Path) -> None:
    """The head in this namespace, and a node with one core and a disk of its own on each host."""
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--disable-usage-stats"]
    ray += ["--object-store-memory", str(80 * 2**20)]
    own = (
        f"mount -t tmpfs tmpfs /tmp/ray; mkdir -p {folder}/disk; mount -t tmpfs -o size={DISK_MB}m tmpfs {folder}/disk;"
    )
    # `ip netns exec` gives every namespace mounts of its own; this process shares the head's, as its driver.
    Path("/tmp/ray").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp/ray"], check=True)
    head = [*ray, "--head", f"--node-ip-address={HEAD}", f"--port={PORT}", "--num-cpus=0"]
    head += ["--include-dashboard=false", f"--metrics-export-port={METRICS_PORT}"]
    with (folder / "ray.log").open("w") as log:
        # One after another: they are four machines on the cores of one.
        _until_started(hosts.head, head, log, environment)
        for number in range(hosts.count):
            node = [*ray, f"--address={HEAD}:{PORT}", f"--node-ip-address=10.77.0.{11 + number}", "--num-cpus=1"]
            words = ["ip", "netns", "exec", hosts.name(number), "bash", "-ec", f"{own} {' '.join(node)}"]
            more = {**environment, "TMPDIR": f"{folder}/disk"}
            _until_started(hosts.name(number), words, log, more)
            print(f"host {number} is there", file=sys.stderr, flush=True)


def _until_started(host: str, words: list[str], log: IO[str], environment: dict[str, str]) -> None:
    for _ in range(MOST_STARTS):
        if subprocess.run(words, stdout=log, stderr=log, env=environment, check=False).returncode == 0:
            return
        kill_all(host)  # `ray stop` would end every Ray of the machine
    raise SystemExit(f"a node did not start in {MOST_STARTS} tries")


def inside(folder: Path, *, prefix: str, clips: int, hosts: int, errors: float, seed: int) -> dict:
    """What happens in the head's namespace."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import s3fs
    from moto.server import ThreadedMotoServer

    from clips import Clip, write_clip
    from cluster import tiny_weights
    from flaky_store import FlakyStore

    made = Hosts(prefix, hosts)
    weights = tiny_weights(folder)
    source = folder / "in"
    source.mkdir()
    for number in range(clips):
        write_clip(source / f"clip{number:03d}.mp4", Clip(frames=6 + number % 7, width=64, height=48, still=True))
    (source / POISON).write_bytes(b"no video at all" * 100)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    upstream = "http://{}:{}".format(*moto.get_host_and_port())
    with FlakyStore(upstream, 0.0, host=HEAD, seed=seed) as store:
        environment = _environment(store.address)
        os.environ.update(environment)
        files = s3fs.S3FileSystem()
        files.mkdir(BUCKET)
        for path in sorted(source.iterdir()):
            files.put_file(str(path), f"{BUCKET}/in/{path.name}")
        libranet = [sys.executable, "-m", "libranet", "dehaze"]
        model = ["--model", weights, "--json"]
        plain = subprocess.run(
            [*libranet, str(source), "-o", str(folder / "plain"), *model],
            env=environment,
            capture_output=True,
            check=False,
        )
        _start_ray(made, environment, folder)
        store.share, store.written = errors, Counter()
        many = [
            "--cluster",
            f"{HEAD}:{PORT}",
            "--threads",
            "1",
            "--workers",
            str(hosts),
            "--poison",
            str(folder / "poison.jsonl"),
        ]
        words = [*libranet, f"s3://{BUCKET}/in", "-o", f"s3://{BUCKET}/out", *model, *many]
        cut = threading.Thread(target=_cut_off, args=(made, store, clips // 3), daemon=True)
        cut.start()
        scraped = _Scraper(folder / "metrics.txt")
        begin = time.monotonic()
        run = subprocess.run(
            [*words, "--traces", str(folder / "spans.jsonl"), "--report", str(folder / "report.json")],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - begin
        scraped.stop()
        report = json.loads((folder / "report.json").read_text())
        faults, requests, written = dict(store.faults), sum(store.requests.values()), dict(store.written)
        store.share = 0.0
        files.invalidate_cache()
        same = [
            name
            for name in sorted(path.name for path in (folder / "plain").glob("*.mp4"))
            if files.cat_file(f"{BUCKET}/out/{name}") == (folder / "plain" / name).read_bytes()
        ]
        left = [name for name in files.find(f"{BUCKET}/out") if "/." in name]
        again = _again(libranet, words, model, many, files, source, folder, environment)
    moto.stop()
    return {
        "clips": clips,
        "hosts": hosts,
        "hosts_cut_off": int(not cut.is_alive()),
        "store_errors_share": errors,
        "requests": requests,
        "faults": faults,
        "seconds": round(seconds, 1),
        "plain_code": plain.returncode,
        "code": run.returncode,
        "done": report["done"],
        "failed": [{"source": row["source"], "error": row["error"]} for row in report["results"] if "error" in row],
        "identical": len(same),
        "worker_deaths": report["worker_deaths"],
        "attempts": Counter(str(row["attempts"]) for row in report["results"]),
        "written_twice": sum(count > 1 for name, count in written.items() if "/out/" in name and "/." not in name),
        "left_in_the_store": len(left),
        "spans": _spans(folder / "spans.jsonl"),
        "metrics": scraped.found,
        **again,
    }


def _cut_off(hosts: Hosts, store, after: int) -> None:
    """Pull the cable of the second host once some outputs are there; it goes on in vain."""
    while sum("/out/" in name for name in list(store.written)) < after:
        time.sleep(0.2)
    subprocess.run(["ip", "link", "set", hosts.link(1), "down"], check=True)


def _again(libranet, words, model, many, files, source: Path, folder: Path, environment: dict[str, str]) -> dict:
    """The same command once more, and then the list of poisoned jobs, whose file is mended."""
    second = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    files.put_file(str(source / "clip000.mp4"), f"{BUCKET}/in/{POISON}")
    retry = [*libranet, str(folder / "poison.jsonl"), "-o", f"s3://{BUCKET}/out", *model, *many]
    third = subprocess.run(retry, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return {
        "second_call": _counts(second, "done", "finished_before", "failed"),
        "poison_list_after_mending": _counts(third, "done", "failed"),
    }


def _counts(run: subprocess.CompletedProcess[str], *keys: str) -> dict[str, object]:
    """Numbers of a report; without one, how the run ended."""
    try:
        report = json.loads(run.stdout)
    except ValueError:
        return {"code": run.returncode, "printed": run.stdout[-2000:]}
    return {key: report[key] for key in keys}


class _Scraper:
    """Reads the metrics as Prometheus would, every two seconds."""

    def __init__(self, file: Path) -> None:
        self._file, self._running = file, True
        self.found: dict[str, float] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self._running:
            with (
                suppress(OSError),
                urllib.request.urlopen(f"http://{HEAD}:{METRICS_PORT}/metrics", timeout=5) as answer,
            ):
                lines = [line for line in answer.read().decode().splitlines() if "ray_libranet_" in line]
                if lines:
                    self._file.write_text("\n".join(lines) + "\n")
            time.sleep(2)

    def stop(self) -> None:
        """Keep the sums of what was seen last: a driver that ends hands its last numbers to its node."""
        time.sleep(5)
        self._running = False
        self._thread.join()
        sums: Counter[str] = Counter()
        for line in self._file.read_text().splitlines() if self._file.exists() else ():
            if not line.startswith("#") and "_bucket" not in line:
                sums[line.split("{")[0].removeprefix("ray_libranet_")] += float(line.split()[-1])
        self.found = {name: round(value, 3) for name, value in sorted(sums.items())}


def _spans(file: Path) -> dict[str, int]:
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return dict(Counter(line["name"] for line in lines))


if __name__ == "__main__":
    print(json.dumps(inside(Path(sys.argv[1]), **json.loads(sys.argv[2]))))
