"""Published weights: random tensors of the official names and shapes, converted, and held to a second build by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from libranet.errors import CheckpointError, InputError
from libranet.images import Image, write_image
from libranet.lab.peers import build_peer, load_peer
from libranet.lab.peers.official_weights import convert_weights, read_published
from libranet.runtime import load_network


def random_state(shapes: dict[str, tuple[int, ...]], *, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * (0.5 / max(1, np.prod(shape[1:])) ** 0.5)
        for name, shape in shapes.items()
    }


def conv(shapes: dict[str, tuple[int, ...]], name: str, i: int, o: int, k: int = 3, *, bias: bool = True) -> None:
    shapes[f"{name}.weight"] = (o, i, k, k)
    if bias:
        shapes[f"{name}.bias"] = (o,)


def ffa_shapes() -> dict[str, tuple[int, ...]]:
    """FFA-Net with 3 groups of 19 blocks, as its makers' files name it."""
    shapes: dict[str, tuple[int, ...]] = {}
    conv(shapes, "pre.0", 3, 64)
    for group in ("g1", "g2", "g3"):
        for block in range(19):
            name = f"{group}.gp.{block}"
            conv(shapes, f"{name}.conv1", 64, 64)
            conv(shapes, f"{name}.conv2", 64, 64)
            conv(shapes, f"{name}.calayer.ca.0", 64, 8, 1)
            conv(shapes, f"{name}.calayer.ca.2", 8, 64, 1)
            conv(shapes, f"{name}.palayer.pa.0", 64, 8, 1)
            conv(shapes, f"{name}.palayer.pa.2", 8, 1, 1)
        conv(shapes, f"{group}.gp.19", 64, 64)
    conv(shapes, "ca.1", 192, 4, 1)
    conv(shapes, "ca.3", 4, 192, 1)
    conv(shapes, "palayer.pa.0", 64, 8, 1)
    conv(shapes, "palayer.pa.2", 8, 1, 1)
    conv(shapes, "post.0", 64, 64)
    conv(shapes, "post.1", 64, 3)
    return shapes


def run_ffa(state: dict[str, Tensor], image: Tensor) -> Tensor:  # [1, 3, H, W] in [0, 1]
    """The network by its fact sheet, straight from the published names."""

    def apply(x: Tensor, name: str) -> Tensor:
        weight = state[f"{name}.weight"]
        return F.conv2d(x, weight, state[f"{name}.bias"], padding=weight.shape[-1] // 2)

    def pixels(x: Tensor, name: str) -> Tensor:
        return x * apply(apply(x, f"{name}.pa.0").relu(), f"{name}.pa.2").sigmoid()

    def channels(x: Tensor, name: str) -> Tensor:
        return x * apply(apply(x.mean((2, 3), keepdim=True), f"{name}.ca.0").relu(), f"{name}.ca.2").sigmoid()

    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ((0.64, 0.60, 0.58), (0.14, 0.15, 0.152)))
    given = (image - mean) / std
    x, groups = apply(given, "pre.0"), []
    for group in ("g1", "g2", "g3"):
        inside = x
        for block in range(19):
            name = f"{group}.gp.{block}"
            hidden = apply(inside, f"{name}.conv1").relu() + inside
            hidden = channels(apply(hidden, f"{name}.conv2"), f"{name}.calayer")
            inside = pixels(hidden, f"{name}.palayer") + inside
        x = x + apply(inside, f"{group}.gp.19")
        groups.append(x)
    stacked = torch.cat(groups, dim=1)
    weights = apply(apply(stacked.mean((2, 3), keepdim=True), "ca.1").relu(), "ca.3").sigmoid()
    summed = (stacked * weights).unflatten(1, (3, 64)).sum(1)
    return apply(apply(pixels(summed, "palayer"), "post.0"), "post.1") + given


