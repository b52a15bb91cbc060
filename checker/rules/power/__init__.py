"""Family W: the power measurement: by the right meter, of this very run, without a gap."""
