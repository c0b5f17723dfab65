"""What is sent: what may be left out, how it is told apart, and the bytes that no argument of a handler stands for."""

from collections.abc import Iterator

from contracts.schema import Document

JSON = "application/json"
OCTETS = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
FILE_PATH = "Relative to the workspace. Any bytes will do, spelled with percent signs; `/` need not be."


def with_bodies(paths: Document, schemas: Document) -> None:
    for operation in _operations(paths):
        body = operation.get("requestBody")
        if body is not None and JSON in body["content"]:
            schema = body["content"][JSON]["schema"]
            body["required"] = _needs_something(schema, schemas)
            choices = schema.get("oneOf", ())
            if choices and all("type" in _named(each, schemas)["properties"] for each in choices):
                schema["discriminator"] = _told_apart(choices, schemas)
        for parameter in operation.get("parameters", []):
            if parameter["name"] == "file_path":
                parameter |= {"schema": {"type": "string", "minLength": 1}, "description": FILE_PATH}
                if operation["operationId"] == "writeFile":
                    operation["requestBody"] = {"required": True, "content": OCTETS}


def _operations(paths: Document) -> Iterator[Document]:
    for operations in paths.values():
        yield from operations.values()


def _needs_something(schema: Document, schemas: Document) -> bool:
    """False where everything has a default: then the body may be left out."""
    return "$ref" not in schema or bool(_named(schema, schemas).get("required"))


def _told_apart(choices: list[Document], schemas: Document) -> Document:
    tags = {_named(each, schemas)["properties"]["type"]["enum"][0]: each["$ref"] for each in choices}
    return {"propertyName": "type", "mapping": tags}


def _named(schema: Document, schemas: Document) -> Document:
    found: Document = schemas[schema["$ref"].rpartition("/")[2]]
    return found
