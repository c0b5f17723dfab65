"""What can go wrong, as situations with stable codes.

    ClocheError                             code                             HTTP  retryable
    ├── SandboxError
    │   ├── SandboxNotFound                 SANDBOX_NOT_FOUND                 404
    │   ├── SandboxInvalidState             SANDBOX_INVALID_STATE             409
    │   ├── SandboxCreationFailed           SANDBOX_CREATION_FAILED           500
    │   ├── SandboxStartFailed              SANDBOX_START_FAILED              500
    │   ├── SandboxStopFailed               SANDBOX_STOP_FAILED               500
    │   ├── SandboxRemovalFailed            SANDBOX_REMOVAL_FAILED            500
    │   ├── SandboxExecFailed               SANDBOX_EXEC_FAILED               500
    │   ├── SandboxTimeout                  SANDBOX_TIMEOUT                   504
    │   ├── SandboxStatsFailed              SANDBOX_STATS_FAILED              500  yes
    │   ├── SandboxResourceLimitExceeded    SANDBOX_RESOURCE_LIMIT_EXCEEDED   429
    │   └── SandboxFileError
    │       ├── SandboxFileNotFound         SANDBOX_FILE_NOT_FOUND            404
    │       ├── SandboxFileTooLarge         SANDBOX_FILE_TOO_LARGE            413
    │       ├── SandboxPathDenied           SANDBOX_PATH_DENIED               403
    │       ├── SandboxEditNoMatch          SANDBOX_EDIT_NO_MATCH             409
    │       ├── SandboxEditManyMatches      SANDBOX_EDIT_MANY_MATCHES         409
    │       ├── SandboxWriteFailed          SANDBOX_WRITE_FAILED              500
    │       └── SandboxCopyFailed           SANDBOX_COPY_FAILED               500
    ├── AgentError
    │   ├── AgentFailed                     AGENT_FAILED                      502
    │   └── RuntimeMissing                  AGENT_RUNTIME_MISSING             501
    ├── AccessError
    │   ├── Unauthenticated                 UNAUTHENTICATED                   401
    │   ├── Forbidden                       FORBIDDEN                         403
    │   ├── QuotaExceeded                   QUOTA_EXCEEDED                    429
    │   └── TooManyRequests                 TOO_MANY_REQUESTS                 429  yes
    ├── HttpError
    │   ├── NotFound                        NOT_FOUND                         404
    │   ├── MethodNotAllowed                METHOD_NOT_ALLOWED                405
    │   ├── NotAcceptable                   NOT_ACCEPTABLE                    406
    │   ├── PreconditionFailed              PRECONDITION_FAILED               412
    │   ├── TooLarge                        TOO_LARGE                         413
    │   ├── UnsupportedMediaType            UNSUPPORTED_MEDIA_TYPE            415
    │   └── RangeNotSatisfiable             RANGE_NOT_SATISFIABLE             416
    ├── NodeIsLost                          NODE_LOST                         503
    ├── NodeIsDrained                       NODE_DRAINED                      409
    ├── NodeNameTaken                       NODE_NAME_TAKEN                   409
    ├── ContextMissing                      CONTEXT_MISSING                   400
    ├── Conflict                            CONFLICT                          409  yes
    ├── Unavailable                         UNAVAILABLE                       503  yes
    └── Invalid                             INVALID                           400

A failed command is a result; a failed sandbox is an error.
What crosses the bus is a `Failure`, never a class name or a traceback.
"""

from typing import ClassVar

from msgspec import Struct


class Failure(Struct, frozen=True, kw_only=True):
    """An error as data."""

    code: str
    message: str
    retryable: bool = False
    details: dict[str, str] = {}


class ClocheError(Exception):
    """Root of everything that Cloche raises on purpose."""

    code: ClassVar[str] = "ERROR"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, /, **details: str) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def failure(self) -> Failure:
        return Failure(code=self.code, message=self.message, retryable=self.retryable, details=self.details)


class SandboxError(ClocheError):
    """The sandbox, not the command in it, is at fault."""


class SandboxNotFound(SandboxError):
    code = "SANDBOX_NOT_FOUND"
    http_status = 404


class SandboxInvalidState(SandboxError):
    code = "SANDBOX_INVALID_STATE"
    http_status = 409


class SandboxCreationFailed(SandboxError):
    code = "SANDBOX_CREATION_FAILED"


class SandboxStartFailed(SandboxError):
    code = "SANDBOX_START_FAILED"


class SandboxStopFailed(SandboxError):
    code = "SANDBOX_STOP_FAILED"


class SandboxRemovalFailed(SandboxError):
    code = "SANDBOX_REMOVAL_FAILED"


class SandboxExecFailed(SandboxError):
    code = "SANDBOX_EXEC_FAILED"


class SandboxTimeout(SandboxError):
    code = "SANDBOX_TIMEOUT"
    http_status = 504


class SandboxStatsFailed(SandboxError):
    code = "SANDBOX_STATS_FAILED"
    retryable = True


