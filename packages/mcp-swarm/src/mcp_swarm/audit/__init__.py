"""Who called what: a line of JSON per call, chained so that a removed or changed line shows."""
