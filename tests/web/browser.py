"""Debian's Chromium, as Playwright starts it here."""

from __future__ import annotations

CHROMIUM = "/usr/bin/chromium"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
"""No sandbox: tests run as root. Nothing is asked outside."""