class SandboxResourceLimitExceeded(SandboxError):
    code = "SANDBOX_RESOURCE_LIMIT_EXCEEDED"
    http_status = 429


class SandboxFileError(SandboxError):
    """A file operation in a workspace went wrong."""


class SandboxFileNotFound(SandboxFileError):
    code = "SANDBOX_FILE_NOT_FOUND"
    http_status = 404


class SandboxFileTooLarge(SandboxFileError):
    code = "SANDBOX_FILE_TOO_LARGE"
    http_status = 413


class SandboxPathDenied(SandboxFileError):
    code = "SANDBOX_PATH_DENIED"
    http_status = 403


class SandboxEditNoMatch(SandboxFileError):
    """What is to be replaced is not in the file."""

    code = "SANDBOX_EDIT_NO_MATCH"
    http_status = 409


class SandboxEditManyMatches(SandboxFileError):
    """What is to be replaced is in the file more than once."""

    code = "SANDBOX_EDIT_MANY_MATCHES"
    http_status = 409


class SandboxWriteFailed(SandboxFileError):
    code = "SANDBOX_WRITE_FAILED"


class SandboxCopyFailed(SandboxFileError):
    code = "SANDBOX_COPY_FAILED"


class AgentError(ClocheError):
    """An agent, not the sandbox that it lives in, is at fault."""


class AgentFailed(AgentError):
    """Its program crashed, hangs, speaks no protocol, or says that it cannot go on. `reason` says which."""

    code = "AGENT_FAILED"
    http_status = 502


class RuntimeMissing(AgentError):
    """The node lacks what this kind of agent needs."""

    code = "AGENT_RUNTIME_MISSING"
    http_status = 501


class AccessError(ClocheError):
    """Whoever asks may not, or not so often."""


class Unauthenticated(AccessError):
    """No token, or one that does not count: expired, forged, for somebody else."""

    code = "UNAUTHENTICATED"
    http_status = 401


class Forbidden(AccessError):
    code = "FORBIDDEN"
    http_status = 403


class QuotaExceeded(AccessError):
    """A project or principal has as much as it may. `details` has `kind`, `name`, `resource`, `used` and `limit`.

    Not to be asked again as it is: it fits once something of theirs is removed, or is settled otherwise.
    """

    code = "QUOTA_EXCEEDED"
    http_status = 429


class TooManyRequests(AccessError):
    """`details["retry_after_s"]` says when to come again."""

    code = "TOO_MANY_REQUESTS"
    http_status = 429
    retryable = True


class HttpError(ClocheError):
    """What only the gateway's own protocol knows."""


class NotFound(HttpError):
    """No such address."""

    code = "NOT_FOUND"
    http_status = 404


class MethodNotAllowed(HttpError):
    code = "METHOD_NOT_ALLOWED"
    http_status = 405


class NotAcceptable(HttpError):
    code = "NOT_ACCEPTABLE"
    http_status = 406


class PreconditionFailed(HttpError):
    """It is no longer what the asker believes: `If-Match` names another content."""

    code = "PRECONDITION_FAILED"
    http_status = 412


class TooLarge(HttpError):
    code = "TOO_LARGE"
    http_status = 413


class UnsupportedMediaType(HttpError):
    code = "UNSUPPORTED_MEDIA_TYPE"
    http_status = 415


class RangeNotSatisfiable(HttpError):
    code = "RANGE_NOT_SATISFIABLE"
    http_status = 416


class NodeIsLost(ClocheError):
    """The order was for a node that is gone. Not to be repeated as it is: it goes to whoever has the sandbox now."""

    code = "NODE_LOST"
    http_status = 503


class NodeIsDrained(ClocheError):
    """The order would have a sandbox live on a node that everything is to leave."""

    code = "NODE_DRAINED"
    http_status = 409


class NodeNameTaken(ClocheError):
    """The name of this node is another host's."""

    code = "NODE_NAME_TAKEN"
    http_status = 409


class ContextMissing(ClocheError):
    code = "CONTEXT_MISSING"
    http_status = 400


class Conflict(ClocheError):
    """Somebody else wrote first: load again, decide again."""

    code = "CONFLICT"
    http_status = 409
    retryable = True


class Unavailable(ClocheError):
    """Something that must be running is not, or does not answer."""

    code = "UNAVAILABLE"
    http_status = 503
    retryable = True


class Invalid(ClocheError):
    """The input cannot be right, however often it is sent."""

    code = "INVALID"
    http_status = 400


def _leaves(root: type[ClocheError]) -> list[type[ClocheError]]:
    found = [root] if "code" in vars(root) and root is not ClocheError else []
    for child in root.__subclasses__():
        found += _leaves(child)
    return found


BY_CODE: dict[str, type[ClocheError]] = {kind.code: kind for kind in _leaves(ClocheError)}


def from_failure(failure: Failure) -> ClocheError:
    """The exception for a failure; a code from a newer version becomes a plain `ClocheError`."""
    return BY_CODE.get(failure.code, ClocheError)(failure.message, **failure.details)
