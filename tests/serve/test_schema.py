"""The HTTP interface does what its own OpenAPI description says, whatever is sent."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
)
ENDLESS = "/api/jobs/{id}/events"
EXAMPLES = 12


@pytest.fixture(scope="module")
def schema(server):
    return schemathesis.openapi.from_url(f"{server.address}/api/openapi.json")


OPERATIONS = [
    ("GET", "/health"),
    ("GET", "/api/server"),
    ("GET", "/api/jobs"),
    ("POST", "/api/jobs"),
    ("POST", "/api/jobs/example"),
    ("GET", "/api/jobs/{id}"),
    ("DELETE", "/api/jobs/{id}"),
    ("PATCH", "/api/jobs/{id}/content"),
    ("POST", "/api/jobs/{id}/start"),
    ("POST", "/api/jobs/{id}/cancel"),
    ("GET", "/api/jobs/{id}/frame"),
    ("GET", "/api/jobs/{id}/preview"),
    ("GET", "/api/jobs/{id}/source"),
    ("GET", "/api/jobs/{id}/result"),
    ("POST", "/api/cameras"),
    ("POST", "/api/cameras/{id}/frames"),
    ("DELETE", "/api/cameras/{id}"),
]


def test_every_operation_is_here(schema):
    found = {(result.ok().method.upper(), result.ok().path) for result in schema.get_all_operations()}
    assert found == {*OPERATIONS, ("GET", ENDLESS)}


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda part: part.strip("/"))
def test_answers_conform(schema, clean, method, path):
    operation = schema[path][method]
    known = clean.client.post("/api/jobs", json={"name": "x", "size": 100}).json()["id"]
    camera = clean.client.post("/api/cameras").json().get("id", known)

    @given(case=operation.as_strategy())
    @settings(
        max_examples=1 if path.endswith("example") else EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def conforms(case):
        if "{id}" in path and len(str(case.path_parameters.get("id", ""))) == 22:
            case.path_parameters["id"] = camera if "cameras" in path else known  # one that is there
        case.call_and_validate(base_url=clean.address, checks=CHECKS)

    conforms()
