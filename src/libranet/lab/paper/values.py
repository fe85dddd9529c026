"""The paper's tables, as reported."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

TableName = Literal["main", "temporal", "downstream", "efficiency"]


@dataclass(frozen=True)
class PaperTable:
    """One table: columns by metric name, rows by method."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]


_Three = tuple[float, float, float]
_TABLE_1: tuple[tuple[str, _Three | None, _Three, _Three, _Three], ...] = (
    ("No dehazing", None, (13.19, 0.7690, 0.2256), (14.98, 0.7820, 0.3476), (14.37, 0.8032, 0.1605)),
    ("MSBDN-DFF", (2.31, 5740.0, 30.31), (22.51, 0.9257, 0.0748), (21.67, 0.8618, 0.2932), (28.99, 0.9702, 0.0223)),
    ("FFA-Net", (0.31, 75810.0, 4.70), (20.43, 0.9042, 0.0731), (18.16, 0.8334, 0.2903), (26.78, 0.9581, 0.0352)),
    ("4KDehazing", (3.11, 10200.0, 17.26), (18.56, 0.8608, 0.1011), (17.68, 0.8325, 0.2996), (27.15, 0.9649, 0.0291)),
    ("DeHamer", (1.50, 2610.0, 23.89), (20.13, 0.8589, 0.1583), (18.13, 0.8181, 0.3305), (25.84, 0.9403, 0.0696)),
    ("DehazeFormer", (0.18, 6000.0, 2.54), (23.74, 0.9313, 0.0468), (20.76, 0.8397, 0.2603), (28.38, 0.9663, 0.0270)),
    ("UHDformer", (0.13, 33300.0, 20.33), (23.16, 0.9381, 0.0746), (18.22, 0.8135, 0.3141), (22.32, 0.9288, 0.0605)),
    ("UHDDIP", (1.25, 18350.0, 7.58), (21.90, 0.9344, 0.0644), (18.20, 0.8366, 0.2734), (28.02, 0.9692, 0.0244)),
    ("DehazeXL", (2.27, 6500.0, 125.50), (22.63, 0.9235, 0.0656), (19.47, 0.8355, 0.2856), (27.45, 0.9659, 0.0257)),
    ("CG-IDN", (6.97, 2190.0, 1.09), (20.13, 0.8037, 0.2756), (17.25, 0.8060, 0.4624), (25.62, 0.9224, 0.1258)),
    ("PM-Net", (1.06, 17260.0, 0.91), (21.84, 0.9113, 0.0911), (18.16, 0.8234, 0.2984), (24.22, 0.9309, 0.0654)),
    ("MAP-Net", (0.81, 8620.0, 28.33), (18.45, 0.8147, 0.2055), (18.42, 0.8070, 0.3641), (20.31, 0.7692, 0.2130)),
    ("ViWS-Net", (4.21, 1200.0, 57.67), (22.06, 0.7742, 0.3586), (20.74, 0.8188, 0.4643), (27.66, 0.9320, 0.1202)),
    ("DVD", (3.35, 4930.0, 3.26), (21.02, 0.8184, 0.2409), (20.63, 0.8383, 0.4064), (27.05, 0.9310, 0.1153)),
    ("DCL", (0.98, 20550.0, 12.31), (20.81, 0.9167, 0.0818), (18.29, 0.8353, 0.2939), (27.45, 0.9617, 0.0370)),
    ("DS-TFN", (0.46, 51990.0, 2.47), (20.24, 0.8975, 0.0850), (15.79, 0.8143, 0.3484), (25.79, 0.9512, 0.0428)),
    ("ASTP-Net", (3.56, 410.0, 0.63), (19.00, 0.7051, 0.4904), (17.33, 0.7835, 0.5120), (22.42, 0.8408, 0.2517)),
    ("LiBrA-Net", (25.27, 282.0, 6.12), (24.28, 0.9437, 0.0401), (21.43, 0.8678, 0.2397), (27.46, 0.9593, 0.0336)),
)  # fmt: skip
"""The paper's table 1: FPS, GFLOPs and million parameters at 4K, then PSNR, SSIM and LPIPS on three sets."""


