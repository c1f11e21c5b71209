"""Ironic's words for a failure, as real ones said them, and what people are told."""

import pytest

from rackless.drivers.ironic.reasons import REASONS, explain

AGENT = "Deploy step deploy.write_image failed on node 4a6bd4a5-0552-4f7a-ac8a-66f5a7183ceb. "
POWER = "Failed to get power state for node 4a6bd4a5-0552-4f7a-ac8a-66f5a7183ceb. Error: "
SAID = [
    (
        POWER + "Redfish exception occurred. Error: HTTP GET https://192.0.2.20/redfish/v1/ returned code 401. "
        "Base.1.19.NoValidSession: There is no valid session established with the implementation.",
        "the BMC does not let us in",
    ),
    (
        POWER
        + "HTTP GET https://192.0.2.20/redfish/v1/ returned code 503. Base.1.19.GeneralError: A general error has "
        "occurred.",
        "the BMC answers with an error of its own",
    ),
    (
        POWER + "Redfish connection failed for node 4a6bd4a5-0552-4f7a-ac8a-66f5a7183ceb: Unable to connect to "
        "https://192.0.2.20/redfish/v1/. Error: ('Connection aborted.', RemoteDisconnected('Remote end closed "
        "connection without response'))",
        "the BMC does not answer",
    ),
    (POWER + "IPMI call failed: power status.", "the BMC does not answer by IPMI, or does not let us in"),
    (
        "Failed to inspect hardware. Reason: unable to start inspection: Virtual media mount failed for node 4a6bd4a5 with "
        "image http://192.0.2.1:6180/redfish/boot-4a6bd4a5.iso. Error: Inserting virtual media into VirtualMediaType.CD "
        "failed for node 4a6bd4a5, moving to next virtual media device, if available. HTTP POST "
        "https://192.0.2.20/redfish/v1/Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia returned code 400.",
        "the BMC could not take in the image that the server is to boot from",
    ),
    (
        "Failed to inspect hardware. Reason: unable to start inspection: Failed to set node power state to power on.",
        "the server did not switch although its BMC was told to",
    ),
    (
        AGENT + "Image failed to verify against checksum. location: image-153602038b4ca60f.raw; image ID: /dev/sda; "
        "image checksum: abababab; verification checksum: 153602038b4ca60f",
        "the image is not the one its checksum says",
    ),
    (
        AGENT + "Writing image to device /dev/sda failed with exit code 1. stdout: . stderr: qemu-img: /dev/sda: error "
        "while converting host_device: Cannot grow device files",
        "the server's disk is too small for the image",
    ),
    (
        AGENT + "Error downloading image: Download of image 3f0c failed: Unable to write image to device /dev/sda. "
        "Error: [Errno 28] No space left on device.",
        "the server's disk is too small for the image",
    ),
    (
        AGENT + "Error finding the disk or partition device to deploy the image onto: No suitable device was found for "
        "deployment - root device hints were not provided and all found block devices are smaller than 4294967296B.",
        "the server's disk is too small for the image",
    ),
    (
        AGENT + "Error finding the disk or partition device to deploy the image onto: No suitable device was found for "
        "deployment using these hints {'serial': 's== nowhere'}",
        "the server has no disk like the one its rootDeviceHints describe",
    ),
    (
        AGENT + "Error downloading image: Download of image 3f0c failed: Unable to write image to /tmp/3f0c. "
        "Error: [Errno 28] No space left on device.",
        "the server has not enough memory to take the image in",
    ),
    (
        AGENT + "Security: Expected format was qcow2, but image was actually raw",
        "the image cannot be read as what it is said to be",
    ),
    (
        AGENT + "The provided image is not valid for use: Security: Image failed safety check.",
        "the image cannot be read as what it is said to be",
    ),
    (
        AGENT + "Error downloading image: Download of image 3f0c failed: Received status code 404 from "
        "http://192.0.2.1/gone.qcow2, expected 200. Response body: 404: Not Found Response headers: {}.",
        "the image could not be fetched",
    ),
    (
        "Failed to prepare to deploy: Validation of image href http://192.0.2.1/gone.qcow2 failed, reason: Got HTTP code "
        "404 instead of 200 in response to HEAD request.",
        "the image could not be fetched",
    ),
    (
        AGENT
        + "Error downloading image: Download of image 3f0c failed: Unable to write image to device /dev/sda. Error: "
        "HTTPConnectionPool(host='192.0.2.1', port=8099): Read timed out.",
        "the server of the image stopped in the middle of it",
    ),
    (
        "Timeout reached while waiting for callback for node 3f0c",
        "the agent on the server was not heard of in time",
    ),
    ("timeout reached while inspecting the node", "the agent on the server was not heard of in time"),
]


@pytest.mark.parametrize(("said", "meaning"), SAID)
def test_what_ironic_says_is_told_by_its_meaning_and_with_its_own_words(said: str, meaning: str) -> None:
    first, _, rest = explain(said).partition("\n")
    assert first.startswith(f"{meaning}: ")
    assert rest == f"Ironic says: {said}"


def test_words_that_are_not_known_stand_alone() -> None:
    assert explain("It broke.") == "It broke."


def test_every_meaning_tells_what_to_do() -> None:
    assert all(reason.advice for reason in REASONS)
