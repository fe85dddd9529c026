"""A Gradio demo for a hosted space: a photo or a short video in, the same without haze out."""

import tempfile
from pathlib import Path

import gradio as gr
import numpy as np

import libranet
from libranet.engine import Progress

SECONDS = 10
"""Of a video: a hosted space on two CPU cores restores about eight 1080p frames a second."""
MODELS = ["libranet-base", "libranet-small"]


def dehaze_photo(photo: np.ndarray | None, strength: float, model: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the photo beside its dehazed version."""
    if photo is None:
        raise gr.Error("Choose a photo first.")
    try:
        return photo, libranet.dehaze_image(photo, strength=strength, model=model)
    except libranet.LibraNetError as error:
        raise gr.Error(str(error)) from error


def dehaze_clip(clip: str | None, strength: float, model: str, progress: gr.Progress = gr.Progress()) -> str:  # noqa: B008
    """Return a file with the first seconds of a video, dehazed."""
    if clip is None:
        raise gr.Error("Choose a video first.")
    output = Path(tempfile.mkdtemp()) / f"{Path(clip).stem}-clear.mp4"

    def show(now: Progress) -> None:
        progress((now.frames, now.total), unit="frames")

    try:
        options = libranet.DehazeOptions(strength=strength, end=SECONDS)
        libranet.dehaze_video(clip, output, options=options, model=model, progress=show)
    except libranet.LibraNetError as error:
        raise gr.Error(str(error)) from error
    return str(output)


with gr.Blocks(title="LiBrA-Net dehazing") as demo:
    gr.Markdown("# LiBrA-Net dehazing\nRemoves haze and fog. Colours behind dense haze are estimates.")
    with gr.Row():
        strength_choice = gr.Slider(0.0, 1.5, value=1.0, step=0.05, label="Strength", info="0 is the input")
        model_choice = gr.Dropdown(MODELS, value=MODELS[0], label="Network", info="small is faster")
    with gr.Tab("Photo"):
        photo_in = gr.Image(label="Hazy photo")
        photo_button = gr.Button("Dehaze photo", variant="primary")
        photo_out = gr.ImageSlider(label="Before and after", format="png")
        photo_button.click(dehaze_photo, [photo_in, strength_choice, model_choice], photo_out, api_name="photo")
    with gr.Tab("Video"):
        clip_in = gr.Video(label=f"Hazy video, its first {SECONDS} seconds")
        clip_button = gr.Button("Dehaze video", variant="primary")
        clip_out = gr.Video(label="Dehazed video")
        clip_button.click(dehaze_clip, [clip_in, strength_choice, model_choice], clip_out, api_name="video")

if __name__ == "__main__":
    demo.queue(max_size=20).launch()
