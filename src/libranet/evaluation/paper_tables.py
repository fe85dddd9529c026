"""The paper's tables, as reported."""

from dataclasses import dataclass
from typing import Literal

TableName = Literal["main", "temporal", "downstream", "efficiency"]


@dataclass(frozen=True)
class PaperTable:
    """One table: columns by metric name, rows by method."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]


MAIN = PaperTable(
    "UHV-4K (paper, table 1)",
    ("psnr", "ssim", "lpips"),
    (
        ("No dehazing", (13.19, 0.7690, 0.2256)),
        ("MSBDN-DFF", (22.51, 0.9257, 0.0748)),
        ("FFA-Net", (20.43, 0.9042, 0.0731)),
        ("4KDehazing", (18.56, 0.8608, 0.1011)),
        ("DeHamer", (20.13, 0.8589, 0.1583)),
        ("DehazeFormer", (23.74, 0.9313, 0.0468)),
        ("UHDformer", (23.16, 0.9381, 0.0746)),
        ("UHDDIP", (21.90, 0.9344, 0.0644)),
        ("DehazeXL", (22.63, 0.9235, 0.0656)),
        ("CG-IDN", (20.13, 0.8037, 0.2756)),
        ("PM-Net", (21.84, 0.9113, 0.0911)),
        ("MAP-Net", (18.45, 0.8147, 0.2055)),
        ("ViWS-Net", (22.06, 0.7742, 0.3586)),
        ("DVD", (21.02, 0.8184, 0.2409)),
        ("DCL", (20.81, 0.9167, 0.0818)),
        ("DS-TFN", (20.24, 0.8975, 0.0850)),
        ("ASTP-Net", (19.00, 0.7051, 0.4904)),
        ("LiBrA-Net", (24.28, 0.9437, 0.0401)),
    ),
)
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
    (
        ("MSBDN-DFF", (2.31, 5740.0, 30.31)),
        ("FFA-Net", (0.31, 75810.0, 4.70)),
        ("4KDehazing", (3.11, 10200.0, 17.26)),
        ("DeHamer", (1.50, 2610.0, 23.89)),
        ("DehazeFormer", (0.18, 6000.0, 2.54)),
        ("UHDformer", (0.13, 33300.0, 20.33)),
        ("UHDDIP", (1.25, 18350.0, 7.58)),
        ("DehazeXL", (2.27, 6500.0, 125.50)),
        ("CG-IDN", (6.97, 2190.0, 1.09)),
        ("PM-Net", (1.06, 17260.0, 0.91)),
        ("MAP-Net", (0.81, 8620.0, 28.33)),
        ("ViWS-Net", (4.21, 1200.0, 57.67)),
        ("DVD", (3.35, 4930.0, 3.26)),
        ("DCL", (0.98, 20550.0, 12.31)),
        ("DS-TFN", (0.46, 51990.0, 2.47)),
        ("ASTP-Net", (3.56, 410.0, 0.63)),
        ("LiBrA-Net", (25.27, 282.0, 6.12)),
    ),
)
PAPER_TABLES: dict[TableName, PaperTable] = {
    "main": MAIN,
    "temporal": TEMPORAL,
    "downstream": DOWNSTREAM,
    "efficiency": EFFICIENCY,
}
