"""DescribeUserScramCredentials (50), v0.

Behaviour: which mechanisms users have credentials for, and their iterations; no secrets. All users where none
           are named.
Versions:  v0.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def _failed(
    request: DescribeUserScramCredentialsRequest, error: KafkaError, _version: int
) -> Sliced[DescribeUserScramCredentialsResponse]:
    """An entry without a name for each user that was asked for; Kafka fails over all users."""
    response = DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.own_message)
    for _ in request.users or ():
        response.results.append(DescribeUserScramCredentialsResult(error_code=error.code, error_message=None))
        yield
    return response


@handles(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), failed=_failed)
@sliced
def describe_user_scram_credentials(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Sliced[DescribeUserScramCredentialsResponse]:
    context.require_cluster(Operation.DESCRIBE)
    users = None if request.users is None else [each.name for each in request.users]
    described = yield from alone(context, context.broker.scram_credentials.describe(users))
    response = DescribeUserScramCredentialsResponse()
    for user, found in described.items():
        yield
        result = DescribeUserScramCredentialsResult(user=user, error_message="")
        if isinstance(found, KafkaError):
            result.error_code, result.error_message = found.code, found.own_message
        else:
            result.credential_infos = [CredentialInfo(mechanism=n, iterations=i) for n, i in found.items()]
        response.results.append(result)
    return response
