"""The description of the REST API: OpenAPI 3.1, made from the routes and the contracts themselves."""

from importlib.metadata import version

import msgspec
from litestar import Litestar
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from contracts.errors import BY_CODE
from contracts.http.problems import Problem
from contracts.schema import Document, render
from contracts.spec import Network, SandboxSpec
from services.gateway.openapi.answers import with_errors
from services.gateway.openapi.bodies import with_bodies
from services.gateway.openapi.schemas import SCHEMAS, ContractSchemas
from services.gateway.openapi.tidying import tidied
from services.gateway.web import GIVEN, ROUTERS, provided

FILE = "openapi.json"
"""In `docs/`, beside those of `contracts.schema`."""
DESCRIPTION = (
    "Sealed sandboxes for AI agents, with everything that happens in them on one replayable log.\n\n"
    "What is asked for is durable once it is answered. `wait` says how many seconds to wait for what comes of it: "
    "200 or 201 with that, or 202 when it takes longer. Every error is a `Problem` with a stable `code`."
)


def text() -> str:
    """As it is kept, and served."""
    return render(document())


def document() -> Document:
    """Needs no bus. The same routes give the same document."""
    contracts = ContractSchemas()
    app = Litestar(
        ROUTERS,
        dependencies=provided(dict.fromkeys(GIVEN)),
        openapi_config=_config(),
        plugins=[contracts],
        logging_config=None,
        debug=False,
    )
    described: Document = tidied(app.openapi_schema.to_schema())
    schemas = {**described["components"].get("schemas", {}), **_schemas(contracts)}
    described["components"]["schemas"] = schemas
    with_bodies(described["paths"], schemas)
    with_errors(described["paths"])
    return described


def _schemas(contracts: ContractSchemas) -> dict[str, Document]:
    kinds = [*contracts.used, Problem, SandboxSpec, Network]
    _, found = msgspec.json.schema_components(kinds, ref_template=SCHEMAS + "{name}")
    found["Problem"]["properties"]["code"]["examples"] = sorted(BY_CODE)
    return found


def _config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Cloche",
        version=version("cloche"),
        description=DESCRIPTION,
        use_handler_docstrings=True,
        components=Components(
            security_schemes={
                "token": SecurityScheme(type="http", scheme="bearer", bearer_format="JWT"),
                "session": SecurityScheme(
                    type="apiKey",
                    security_scheme_in="cookie",
                    name="cloche_session",
                    description="Of `POST /api/v1/session`; the name ends differently for each node.",
                ),
            }
        ),
    )
