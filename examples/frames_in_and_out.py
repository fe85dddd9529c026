"""A video into numbered frames, and a folder of numbered frames into a video, in order and with temporal context."""

from pathlib import Path

from libranet import DehazeOptions, dehaze_video
from libranet.engine.frame_output import dehaze_to_images
from libranet.runtime import load_network
from libranet.video.source import parse_source

video = parse_source(Path(__file__).parents[1] / "src" / "libranet" / "page" / "foggy.mp4")
network = load_network(device="cpu")
Path("frames").mkdir(exist_ok=True)
hazy = DehazeOptions(strength=0.0, end=0.4)  # strength 0 returns the input; leave it out for clear frames
report = dehaze_to_images(video, "frames/%05d.png", network, options=hazy, overwrite=True)
print(f"{report.frames} frames from frames/00001.png on")
report = dehaze_video("frames", "clear.mp4", model=network, rate=25.0, overwrite=True)
print(f"{report.frames} frames in clear.mp4")
