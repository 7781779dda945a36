"""What the pages of several studies show."""
