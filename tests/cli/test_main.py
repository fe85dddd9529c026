"""The command line as a whole: cheap to start, one sentence for a mistake, a clean end on Ctrl-C."""

import json
import logging
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import libranet
from libranet.cli import main as cli
from libranet.errors import InputError

HEAVY = ("torch", "numpy", "cv2", "av", "safetensors")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["dehaze", "--help"], ["eval", "--help"]])
def test_help_and_version_load_no_heavy_package(arguments):
    program = f"""
import json, sys, time
sys.argv = ["libranet", *{arguments!r}]
from libranet.cli.main import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
own = [name for name in sys.modules if name.split(".")[0] == "libranet"]
heavy = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([time.process_time(), heavy, own]))
"""
    result = run("-c", program)
    assert result.returncode == 0, result.stderr
    seconds, heavy, own = json.loads(result.stdout.splitlines()[-1])
    assert heavy == []
    assert len(own) < 30, own
    assert seconds < 1.0  # about 0.2 s; the limit leaves room for a busy machine


def test_the_package_is_a_module_that_runs():
    result = run("-m", "libranet", "--version")
    assert (result.returncode, result.stdout.strip()) == (0, libranet.__version__)
    assert run("-m", "libranet", "no-such-command").returncode == 2


def test_public_names_are_imported_when_used():
    program = "import sys, libranet; assert 'torch' not in sys.modules; print(libranet.load_model.__module__)"
    assert run("-c", program).stdout.strip() == "libranet.network.checkpoint"
    for name in libranet.__all__:
        assert getattr(libranet, name) is not None
        assert name in dir(libranet)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = libranet.no_such_name


@pytest.mark.parametrize("device", ["bad", "cuda:99"])
@pytest.mark.parametrize(
    "words",
    [
        ["dehaze", "in.mp4", "-o", "out.mp4"],
        ["eval", "missing", "-o", "report"],
        ["eval", "--table", "efficiency"],
        ["synth", "procedural", "-o", "set"],
        ["train", "recipes/smoke.toml", "-o", "run"],
    ],
    ids=" ".join,
)
def test_a_wrong_device_is_one_sentence(words, device, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "smoke.toml").write_text('[photos]\nfolders = ["photos"]\n')
    monkeypatch.setattr("sys.argv", ["libranet", *words, "--device", device])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "device" in error
    assert len(error.splitlines()) == 1


def stand_in(monkeypatch, **functions):
    for name, function in functions.items():
        monkeypatch.setattr(f"libranet.cli.{name}.{name}", function)


def test_an_interrupt_ends_without_a_traceback(capsys, monkeypatch):
    def interrupted() -> None:
        raise KeyboardInterrupt

    stand_in(monkeypatch, doctor=interrupted)
    monkeypatch.setattr("sys.argv", ["libranet", "doctor"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == cli.EXIT_INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err


def test_mistakes_and_bugs_become_sentences(capsys, monkeypatch):
    def broken() -> None:
        raise RuntimeError("a bug")

    def mistaken() -> None:
        raise InputError("expected [an odd] number, got 4")

    stand_in(monkeypatch, doctor=broken, info=mistaken)
    monkeypatch.setattr("sys.argv", ["libranet", "doctor"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == cli.EXIT_BUG
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "unexpected RuntimeError (a bug)" in err
    monkeypatch.setattr("sys.argv", ["libranet", "-v", "doctor"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["libranet", "info"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == cli.EXIT_USER_ERROR
    assert capsys.readouterr().err == "error: expected [an odd] number, got 4\n"


@pytest.mark.parametrize(
    ("options", "shown"), [([], "progress\nwarning: careful\n"), (["-v"], "detail\nprogress\nwarning: careful\n")]
)
def test_log_messages_go_to_stderr_one_line_each(options, shown, monkeypatch):
    def log_something() -> None:
        logger = logging.getLogger("libranet.some.module")
        logger.debug("detail")
        logger.info("progress")
        logger.warning("careful")

    stand_in(monkeypatch, doctor=log_something)
    result = CliRunner().invoke(cli.build_app(), [*options, "doctor"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", shown)


def test_shell_completion_is_on():
    assert "--install-completion" in CliRunner().invoke(cli.build_app(), ["--help"]).stdout
