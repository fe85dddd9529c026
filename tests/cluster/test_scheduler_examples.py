"""Examples for schedulers, as far as a machine without one can check them: shell, schema, and our own commands."""

import shlex
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import typer
import yaml

from libranet.cli.main import build_app
from libranet.training.recipe import load_recipe

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"

CONTAINER = {
    "type": "object",
    "required": ["name", "image"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "command": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "array", "items": {"type": "object", "required": ["name", "value"]}},
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"limits": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
        "volumeMounts": {"type": "array", "items": {"type": "object", "required": ["name", "mountPath"]}},
    },
}
TEMPLATE = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["containers"],
            "properties": {"containers": {"type": "array", "minItems": 1, "items": CONTAINER}},
        }
    },
}
RAY_JOB = {
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "spec": {
            "additionalProperties": False,
            "required": ["entrypoint", "rayClusterSpec"],
            "properties": {
                "entrypoint": {"type": "string"},
                "shutdownAfterJobFinishes": {"type": "boolean"},
                "rayClusterSpec": {
                    "additionalProperties": False,
                    "required": ["headGroupSpec"],
                    "properties": {
                        "headGroupSpec": {
                            "required": ["rayStartParams", "template"],
                            "properties": {
                                "rayStartParams": {"additionalProperties": {"type": "string"}},
                                "template": TEMPLATE,
                            },
                        },
                        "workerGroupSpecs": {
                            "items": {
                                "required": ["groupName", "rayStartParams", "template"],
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "minReplicas": {"type": "integer"},
                                    "maxReplicas": {"type": "integer"},
                                    "template": TEMPLATE,
                                },
                            }
                        },
                    },
                },
            },
        },
    },
}
PYTORCH_JOB = {
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "kubeflow.org/v1"},
        "kind": {"const": "PyTorchJob"},
        "spec": {
            "additionalProperties": False,
            "required": ["pytorchReplicaSpecs"],
            "properties": {
                "nprocPerNode": {"type": "string"},
                "elasticPolicy": {
                    "additionalProperties": False,
                    "properties": {
                        "rdzvBackend": {"enum": ["c10d", "etcd", "etcd-v2"]},
                        "minReplicas": {"type": "integer"},
                        "maxReplicas": {"type": "integer"},
                        "maxRestarts": {"type": "integer"},
                    },
                },
                "pytorchReplicaSpecs": {
                    "additionalProperties": False,
                    "properties": {
                        "Worker": {
                            "required": ["replicas", "template"],
                            "properties": {
                                "replicas": {"type": "integer"},
                                "restartPolicy": {"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
                                "template": TEMPLATE,
                            },
                        }
                    },
                },
            },
        },
    },
}
"""The parts of both operators' schemas that the examples use, after the operators' API references."""


def parses(words: list[str]) -> None:
    command = typer.main.get_command(build_app()).get_command(None, words[1])
    command.make_context(words[1], words[2:])


@pytest.mark.parametrize(("name", "schema"), [("kuberay-dehaze.yaml", RAY_JOB), ("pytorchjob-train.yaml", PYTORCH_JOB)])
def test_resources_fit_their_schema(name, schema):
    jsonschema.validate(yaml.safe_load((EXAMPLES / name).read_text()), schema)


def test_the_ray_job_runs_a_command_that_exists():
    job = yaml.safe_load((EXAMPLES / "kuberay-dehaze.yaml").read_text())
    parses(shlex.split(job["spec"]["entrypoint"]))


def test_the_training_jobs_set_what_a_recipe_has(tmp_path):
    job = yaml.safe_load((EXAMPLES / "pytorchjob-train.yaml").read_text())
    words = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    assert load_recipe(EXAMPLES.parents[1] / "recipes" / "smoke.toml", [words[-1]]).accumulate == 8
    # Without it a pod that comes back would refuse the folder, which holds a run.
    assert "--auto-resume" in words
    assert "--auto-resume" in (EXAMPLES / "train.sbatch").read_text()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.sbatch")), ids=lambda path: path.name)
def test_scripts_are_shell_with_known_directives(path):
    subprocess.run(["bash", "-n", str(path)], check=True)
    options = [
        line.split()[1].partition("=")[0] for line in path.read_text().splitlines() if line.startswith("#SBATCH")
    ]
    known = {
        "--job-name",
        "--array",
        "--gres",
        "--cpus-per-task",
        "--time",
        "--nodes",
        "--ntasks-per-node",
        "--requeue",
    }
    assert set(options) <= known


def test_a_dry_run_of_the_array_gives_each_job_its_share(tmp_path):
    """The script with a `libranet` that prints its arguments."""
    fake = tmp_path / "libranet"
    fake.write_text('#!/bin/bash\necho libranet "$@"\n')
    fake.chmod(0o755)
    script = shutil.copy(EXAMPLES / "dehaze-array.sbatch", tmp_path)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "8"}
    done = subprocess.run(["bash", script, "in", "out"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["libranet", "dehaze", "in", "-o", "out", "--shard", "3/8", "--resume"]
    parses(done.stdout.split())
