"""The weekly report: what a week cost, where it went and who pays, as pages to forward and tables to compute with."""
