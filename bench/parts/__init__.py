"""What is measured; one file per part, each with a `measure(report)`."""
