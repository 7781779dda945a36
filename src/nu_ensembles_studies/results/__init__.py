"""What was measured: on disk, chosen, averaged, merged, and compared with what the paper claims."""
