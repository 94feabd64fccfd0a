"""Drawing of graphs around what compilers do: motifs, and the walk through all their kinds."""
