"""The texts of the messages this service says, from two registries of DMTF: Base and ResourceEvent.

Only what is said is here; `registries` serves exactly this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Template:
    text: str
    severity: str
    resolution: str


_FIX = "and resubmit the request if the operation failed."
_BASE: Mapping[str, Template] = {
    "Success": Template("The request completed successfully.", "OK", "None."),
    "Created": Template("The resource was created successfully.", "OK", "None."),
    "GeneralError": Template(
        "A general error has occurred.  See Resolution for information on how to resolve the error, or "
        "@Message.ExtendedInfo if Resolution is not provided.",
        "Critical",
        "None.",
    ),
    "InternalError": Template(
        "The request failed due to an internal service error.  The service is still operational.",
        "Critical",
        "Resubmit the request.  If the problem persists, consider resetting the service.",
    ),
    "OperationFailed": Template(
        "An error occurred internal to the service as part of the overall request.  Partial results may have been "
        "returned.",
        "Warning",
        "Resubmit the request.  If the problem persists, consider resetting the service or provider.",
    ),
    "ServiceTemporarilyUnavailable": Template(
        "The service is temporarily unavailable.  Retry in %1 seconds.",
        "Critical",
        "Wait for the indicated retry duration and retry the operation.",
    ),
    "ServiceDisabled": Template(
        "The operation failed because the service at %1 is disabled and cannot accept requests.",
        "Warning",
        "Enable the service and resubmit the request if the operation failed.",
    ),
    "MalformedJSON": Template(
        "The request body submitted was malformed JSON and could not be parsed by the receiving service.",
        "Critical",
        "Ensure that the request body is valid JSON and resubmit the request.",
    ),
    "UnrecognizedRequestBody": Template(
        "The service detected a malformed request body that it was unable to interpret.",
        "Warning",
        f"Correct the request body {_FIX}",
    ),
    "PayloadTooLarge": Template(
        "The supplied payload exceeds the maximum size supported by the service.",
        "Critical",
        "Use a supported payload size and resubmit the request.",
    ),
    "InsufficientStorage": Template(
        "Insufficient storage or memory available to complete the request.",
        "Critical",
        "Ensure sufficient storage or memory is available and resubmit the request.",
    ),
    "EmptyJSON": Template(
        "The request body submitted contained an empty JSON object and the service is unable to process it.",
        "Warning",
        "Add properties in the JSON object and resubmit the request.",
    ),
    "NoOperation": Template(
        "The request body submitted contain no data to act upon and no changes to the resource took place.",
        "Warning",
        "Add properties in the JSON object and resubmit the request.",
    ),
    "PropertyUnknown": Template(
        "The property %1 is not in the list of valid properties for the resource.",
        "Warning",
        f"Remove the unknown property from the request body {_FIX}",
    ),
    "PropertyNotWritable": Template(
        "The property %1 is a read-only property and cannot be assigned a value.",
        "Warning",
        f"Remove the property from the request body {_FIX}",
    ),
    "PropertyMissing": Template(
        "The property %1 is a required property and must be included in the request.",
        "Warning",
        "Ensure that the property is in the request body and has a valid value and resubmit the request if the "
        "operation failed.",
    ),
    "PropertyValueTypeError": Template(
        "The value '%1' for the property %2 is not a type that the property can accept.",
        "Warning",
        f"Correct the value for the property in the request body {_FIX}",
    ),
    "PropertyValueError": Template(
        "The value provided for the property %1 is not valid.",
        "Warning",
        f"Correct the value for the property in the request body {_FIX}",
    ),
    "PropertyValueFormatError": Template(
        "The value '%1' for the property %2 is not a format that the property can accept.",
        "Warning",
        f"Correct the value for the property in the request body {_FIX}",
    ),
    "PropertyValueNotInList": Template(
        "The value '%1' for the property %2 is not in the list of acceptable values.",
        "Warning",
        "Choose a value from the enumeration list that the implementation can support and resubmit the request if "
        "the operation failed.",
    ),
    "PropertyValueOutOfRange": Template(
        "The value '%1' for the property %2 is not in the supported range of acceptable values.",
        "Warning",
        f"Correct the value for the property in the request body {_FIX}",
    ),
    "PropertyValueConflict": Template(
        "The property '%1' could not be written because its value would conflict with the value of the '%2' property.",
        "Warning",
        "No resolution is required.",
    ),
    "ActionNotSupported": Template(
        "The action %1 is not supported by the resource.",
        "Critical",
        "The action supplied cannot be resubmitted to the implementation.  Perhaps the action was invalid, the wrong "
        "resource was the target or the implementation documentation may be of assistance.",
    ),
    "ActionParameterMissing": Template(
        "The action %1 requires the parameter %2 to be present in the request body.",
        "Critical",
        "Supply the action with the required parameter in the request body when the request is resubmitted.",
    ),
    "ActionParameterUnknown": Template(
        "The action %1 was submitted with the invalid parameter %2.",
        "Warning",
        f"Correct the invalid parameter {_FIX}",
    ),
    "ActionParameterValueTypeError": Template(
        "The value '%1' for the parameter %2 in the action %3 is not a type that the parameter can accept.",
        "Warning",
        f"Correct the value for the parameter in the request body {_FIX}",
    ),
    "ActionParameterValueFormatError": Template(
        "The value '%1' for the parameter %2 in the action %3 is not a format that the parameter can accept.",
        "Warning",
        f"Correct the value for the parameter in the request body {_FIX}",
    ),
    "ActionParameterValueNotInList": Template(
        "The value '%1' for the parameter %2 in the action %3 is not in the list of acceptable values.",
        "Warning",
        "Choose a value from the enumeration list that the implementation can support and resubmit the request if "
        "the operation failed.",
    ),
    "ResourceInStandby": Template(
        "The request could not be performed because the resource is in standby.",
        "Critical",
        "Ensure that the resource is in the correct power state and resubmit the request.",
    ),
    "QueryParameterValueTypeError": Template(
        "The value '%1' for the query parameter %2 is not a type that the parameter can accept.",
        "Warning",
        f"Correct the value for the query parameter in the request {_FIX}",
    ),
    "QueryParameterValueFormatError": Template(
        "The value '%1' for the parameter %2 is not a format that the parameter can accept.",
        "Warning",
        f"Correct the value for the query parameter in the request {_FIX}",
    ),
    "QueryParameterOutOfRange": Template(
        "The value '%1' for the query parameter %2 is not in the range %3.",
        "Warning",
        "Reduce the value for the query parameter to a value that is within range, such as a start or count value "
        "that is within bounds of the number of resources in a collection or a page that is within the range of valid "
        "pages.",
    ),
    "QueryParameterUnsupported": Template(
        "Query parameter '%1' is not supported.",
        "Warning",
        "Correct or remove the query parameter and resubmit the request.",
    ),
    "QueryNotSupportedOnResource": Template(
        "Querying is not supported on the requested resource.",
        "Warning",
        "Remove the query parameters and resubmit the request if the operation failed.",
    ),
    "OperationNotAllowed": Template(
        "The HTTP method is not allowed on this resource.",
        "Critical",
        "None.",
    ),
    "HeaderInvalid": Template(
        "Header '%1' is invalid.",
        "Critical",
        "Resubmit the request with a valid request header.",
    ),
    "PreconditionFailed": Template(
        "The ETag supplied did not match the ETag required to change this resource.",
        "Critical",
        "Try the operation again using the appropriate ETag.",
    ),
    "ResourceMissingAtURI": Template(
        "The resource at the URI '%1' was not found.",
        "Critical",
        "Place a valid resource at the URI or correct the URI and resubmit the request.",
    ),
    "ResourceNotFound": Template(
        "The requested resource of type %1 named '%2' was not found.",
        "Critical",
        "Provide a valid resource identifier and resubmit the request.",
    ),
    "ResourceAlreadyExists": Template(
        "The requested resource of type %1 with the property %2 with the value '%3' already exists.",
        "Critical",
        "Do not repeat the create operation as the resource has already been created.",
    ),
    "ResourceCannotBeDeleted": Template(
        "The delete request failed because the resource requested cannot be deleted.",
        "Critical",
        "Do not attempt to delete a non-deletable resource.",
    ),
    "ResourceInUse": Template(
        "The change to the requested resource failed because the resource is in use or in transition.",
        "Warning",
        f"Remove the condition {_FIX}",
    ),
    "ResourceExhaustion": Template(
        "The resource '%1' was unable to satisfy the request due to unavailability of resources.",
        "Critical",
        "Ensure that the resources are available and resubmit the request.",
    ),
    "CreateLimitReachedForResource": Template(
        "The create operation failed because the resource has reached the limit of possible resources.",
        "Critical",
        "Either delete resources and resubmit the request if the operation failed or do not resubmit the request.",
    ),
    "ResourceAtUriInUnknownFormat": Template(
        "The resource at '%1' is in a format not recognized by the service.",
        "Critical",
        "Place an image or resource or file that is recognized by the service at the URI.",
    ),
    "ResourceAtUriUnauthorized": Template(
        "While accessing the resource at '%1', the service received an authorization error '%2'.",
        "Critical",
        "Ensure that the appropriate access is provided for the service in order for it to access the URI.",
    ),
    "CouldNotEstablishConnection": Template(
        "The service failed to establish a connection with the URI '%1'.",
        "Critical",
        "Ensure that the URI contains a valid and reachable node name, protocol information and other URI components.",
    ),
    "SourceDoesNotSupportProtocol": Template(
        "The other end of the connection at '%1' does not support the specified protocol '%2'.",
        "Critical",
        "Change protocols or URIs.",
    ),
    "SessionLimitExceeded": Template(
        "The session establishment failed due to the number of simultaneous sessions exceeding the limit of the "
        "implementation.",
        "Critical",
        "Reduce the number of other sessions before trying to establish the session or increase the limit of "
        "simultaneous sessions, if supported.",
    ),
    "EventSubscriptionLimitExceeded": Template(
        "The event subscription failed due to the number of simultaneous subscriptions exceeding the limit of the "
        "implementation.",
        "Critical",
        "Reduce the number of other subscriptions before trying to establish the event subscription or increase the "
        "limit of simultaneous subscriptions, if supported.",
    ),
    "NoValidSession": Template(
        "There is no valid session established with the implementation.",
        "Critical",
        "Establish a session before attempting any operations.",
    ),
    "InsufficientPrivilege": Template(
        "There are insufficient privileges for the account or credentials associated with the current session to "
        "perform the requested operation.",
        "Critical",
        "Either abandon the operation or change the associated access rights and resubmit the request if the operation "
        "failed.",
    ),
    "PasswordChangeRequired": Template(
        "The password provided for this account must be changed before access is granted.",
        "Critical",
        "Change the password for this account using a PATCH to the Password property at the URI provided.",
    ),
    "StringValueTooLong": Template(
        "The string '%1' exceeds the length limit %2.",
        "Warning",
        "Resubmit the request with an appropriate string length.",
    ),
}


_RESOURCE_EVENT: Mapping[str, Template] = {
    "ResourceCreated": Template("The resource was created successfully.", "OK", "None."),
    "ResourceRemoved": Template("The resource was removed successfully.", "OK", "None."),
    "ResourceChanged": Template("One or more resource properties have changed.", "OK", "None."),
    "ResourcePoweredOn": Template("The resource `%1` has powered on.", "OK", "None."),
    "ResourcePoweredOff": Template("The resource `%1` has powered off.", "OK", "None."),
    "TestMessage": Template("Test message.", "OK", "None."),
}


@dataclass(frozen=True, slots=True)
class MessageRegistry:
    prefix: str
    version: str
    name: str
    messages: Mapping[str, Template]

    def id(self, key: str) -> str:
        """As a MessageId: without the last part of the version."""
        return f"{self.prefix}.{self.version.rpartition('.')[0]}.{key}"


BASE = MessageRegistry("Base", "1.19.0", "Base Message Registry", _BASE)
RESOURCE_EVENT = MessageRegistry("ResourceEvent", "1.4.0", "Resource Event Message Registry", _RESOURCE_EVENT)
REGISTRIES = {registry.prefix: registry for registry in (BASE, RESOURCE_EVENT)}
