"""``python -m sbom`` writes the bill of materials again, after `make lock` or a new version."""

from __future__ import annotations

from sbom.bill import BILL, text

BILL.write_text(text())
