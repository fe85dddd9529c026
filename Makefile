# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Compiling every module of every package takes half of an installation; Python compiles those it imports by itself.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# The tests' tensors are small: more threads only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1

.PHONY: help demo test suite test-more test-slow docs lint format kernels dist clean

help:
	@echo "make demo       install what a user needs, then dehaze a short clip and show the result"
	@echo "make test       install what a developer needs, then lint, types and the test suite (three minutes)"
	@echo "make test-more  the laboratory, Ray, Chromium, kernels compiled for other cards (ten minutes)"
	@echo "make test-slow  fuzzer, kills, memory, every block of the documentation; a workflow runs it every night"
	@echo "make docs       build the documentation site into site/"
	@echo "make lint       ruff and mypy alone"
	@echo "make format     rewrite the sources with ruff"
	@echo "make kernels    compile the GPU kernels for every card, for the wheel (a quarter of an hour)"
	@echo "make dist       build wheel and sdist into dist/"
	@echo "make clean      remove the virtual environment, caches and built files"

# One environment that grows: the package alone for users, then what developers and the documentation need.
# Installing compiles the CPU kernels.
KERNELS := $(shell find src/libranet/kernels -name '*.[ch]')

$(VENV)/.user: pyproject.toml hatch_build.py $(KERNELS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.user
	$(PIP) -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.user
	$(PIP) -e '.[docs]'
	@touch $@

demo: $(VENV)/.user
	$(BIN)/python examples/demo.py

# Tools that share no code with ours, for tests/conformance, a browser for tests/serve and tests/web, a proxy, Debian
# for the steps of the Dockerfile, a judge of alerts, and network namespaces. Without them those tests are skipped.
.PHONY: ffmpeg chromium mkvmerge exiftool nginx debootstrap promtool ip live-servers gst-launch-1.0
PACKAGE = $@
mkvmerge: PACKAGE = mkvtoolnix
exiftool: PACKAGE = libimage-exiftool-perl
promtool: PACKAGE = prometheus
ip: PACKAGE = iproute2
ffmpeg chromium mkvmerge exiftool nginx debootstrap promtool ip gst-launch-1.0:
	@command -v $@ >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& { apt-get install -y -qq $(PACKAGE) >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq $(PACKAGE); } >/dev/null 2>&1; }; } \
		|| echo "no $@ here: the tests that need it will be skipped"

# GStreamer's RTSP server, and nginx with RTMP, for tests/engine/test_live_output.py.
live-servers: nginx
	@/usr/bin/python3 -c "import gi; gi.require_version('GstRtspServer', '1.0')" 2>/dev/null && test -e /usr/lib/nginx/modules/ngx_rtmp_module.so \
		|| { apt-get update -qq && apt-get install -y -qq gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-base gstreamer1.0-plugins-good \
			gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly gstreamer1.0-libav libnginx-mod-rtmp; } >/dev/null 2>&1 \
		|| echo "no RTSP server or RTMP module here: the tests that need them will be skipped"

# Host programs of plugins/, in .hosts: other Pythons and an FFmpeg that is built; 4 GB, ten minutes the first time.
.PHONY: hosts
GSTREAMER := python3-gst-1.0 gstreamer1.0-python3-plugin-loader gstreamer1.0-tools gstreamer1.0-libav \
	$(addprefix gstreamer1.0-plugins-,base good bad)
gst-launch-1.0: PACKAGE = $(GSTREAMER)

hosts: $(VENV)/.dev gst-launch-1.0
	$(BIN)/python tests/plugins/make_hosts.py

PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=10

# The linters run beside the tests: mypy has one thread.
test: $(VENV)/.dev ffmpeg mkvmerge exiftool
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint suite

suite:
	$(PYTEST)

test-more: $(VENV)/.dev ffmpeg mkvmerge exiftool chromium promtool live-servers
	$(PYTEST) -m 'more and not slow and not gpu'

test-slow: $(VENV)/.dev ffmpeg mkvmerge exiftool chromium nginx debootstrap ip hosts
	$(ONE_THREAD) $(BIN)/python -m pytest -m slow --durations=10

docs: $(VENV)/.docs
	$(BIN)/python -m mkdocs build --strict

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The machine code of the GPU kernels that a wheel carries, by the Triton they were measured with. No GPU is needed.
kernels: $(VENV)/.dev
	$(PIP) --no-deps --upgrade --target .cache/triton triton==3.6.0
	PYTHONPATH=.cache/triton $(ONE_THREAD) $(BIN)/python packaging/compile_kernels.py

dist: $(VENV)/.dev
	$(BIN)/python -m hatchling build -d dist

clean:
	rm -rf $(VENV) .hosts .pytest_cache .mypy_cache .ruff_cache dist build site
