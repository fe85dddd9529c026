import json
import re
from pathlib import Path

import pytest
import safetensors.torch
import torch

from libranet.errors import CheckpointError
from libranet.evaluation.restorers import open_restorer
from libranet.network import (
    LiBrANet,
    LiBrANetConfig,
    WeightsInfo,
    load_model,
    packaged_weights,
    read_checkpoint_info,
    save_checkpoint,
)
from libranet.runtime import load_network
from tiny_network import TINY, make_config


@pytest.fixture
def saved(tiny_model, tmp_path):
    path = tmp_path / "model.safetensors"
    save_checkpoint(tiny_model, path, provenance={"recipe": "smoke", "steps": 20})
    return path


def test_one_file_gives_the_model_back(tiny_model, saved):
    frames = torch.rand(1, 5, 3, 32, 48)
    loaded = load_model(saved)
    assert loaded.config == tiny_model.config
    assert not loaded.training
    assert torch.equal(loaded(frames), tiny_model(frames))
    info = read_checkpoint_info(saved)
    assert info.provenance == {"recipe": "smoke", "steps": 20}
    assert info.format_version == 1


def test_weights_carry_a_name_and_a_version(tiny_model, saved, tmp_path):
    info = read_checkpoint_info(saved)
    assert (info.name, info.version) == ("model", "unversioned")
    assert tiny_model.weights == WeightsInfo("unnamed", "unversioned")
    path = tmp_path / "file.safetensors"
    save_checkpoint(tiny_model, path, name="libranet-small", version="2.1")
    assert load_model(path).weights == read_checkpoint_info(path).weights == WeightsInfo("libranet-small", "2.1")
    assert str(load_model(path).weights) == "libranet-small 2.1"


def test_the_packaged_weights_are_named_and_fit_the_default_network():
    info = read_checkpoint_info(packaged_weights())
    assert info.name == "libranet-base"
    assert re.fullmatch(r"\d+\.\d+", info.version)
    assert info.config == LiBrANetConfig()
    card = Path(__file__).parents[2] / "docs" / "model-card.md"
    assert f"version {info.version}" in card.read_text()


def test_a_variant_comes_back_as_that_variant(tmp_path):
    config = make_config(TINY, temporal_field=False, window=3, cayley=False)
    save_checkpoint(LiBrANet(config), tmp_path / "v.safetensors")
    assert load_model(tmp_path / "v.safetensors").config == config


def test_half_precision_files_load_in_any_precision(tiny_model, tmp_path):
    path = tmp_path / "half.safetensors"
    save_checkpoint(tiny_model, path, dtype=torch.float16)
    assert load_model(path).dtype == torch.float32
    assert load_model(path, dtype=torch.bfloat16).dtype == torch.bfloat16
    assert tiny_model.dtype == torch.float32


def test_saving_leaves_no_other_files(saved):
    assert [p.name for p in saved.parent.iterdir()] == ["model.safetensors"]


def test_a_failed_save_keeps_the_old_file(tiny_model, saved, monkeypatch):
    before = saved.read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full_disk)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(tiny_model, saved)
    assert saved.read_bytes() == before
    assert len(list(saved.parent.iterdir())) == 1


def refused(path, message):
    with pytest.raises(CheckpointError, match=message) as error:
        load_model(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_pickles_are_refused(tmp_path, tiny_model):
    for name, legacy in (("zip.pt", True), ("old.pth", False)):
        torch.save(tiny_model.state_dict(), tmp_path / name, _use_new_zipfile_serialization=legacy)
        refused(tmp_path / name, "pickled file.*refused: use a .safetensors checkpoint")


def test_missing_empty_and_foreign_files_are_named(tmp_path):
    refused(tmp_path / "nowhere.safetensors", "no checkpoint at")
    refused(tmp_path, "is a folder")
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", r"is empty \(0 bytes\)")
    (tmp_path / "text").write_text("this is not a model at all")
    refused(tmp_path / "text", "damaged or not a safetensors file")
    safetensors.torch.save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    refused(tmp_path / "other.safetensors", "not a LiBrA-Net checkpoint")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_truncated_files_are_named(saved, keep):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(len(data) * keep)])
    refused(saved, "damaged")


def rewrite(path, *, metadata=None, drop=None, add=None):
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, framework="pt") as file:
        header = file.metadata()
    header.update(metadata or {})
    if drop:
        del tensors[drop]
    tensors.update(add or {})
    safetensors.torch.save_file(tensors, path, metadata=header)


def test_mismatches_are_named(saved):
    original = saved.read_bytes()
    rewrite(saved, drop="refiner.join.bias")
    refused(saved, "lacks refiner.join.bias")
    saved.write_bytes(original)
    rewrite(saved, add={"surprise": torch.zeros(1)})
    refused(saved, "has unknown surprise")
    saved.write_bytes(original)
    rewrite(saved, add={"refiner.join.bias": torch.zeros(3)})
    refused(saved, "has misshapen refiner.join.bias")
    saved.write_bytes(original)
    rewrite(saved, metadata={"format_version": "99"})
    refused(saved, "format version 99, this libranet reads up to 1")
    saved.write_bytes(original)
    rewrite(saved, metadata={"config": json.dumps({"wings": 2})})
    refused(saved, r"settings this libranet does not know \(wings\)")
    saved.write_bytes(original)
    rewrite(saved, metadata={"config": json.dumps({"window": 4})})
    refused(saved, "unusable configuration: expected an odd window length")


def test_loading_draws_no_random_numbers() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    load_model()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "lie",
    [
        *([], 5, None, "words", [[1]]),
        *({name: value} for name in TINY.stored() for value in (None, "big", [], {}, -1, 10**30, 1e300)),
        *({"encoder_widths": value} for value in ([], [8] * 40, [4096] * 4, [8, None], "8888", [[8]])),
        *({"encoder_size": value} for value in (0, 3, 65536)),
        *({name: 4096} for name in ("encoder_blocks", "head_hidden", "ffn_ratio", "refiner_fusion_blocks")),
        *({"window": value} for value in (True, 5.0, 0, 2)),
        {"cayley": 1},
    ],
    ids=lambda lie: json.dumps(lie)[:40],
)
def test_configurations_that_lie_are_refused_at_once(saved, lie):
    """Nothing of the size that they claim is built first."""
    stored = {**TINY.stored(), **lie} if isinstance(lie, dict) else lie
    rewrite(saved, metadata={"config": json.dumps(stored)})
    with pytest.raises(CheckpointError):
        load_model(saved)


@pytest.mark.parametrize(
    "metadata",
    [
        {"config": "{" * 100_000},
        {"config": "[" * 100_000},
        {"provenance": "3"},
        {"format_version": "1e400"},
        {"format_version": "9" * 5000},
        {"format_version": ""},
    ],
    ids=lambda metadata: str(metadata)[:40],
)
def test_headers_that_lie_are_refused(saved, metadata):
    rewrite(saved, metadata=metadata)
    with pytest.raises(CheckpointError):
        load_model(saved)


def test_weights_of_another_type_are_refused(saved):
    rewrite(saved, add={"refiner.join.bias": torch.zeros(load_model(saved).refiner.join.bias.shape, dtype=torch.int32)})
    refused(saved, "has mistyped refiner.join.bias")


@pytest.mark.parametrize("name", ["small", "libranet-small", "base", "libranet-base", "libranet"])
def test_the_networks_of_the_package_have_the_names_that_every_text_uses(name):
    weights = "libranet-small" if name.endswith("small") else "libranet-base"
    assert load_model(name).weights.name == load_network(name, device="cpu").weights.name == weights
    assert open_restorer(name).name == name
