"""What a recorded exception type says: one table for endings and for the validity of rewards."""

from enum import StrEnum

from wmo_distill.records import StopReason


class Phase(StrEnum):
    """When an exception of a known type is raised."""

    SETUP = "setup"
    AGENT = "agent"
    VERIFIER = "verifier"


_NOT_RUN = (
    "AgentSetupTimeoutError",
    "EnvironmentStartTimeoutError",
    "EnvironmentBuildTimeoutError",
    "EnvironmentBuildError",
    "EnvironmentStartError",
    "EnvironmentSetupError",
    "AgentSetupError",
    "AgentInstallError",
    "DockerBuildError",
    "ImageNotFound",
    "ImagePullError",
    "HealthcheckError",
    "TaskDownloadError",
    "PackageNotFoundError",
)

_VERIFIER = (
    "VerifierTimeoutError",
    "VerifierError",
    "VerifierSetupError",
    "VerifierRuntimeError",
    "VerifierEnvironmentStartTimeoutError",
    "VerifierOutputParseError",
    "RewardFileNotFoundError",
    "RewardFileEmptyError",
    "RewardFileParseError",
    "AddTestsDirError",
    "UploadTestsError",
    "TestsUploadError",
    "DownloadVerifierDirError",
    "TestsDownloadError",
)

_BUDGET = ("AgentTimeoutError",)

_CONTEXT = (
    "ContextLengthExceededError",
    "ContextWindowExceededError",
    "ContextOverflowError",
    "ContextLengthError",
)

_OUTPUT = ("OutputLengthExceededError", "OutputTokenExceededError", "OutputTruncatedError")

_PROVIDER = (
    # litellm and openai
    "APIError",
    "APIConnectionError",
    "APIResponseValidationError",
    "APIStatusError",
    "APITimeoutError",
    "ApiProviderResourceNotFoundError",
    "AuthenticationError",
    "AgentAuthenticationError",
    "BadGatewayError",
    "BadRequestError",
    "BudgetExceededError",
    "ConflictError",
    "ContentPolicyViolationError",
    "GatewayTimeoutError",
    "InternalServerError",
    "InvalidRequestError",
    "JSONSchemaValidationError",
    "MidStreamFallbackError",
    "NotFoundError",
    "OpenAIError",
    "PermissionDeniedError",
    "QuotaExceededError",
    "RateLimitError",
    "AgentRateLimitError",
    "RejectedRequestError",
    "RouterRateLimitError",
    "ServerDisconnectedError",
    "ServiceUnavailableError",
    "Timeout",
    "UnprocessableEntityError",
    "UnsupportedParamsError",
    "DeadlineExceededError",
    "OverloadedError",
    "RequestTooLargeError",
    # httpx, aiohttp, requests, urllib3, the standard library
    "ClientConnectorCertificateError",
    "ClientConnectorDNSError",
    "ClientConnectorSSLError",
    "ClientError",
    "ClientHttpProxyError",
    "ClientProxyConnectionError",
    "ClientSSLError",
    "CloseError",
    "ConnectTimeoutError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "LocalProtocolError",
    "MaxRetryError",
    "NetworkError",
    "NewConnectionError",
    "ProtocolError",
    "ProxyError",
    "ReadTimeoutError",
    "RequestError",
    "SSLError",
    "ServerError",
    "SocketTimeoutError",
    "TimeoutException",
    "TransportError",
    "ClientConnectionError",
    "ClientConnectorError",
    "ClientOSError",
    "ClientPayloadError",
    "ClientResponseError",
    "ConnectError",
    "ConnectTimeout",
    "ConnectionTimeout",
    "ConnectionTimeoutError",
    "HTTPError",
    "HTTPStatusError",
    "PoolTimeout",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "ServerConnectionError",
    "ServerTimeoutError",
    "WriteError",
    "WriteTimeout",
)

_MEANINGS: dict[str, tuple[Phase, StopReason | None]] = {
    **dict.fromkeys(_NOT_RUN, (Phase.SETUP, StopReason.NOT_RUN)),
    **dict.fromkeys(_VERIFIER, (Phase.VERIFIER, None)),
    **dict.fromkeys(_BUDGET, (Phase.AGENT, StopReason.BUDGET)),
    **dict.fromkeys(_CONTEXT, (Phase.AGENT, StopReason.CONTEXT_OVERFLOW)),
    **dict.fromkeys(_OUTPUT, (Phase.AGENT, StopReason.OUTPUT_TRUNCATED)),
    **dict.fromkeys(_PROVIDER, (Phase.AGENT, StopReason.PROVIDER_ERROR)),
    "CancelledError": (Phase.AGENT, StopReason.CANCELLED),
    "KeyboardInterrupt": (Phase.AGENT, StopReason.CANCELLED),
    "NonZeroAgentExitCodeError": (Phase.AGENT, StopReason.ERROR),
}

KNOWN_TYPES = frozenset(_MEANINGS)

# Harbor 0.26 says of these that a reward recorded with them does not count. Where a version says
# nothing, the table says the same; a type that is not in it counts, as Harbor has it.
_INVALID_REWARD = frozenset((*_NOT_RUN, *_VERIFIER, *_PROVIDER, "CancelledError"))


def meaning(exception_type: str) -> tuple[Phase, StopReason | None] | None:
    """(phase, stop reason) of a known type; the verifier's say nothing about the agent."""
    return _MEANINGS.get(exception_type.rsplit(".", 1)[-1])


def has_valid_reward(exception_type: str) -> bool:
    """Whether a reward recorded with an exception of this type counts."""
    return exception_type.rsplit(".", 1)[-1] not in _INVALID_REWARD
