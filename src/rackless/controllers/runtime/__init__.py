"""What every controller needs and none should write again.

    watch → cache → queue (each key once, one look at a time) → reconcile on cached reads → at most one write of the
    record and one of its status → look again later, or when something that concerns it changes

An unexpected exception is the trouble of one object: told in its status and as an Event, counted, and tried again
with growing pauses, while the others go on.
"""
