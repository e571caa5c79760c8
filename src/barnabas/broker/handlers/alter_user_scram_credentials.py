"""AlterUserScramCredentials (51), v0.

Behaviour: credentials are set and removed, on the controller; what is wrong with one user's leaves the
           others. They hold for the next log-in, on every broker.
Versions:  v0.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.cluster.metadata.scram_admin import CredentialAlteration
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def _failed(
    request: AlterUserScramCredentialsRequest, error: KafkaError, _version: int
) -> Sliced[AlterUserScramCredentialsResponse]:
    response = AlterUserScramCredentialsResponse()
    named = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    for user in dict.fromkeys(named):
        yield
        response.results.append(
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.own_message)
        )
    return response


@handles(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), failed=_failed)
@sliced
def alter_user_scram_credentials(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Sliced[AlterUserScramCredentialsResponse]:
    if not context.broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    context.require_cluster(Operation.ALTER)
    alterations = []
    for deletion in request.deletions:
        yield
        alterations.append(CredentialAlteration(deletion.name, deletion.mechanism))
    for each in request.upsertions:
        yield
        alterations.append(
            CredentialAlteration(
                each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password)
            )
        )
    results = yield from alone(context, context.broker.scram_credentials.alter(alterations))
    response = AlterUserScramCredentialsResponse()
    for user, error in results.items():
        yield
        result = AlterUserScramCredentialsResult(user=user, error_message="")
        if error is not None:
            result.error_code, result.error_message = error.code, error.own_message
        response.results.append(result)
    return response
