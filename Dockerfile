# The web page in a container. It runs as a user without rights and keeps its files in /data.
#
#   docker build -t libranet .                                 CPU
#   docker build -t libranet:cuda --build-arg TORCH=cuda .     NVIDIA GPUs: run it with --gpus all
#   docker build -t libranet-worker --target worker --build-arg EXTRAS=cluster .   nodes of a Ray cluster; also TORCH=cuda
#   docker run -p 8000:8000 -v libranet:/data -e LIBRANET_TOKEN=at-least-8-characters libranet
#
# The same image is the command line: docker run --rm -u "$(id -u)" -v "$PWD:/work" libranet dehaze foggy.mp4
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
# PyTorch's own index has builds without CUDA: a tenth of the size.
ARG TORCH=cpu
ARG INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/libranet
RUN test "$TORCH" = cuda || /opt/libranet/bin/pip install --no-cache-dir --index-url "$INDEX" 'torch>=2.6,<2.14'
COPY pyproject.toml hatch_build.py README.md LICENSE LICENSE-WEIGHTS.md /src/
COPY src /src/src
ARG EXTRAS=
RUN all="$EXTRAS$(test "$TORCH" != cuda || echo ,gpu)" && /opt/libranet/bin/pip install --no-cache-dir "/src${all:+[${all#,}]}"
# What only compilers of C++ extensions read.
RUN rm -rf /opt/libranet/lib/python*/site-packages/torch/include /opt/libranet/lib/python*/site-packages/torch/share
RUN /opt/libranet/bin/libranet --version

# KubeRay starts Ray's own commands in it, so it has no entry point.
FROM python:${PYTHON}-slim AS worker
ARG TORCH=cpu
RUN test "$TORCH" != cuda || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; }
RUN useradd --system --create-home --home-dir /data --uid 10001 libranet && install -d -o libranet /work
COPY --from=build /opt/libranet /opt/libranet
ENV PATH=/opt/libranet/bin:$PATH
USER libranet
WORKDIR /work
RUN ray --version && python3 -c "import s3fs, opentelemetry.sdk"

FROM python:${PYTHON}-slim
ARG TORCH=cpu
# Triton compiles the launchers of its kernels where they run.
RUN test "$TORCH" != cuda || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; }
RUN useradd --system --create-home --home-dir /data --uid 10001 libranet && install -d -o libranet /work
COPY --from=build /opt/libranet /opt/libranet
ENV PATH=/opt/libranet/bin:$PATH
USER libranet
WORKDIR /work
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["libranet"]
# Without a token in the environment or in a file the server refuses to listen on this address.
CMD ["serve", "--host", "0.0.0.0", "--data", "/data"]
