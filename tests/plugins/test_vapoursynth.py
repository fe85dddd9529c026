"""The VapourSynth plug-in in VapourSynth: vspipe, requests out of order, frames of every kind."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hosts import PLUGINS, host, run

pytestmark = pytest.mark.slow

HEIGHT, WIDTH, COUNT = 48, 64, 14
HERE = Path(__file__).parent
SHAPES = {
    "YUV420P8": (np.uint8, 8, (2, 2)),
    "YUV422P10": (np.uint16, 10, (1, 2)),
    "YUV444P16": (np.uint16, 16, (1, 1)),
    "RGB24": (np.uint8, 8, None),
    "RGBS": (np.float32, 32, None),
    "GRAY8": (np.uint8, 8, ()),
}


def write_clip(folder: Path, kind: str) -> None:
    """Two shots of moving noise, bright and dark, as planes in VapourSynth's order."""
    dtype, bits, subsampling = SHAPES[kind]
    draw = np.random.default_rng(3)
    peak = 1.0 if bits == 32 else (1 << bits) - 1
    planes = []
    for index in range(1 if subsampling == () else 3):
        down, across = subsampling if subsampling and index else (1, 1)
        shots = [draw.uniform(low, low + 0.4, (HEIGHT // down, WIDTH // across)) for low in (0.1, 0.5)]
        moving = np.stack([np.roll(shots[n >= 6], n // across, axis=1) for n in range(COUNT)])
        planes.append((moving * peak).astype(dtype))
    np.savez(folder / "hazy.npz", **{f"plane{index}": plane for index, plane in enumerate(planes)})


def paths() -> dict[str, str]:
    sources = (HERE.parents[1] / "src", PLUGINS / "vapoursynth", HERE)
    return {"PYTHONPATH": ":".join(map(str, sources))}


@pytest.mark.parametrize("kind", list(SHAPES))
def test_vspipe_writes_what_the_stream_gives(kind, tiny_checkpoint, tmp_path):
    programs = host("vapoursynth")
    write_clip(tmp_path, kind)
    arguments = ["-a", f"kind={kind}", "-a", f"model={tiny_checkpoint}"]
    settings = paths() | {"XDG_CONFIG_HOME": str(tmp_path)}
    run(programs / "vapoursynth", "config", folder=tmp_path, **settings)  # which Python its scripts run in
    shutil.copy(HERE / "vapoursynth_script.py", tmp_path / "script.vpy")  # vspipe reads beside its script
    run(programs / "vspipe", *arguments, "script.vpy", "out.raw", folder=tmp_path, **settings)
    program = (
        "import sys, numpy as np, vapoursynth_script as script\n"
        "with np.load('hazy.npz') as stored: planes = [stored[name] for name in sorted(stored)]\n"
        f"frames = script.direct(planes, '{kind}', sys.argv[1])\n"
        f"order = {(1, 2, 0) if kind.startswith('RGB') else (0, 1, 2)}[:len(planes)]\n"  # vspipe writes G, B, R
        "open('direct.raw', 'wb').write(b''.join(frame[i].tobytes() for frame in frames for i in order))\n"
        "open('hazy.raw', 'wb').write(b''.join(planes[i][n].tobytes() for n in range(len(planes[0])) for i in order))\n"
    )
    run(programs / "python", "-c", program, tiny_checkpoint, folder=tmp_path, **paths())
    out, expected, hazy = ((tmp_path / f"{name}.raw").read_bytes() for name in ("out", "direct", "hazy"))
    assert len(out) == len(hazy)
    assert out == expected
    assert out != hazy


def test_requests_in_any_order_give_the_frames_of_the_stream(tiny_checkpoint, tmp_path):
    programs = host("vapoursynth")
    write_clip(tmp_path, "YUV420P8")
    done = run(programs / "python", HERE / "vapoursynth_requests.py", tiny_checkpoint, folder=tmp_path, **paths())
    assert done.stdout.strip() == "refused 2"
