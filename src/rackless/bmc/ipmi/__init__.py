"""IPMI 2.0 over the network (RMCP+), for every BMC of a fleet in one process.

Bytes come in at `server`, which owns sockets and timers. `endpoint` turns a datagram into datagrams: sessions and who may
do what, with time and randomness given to it. The codecs (`wire`, `rakp`, `suites`) only turn bytes into values and back.
`commands` are tables of what can be asked, done on the `controller`: the IPMI side of one BMC's chassis.
"""
