"""Half-float EXR: exact, in part, damage named, and the same to the OpenEXR library."""

from pathlib import Path

import numpy as np
import pytest

from libranet.data.frames import Box
from libranet.data.maps import encode_exr, read_exr_rows, read_map, write_map
from libranet.errors import InputError


def halves(height: int = 45, width: int = 23, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 30, (height, width)).astype(np.float16)
    values[0, :3] = [np.inf, -0.0, 6e-8]
    return values


@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (17, 5), (45, 23)])
@pytest.mark.parametrize("names", [("Z",), ("u", "v"), ("B", "G", "R")])
def test_values_come_back_bit_for_bit(tmp_path: Path, shape: tuple[int, int], names: tuple[str, ...]) -> None:
    maps = {name: np.resize(halves(seed=i), shape) for i, name in enumerate(names)}
    path = tmp_path / "a.exr"
    path.write_bytes(encode_exr(maps))
    back = read_exr_rows(path)
    assert set(back) == set(names)
    for name in names:
        np.testing.assert_array_equal(back[name].view(np.uint16), maps[name].view(np.uint16))


def test_the_openexr_library_reads_ours_and_we_read_its(tmp_path: Path) -> None:
    openexr = pytest.importorskip("OpenEXR", reason="the OpenEXR package is not installed")
    maps = {"u": halves(seed=1), "v": halves(seed=2)}
    ours, theirs = tmp_path / "ours.exr", tmp_path / "theirs.exr"
    ours.write_bytes(encode_exr(maps, level=6))
    with openexr.File(str(ours), separate_channels=True) as file:
        for name, channel in file.channels().items():
            np.testing.assert_array_equal(channel.pixels, maps[name])
    header = {"compression": openexr.ZIP_COMPRESSION, "type": openexr.scanlineimage}
    openexr.File(header, dict(maps)).write(str(theirs))
    for name, values in read_exr_rows(theirs, top=20, height=9).items():
        np.testing.assert_array_equal(values, maps[name][20:29])


def test_maps_have_their_channels_and_crops(tmp_path: Path) -> None:
    path = tmp_path / "a.exr"
    flow = np.stack([halves(seed=1), halves(seed=2)]).astype(np.float32)
    write_map(path, "flow", flow)
    np.testing.assert_array_equal(read_map(path, "flow", Box(14, 3, 20, 9)), flow[:, 14:34, 3:12])
    with pytest.raises(InputError, match=r"rows inside 0\.\.45, got 40\.\.50"):
        read_map(path, "flow", Box(40, 3, 10, 9))
    with pytest.raises(InputError, match=r"columns inside 0\.\.23"):
        read_map(path, "flow", Box(14, 20, 20, 9))
    with pytest.raises(InputError, match=r"expected depth with channels .* got \['u', 'v'\]"):
        read_map(path, "depth")
    with pytest.raises(InputError, match="got 2 for"):
        write_map(path, "transmission", flow)


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.exr"
    whole = encode_exr({"Z": np.linspace(0, 1, 45 * 23).reshape(45, 23).astype(np.float16)})
    for cut in (0, 5, 100, 320, len(whole) - 40):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"cut\.exr"):
            read_exr_rows(path)
    changed = bytearray(whole)
    changed[-20] ^= 255
    path.write_bytes(bytes(changed))
    with pytest.raises(InputError, match=r"cut\.exr"):
        read_exr_rows(path)
    with pytest.raises(InputError, match=r"could not read the depth map .*none\.exr"):
        read_map(tmp_path / "none.exr", "depth")


def test_other_kinds_of_exr_are_refused_with_a_reason(tmp_path: Path) -> None:
    openexr = pytest.importorskip("OpenEXR", reason="the OpenEXR package is not installed")
    path = tmp_path / "float.exr"
    header = {"compression": openexr.ZIP_COMPRESSION, "type": openexr.scanlineimage}
    openexr.File(header, {"Z": np.zeros((20, 20), np.float32)}).write(str(path))
    with pytest.raises(InputError, match="half-float"):
        read_exr_rows(path)
    with pytest.raises(InputError, match="one size"):
        encode_exr({"u": halves(), "v": halves(height=10)})
