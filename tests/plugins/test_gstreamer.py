"""The GStreamer element in pipelines of Debian's GStreamer, and by gst-launch."""

import shutil
from pathlib import Path

import pytest
from hosts import PLUGINS, ROOT, host, run

pytestmark = pytest.mark.slow
FOGGY = ROOT / "src/libranet/page/foggy.mp4"


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> dict[str, str]:
    """What GStreamer needs to find the element."""
    programs = host("gstreamer")
    registry = tmp_path_factory.mktemp("registry") / "registry.bin"
    return {
        "PATH": f"{programs}:/usr/bin:/bin",
        "GST_PLUGIN_PATH": str(PLUGINS / "gstreamer"),
        "GST_REGISTRY": str(registry),
    }


@pytest.mark.parametrize(("case", "frames"), [("formats", 192), ("latency", 24), ("changing", 12), ("errors", 0)])
def test_pipelines(case, frames, settings, tiny_checkpoint, tmp_path):
    script = Path(__file__).with_name("gstreamer_pipelines.py")
    done = run(host("gstreamer") / "python", script, case, tiny_checkpoint, folder=tmp_path, **settings)
    assert done.stdout.split() == [str(frames), "frames"]


def test_a_file_is_decoded_and_sought(settings, tiny_checkpoint, tmp_path):
    script = Path(__file__).with_name("gstreamer_pipelines.py")
    done = run(host("gstreamer") / "python", script, "seeking", tiny_checkpoint, FOGGY, folder=tmp_path, **settings)
    assert done.stdout.split() == ["50", "frames"]


def test_gst_launch_writes_a_file(settings, tiny_checkpoint, tmp_path):
    import av

    host("gstreamer")
    launch = shutil.which("gst-launch-1.0")
    assert launch is not None
    pipeline = f"filesrc location={FOGGY} ! decodebin ! videoconvert ! libranet model={tiny_checkpoint} strength=0.8"
    pipeline += " ! videoconvert ! avenc_ffv1 ! matroskamux ! filesink location=clear.mkv"
    run(launch, "-q", *pipeline.split(), folder=tmp_path, **settings)
    with av.open(str(tmp_path / "clear.mkv")) as written, av.open(str(FOGGY)) as read:
        times = [[float(frame.time) for frame in each.decode(video=0)] for each in (written, read)]
    assert len(times[0]) == 50
    assert max(abs(a - b) for a, b in zip(*times, strict=True)) <= 0.001  # Matroska counts milliseconds
