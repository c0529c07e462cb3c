"""Looking at programs: the evaluation trace as a table, graphs as pictures. Views read and change nothing."""
