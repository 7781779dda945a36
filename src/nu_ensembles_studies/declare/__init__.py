"""What a study asks for: options, protocols, rows, and the cells that are trained for them."""
