"""Any number of saved reports as one tidy table, and that table as one page."""
