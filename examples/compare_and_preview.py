"""Try a setting before a long run: a contact sheet, a split-screen video, and a map of the removed haze."""

from libranet import DehazeOptions, dehaze_video, load_model
from libranet.engine.preview import write_preview
from libranet.page import example_path

source = example_path()
network = load_model()

write_preview(source, "sheet.png", network, count=2, overwrite=True)
print("sheet.png: two moments, before and after")

split = DehazeOptions(compare="split", end=0.2)
dehaze_video(source, "split.mp4", model=network, options=split, overwrite=True)
print("split.mp4: hazy on the left, dehazed on the right")

removed = DehazeOptions(view="removed", end=0.2)
dehaze_video(source, "removed.mp4", model=network, options=removed, overwrite=True)
print("removed.mp4: the haze that was removed, as a heat map")
