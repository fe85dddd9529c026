"""Servers of other programs on this machine, for live inputs and outputs: GStreamer's RTSP server, nginx, FFmpeg."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import av
import pytest

_RTSP = """
import sys
import gi
gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer
Gst.init(None)
port, recording = sys.argv[1:]
server = GstRtspServer.RTSPServer(service=port, address="127.0.0.1")
camera = GstRtspServer.RTSPMediaFactory()
camera.set_launch("( videotestsrc is-live=true pattern=ball ! video/x-raw,width=320,height=180,framerate=25/1 "
    "! x264enc tune=zerolatency speed-preset=ultrafast key-int-max=25 ! rtph264pay name=pay0 pt=96 config-interval=-1 "
    "audiotestsrc is-live=true wave=ticks ! avenc_aac ! rtpmp4gpay name=pay1 pt=97 )")
camera.set_shared(True)
sink = GstRtspServer.RTSPMediaFactory()
sink.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)
sink.set_launch("( rtph264depay name=depay0 ! h264parse ! matroskamux name=m streamable=true "
    f"! filesink location={recording} )")
server.get_mount_points().add_factory("/camera", camera)
server.get_mount_points().add_factory("/sink", sink)
server.attach(None)
print("ready", flush=True)
GLib.MainLoop().run()
"""
_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
{modules}
events {{ worker_connections 64; }}
rtmp {{ server {{ listen 127.0.0.1:{port}; application live {{ live on; record all; record_path {folder};
record_unique on; record_suffix .flv; }} }} }}
"""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port: int, seconds: float = 15.0) -> None:
    """Wait until somebody listens on a port."""
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < end, f"nobody listens on {port}"
        time.sleep(0.05)


@contextmanager
def rtsp_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """A camera at ADDRESS/camera; ADDRESS/sink records what is sent there."""
    python, port, recording = "/usr/bin/python3", free_port(), folder / "rtsp.mkv"
    has = (
        subprocess.run(
            [python, "-c", "import gi; gi.require_version('GstRtspServer', '1.0'); gi.require_version('Gst', '1.0')"],
            capture_output=True,
            check=False,
        )
        if Path(python).exists()
        else None
    )
    if has is None or has.returncode:
        pytest.skip("GStreamer's RTSP server is not installed: apt-get install gir1.2-gst-rtsp-server-1.0")
    process = subprocess.Popen([python, "-c", _RTSP, str(port), str(recording)], stdout=subprocess.PIPE)
    try:
        wait_for_port(port)
        yield f"rtsp://127.0.0.1:{port}", recording
    finally:
        process.kill()
        process.wait()


class Nginx:
    """nginx with its RTMP module, which can be stopped and started again. It records what is published."""

    def __init__(self, folder: Path) -> None:
        modules = Path("/etc/nginx/modules-enabled")
        lines = [line for file in sorted(modules.glob("*rtmp*")) for line in file.read_text().splitlines()]
        if shutil.which("nginx") is None or not lines:
            pytest.skip("nginx with RTMP is not installed: apt-get install nginx libnginx-mod-rtmp")
        self.folder, self.port = folder, free_port()
        self.address = f"rtmp://127.0.0.1:{self.port}/live/fog"
        self._config = folder / "nginx.conf"
        self._config.write_text(
            _NGINX.format(
                folder=folder, port=self.port, modules="\n".join(lines).replace(" modules/", " /usr/lib/nginx/modules/")
            )
        )

    def start(self) -> None:
        """Start, and wait until it listens."""
        words = ["nginx", "-c", str(self._config), "-p", str(self.folder), "-g", "user root;"]
        self._process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)

    def stop(self) -> None:
        """Stop, and drop every connection."""
        self._process.terminate()
        self._process.wait()

    @property
    def recordings(self) -> list[Path]:
        """What it has recorded."""
        return sorted(self.folder.glob("*.flv"))


class Listener:
    """FFmpeg, which listens on an address and records what comes."""

    def __init__(self, words: list[str], target: Path) -> None:
        program = shutil.which("ffmpeg")
        if program is None:
            pytest.skip("the program ffmpeg is not installed")
        self.target = target
        self._process = subprocess.Popen(
            [program, "-v", "error", "-nostdin", "-y", *words, "-c", "copy", str(target)], stderr=subprocess.PIPE
        )
        time.sleep(1.0)  # it says nothing when it listens, and a probe would be its only guest
        if self._process.poll() is not None:
            assert self._process.stderr is not None
            pytest.skip(f"this ffmpeg cannot listen: {self._process.stderr.read().decode()[-200:]}")

    def end(self) -> Path:
        """Wait for the end of what came."""
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        return self.target


class Receiver:
    """Reads a live address with PyAV on a thread, and counts frames and packets of sound."""

    def __init__(self, address: str) -> None:
        self.frames: list[float] = []
        self.sound = 0
        self._thread = threading.Thread(target=self._read, args=(address,), daemon=True)
        self._thread.start()

    def _read(self, address: str) -> None:
        with suppress(av.FFmpegError), av.open(address, timeout=(20.0, 3.0)) as container:
            for packet in container.demux():
                if packet.size and packet.stream.type == "video":
                    self.frames += [float(frame.pts * frame.time_base) for frame in packet.decode()]
                elif packet.size:
                    self.sound += 1

    def end(self) -> "Receiver":
        """Wait for the end of what comes."""
        self._thread.join(20)
        return self


def python_program(*words: object) -> list[str]:
    """`libranet` in a process of its own."""
    return [sys.executable, "-m", "libranet", *map(str, words)]
