"""Every number of the paper's tables that the laboratory prints, against the tables themselves (paper-tables.tsv)."""

from pathlib import Path

import pytest

from libranet.haze.scattering import PAPER_HAZY_PSNR
from libranet.lab.ablation.variants import PAPER_ROWS
from libranet.lab.analysis import anatomy, composition, resolution
from libranet.lab.bench.efficiency import SIZES
from libranet.lab.paper import dataset_table, tables, values
from libranet.lab.perception import detectors, measures
from libranet.lab.study import PAPER_STUDY
from libranet.network.cost import PAPER_GFLOPS, PAPER_PARAMETERS

Cells = tuple[float | None, ...]
ABLATION_ROWS = {
    "full": "Full model",
    "no-chromatic-field": "w/o Chromatic Field",
    "no-temporal-field": "w/o Temporal Field",
    "no-refiner": "w/o HF-Refiner",
    "no-cayley": "w/o Cayley map",
    "no-adaptive-slicing": "w/o Res-Adaptive Slicing",
    "no-perceptual": "w/o L_perc",
    "no-lie": "w/o L_lie",
    "pixel-only": "L_pixel only",
    "vgg19": "VGG-19 L_perc",
}
TEMPORAL_ABLATION = {
    "full": "Ours",
    "no-temporal-field": "w/o Temporal Field",
    "no-lie-temporal": "w/o L_lie temporal",
}
OUR_NAMES = {
    "No dehazing": "No Dehazing",
    "LiBrA-Net": "Ours",
    "Ground truth": "GT (oracle)",
    "LiBrA-Net without Temporal Field": "w/o Temporal Field",
    "LiBrA-Net without temporal Lie term": "w/o L_lie temporal",
}
WORDS = {"≤": "up to ", "<=": "up to ", "2K-4K": "2K to 4K", "~326k": "about 326,000", "no-ref": "no reference"}


def printed(table: str) -> dict[str, list[str]]:
    lines = Path(__file__).with_name("paper-tables.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {row[1]: row[2:] for row in rows if row[0] == table}


def number(text: str) -> float | None:
    if text == "-":
        return None
    return float(text[:-1]) * 1000 if text.endswith("K") else float(text)


def numbers(table: str) -> dict[str, Cells]:
    return {row: tuple(map(number, cells)) for row, cells in printed(table).items()}


def by_name(table: values.PaperTable) -> dict[str, Cells]:
    return {OUR_NAMES.get(method, method): cells for method, cells in table.rows}


@pytest.mark.parametrize(("place", "first"), [("UHV-4K", 0), ("REVIDE", 3), ("HazeWorld", 6)])
def test_main_table(place: str, first: int) -> None:
    expected = {row: cells[first : first + 3] for row, cells in numbers("main").items()}
    assert by_name(values.MAIN_SETS[place]) == expected
    assert len(expected) == 18


def test_efficiency() -> None:
    expected = {row: cells[9:] for row, cells in numbers("main").items() if cells[9] is not None}
    fps, rounded, parameters = expected["Ours"]
    assert rounded == 280  # 0.28K; the text has 282
    assert by_name(values.EFFICIENCY) == {**expected, "Ours": (fps, 282, parameters)}
    assert (PAPER_GFLOPS, PAPER_PARAMETERS) == (282, 6.12e6)
    assert tables.PAPER_EFFICIENCY_SIZE == (3840, 2160)
    assert SIZES == {(1280, 720): "720p", (1920, 1080): "1080p", (3840, 2160): "4K", (7680, 4320): "8K"}


def test_hazy_psnr() -> None:
    assert numbers("main")["No Dehazing"][0] == PAPER_HAZY_PSNR


def test_temporal_and_downstream_tables() -> None:
    assert by_name(values.TEMPORAL) == numbers("temporal")
    assert by_name(values.DOWNSTREAM) == numbers("downstream")


def test_ablation_tables() -> None:
    expected, temporal = numbers("ablation"), numbers("temporal")
    assert expected["Full loss"] == expected["Full model"]
    assert {name: row.uhv4k for name, row in PAPER_ROWS.items() if row.uhv4k} == {
        name: expected[row][:3] for name, row in ABLATION_ROWS.items()
    }
    assert {name: row.revide for name, row in PAPER_ROWS.items() if row.revide} == {
        name: expected[row][4:7] for name, row in ABLATION_ROWS.items()
    }
    assert {name: row.temporal for name, row in PAPER_ROWS.items() if row.temporal} == {
        name: temporal[row] for name, row in TEMPORAL_ABLATION.items()
    }


def test_resolution_table_and_its_edges() -> None:
    native = {"UHV-4K": 3840, "REVIDE": 2708}
    expected: dict[int, dict[int, dict[str, tuple[float, float]]]] = {3840: {}, 2708: {}}
    for row, cells in printed("resolution").items():
        place, edge, *anchor = row.split(" ", 2)
        if anchor:
            continue
        chromatic, temporal, chromatic_r, temporal_r = (float(cell.split("±")[0]) for cell in cells)
        fields = {"chromatic": (chromatic, chromatic_r), "temporal": (temporal, temporal_r)}
        expected[native[place]][int(edge.removesuffix("p"))] = fields
    assert expected == resolution.PAPER
    assert tuple(expected[3840]) == resolution.EDGES


def test_table_of_sets() -> None:
    expected = {}
    for row, cells in printed("sets").items():
        text = "\t".join(cells).replace("trans.", "transmission")
        for theirs, ours in WORDS.items():
            text = text.replace(theirs, ours)
        expected[row.removesuffix(" (Ours)")] = tuple(text.split("\t"))
    assert dict(dataset_table.PAPER_ROWS) == expected


def test_study() -> None:
    expected = {
        row.removesuffix(" (Ours)"): (
            *(tuple(map(float, cell.split("±"))) for cell in cells[:3]),
            float(cells[3]),
        )
        for row, cells in printed("study").items()
    }
    assert {name: tuple(cells) for name, *cells in PAPER_STUDY} == expected


def test_numbers_of_the_text() -> None:
    assert (composition.PAPER_ERROR, composition.PAPER_SLOPE) == (1e-3, 0.98)
    assert anatomy.CELLS == 20_000  # cells of the t-SNE
    assert len(anatomy.CHANNELS) == 12


def test_detection_counts_as_the_documentation_says() -> None:
    assert (detectors.MIN_CONFIDENCE, measures.HIGH_CONFIDENCE) == (0.25, 0.5)
    assert (measures.SMALL_SIDE, measures.REFERENCE_SIDE) == (32, 640)
