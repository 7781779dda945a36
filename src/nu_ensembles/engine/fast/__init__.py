"""What only makes training faster. The plain way stands in the rooms above; each file here is tested against it."""
