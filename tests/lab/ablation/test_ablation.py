"""The ablation study: its recipes, its arithmetic, and a whole study of tiny networks."""

import json
from pathlib import Path

import pytest

from libranet.errors import InputError
from libranet.lab.ablation.ablate import AblationOptions, ablate, parse_part, plan_study
from libranet.lab.ablation.ablation_tables import Study, ablation_tables
from libranet.lab.ablation.records import Run
from libranet.lab.ablation.variants import PAPER_ROWS, Variant, load_variants
from libranet.lab.paper.printed import format_table

RECIPES = Path(__file__).parents[3] / "recipes" / "ablations"
NO_WEIGHTS = ("loss.perceptual=none",)
TINY = (
    *NO_WEIGHTS,
    *("precision=fp32", "batch=2", "crops=[[32, 32]]", "photos.folders=[]", "photos.depth=", "photos.scenes=1"),
    *("photos.lines=48", "model.encoder.size=32", "model.encoder.widths=[8,8,16,16]", "model.encoder.blocks=1"),
    *("model.fields.hidden=16", "model.refiner.width=8"),
)
CHANGES = {
    "full": {},
    "no-chromatic-field": {"model.parts.chromatic_field": "False"},
    "no-temporal-field": {"model.parts.temporal_field": "False"},
    "no-refiner": {"model.parts.refiner": "False"},
    "no-cayley": {"model.parts.cayley": "False"},
    "no-adaptive-slicing": {"model.parts.adaptive_slicing": "False"},
    "no-perceptual": {"loss.perceptual": "none"},
    "no-lie": {"loss.lie_weight": "0.0"},
    "pixel-only": {"loss.perceptual": "none", "loss.lie_weight": "0.0"},
    "vgg19": {"loss.perceptual": "vgg19", "loss.perceptual_source": "data/weights/vgg19.safetensors"},
    "vgg16": {"loss.perceptual_source": "data/paper/vgg16.safetensors", "loss.perceptual_taps": "3"},
    "no-lie-temporal": {"loss.lie.temporal": "0.0"},
}


def study(psnr: dict[str, list[float]]) -> Study:
    config = load_variants(RECIPES, overrides=NO_WEIGHTS)[0].config
    runs = {
        name: [Run(name, seed, 2, 4, 1.0, sets={"clips": {"psnr": value}}) for seed, value in enumerate(values)]
        for name, values in psnr.items()
    }
    variants = tuple(Variant(name, config, {}) for name in psnr)
    return Study(variants, runs, {}, ("clips",), seeds=3, steps=2, batch=2, device="here")


def test_each_variant_differs_from_the_full_recipe_in_what_it_is_about_and_nothing_else(tmp_path):
    weights = tmp_path / "vgg16.safetensors"
    write_vgg(weights)
    overrides = ("loss.perceptual=vgg16", f"loss.perceptual_source={weights}", "loss.perceptual_taps=1")
    variants = {variant.name: variant for variant in load_variants(RECIPES, overrides=overrides)}
    assert {name: variant.changes for name, variant in variants.items()} == CHANGES
    assert list(variants) == list(PAPER_ROWS), "the order of the paper"
    assert variants["vgg19"].not_run.startswith("no VGG-19 weights")
    assert not any(variant.same_as for variant in variants.values())


def write_vgg(path: Path) -> None:
    import safetensors.torch
    import torch

    layers = {"features.0": (64, 3), "features.2": (64, 64)}
    state = {f"{name}.weight": torch.zeros(*shape, 3, 3) for name, shape in layers.items()}
    state |= {f"{name}.bias": torch.zeros(shape[0]) for name, shape in layers.items()}
    safetensors.torch.save_file(state, path)


def test_the_full_recipe_says_how_to_do_without_the_papers_weights():
    with pytest.raises(InputError, match=r"vgg19.safetensors.*set loss.perceptual=none"):
        load_variants(RECIPES, overrides=("loss.perceptual=vgg19", "loss.perceptual_source=no/vgg19.safetensors"))


def test_variants_that_compute_the_same_are_trained_once():
    variants = {variant.name: variant for variant in load_variants(RECIPES, overrides=NO_WEIGHTS)}
    assert variants["no-perceptual"].same_as == "full"
    assert variants["pixel-only"].same_as == "no-lie"


def test_a_variant_has_to_extend_the_full_recipe(tmp_path):
    (tmp_path / "full.toml").write_text('[loss]\nperceptual = "none"\n[photos]\nscenes = 1\n')
    (tmp_path / "other.toml").write_text("[photos]\nscenes = 2\n")
    with pytest.raises(InputError, match=r"expected .*other\.toml to extend .*full\.toml"):
        load_variants(tmp_path)
    with pytest.raises(InputError, match="no variant is called 'nothing'"):
        load_variants(tmp_path, only=["nothing"])
    with pytest.raises(InputError, match="no ablation study is in"):
        load_variants(tmp_path / "empty")


def test_differences_are_taken_seed_by_seed():
    found = study({"full": [20.0, 22.0, 24.0], "no-cayley": [19.0, 21.1, 22.9], "no-refiner": [20.5, 22.6, 24.4]})
    assert found.estimate("full", "clips", "psnr").mean == pytest.approx(22.0)
    loss = found.difference("no-cayley", "clips")
    assert loss.mean == pytest.approx(-1.0)
    assert loss.half_width == pytest.approx(4.303 * 0.1 / 3**0.5)
    assert [found.verdict(name, "clips") for name in ("no-cayley", "no-refiner")] == ["worse", "better"]
    assert found.news() == ["w/o HF-Refiner is better than the full model on clips: +0.50 ± 0.25 dB"]


