"""The ComfyUI node, loaded as ComfyUI loads a folder of custom_nodes, and its metadata by ComfyUI's own tool.

ComfyUI itself is in no package registry; `find_nodes` and `call` do what its loader and its executor do.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hosts import PLUGINS, host, run

from libranet import Dehazer

NODE = PLUGINS / "comfyui"


def find_nodes(folder: Path) -> ModuleType:
    """Import a folder by its path, under a name that is no identifier, and ask for its mappings."""
    name = str(folder).replace(".", "_x_")
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.NODE_DISPLAY_NAME_MAPPINGS) <= set(module.NODE_CLASS_MAPPINGS)
    return module


def call(node: type, **given: object) -> tuple:
    """Fill widgets with their defaults, hold values to what the widgets allow, and call the node's function."""
    required = node.INPUT_TYPES()["required"]
    values = {}
    for name, (kind, *options) in required.items():
        choices = kind if isinstance(kind, list) else None
        default = choices[0] if choices else options[0].get("default") if options else None
        values[name] = value = given.pop(name, default)
        assert value is not None, name
        assert choices is None or value in choices
        if kind == "FLOAT":
            assert options[0]["min"] <= value <= options[0]["max"]
    assert not given
    result = getattr(node(), node.FUNCTION)(**values)
    assert len(result) == len(node.RETURN_TYPES)
    return result


@pytest.fixture
def node() -> type:
    return find_nodes(NODE).NODE_CLASS_MAPPINGS["LibranetDehaze"]


@pytest.fixture
def images() -> torch.Tensor:
    """Two shots of four moving frames, [8, H, W, 3]."""
    draw = np.random.default_rng(5)
    shots = [draw.uniform(low, low + 0.3, (40, 56, 3)) for low in (0.1, 0.6)]
    return torch.from_numpy(np.stack([np.roll(shots[n // 4], n, axis=1) for n in range(8)])).float()


def test_a_batch_is_a_video(node, images):
    (clear,) = call(node, images=images, model="libranet-small")
    frames = list(images.permute(0, 3, 1, 2))
    dehazer = Dehazer("libranet-small")
    expected = dehazer.push_many(frames, cuts=[n == 4 for n in range(8)]) + dehazer.flush()
    assert (clear.shape, clear.dtype) == (images.shape, torch.float32)
    assert torch.equal(clear, torch.stack(expected).permute(0, 2, 3, 1))
    assert not torch.equal(clear, images)


def test_a_batch_is_separate_images_and_alpha_stays(node, images):
    alpha = torch.rand(8, 40, 56, 1)
    batch = torch.cat([images, alpha], dim=-1)
    (clear,) = call(node, images=batch, batch_is="images", model="libranet-small")
    (alone,) = call(node, images=batch[5:6], batch_is="video", model="libranet-small")
    assert torch.equal(clear[..., 3:], alpha)
    assert torch.equal(clear[5:6], alone)  # an image has nothing to do with its neighbours
    (same,) = call(node, images=batch, strength=0.0, model="libranet-small")
    assert torch.equal(same, batch)


@pytest.mark.slow
def test_the_registry_s_tool_reads_the_metadata(tmp_path):
    program = (
        "from comfy_cli.registry.config_parser import extract_node_configuration as read\n"
        "node = read('pyproject.toml')\n"
        "print(node.project.name, node.project.version, node.project.requires_python, *node.project.dependencies, "
        "node.tool_comfy.display_name, sep='|')"
    )
    done = run(host("apps") / "python", "-c", program, folder=NODE)
    assert done.stdout.strip().splitlines()[-1] == "libranet-dehaze|0.3.0|>=3.11|libranet>=0.3|LiBrA-Net dehaze"
