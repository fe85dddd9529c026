"""Dehaze a video with onnxruntime: `python onnxruntime_stream.py net.onnx foggy.mp4 clear.mp4`.

net.onnx is a file of `libranet export --streaming`. LiBrA-Net itself is not needed here.
"""

import sys

import av
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
late = int(session.get_modelmeta().custom_metadata_map["lookahead"])
with av.open(sys.argv[2]) as video, av.open(sys.argv[3], "w") as clear:
    source = video.streams.video[0]
    target = clear.add_stream("libx264", rate=source.average_rate, width=source.width, height=source.height)
    free = {"height": source.height, "width": source.width}
    feed = {i.name: np.zeros([free.get(side, side) for side in i.shape], np.float32) for i in session.get_inputs()}
    hazy = [frame.to_ndarray(format="rgb24") for frame in video.decode(source)]  # a short clip fits the memory
    for index in range(len(hazy) + late):  # the last frame again, for each one that is still due
        feed["frame"] = np.float32(hazy[min(index, len(hazy) - 1)]).transpose(2, 0, 1)[None] / 255
        feed["reset"][:] = index == 0  # 1 at the first frame of each shot
        if "end" in feed:
            feed["end"][:] = index >= len(hazy)
        image, *state = session.run(None, feed)
        feed.update({f"state_{o.name[5:]}": held for o, held in zip(session.get_outputs()[1:], state, strict=True)})
        if index >= late:
            pixels = (image[0].transpose(1, 2, 0) * 255).round().astype(np.uint8)
            clear.mux(target.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")))
    clear.mux(target.encode(None))
