"""The BMC fleet: one management controller per server, in one asyncio process."""
