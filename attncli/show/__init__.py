"""What any study uses to be seen: numbers in words, tables from columns, figures, heatmaps."""
