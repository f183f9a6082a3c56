"""Display for all studies: numbers as text, tables from columns, figures, heatmaps."""
