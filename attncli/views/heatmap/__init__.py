"""The parts of a heatmap, in the order of the work: panels, grid, axes, frames, layout, colours, page, bars, drawing."""
