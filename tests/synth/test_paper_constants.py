"""Constants of the paper's set, checks and measures: its own where it prints them, docs/synthesis.md's where not."""

import dataclasses
import inspect
from pathlib import Path

import pytest

from libranet.data import dataset, pairs
from libranet.evaluation import figures, scores
from libranet.evaluation.metric_table import METRICS
from libranet.evaluation.summary import estimate
from libranet.flow import raft
from libranet.haze import scattering
from libranet.kernels.color_field.reference import SINGULAR_DET
from libranet.losses import perceptual
from libranet.metrics import fidelity, lpips
from libranet.network.config import EncoderConfig, FieldsConfig, LiBrANetConfig
from libranet.network.cost import measure_cost
from libranet.network.layers import COEFFICIENTS
from libranet.synth import depth_estimators, depth_maps, manifest, photo_motion, screening, synthesize

RECIPES = Path(__file__).parents[2] / "recipes"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def test_nine_regimes_are_three_densities_in_three_airlights() -> None:
    betas = {"thin": 0.75, "medium": 1.3, "dense": 2.15}
    lights = {"grey": (0.76, 0.77, 0.79), "white": (0.90, 0.91, 0.92), "warm": (0.90, 0.86, 0.79)}
    expected = {f"{tier}-{light}": (b, a) for tier, b in betas.items() for light, a in lights.items()}
    assert {regime.name: (regime.beta, regime.airlight) for regime in scattering.REGIMES} == expected
    assert scattering.PAPER_HAZY_PSNR == 13.19
    assert scattering.WAVELENGTHS == (0.61, 0.55, 0.46)


@pytest.mark.parametrize("name", ["uhv4k", "uhv4k-paper", "uhv4k-open"])
def test_the_sets_are_a_hundred_clips_of_25_frames_of_4k_at_5_fps(name: str) -> None:
    config = synthesize.PRESETS[name]  # type: ignore[index]
    values = dataclasses.asdict(config)
    assert values == {
        "preset": name,
        "frames": 25,
        "size": (3840, 2160),
        "proxy": 960,
        "scenes": 100,
        "fps": 5.0,
        "seed": 0,
        "angstrom": 0.0,
        "noise": 0.0,
    }


def test_mini() -> None:
    values = synthesize.PRESETS["mini"]
    assert (values.frames, values.size, values.proxy, values.scenes, values.fps) == (10, (960, 540), 480, 8, 5.0)


def test_a_fifth_of_the_clips_is_test() -> None:
    assert synthesize.TEST_SHARE == 0.2
    rows = manifest.read_manifest(RECIPES / "uhv4k-sources.csv")
    assert (len(rows), sum(row.part == "test" for row in rows)) == (100, 20)


def test_five_modalities_and_the_papers_subsets() -> None:
    assert dataset.MODALITIES == ("hazy", "clear", "depth", "transmission", "flow")
    assert pairs.HAZEWORLD_SUBSETS == ("DAVIS", "DDAD", "UA-DETRAC")


def test_depth() -> None:
    assert depth_estimators.DEPTH_ANYTHING_V2 == "depth-anything/Depth-Anything-V2-Large-hf"  # ViT-L
    assert (depth_estimators.SHORT_SIDE, depth_estimators.PATCH) == (518, 14)
    assert (depth_estimators.IMAGENET_MEAN, depth_estimators.IMAGENET_STD) == IMAGENET
    assert depth_maps.ESTIMATE_PERCENTILES == (2, 98)
    assert depth_maps.METRES_PERCENTILE == 80
    assert (depth_maps.NEIGHBOUR_WEIGHT, depth_maps.SMOOTHING_ROUNDS) == (0.3, 2)
    assert depth_maps.COLOUR_TOLERANCE == 0.10
    assert (depth_maps.GUIDE_RADIUS, depth_maps.GUIDE_EPSILON) == (8, 1e-3)
    assert depth_maps.SAMPLES_PER_FRAME == 20_000
    assert photo_motion.TEAR == 0.35


def test_five_checks() -> None:
    limits = {name: limit for name, (limit, _) in screening.CHECKS.items()}
    assert limits == {
        "alignment": 1 / 255,
        "depth stability": 0.08,
        "haze consistency": 0.05,
        "airlight round trip": 1 / 255,
        "pixel ranges": 0.0,
    }
    assert (screening.FLOW_LIMIT, screening.WARP_WIDTH) == (4, 960)


def test_grids_and_the_cayley_map() -> None:
    config = LiBrANetConfig()
    assert COEFFICIENTS == 12
    assert config.encoder.size // 2 ** len(config.encoder.widths) == 16  # cells of a grid, each way
    assert SINGULAR_DET == 1e-6
    assert config.encoder == EncoderConfig(256, (24, 48, 96, 192), 2, 0.1)
    assert config.fields == FieldsConfig(8, 272, 8, 4, 0.1)
    assert measure_cost(config).gflops == pytest.approx(282, rel=0.03)


def test_metrics() -> None:
    lower = {"lpips", "tof", "sigma_psnr", "niqe", "brisque"}
    columns = {m.name: m.higher_is_better for m in METRICS if m.group in ("fidelity", "temporal", "downstream")}
    columns |= {m.name: m.higher_is_better for m in METRICS if m.name in ("niqe", "brisque", "musiq")}
    assert len(columns) == 15
    assert {name for name, higher in columns.items() if not higher} == lower
    assert (fidelity._SIGMA, fidelity._RADIUS, fidelity._C1, fidelity._C2) == (1.5, 5, 0.01**2, 0.03**2)
    assert (lpips._MEAN, lpips._STD) == IMAGENET
    assert raft.ITERATIONS == 12
    assert scores.PSNR_OF_EQUAL_FRAMES == 100
    assert figures.HEAT_RANGE == 0.25
    assert estimate([1.0, 2.0, 3.0]).half_width == pytest.approx(4.303 / 3**0.5, rel=1e-3)  # t of 95 %, 2 degrees


def test_perceptual_features() -> None:
    assert (perceptual.IMAGENET_MEAN, perceptual.IMAGENET_STD) == IMAGENET
    assert inspect.signature(perceptual.DinoV2Features).parameters["layers"].default == (3, 6, 9, 12)
