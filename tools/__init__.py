"""What builds and documents Assay; no part of the wheel."""
