"""The part of pertdbg inside the target: it observes, records, and stops where asked."""