MAIN_SETS = {
    place: PaperTable(
        f"{place} (paper, table 1)",
        ("psnr", "ssim", "lpips"),
        tuple((method, sets[number]) for method, _, *sets in _TABLE_1),
    )
    for number, place in enumerate(("UHV-4K", "REVIDE", "HazeWorld"))
}
"""The main table's columns by set, with the same methods in the same order."""
TEMPORAL = PaperTable(
    "Temporal consistency on UHV-4K (paper, appendix)",
    ("tof", "sigma_psnr", "psnr"),
    (
        ("MSBDN-DFF", (0.005139, 0.70, 22.51)),
        ("DehazeFormer", (0.005299, 0.51, 23.74)),
        ("DehazeXL", (0.005403, 0.82, 22.63)),
        ("UHDDIP", (0.005630, 0.58, 21.90)),
        ("UHDformer", (0.006129, 0.57, 23.16)),
        ("DCL", (0.004154, 0.95, 20.81)),
        ("ViWS-Net", (0.004161, 0.55, 22.06)),
        ("MAP-Net", (0.004405, 0.54, 18.45)),
        ("CG-IDN", (0.004547, 0.44, 20.13)),
        ("DVD", (0.004551, 0.51, 21.02)),
        ("LiBrA-Net", (0.004769, 0.66, 24.28)),
        ("LiBrA-Net without Temporal Field", (0.004800, 0.99, 22.09)),
        ("LiBrA-Net without temporal Lie term", (0.004396, 0.95, 22.31)),
    ),
)
DOWNSTREAM = PaperTable(
    "Downstream and no-reference metrics on UHV-4K (paper, appendix)",
    ("niqe", "brisque", "musiq", "det", "conf", "highconf", "smallobj", "bdrye", "classh", "numcomp"),
    (
        ("Hazy", (5.74, 71.74, 33.42, 16.4, 0.554, 0.520, 1.3, 0.0074, 0.261, 58.7)),
        ("CG-IDN", (10.36, 83.08, 23.83, 14.0, 0.542, 0.510, 0.9, 0.0078, 0.266, 64.0)),
        ("MAP-Net", (5.58, 58.50, 31.92, 14.3, 0.545, 0.502, 0.6, 0.0068, 0.257, 52.3)),
        ("DVD", (10.43, 82.69, 24.97, 14.7, 0.541, 0.493, 0.9, 0.0079, 0.268, 64.5)),
        ("LiBrA-Net", (5.04, 50.03, 37.45, 17.0, 0.558, 0.523, 1.2, 0.0079, 0.266, 67.6)),
        ("Ground truth", (5.14, 55.56, 38.23, 17.2, 0.557, 0.518, 1.2, 0.0080, 0.265, 69.0)),
    ),
)
EFFICIENCY = PaperTable(
    "Efficiency at 3840x2160 (paper, table 1: one V100)",
    ("fps", "gflops", "parameters"),
    tuple((method, speed) for method, speed, *_ in _TABLE_1 if speed is not None),
)
PAPER_TABLES: dict[TableName, PaperTable] = {
    "main": MAIN_SETS["UHV-4K"],
    "temporal": TEMPORAL,
    "downstream": DOWNSTREAM,
    "efficiency": EFFICIENCY,
}


def find_set(dataset: Path) -> str | None:
    """Which of the main table's sets a folder is, by its name, or by that of the folder whose part it is."""
    part = dataset.parent.name if dataset.name.lower() in ("train", "test") else dataset.name
    plain = part.lower().replace("-", "").replace("_", "")
    return next((name for name in MAIN_SETS if name.lower().replace("-", "") in plain), None)