def dehazeformer_shapes(depths: tuple[int, ...], attended: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """DehazeFormer, as its makers' files name it; of every stage the last `attended` blocks have attention."""
    shapes: dict[str, tuple[int, ...]] = {}
    widths, heads, ratios = (24, 48, 96, 48, 24), (2, 4, 6, 1, 1), (2, 4, 4, 2, 2)
    conv(shapes, "patch_embed.proj", 3, 24)
    for stage, (c, h, ratio, depth) in enumerate(zip(widths, heads, ratios, depths, strict=True), start=1):
        for block in range(depth):
            name = f"layer{stage}.blocks.{block}"
            conv(shapes, f"{name}.attn.conv", 1, c, 5)
            conv(shapes, f"{name}.attn.V", c, c, 1)
            conv(shapes, f"{name}.attn.proj", c, c, 1)
            if block >= depth - attended[stage - 1]:
                shapes |= {f"{name}.norm1.weight": (1, c, 1, 1), f"{name}.norm1.bias": (1, c, 1, 1)}
                conv(shapes, f"{name}.norm1.meta1", 1, c, 1)
                conv(shapes, f"{name}.norm1.meta2", 1, c, 1)
                conv(shapes, f"{name}.attn.QK", c, 2 * c, 1)
                shapes |= {f"{name}.attn.attn.meta.0.weight": (256, 2), f"{name}.attn.attn.meta.0.bias": (256,)}
                shapes |= {f"{name}.attn.attn.meta.2.weight": (h, 256), f"{name}.attn.attn.meta.2.bias": (h,)}
            conv(shapes, f"{name}.mlp.mlp.0", c, ratio * c, 1)
            conv(shapes, f"{name}.mlp.mlp.2", ratio * c, c, 1)
    conv(shapes, "patch_merge1.proj", 24, 48, 2)
    conv(shapes, "patch_merge2.proj", 48, 96, 2)
    conv(shapes, "skip1", 24, 24, 1)
    conv(shapes, "skip2", 48, 48, 1)
    for number, (wide, c, d) in enumerate(((96, 48, 6), (48, 24, 4)), start=1):
        conv(shapes, f"patch_split{number}.proj.0", wide, 4 * c, 1)
        conv(shapes, f"fusion{number}.mlp.0", c, d, 1, bias=False)
        conv(shapes, f"fusion{number}.mlp.2", d, 2 * c, 1, bias=False)
    conv(shapes, "patch_unembed.proj", 24, 4)
    return shapes


def test_ffa_net_with_its_makers_names_computes_what_their_sheet_says(tmp_path: Path) -> None:
    state = random_state(ffa_shapes())
    assert sum(tensor.numel() for tensor in state.values()) == 4_455_913
    wrapped = {f"module.{name}": tensor for name, tensor in state.items()}
    left_over = {"module.g1.la.gamma": torch.zeros(1), "module.g1.last.weight": torch.zeros(64, 64, 1, 1)}
    scores = [np.float64(30.5), np.float32(1.0)]  # what a training script stores beside its weights
    torch.save({"model": wrapped | left_over, "step": 500, "psnrs": scores}, tmp_path / "its_train_ffa_3_19.pk")
    convert_weights(tmp_path / "its_train_ffa_3_19.pk", "ffa-net", tmp_path / "ffa.safetensors")
    network = load_network(str(tmp_path / "ffa.safetensors"), device="cpu")
    image = torch.rand(1, 3, 20, 24, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.allclose(network.restore(image[:, None]), run_ffa(state, image), atol=1e-4)
    assert network.weights.name == "ffa-net, its_train_ffa_3_19"


@pytest.mark.parametrize(
    ("size", "depths", "attended", "count"),
    [("t", (4, 4, 4, 2, 2), (0, 2, 4, 0, 0), 687_404), ("s", (8, 8, 8, 4, 4), (2, 4, 6, 0, 0), 1_284_884)],
)
def test_dehazeformer_with_its_makers_names(tmp_path: Path, size, depths, attended, count) -> None:
    state = random_state(dehazeformer_shapes(depths, attended))
    assert sum(tensor.numel() for tensor in state.values()) == count
    buffers = {"layer2.blocks.3.attn.attn.relative_positions": torch.zeros(64, 64, 2)}
    torch.save({"state_dict": {f"module.{k}": v for k, v in (state | buffers).items()}}, tmp_path / "df.pth")
    convert_weights(tmp_path / "df.pth", f"dehazeformer-{size}", tmp_path / "out.safetensors")
    ours = load_peer(tmp_path / "out.safetensors").state_dict()
    last = depths[2] - 1
    pairs = {
        "stages.0.0.mix.local.weight": "layer1.blocks.0.attn.conv.weight",
        f"stages.2.{last}.norm.gamma": f"layer3.blocks.{last}.norm1.weight",
        f"stages.2.{last}.norm.scale.bias": f"layer3.blocks.{last}.norm1.meta1.bias",
        f"stages.2.{last}.norm.shift.bias": f"layer3.blocks.{last}.norm1.meta2.bias",
        f"stages.2.{last}.mix.position.2.weight": f"layer3.blocks.{last}.attn.attn.meta.2.weight",
        "stages.4.1.mlp.2.bias": "layer5.blocks.1.mlp.mlp.2.bias",
        "skips.0.weight": "skip2.weight",
        "fusions.1.weigh.3.weight": "fusion2.mlp.2.weight",
        "splits.0.0.bias": "patch_split1.proj.0.bias",
        "out.weight": "patch_unembed.proj.weight",
    }
    for mine, theirs in pairs.items():
        assert torch.equal(ours[mine].flatten(), state[theirs].flatten()), mine


def test_unknown_names_need_a_map_or_a_proof(tmp_path: Path) -> None:
    """UHDformer under names that nobody told us, in the order of its parts."""
    peer = build_peer("uhdformer", seed=3).eval()
    with torch.no_grad():
        for parameter in peer.parameters():
            if parameter.abs().max() < 1e-5:
                parameter.normal_(0, 0.2)
    file, out = tmp_path / "uhd.pth", tmp_path / "out.safetensors"
    state = {f"part{i}": tensor.clone() for i, tensor in enumerate(peer.state_dict().values())}
    torch.save({"params": state}, file)
    with pytest.raises(InputError, match=r"names in .* are unknown for uhdformer: give keys .*check"):
        convert_weights(file, "uhdformer", out)
    hazy = np.random.default_rng(0).integers(60, 200, (24, 32, 3), np.uint8)
    write_image(tmp_path / "hazy.png", Image(hazy))
    with torch.no_grad():
        restored = peer(torch.from_numpy(hazy / np.float32(255)).permute(2, 0, 1)[None, None])[0]
    result = (restored.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    write_image(tmp_path / "result.png", Image(result))
    images = (tmp_path / "hazy.png", tmp_path / "result.png")
    assert "matched by shapes in their order; 100.0% of the samples" in convert_weights(
        file, "uhdformer", out, check=images
    )
    assert all(torch.equal(a, b) for a, b in zip(load_peer(out).state_dict().values(), state.values(), strict=True))
    names = list(peer.state_dict())
    first, second = (names.index(name) for name in ("high.blocks.0.conv.weight", "high.blocks.1.conv.weight"))
    state[f"part{first}"], state[f"part{second}"] = state[f"part{second}"], state[f"part{first}"]
    torch.save({"params": state}, file)
    with pytest.raises(InputError, match="in the wrong places, it is another network"):
        convert_weights(file, "uhdformer", tmp_path / "wrong.safetensors", check=images)
    assert not (tmp_path / "wrong.safetensors").exists()


class Small(nn.Module):
    """A user's own network."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def test_a_map_of_ones_own_and_what_does_not_fit(tmp_path: Path) -> None:
    state = {"conv.w": torch.randn(3, 3, 3, 3), "conv.b": torch.randn(3), "steps": torch.zeros(1)}
    torch.save(state, tmp_path / "small.pth")
    (tmp_path / "map.toml").write_text(
        "ignore = ['steps']\n[keys]\n'conv\\.w' = 'module.body.weight'\n'conv\\.b' = 'module.body.bias'\n"
    )
    target = f"{__name__}:Small"
    convert_weights(tmp_path / "small.pth", target, tmp_path / "own.safetensors", keys=tmp_path / "map.toml")
    network = load_network(target, weights=str(tmp_path / "own.safetensors"), device="cpu")
    assert torch.equal(network.module.body.bias, state["conv.b"])
    with pytest.raises(CheckpointError, match=r"give model .*:Small weights"):
        load_network(str(tmp_path / "own.safetensors"), device="cpu")
    (tmp_path / "map.toml").write_text("[keys]\n'conv\\.w' = 'module.body.weight'\n")
    with pytest.raises(CheckpointError, match=r"no rule of the key map matches 'conv\.b'"):
        convert_weights(tmp_path / "small.pth", target, tmp_path / "b.safetensors", keys=tmp_path / "map.toml")
    short = random_state(ffa_shapes())
    del short["post.1.bias"]
    torch.save(short, tmp_path / "short.pth")
    with pytest.raises(CheckpointError, match=r"nothing for tail\.1\.bias and 0 more"):
        convert_weights(tmp_path / "short.pth", "ffa-net", tmp_path / "c.safetensors")
    with pytest.raises(InputError, match="dcp has no weights"):
        convert_weights(tmp_path / "short.pth", "dcp", tmp_path / "c.safetensors")


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    torch.save({"model": Small()}, tmp_path / "whole.pth")
    with pytest.raises(CheckpointError, match="holds more than tensors, and is refused"):
        read_published(tmp_path / "whole.pth")