def test_one_seed_and_noise_have_no_verdict():
    assert study({"full": [20.0], "no-cayley": [10.0]}).verdict("no-cayley", "clips") == "not known"
    noisy = study({"full": [20.0, 20.0, 20.0], "no-cayley": [19.0, 21.0, 19.5]})
    assert noisy.verdict("no-cayley", "clips") == "no difference"


def test_tables_have_our_rows_above_the_papers():
    (table,) = ablation_tables(study({"full": [20.0, 22.0, 24.0], "no-cayley": [19.0, 21.0, 23.0]}))
    rows = {(row.method, row.source): row.cells for row in table.rows}
    assert rows["w/o Cayley map", "measured"] == ("21.00 ± 4.97", "not measured", "not measured", "-1.00 ± 0.00")
    assert rows["w/o Cayley map", "reported"] == ("21.69", "0.9035", "0.0823", "-2.59")
    assert r"$\Delta$PSNR" in format_table(table, "latex")


@pytest.mark.slow
def test_a_study_stops_in_time_goes_on_and_does_nothing_twice(tmp_path):
    options = AblationOptions(
        RECIPES,
        tmp_path / "out",
        seeds=2,
        steps=2,
        only=("no-temporal-field", "no-lie-temporal"),
        overrides=TINY,
        clips=1,
        frames=2,
        size=(64, 48),
        device="cpu",
    )
    hurried = AblationOptions(**(options.__dict__ | {"stop_after": 0.0}))
    lines: list[str] = []
    assert not ablate(plan_study(hurried), lines.append)[1]
    assert not any("steps in" in line for line in lines)

    lines.clear()
    found, complete = ablate(plan_study(options), lines.append)
    assert complete
    assert sum("2 steps in" in line for line in lines) == 6
    assert found.estimate("no-temporal-field", "held-back clips", "psnr").clips == 2
    assert found.reference["held-back clips"]["psnr"] > 5
    assert not list((tmp_path / "out" / "weights").iterdir()), "weights are kept until they are measured"
    content = json.loads((tmp_path / "out" / "ablation.json").read_text())
    assert [row["variant"] for row in content["variants"]] == ["full", "no-temporal-field", "no-lie-temporal"]
    assert len(content["variants"][0]["runs"]) == 2
    assert "live_units" in content["variants"][0]["runs"][0]
    for name in ("ablation.md", "ablation.csv", "ablation.tex"):
        assert "w/o temporal Lie term" in (tmp_path / "out" / name).read_text()

    (tmp_path / "out" / "runs" / "full-1.json").unlink()
    lines.clear()
    assert ablate(plan_study(options), lines.append)[1]
    assert next(line for line in lines if "steps in" in line).startswith("full, seed 1:")
    assert sum("steps in" in line for line in lines) == 1

    other = AblationOptions(**(options.__dict__ | {"frames": 1}))
    with pytest.raises(InputError, match=r"study of other settings \(frames\)"):
        plan_study(other)


def test_a_run_that_diverges_is_a_result(tmp_path):
    options = AblationOptions(
        RECIPES,
        tmp_path / "out",
        seeds=1,
        steps=6,
        only=("full",),
        overrides=(*TINY, "optimiser.lr=1e30", "optimiser.clip=1e30", "optimiser.max_bad_steps=1"),
        clips=1,
        frames=1,
        size=(64, 48),
        device="cpu",
    )
    found, complete = ablate(plan_study(options))
    assert complete
    assert "not finite" in found.runs["full"][0].failure
    assert any("failed: the loss was not finite" in line for line in found.news())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 1}, "at least 2 steps"),
        ({"seeds": 0}, "seeds of at least 1"),
        ({"clips": 0}, "sets to measure on"),
        ({"data": ("pairs=nowhere",)}, "no set at nowhere"),
        ({"overrides": (*NO_WEIGHTS, 'photos.folders=["nowhere"]')}, "no photos at nowhere"),
    ],
)
def test_mistakes_are_found_before_anything_is_trained(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        plan_study(AblationOptions(**({"recipes": RECIPES, "output": tmp_path, "overrides": TINY} | changes)))


def test_parts_share_a_study_and_the_last_one_writes_all_tables(tmp_path):
    options = AblationOptions(
        RECIPES,
        tmp_path / "out",
        seeds=1,
        steps=2,
        only=("no-temporal-field", "no-lie-temporal"),
        overrides=TINY,
        clips=1,
        frames=1,
        size=(64, 48),
        device="cpu",
    )
    parts = [AblationOptions(**(options.__dict__ | {"part": (number, 2)})) for number in (1, 2)]
    plans = [plan_study(part) for part in parts]
    assert [[variant.name for variant, _ in plan.missing] for plan in plans] == [
        ["full", "no-lie-temporal"],
        ["no-temporal-field"],
    ]
    found, complete = ablate(plans[1])
    assert complete, "its own part is"
    assert not found.runs["full"]
    found, complete = ablate(plans[0])
    assert complete
    assert all(len(runs) == 1 for runs in found.runs.values())
    assert plan_study(options).missing == []
    assert "w/o Temporal Field" in (tmp_path / "out" / "ablation.md").read_text()


@pytest.mark.parametrize("text", ["2", "0/3", "4/3", "a/b", "1/"])
def test_a_part_is_counted_from_one(tmp_path, text):
    with pytest.raises(InputError, match="expected a part such as 2/5"):
        AblationOptions(RECIPES, tmp_path, part=parse_part(text))
