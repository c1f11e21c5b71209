"""The lab in a browser: `rackless web`, a process of its own on the hypervisor's side.

    access      who may look: one-time links that become sessions; which hosts and origins are accepted
    site        what is served: which labs, with whose rights, whether anything may be changed
    views       every view as JSON: the rack, the install, the objects, logs and events
    server_views  one server as JSON: hardware, BMC, host, timeline
    lanes       the steps of the event log as a swim-lane chart
    actions     what a viewer may do: the operations of the command line
    live        events with replay and the rack as it changes, over a WebSocket
    terminal    a server's console as a terminal of 100 × 31 signs
    console     that terminal over a WebSocket
    app         the routes, and what every answer carries
    server      listening, with TLS where it is not loopback
    static/     the page: HTML, CSS, ES modules; no build step, nothing from outside

It asks labd over the control socket, as every command does, and labd does not know of it. The words for events are those of
the command line, which hands them in.
"""
