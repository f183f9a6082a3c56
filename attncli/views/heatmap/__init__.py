"""The parts of a heatmap, in the order of the work: from panels, grid and axes to frames, layout, page and drawing."""
