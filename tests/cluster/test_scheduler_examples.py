"""Examples for schedulers, as far as a machine without one can check them: shell, schema, and our own commands."""

import importlib.util
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

PORT = {"properties": {"containerPort": {"type": "integer"}, "name": {"type": "string"}}}
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
CONTAINER = {
    "type": "object",
    "required": ["name", "image"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "command": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "array", "items": {"type": "object", "required": ["name", "value"]}},
        "ports": {"type": "array", "items": {"required": ["containerPort"], "additionalProperties": False, **PORT}},
        "lifecycle": {
            "additionalProperties": False,
            "properties": {
                "preStop": {
                    "required": ["exec"],
                    "properties": {"exec": {"required": ["command"], "properties": {"command": {"type": "array"}}}},
                }
            },
        },
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"limits": STRINGS, "requests": STRINGS},
        },
        "volumeMounts": {"type": "array", "items": {"type": "object", "required": ["name", "mountPath"]}},
    },
}
TEMPLATE = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "metadata": {"additionalProperties": False, "properties": {"labels": {"type": "object"}}},
        "spec": {
            "type": "object",
            "required": ["containers"],
            "additionalProperties": False,
            "properties": {
                "containers": {"type": "array", "minItems": 1, "items": CONTAINER},
                "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
                "tolerations": {"type": "array", "items": {"type": "object", "required": ["key", "operator"]}},
                "terminationGracePeriodSeconds": {"type": "integer"},
                "volumes": {"type": "array", "items": {"type": "object", "required": ["name"]}},
            },
        },
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
                "ttlSecondsAfterFinished": {"type": "integer"},
                "backoffLimit": {"type": "integer"},
                "rayClusterSpec": {
                    "additionalProperties": False,
                    "required": ["headGroupSpec"],
                    "properties": {
                        "rayVersion": {"type": "string"},
                        "authOptions": {
                            "additionalProperties": False,
                            "properties": {"mode": {"enum": ["disabled", "token"]}, "secretName": {"type": "string"}},
                        },
                        "enableInTreeAutoscaling": {"type": "boolean"},
                        "autoscalerOptions": {
                            "additionalProperties": False,
                            "properties": {
                                "version": {"enum": ["v1", "v2"]},
                                "idleTimeoutSeconds": {"type": "integer"},
                            },
                        },
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
    jsonschema.validate(next(yaml.safe_load_all((EXAMPLES / name).read_text())), schema)


def test_the_ray_job_runs_a_command_that_exists_and_asks_for_as_many_workers_as_there_may_be():
    job, *_ = kuberay()
    words = shlex.split(job["spec"]["entrypoint"])
    parses(words)
    (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert int(words[words.index("--workers") + 1]) == group["maxReplicas"]
    assert job["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] is True


def kuberay() -> list[dict]:
    return list(yaml.safe_load_all((EXAMPLES / "kuberay-dehaze.yaml").read_text()))


def test_spot_machines_are_drained_within_their_notice():
    (group,) = kuberay()[0]["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    pod = group["template"]["spec"]
    words = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert words[:2] == ["python", "-m"]
    assert importlib.util.find_spec(words[2]) is not None
    assert float(words[3]) < pod["terminationGracePeriodSeconds"] < 120  # what AWS gives
    scratch = next(item["value"] for item in pod["containers"][0]["env"] if item["name"] == "TMPDIR")
    assert scratch in [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]


def test_budgets_and_monitor_find_the_pods():
    job, *others = kuberay()
    cluster = job["spec"]["rayClusterSpec"]
    pods = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    labels = [pod["template"]["metadata"]["labels"] for pod in pods]
    found = {
        other["metadata"]["name"]: [
            number
            for number, have in enumerate(labels)
            if other["spec"]["selector"]["matchLabels"].items() <= have.items()
        ]
        for other in others
    }
    assert found == {"dehaze-workers": [1], "dehaze-head": [0], "dehaze": [0, 1]}
    (monitor,) = [other for other in others if other["kind"] == "PodMonitor"]
    port = monitor["spec"]["podMetricsEndpoints"][0]["port"]
    for pod in pods:
        (number,) = [
            one["containerPort"] for one in pod["template"]["spec"]["containers"][0]["ports"] if one["name"] == port
        ]
        assert pod["rayStartParams"]["metrics-export-port"] == str(number)


def test_prometheus_takes_the_alerts():
    if shutil.which("promtool") is None:
        pytest.skip("no promtool here: apt-get install prometheus")
    subprocess.run(["promtool", "check", "rules", str(EXAMPLES / "alerts.yaml")], check=True)


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
