"""Names what is wrong in a recording: the call, the evidence, the remedy. Needs no torch."""
