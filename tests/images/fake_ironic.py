"""One HTTP request on standard input, answered as Ironic would; QEMU runs this for every connection of a guest.

Usage: fake_ironic.py LOG. Each request is appended to LOG as a line of JSON.
"""

import json
import sys

NODE = "11111111-1111-4111-8111-111111111111"


def main() -> None:
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        method, path, _ = line.decode().split(" ", 2)
        length = 0
        while (header := source.readline().strip()) != b"":
            name, _, value = header.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
        body = source.read(length)
        with open(sys.argv[1], "a") as log:
            log.write(json.dumps({"method": method, "path": path, "body": body.decode()}) + "\n")
        code, answer = respond(path)
        data = json.dumps(answer).encode()
        head = f"HTTP/1.1 {code} OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        sink.write(head.encode() + data)
        sink.flush()


def respond(path: str) -> tuple[int, object]:
    if path.startswith("/v1/lookup"):
        node = {"uuid": NODE, "properties": {}, "instance_info": {}, "driver_internal_info": {}}
        return 200, {"node": node, "config": {"heartbeat_timeout": 300, "agent_token": "secret"}}
    if path.startswith("/v1/heartbeat"):
        return 202, {}
    version = {"id": "v1", "version": "1.99", "min_version": "1.1"}
    return 200, {"default_version": version, "versions": [version]}


main()
